r"""Models compete by what they would have predicted; prices give the cheaper ones a start.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
e_j        ``errors``      |y - B_j s|, y the change of the gradient that model j predicts
score_j    ``scores``      discounted sum of log e_j over the trial points; lowest is best
rho        ``rho``         price of a call of h over that of a gradient of g
=========  ==============  ==================================================================

Models that keep g exactly err in h alone, the plain one in f = h + g. Their errors have the same
unit, so that the comparison also tells whether the knowledge of g is worth anything here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from geartrain.methods.pqn.models import KEEP, PLAIN, SHRUNK
from geartrain.methods.pqn.records import replace
from geartrain.methods.pqn.tuning import Tuning

_TINY = 1e-300
# Bounds of `pace`, and gradients of g beyond which no inner run is thought of.
_FASTEST, _SLOWEST, _LONGEST = 0.01, 0.95, 100
# The handicap at low prices does not grow below this ratio.
_LOW = 3.0


@dataclass(frozen=True)
class Selection:
    """The models, and how they have done so far."""

    names: tuple[str, ...]
    scores: tuple[float, ...]
    weight: float = 0.0  # sum of the discounted weights in a score; 0 before the first score
    bill: float = math.nan  # of a trial point whose model keeps g, in gradients of g, smoothed
    missed: float = 0.1  # |grad phi|/|grad f(p)| at the ends of inner runs, smoothed
    error: float = math.inf  # least e_j/|grad f(p)| of models that keep g, at the last trial point
    pace: float = 0.5  # factor by which a gradient of g reduces |grad phi|, in the last inner runs

    @staticmethod
    def of(rho: float, convex: bool, exact: bool, tuning: Tuning) -> Selection:
        """Before the first trial point; `exact`: g is a quadratic that is factorised."""
        names: tuple[str, ...] = (KEEP, PLAIN) if convex else (KEEP, SHRUNK, PLAIN)
        if rho <= tuning.alone and not exact:
            names = (PLAIN,)
        return Selection(names, (0.0,) * len(names))

    def best(self, rho: float, plain_first: bool, tuning: Tuning) -> str:
        """The model with the lowest score, those that keep g handicapped by their bill."""
        if self.weight == 0.0:
            return PLAIN if plain_first else self.names[0]
        handicap = 0.0
        if math.isfinite(rho):
            bill = max(tuning.budget, rho) + rho if math.isnan(self.bill) else self.bill
            low = tuning.handicap_low / max(rho, _LOW)
            price = max(bill / (rho + 1.0), 1.0)
            handicap = (tuning.handicap + low) * math.log(price) * self.weight
        scores = dict(zip(self.names, self.scores, strict=True))
        return min(self.names, key=lambda name: scores[name] + (name != PLAIN) * handicap)

    def accuracy(self, rho: float, convex: bool, tuning: Tuning) -> float:
        """|grad phi|/|grad f(p)| at which an inner run ends.

        Where g has a price: a trial point with k gradients of g costs rho + 1 + k and leaves about
        error + pace^k of the gradient of f; k is the number that reduces its logarithm most per
        unit of the bill.
        """
        eta = tuning.eta if convex else tuning.eta_other
        if math.isinf(rho):
            return eta
        error = min(self.error, 0.5)
        gains = [-math.log(error + self.pace**k) / (rho + 1.0 + k) for k in range(_LONGEST)]
        coarser = min(max(90.0 / rho, 1.0), 3.0) if convex else 3.0
        return max(coarser * eta, self.pace ** gains.index(max(gains)))

    def ran(self, rho: float, calls: int, residual: float) -> Selection:
        """After an inner run of so many gradients of g that ended at |grad phi|/|grad f(p)|."""
        bill = rho + calls if math.isnan(self.bill) else 0.8 * self.bill + 0.2 * (rho + calls)
        pace = self.pace
        if calls > 0 and 0.0 < residual < 1.0:
            pace = math.sqrt(pace * min(max(residual ** (1.0 / calls), _FASTEST), _SLOWEST))
        return replace(self, bill=bill, pace=pace)

    def judged(
        self, errors: Mapping[str, float], size: float, least: float, discount: float
    ) -> Selection:
        """With the errors along one more step; errors below `least` are rounding.

        |grad f(p)| = `size`.
        """
        kept = [error for name, error in errors.items() if name != PLAIN]
        scores = tuple(
            discount * score + math.log(errors[name] + least + _TINY)
            for name, score in zip(self.names, self.scores, strict=True)
        )
        error = min(kept, default=math.inf) / max(size, _TINY)
        return replace(
            self, scores=scores, weight=discount * self.weight + 1.0, error=min(error, 1e300)
        )

    def by_effect(
        self, errors: Mapping[str, float], chosen: str, size_v: float, size: float, residual: float
    ) -> tuple[Selection, dict[str, float]]:
        """The errors where inner runs are coarse: the chosen model's is what its step left.

        |grad f| is `size` at p and `size_v` at v, and the inner run ended at `residual`.
        """
        missed = self.missed
        if chosen != PLAIN:
            missed = 0.7 * missed + 0.3 * min(residual / size, 1.0)
        out = dict(errors)
        for name in self.names:
            if name != PLAIN:
                out[name] = size_v if name == chosen else errors[name] + missed * size
        return replace(self, missed=missed), out
