"""Scales of the variables that the terms tell for nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from geartrain.geometry import EUCLIDEAN
from geartrain.methods.pqn.inner_quadratic import is_solvable
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
    of_h, of_g = _curvatures(problem.h, problem.n), _curvatures(problem.g, problem.n)
    if of_h is None or of_g is None:
        return None
    if problem.psi is None and is_solvable(problem.g) and _relative(of_h) is None:
        return None  # the scales of a g that is minimised exactly do no harm
    D = _relative(of_h + of_g)
    return None if D is None else np.sqrt(D)


def _curvatures(oracle: Any, n: int) -> Vector | None:
    """L_coord of a term, or of the sum of several."""
    found = [getattr(leaf.term, "L_coord", None) for leaf in leaves(oracle)]
    if any(L is None for L in found):
        return None
    return np.asarray(sum(found, np.zeros(n)), dtype=np.float64)


def _relative(D: Vector) -> Vector | None:
    """D over its largest entry; None where they are alike."""
    top = float(D.max(initial=0.0))
    if not 0.0 < top < np.inf or not (D >= 0.0).all():
        return None
    D = np.maximum(D / top, 1.0 / _SPREAD)
    return None if float(D.min()) * _DIFFERENT > 1.0 else D
