r"""Models compete by what they would have predicted; prices give the cheaper ones a start.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
e_j        ``errors``      |y - B_j s|, y the change of the gradient that model j predicts
score_j    ``scores``      discounted sum of log e_j over the trial points; lowest is best
rho        ``rho``         price of a call of h over that of a gradient of g
C          ``bill``        of a trial point whose model keeps g, over that of a plain one
=========  ==============  ==================================================================

Models that keep g exactly err in h alone, the plain one in f = h + g. Their errors have the same
unit, so that the comparison also tells whether the knowledge of g is worth anything here.

A timid model predicts its own short steps well, and stays. So where there are prices, what trial
points gain is measured as well: log |grad f(p)|/|grad f(v)| per unit of the bill. After a long time
of plain steps a model that keeps g is tried. Where it gains far more, the handicap is suspended;
models that gain far less than the plain one wait until they are tried again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from geartrain.methods.quasi_newton.records import replace
from geartrain.methods.quasi_newton.tuning import Candidate, LearnedTuning

_TINY = 1e-300
# Bounds of `pace`, and gradients of g beyond which no inner run is thought of.
_FASTEST, _SLOWEST, _LONGEST = 0.01, 0.95, 100
# A model that keeps g is tried after plain trial points for so many of its bills. It pays if it
# gains so many times as much per bill as the plain one, and wastes if it gains less than this part.
_TURN, _PAYS, _WASTES = 10.0, 3.0, 0.5
# Weights of older trial points in what is gained: of the plain model, and of the others.
_OLDER_PLAIN, _OLDER_OTHERS = 0.9, 0.7
# More than any two scores differ by.
_DECISIVE = 1e6


def is_plain(candidate: Candidate) -> bool:
    """Whether the model is one of f, so that no inner run is needed."""
    return candidate[0] == "plain"


@dataclass(frozen=True)
class Gained:
    """What trial points of one kind have gained, and their bill: discounted sums."""

    gain: float = 0.0
    bill: float = 0.0

    def after(self, gain: float, bill: float, older: float) -> Gained:
        """After one more."""
        return Gained(older * self.gain + gain, older * self.bill + bill)

    @property
    def rate(self) -> float:
        """Per unit of the bill; 0 before the first trial point."""
        return self.gain / self.bill if self.bill > 0.0 else 0.0


@dataclass(frozen=True)
class Contest:
    """The candidates, and how they have done so far."""

    candidates: tuple[Candidate, ...]
    scores: tuple[float, ...]
    weight: float = 0.0  # sum of the discounted weights in a score; 0 before the first score
    bill: float = math.nan  # of a trial point whose model keeps g, in gradients of g, smoothed
    missed: float = 0.1  # |grad phi|/|grad f(p)| at the ends of inner runs, smoothed
    error: float = math.inf  # least e_j/|grad f(p)| of models that keep g, at the last trial point
    pace: float = 0.5  # factor by which a gradient of g reduces |grad phi|, in the last inner runs
    by_plain: Gained = field(default_factory=Gained)
    by_others: Gained = field(default_factory=Gained)
    idle: float = 0.0  # bill of plain trial points since the last other one, over `bill`
    pays: bool = False  # models that keep g have gained far more, since they were tried again
    unlike: float = 1.0  # |grad h|/|grad g| at x_0, where it is less: how little g is like f

    @staticmethod
    def between(candidates: tuple[Candidate, ...], unlike: float = 1.0) -> Contest:
        """Before the first trial point."""
        return Contest(candidates, (0.0,) * len(candidates), unlike=unlike)

    def favourite(
        self, rho: float, tuning: LearnedTuning, start_plain: bool, even: bool = False
    ) -> int:
        """The candidate with the lowest score, those that keep g handicapped by their bill.

        `even`: g bends alike in all known directions, so that all candidates cost the same.
        """
        handicap = 0.0
        if self.weight == 0.0:
            handicap = 1.0 if start_plain else 0.0
        elif self.is_turn or self.wastes:
            handicap = -_DECISIVE if self.is_turn else _DECISIVE
        elif math.isfinite(rho) and not (even or self.pays):
            bill = max(10.0, rho) + rho if math.isnan(self.bill) else self.bill
            price = max(bill / (rho + 1.0), 1.0)
            low = tuning.handicap_low / max(rho, tuning.low)
            handicap = (tuning.handicap + low) * math.log(price) * self.weight
        adjusted = [
            score + (0.0 if is_plain(c) else handicap)
            for score, c in zip(self.scores, self.candidates, strict=True)
        ]
        return adjusted.index(min(adjusted))

    @property
    def is_turn(self) -> bool:
        """Whether a model that keeps g is to be tried."""
        return self.idle >= _TURN

    @property
    def wastes(self) -> bool:
        """Whether models that keep g gain far less than the plain one, for all that is known."""
        plain, others = self.by_plain, self.by_others
        known = others.bill > 2.0 * self.bill and plain.bill > self.bill
        return known and others.rate < _WASTES * plain.rate

    def gained(self, plain: bool, gain: float, bill: float) -> Contest:
        """After a trial point with this gain, whose bill includes one call of each term."""
        if plain:
            by_plain = self.by_plain.after(gain, bill, _OLDER_PLAIN)
            idle = self.idle + (bill / self.bill if self.bill > 0.0 else 0.0)
            return replace(self, by_plain=by_plain, idle=idle)
        before = Gained() if self.is_turn else self.by_others
        others = before.after(gain, bill, _OLDER_OTHERS)
        pays = (self.pays or self.is_turn) and others.rate > _PAYS * max(self.by_plain.rate, 0.0)
        return replace(self, by_others=others, idle=0.0, pays=pays)

    def billed(self, spent: float) -> Contest:
        """After a trial point whose model keeps g."""
        bill = spent if math.isnan(self.bill) else 0.8 * self.bill + 0.2 * spent
        return replace(self, bill=bill)

    def ended_at(self, residual: float) -> Contest:
        """After an inner run with |grad phi|/|grad f(p)| = `residual` at its end."""
        return replace(self, missed=0.7 * self.missed + 0.3 * min(residual, 1.0))

    def ran(self, residual: float, calls: int) -> Contest:
        """After an inner run of so many gradients of g that ended at `residual`."""
        if not (calls > 0 and residual > 0.0):
            return self
        pace = min(max(residual ** (1.0 / calls), _FASTEST), _SLOWEST)
        return replace(self, pace=math.sqrt(self.pace * pace))

    def coarsest(self, rho: float) -> float:
        """The accuracy |grad phi|/|grad f(p)| beyond which inner runs do not pay at this ratio.

        A trial point with k gradients of g costs rho + 1 + k and leaves about error + pace^k of the
        gradient of f: k is the number that reduces its logarithm most per unit of the bill.
        """
        error = min(self.error, 0.5)
        gains = [-math.log(error + self.pace**k) / (rho + 1.0 + k) for k in range(_LONGEST)]
        return self.pace ** gains.index(max(gains))

    def erred(self, errors: Sequence[float], size: float) -> Contest:
        """After a trial point with these errors of the models, where |grad f(p)| = `size`."""
        kept = [e for e, c in zip(errors, self.candidates, strict=True) if not is_plain(c)]
        return replace(self, error=min(kept, default=math.inf) / size)

    def scored(self, errors: Sequence[float], least: float, discount: float) -> Contest:
        """With the errors along one more step; errors below `least` are rounding."""
        scores = tuple(
            discount * score + math.log(error + least + _TINY)
            for score, error in zip(self.scores, errors, strict=True)
        )
        return replace(self, scores=scores, weight=discount * self.weight + 1.0)
