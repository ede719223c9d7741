r"""What values and slopes at both ends tell about a function along a step.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
u(t)       a function      along the step, t = 0 and t = 1 are its ends
e_0        ``excess``      u(1) - u(0) - u'(0)
e_1        ``total``       u'(1) - u'(0)
k          same            u(t) = u(0) + u'(0) t + c (e^{kt} - 1 - kt)/k^2, c fitted to e_1
q          same            u(t) = u(0) + u'(0) t + c t^q, c fitted to e_1
=========  ==============  ==================================================================
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

# e_1/e_0 is 2 for a quadratic, and nearly k for a large k. An exponential with values in the range
# of float64 has k < 710.
_LOWEST, _HIGHEST = 1.01, 1000.0
# e_1/e_0 where values and slopes contradict each other, so that e_0 is not positive.
_CONTRADICTORY = 100.0
# A function that grows along a long step like a power of t up to this one is a polynomial; with a
# higher power it is taken for an exponential, which leaves less room.
_POLYNOMIAL = 8.0
# A quadratic that is wrong by this part of e_1 fits. Values may be so many times worse than is
# thought, since terms that cancel in them are not seen.
_SAME = 1e-3
_WORSE = 1e4
# Steps of Newton's method below this part of k are the last: the next one would be rounding.
_CLOSE = 1e-8
# Values that differ by less than this part of their size differ by rounding.
_ROUNDING = 1e-10


class Fit(Protocol):
    """A convex function along the step."""

    def rise(self, t: float) -> float:
        """u'(t) - u'(0)."""


@dataclass(frozen=True)
class PowerFit:
    """u(t) = u(0) + u'(0) t + c t^q."""

    total: float  # e_1
    q: float  # e_1/e_0

    def rise(self, t: float) -> float:
        """u'(t) - u'(0), which is e_1 t^(q - 1)."""
        return self.total * t ** (self.q - 1.0)


@dataclass(frozen=True)
class KinkFit:
    """u(t) = u(0) + u'(0) t + e_1 max(t - kink, 0): the larger one of two lines."""

    total: float  # e_1
    kink: float  # 1 - e_0/e_1

    @staticmethod
    def of(excess: float, rise: float) -> KinkFit:
        """The fit to e_0 and e_1."""
        return KinkFit(rise, min(max(1.0 - excess / rise, 0.0), 1.0) if rise > 0.0 else 1.0)

    def rise(self, t: float) -> float:
        """u'(t) - u'(0)."""
        return self.total if t > self.kink else 0.0


@dataclass(frozen=True)
class ExponentialFit:
    """u(t) = u(0) + u'(0) t + c (e^{kt} - 1 - kt)/k^2: convex, with k = 0 for a quadratic.

    k > 0 where the curvature grows along the step, as for an exponential; k < 0 where it falls, as
    for the Huber function.
    """

    total: float  # e_1
    k: float

    @staticmethod
    def of(excess: float, rise: float, error: float = 0.0) -> ExponentialFit:
        """The fit to e_0 and e_1, which are those of a line where e_1 is not positive.

        A quadratic where it nearly fits, or fits up to the `error` of e_0: along a short step the
        slopes show the curvature when the values no longer do, and an h that is a quadratic should
        be learned exactly. For a convex u, 0 < e_0 < e_1. Where they contradict that along a short
        step, the values are worse than `error` says, and tell nothing; along a long one, u may have
        grown beyond all measure.
        """
        if not rise > 0.0:
            return ExponentialFit(0.0, 0.0)
        fits = abs(excess - 0.5 * rise) <= max(error, _SAME * rise) < math.inf
        if fits or (not 0.0 < excess < rise and rise <= _WORSE * error):
            return ExponentialFit(rise, 0.0)
        ratio = rise / excess if excess > 0.0 else _CONTRADICTORY
        ratio = min(max(ratio, _LOWEST), _HIGHEST)
        return ExponentialFit(rise, _exponent(ratio))

    def rise(self, t: float) -> float:
        """u'(t) - u'(0), which is e_1 (e^{kt} - 1)/(e^k - 1)."""
        k = self.k
        if abs(k) < 1e-6:
            return self.total * t
        if k < 0.0:
            return self.total * math.expm1(k * t) / math.expm1(k)
        # The powers of e are divided before they overflow.
        return self.total * math.exp(k * (t - 1.0)) * math.expm1(-k * t) / math.expm1(-k)

    def from_far(self) -> Fit:
        """The fit where v was so far away that u(0) and u'(0) are nothing beside u(1) and u'(1).

        A fit with k > 0 has the curvature c at 0, and c comes from v alone. For a polynomial it is
        far too large: for u = t^4, whose curvature at 0 vanishes, it is 0.1 e_1.
        """
        q, _ = _ratio(self.k)
        return PowerFit(self.total, q) if 2.0 < q <= _POLYNOMIAL else self

    @property
    def curvature_at_end(self) -> float:
        """u''(1)."""
        if abs(self.k) < 1e-6:
            return self.total
        return self.total * self.k / -math.expm1(-self.k)


def _exponent(ratio: float) -> float:
    """The k with e_1/e_0 = `ratio`: Newton's method within a bracket."""
    low, high, k = -150.0, _HIGHEST, ratio - 2.0
    for _ in range(60):
        found, slope = _ratio(k)
        low, high = (k, high) if found < ratio else (low, k)
        step = (ratio - found) / slope
        if abs(step) <= _CLOSE * max(1.0, abs(k)):
            return k + step
        k = k + step if low < k + step < high else 0.5 * (low + high)
    return k


def _ratio(k: float) -> tuple[float, float]:
    """e_1/e_0 of the fit, and its derivative in k."""
    if abs(k) < 1e-3:
        return 2.0 + k / 3.0, 1.0 / 3.0
    if k >= 700.0:
        return k, 1.0
    # k (e^k - 1)/(e^k - 1 - k), both divided by e^k - 1
    q = k / math.expm1(k)
    return k / (1.0 - q), (1.0 - k * q - q * q) / (1.0 - q) ** 2


def lowest(slope: float, fits: Sequence[Fit]) -> float:
    """The t in (0, 1) where the slope of the sum of the fits, `slope` < 0 at 0, is zero."""
    low, high = 0.0, 1.0
    for _ in range(50):
        t = 0.5 * (low + high)
        low, high = (t, high) if slope + sum(f.rise(t) for f in fits) < 0.0 else (low, t)
    return t


def change(value: float, value_v: float, slope: float, slope_v: float) -> float:
    """u(1) - u(0); by the trapezoidal rule where the values are unknown or differ by rounding."""
    difference = value_v - value
    if abs(difference) > _ROUNDING * abs(value):
        return difference
    return 0.5 * (slope + slope_v)
