r"""The proximal operator of the total variation of a signal.

=================  ==================  =====================================================
symbol             name                meaning
=================  ==================  =====================================================
v_min, v_max       ``low``, ``high``   bounds of the value of the current piece
u_min, u_max       ``u_low``,          the dual variable at the current sample for each of them
                   ``u_high``
k_-, k_+           ``end_low``,        the last samples where a bound was attained: there the
                   ``end_high``        piece may end
=================  ==================  =====================================================
"""

from __future__ import annotations

import numpy as np

from geartrain.compiled.jit import njit
from geartrain.oracles.protocols import Vector


@njit(cache=True)
def denoised(y: Vector, lam: float) -> Vector:
    """argmin_x 1/2 |x - y|^2 + lam sum_i |x_{i+1} - x_i| (Algorithm of Condat, 2013)."""
    x = np.empty_like(y)
    last = y.size - 1
    if last < 0:
        return x
    start = k = end_low = end_high = 0
    low, high, u_low, u_high = y[0] - lam, y[0] + lam, lam, -lam
    while True:
        if k < last and y[k + 1] + u_low < low - lam:  # the signal jumps down after end_low
            x[start : end_low + 1] = low
            start = k = end_low = end_high = end_low + 1
            low, high, u_low, u_high = y[k], y[k] + 2.0 * lam, lam, -lam
        elif k < last and y[k + 1] + u_high > high + lam:  # it jumps up after end_high
            x[start : end_high + 1] = high
            start = k = end_low = end_high = end_high + 1
            low, high, u_low, u_high = y[k] - 2.0 * lam, y[k], lam, -lam
        elif k < last:  # the piece goes on, with narrower bounds
            k += 1
            u_low += y[k] - low
            u_high += y[k] - high
            if u_low >= lam:
                low += (u_low - lam) / (k - start + 1)
                u_low, end_low = lam, k
            if u_high <= -lam:
                high += (u_high + lam) / (k - start + 1)
                u_high, end_high = -lam, k
        elif u_low < 0.0:  # at the end the dual variable has to be 0: low was too high
            x[start : end_low + 1] = low
            start = k = end_low = end_low + 1
            low, u_low, u_high = y[k], lam, y[k] + lam - high
        elif u_high > 0.0:
            x[start : end_high + 1] = high
            start = k = end_high = end_high + 1
            high, u_high, u_low = y[k], -lam, y[k] - lam - low
        else:
            x[start:] = low + u_low / (k - start + 1)
            return x


@njit(cache=True)
def denoised_pieces(y: Vector, ends: Vector, lam: float) -> Vector:
    """Each piece of y for itself; a piece ends after y[i] where ends[i] is not 0."""
    x = np.empty_like(y)
    start = 0
    for i in range(y.size):
        if i == y.size - 1 or ends[i] != 0.0:
            x[start : i + 1] = denoised(y[start : i + 1], lam)
            start = i + 1
    return x
