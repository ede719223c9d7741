"""Limited-memory BFGS in the coordinates of a basis, pairs used one by one [1]_.

References
----------
.. [1] R. Byrd, J. Nocedal, R. Schnabel, Representations of quasi-Newton matrices and their use in
   limited memory methods, Math. Program. 63 (1994).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from geartrain.oracles.protocols import Vector
from geartrain.oracles.spectrum import lapack

# An update is left out where <s, B s> is below this part of <s, y>.
_ROUNDED = 1e-14


def compact(S: Vector, Y: Vector, cross: Vector, base: Vector) -> Vector:
    """T of limited-memory BFGS from B_0, in coordinates; `cross` is S Y', `base` is B_0 S."""
    P, N = one_by_one(base @ S.T, cross, Y, base)
    return P.T @ P - N.T @ N


def one_by_one(bend: Vector, cross: Vector, Y: Vector, base: Vector) -> tuple[Vector, Vector]:
    """P and N of limited-memory BFGS: the update is P'P - N'N, by rows of any kind.

    `bend` is S B_0 S', `cross` is S Y', `base` is B_0 S'. Pairs are left out where <s, y> <= 0, or
    where <s, B s> is rounding. P'P = Y'D^{-1}Y with D = diag(<s, y>), C N = B_0 S' + L D^{-1} Y
    with C C' = S B_0 S' + L D^{-1} L', L the part of S Y' below the diagonal; the pivots of C are
    <s, B s>.
    """
    k, along = len(bend), cross.diagonal()
    Y, base = Y[:k], base[:k]
    good = along > 0.0
    if good.all() and k:
        below = np.tril(cross, -1)
        L = below / along
        C, info = lapack().dpotrf(bend + L @ below.T, lower=1, clean=1)
        poor = C.diagonal() ** 2 <= _ROUNDED * along
        if info:
            poor[info - 1] = True
        if not poor.any():
            return Y / np.sqrt(along)[:, None], solved(C, base + L @ Y)
        good[int(poor.argmax())] = False
    if not good.any():
        return np.zeros((0, Y.shape[1])), np.zeros((0, Y.shape[1]))
    return one_by_one(_part(bend, good), _part(cross, good), Y[good], base[good])


def solved(L: Vector, rows: Vector) -> Vector:
    """L^{-1} times the rows."""
    return lapack().dtrtrs(L, rows, lower=1)[0] if len(L) else rows


def _part(A: Vector, which: Any) -> Vector:
    """The rows and columns of A that are chosen."""
    return A[which][:, which]
