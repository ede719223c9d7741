"""An exponential that the compiler can vectorise, unlike calls of the C library."""

from __future__ import annotations

import math

import numpy as np

from geartrain.compiled.jit import njit
from geartrain.oracles.protocols import Vector

_LOG2_E = 1.4426950408889634
# ln 2 in two parts. The first ends in 21 zero bits, so that its product with k is exact.
_LN2_HIGH = 0.6931471803691238
_LN2_LOW = 1.9082149292705877e-10
# Adding this leaves the nearest integer in the last bits of the sum.
_ROUND = 1.5 * 2.0**52
_ONE = 1023 << 52  # the bits of 1.0
_SMALLEST = -700.0
_C = tuple(1.0 / math.factorial(k) for k in range(14))


# Only products and sums may be fused: the rounding by `_ROUND` must not be reordered away.
@njit(cache=True, fastmath={"contract"})
def exp_of_nonpositive(x: Vector) -> None:
    """Replace x <= 0 by exp(x), with an error of at most three roundings.

    With k = round(x/ln 2) and r = x - k ln 2, exp(x) = 2^k exp(r). The second factor is a Taylor
    polynomial of degree 13 (error 4e-18 at |r| = ln(2)/2), the first one is made from its bits.
    Below -700 the result is exp(-700) = 1e-304.
    """
    scale = np.empty_like(x)
    for j in range(x.size):
        t = max(x[j], _SMALLEST)
        shifted = t * _LOG2_E + _ROUND
        k = shifted - _ROUND
        r = (t - k * _LN2_HIGH) - k * _LN2_LOW
        p = _C[12] + r * _C[13]
        p = _C[10] + r * _C[11] + r * r * p
        p = _C[8] + r * _C[9] + r * r * p
        p = _C[6] + r * _C[7] + r * r * p
        p = _C[4] + r * _C[5] + r * r * p
        p = _C[2] + r * _C[3] + r * r * p
        x[j] = 1.0 + (r + r * r * p)
        scale[j] = shifted
    bits = scale.view(np.int64)
    for j in range(x.size):
        bits[j] = (bits[j] << 52) + _ONE
    for j in range(x.size):
        x[j] *= scale[j]
