"""Scales of the variables that the terms tell for nothing."""

from __future__ import annotations

import numpy as np

from geartrain.geometry import EUCLIDEAN
from geartrain.methods.separable import by_numbers
from geartrain.oracles.protocols import Vector
from geartrain.oracles.together import leaves
from geartrain.problem import Sum

# Scales are used where curvatures along coordinates differ by more than this factor, and beyond
# this one they count as alike.
_DIFFERENT, _SPREAD = 1e2, 1e12


def diagonal_scale(problem: Sum) -> Vector | None:
    """sqrt(D), D the curvatures of h + g along coordinates, the largest 1; None where unknown."""
    if problem.geometry is not EUCLIDEAN or by_numbers(problem.psi, problem.n) is None:
        return None
    D = np.zeros(problem.n)
    for oracle in (*leaves(problem.h), *leaves(problem.g)):
        L = getattr(oracle.term, "L_coord", None)
        if L is None:
            return None
        D = D + np.asarray(L, dtype=np.float64)
    top = float(D.max(initial=0.0))
    if not 0.0 < top < np.inf or not (D >= 0.0).all():
        return None
    D = np.maximum(D / top, 1.0 / _SPREAD)
    if float(D.min()) * _DIFFERENT > 1.0:
        return None
    return np.sqrt(D)
