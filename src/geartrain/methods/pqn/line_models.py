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
_LOWEST, _HIGHEST = 1.01, 690.0
# e_1/e_0 where values and slopes contradict each other, so that e_0 is not positive.
_CONTRADICTORY = 100.0
# A quadratic that is wrong by this part of e_1 fits. Values may be so many times worse than is
# thought, since terms that cancel in them are not seen.
_SAME, _WORSE = 1e-3, 1e4
# Steps of Newton's method below this part of k are the last: the next one would be rounding.
_CLOSE = 1e-8
# Values that differ by less than this part of their size differ by rounding.
ROUNDING = 1e-10


@dataclass(frozen=True)
class ExponentialFit:
    """u(t) = u(0) + u'(0) t + c (e^{kt} - 1 - kt)/k^2: convex, with k = 0 for a quadratic.

    k > 0 where the curvature grows along the step, as for an exponential; k < 0 where it falls, as
    for the Huber function.
    """

    total: float  # e_1
    k: float = 0.0

    @staticmethod
    def of(excess: float, rise: float, error: float) -> ExponentialFit:
        """The fit to e_0 and e_1; `error` is that of e_0.

        A quadratic where it nearly fits: along a short step the slopes show the curvature when the
        values no longer do, and an h that is a quadratic should be learned exactly. For a convex u,
        0 < e_0 < e_1. Where they contradict that along a short step, the values tell nothing.
        """
        if not rise > 0.0:
            return ExponentialFit(0.0)
        fits = abs(excess - 0.5 * rise) <= max(error, _SAME * rise) < math.inf
        if fits or math.isnan(excess) or (not 0.0 < excess < rise and rise <= _WORSE * error):
            return ExponentialFit(rise)
        ratio = rise / excess if excess > 0.0 else _CONTRADICTORY
        return ExponentialFit(rise, _exponent(min(max(ratio, _LOWEST), _HIGHEST)))

    def rise(self, t: float) -> float:
        """u'(t) - u'(0), which is e_1 (e^{kt} - 1)/(e^k - 1)."""
        k = self.k
        if abs(k) < 1e-6:
            return self.total * t
        # the powers of e are divided before they overflow
        grown = math.exp(k * (t - 1.0)) if k > 0.0 else 1.0
        return self.total * grown * math.expm1(-abs(k) * t) / math.expm1(-abs(k))

    @property
    def end(self) -> float:
        """u''(1)/e_1."""
        return 1.0 if abs(self.k) < 1e-6 else self.k / -math.expm1(-self.k)


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
    # k (e^k - 1)/(e^k - 1 - k), both divided by e^k - 1
    q = k / math.expm1(k)
    return k / (1.0 - q), (1.0 - k * q - q * q) / (1.0 - q) ** 2


def lowest(slope: float, fits: Sequence[ExponentialFit]) -> float:
    """The t in (0, 1) where the slope of the sum of the fits, `slope` < 0 at 0, is zero."""
    low, high = 0.0, 1.0
    for _ in range(50):
        t = 0.5 * (low + high)
        low, high = (t, high) if slope + sum(f.rise(t) for f in fits) < 0.0 else (low, t)
    return t


def change(
    value: float, value_v: float, slope: float, slope_v: float, rounding: float = ROUNDING
) -> float:
    """u(1) - u(0); by the trapezoidal rule where the values are unknown or differ by rounding."""
    difference = value_v - value
    if abs(difference) > rounding * abs(value):
        return difference
    return 0.5 * (slope + slope_v)
