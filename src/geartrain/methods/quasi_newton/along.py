r"""What values and slopes at both ends tell about a function along a step.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
u(t)       a function      along the step, t = 0 and t = 1 are its ends
e_0        ``excess``      u(1) - u(0) - u'(0)
e_1        ``total``       u'(1) - u'(0)
k          same            u(t) = u(0) + u'(0) t + c (e^{kt} - 1 - kt)/k^2, c fitted to e_1
=========  ==============  ==================================================================
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

# e_1/e_0 is 2 for a quadratic, and nearly k for a large k. An exponential with values in the range
# of float64 has k < 710.
_LOWEST, _HIGHEST = 1.01, 1000.0
# e_1/e_0 where values and slopes contradict each other, so that e_0 is not positive.
_CONTRADICTORY = 100.0
# Values that differ by less than this part of their size differ by rounding.
_ROUNDING = 1e-10


@dataclass(frozen=True)
class ExponentialFit:
    """u(t) = u(0) + u'(0) t + c (e^{kt} - 1 - kt)/k^2: convex, with k = 0 for a quadratic.

    k > 0 where the curvature grows along the step, as for an exponential; k < 0 where it falls, as
    for the Huber function.
    """

    total: float  # e_1
    k: float

    @staticmethod
    def of(excess: float, rise: float) -> ExponentialFit:
        """The fit to e_0 and e_1; where they are not those of a convex u, a quadratic or a line."""
        if not rise > 0.0:
            return ExponentialFit(0.0, 0.0)
        ratio = rise / excess if excess > 0.0 else _CONTRADICTORY
        ratio = min(max(ratio, _LOWEST), _HIGHEST)
        low, high = -150.0, _HIGHEST
        for _ in range(60):
            k = 0.5 * (low + high)
            low, high = (k, high) if _ratio(k) < ratio else (low, k)
        return ExponentialFit(rise, k)

    def rise(self, t: float) -> float:
        """u'(t) - u'(0), which is e_1 (e^{kt} - 1)/(e^k - 1)."""
        k = self.k
        if abs(k) < 1e-6:
            return self.total * t
        if k < 0.0:
            return self.total * math.expm1(k * t) / math.expm1(k)
        # The powers of e are divided before they overflow.
        return self.total * math.exp(k * (t - 1.0)) * math.expm1(-k * t) / math.expm1(-k)

    @property
    def curvature_at_end(self) -> float:
        """u''(1)."""
        if abs(self.k) < 1e-6:
            return self.total
        return self.total * self.k / -math.expm1(-self.k)


def _ratio(k: float) -> float:
    """e_1/e_0 of the fit."""
    if abs(k) < 1e-3:
        return 2.0 + k / 3.0
    # k (e^k - 1)/(e^k - 1 - k), both divided by e^k - 1
    return k / (1.0 - k / math.expm1(k)) if k < 700.0 else k


def lowest(slope: float, fits: Sequence[ExponentialFit]) -> float:
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
