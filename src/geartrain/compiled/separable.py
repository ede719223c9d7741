"""The proximal operator of a separable psi in a single coordinate."""

from __future__ import annotations

from geartrain.compiled.jit import njit
from geartrain.compiled.records import Separable


@njit(cache=True)
def prox_of(psi: Separable, i: int, t: float, step: float) -> float:
    """argmin_v psi_i(v) + (v - t)^2/(2 step); t itself where psi is empty."""
    if psi.lam.size == 0:
        return t
    cut = step * psi.lam[i]
    shrunk = t - min(max(t, -cut), cut)
    return min(max(shrunk, psi.lower[i]), psi.upper[i])
