"""Slopes of the losses in compiled code."""

from __future__ import annotations

import math
from typing import NamedTuple

from geartrain.compiled.jit import njit
from geartrain.compiled.records import Separable
from geartrain.oracles.losses import Loss

LOSSES = ("logistic", "squared", "smoothed_hinge", "huber", "squared_hinge")
LOGISTIC, SQUARED, SMOOTHED_HINGE, HUBER, SQUARED_HINGE = range(5)


class LossCode(NamedTuple):
    """A loss as compiled code reads it."""

    kind: int  # position in LOSSES
    param: float  # mu of smoothed_hinge, delta of huber; 1 for the others


def encode(loss: Loss) -> LossCode:
    """The code of one of the library's losses."""
    param = getattr(loss, "mu", getattr(loss, "delta", 1.0))
    return LossCode(LOSSES.index(loss.name), float(param))


@njit(cache=True)
def slope(loss: LossCode, y: float, z: float) -> float:
    """Derivative of the loss in the prediction z."""
    if loss.kind == LOGISTIC:
        return -y * sigmoid(-y * z)
    if loss.kind == SQUARED:
        return z - y
    if loss.kind == SMOOTHED_HINGE:
        return -y * sigmoid((1.0 - y * z) / loss.param)
    if loss.kind == HUBER:
        return min(max(z - y, -loss.param), loss.param)
    return -2.0 * y * max(0.0, 1.0 - y * z)


@njit(cache=True)
def sigmoid(t: float) -> float:
    """1/(1 + exp(-t))."""
    # If exp overflows, the inverse of infinity is the right answer. A branch on the sign of t
    # would be mispredicted half of the time.
    return 1.0 / (1.0 + math.exp(-t))


# The proximal operator of a separable psi in a single coordinate.


@njit(cache=True)
def prox_of(psi: Separable, i: int, t: float, step: float) -> float:
    """argmin_v psi_i(v) + (v - t)^2/(2 step); t itself where psi is empty."""
    if psi.lam.size == 0:
        return t
    cut = step * psi.lam[i]
    shrunk = t - min(max(t, -cut), cut)
    return min(max(shrunk, psi.lower[i]), psi.upper[i])
