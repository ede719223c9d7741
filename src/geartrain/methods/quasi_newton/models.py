r"""Models of the curvature that the pairs tell.

=============  ==========================================================================
model          matrix
=============  ==========================================================================
`block`        of h, convex: lam (I - P_S) + Z'C^{-1}Z, exact on span S for a quadratic h
`sequential`   of h, convex: limited-memory BFGS from lam I; better far from a quadratic
`correction`   of h, which may be non-convex: what the block BFGS update along S adds to
               H_g + lam I to give H_f there
`plain`        of f = h + g: limited-memory BFGS, that is, L-BFGS on the sum
=============  ==========================================================================

References
----------
.. [1] W. Gao, D. Goldfarb, Block BFGS methods, SIAM J. Optim. 28 (2018).
.. [2] J. Nocedal, S. Wright, Numerical Optimization, 2nd ed. (2006), Section 7.2.
"""

from __future__ import annotations

import numpy as np

from geartrain.geometry import Geometry
from geartrain.methods.quasi_newton.low_rank import LowRank
from geartrain.methods.quasi_newton.memory import Memory
from geartrain.oracles.protocols import Vector

_TINY = 1e-300
# A step is left out where less than this part of it is new: block, correction.
_NEW, _NEW_CORRECTION = 0.1, 0.05
# Eigenvalues of a small matrix are at least this part of the largest.
_LEAST = 1e-8
# The curvature of f along a step is taken to be at least this part of that of g.
_FLATTEST = 0.1


def block(memory: Memory, lam: float, geometry: Geometry) -> LowRank:
    """Block model of h, with one BFGS update for the newest pair."""
    if not memory.pairs:
        return LowRank(lam)
    G, S, Y = memory.gram, memory.steps(), memory.changes_h()
    C = _orthonormal(S @ G @ S.T, _NEW)  # newest first
    Q, Z = C @ S, C @ Y
    small = Q @ G @ Z.T
    # newer steps with older changes: the newest secant equation holds
    w, U = np.linalg.eigh(np.triu(small) + np.triu(small, 1).T)
    w = np.maximum(w, _LEAST * max(float(w[-1]), _TINY))
    Z = U.T @ Z
    M = (Z.T / w) @ Z - lam * Q.T @ Q
    M = _updated(M, lam, G, S[-1], Y[-1])
    return LowRank(lam, memory.span(geometry), G, _symmetric(M))


def sequential(memory: Memory, lam: float, geometry: Geometry) -> LowRank:
    """Limited-memory BFGS of h from lam I."""
    return _bfgs(memory, memory.changes_h() if memory.pairs else None, lam, geometry)


def plain(memory: Memory, geometry: Geometry) -> LowRank:
    """Limited-memory BFGS of f from <y, y>/<s, y> I of the newest pair."""
    G, Y = memory.gram, memory.changes_f()
    y, s = Y[-1], memory.steps()[-1]
    lam = float(y @ G @ y) / max(float(s @ G @ y), _TINY)
    return _bfgs(memory, Y, lam, geometry)


def correction(memory: Memory, lam: float, geometry: Geometry) -> LowRank:
    """The block BFGS correction to H_g + lam I [1]_, plus lam I."""
    if not memory.pairs:
        return LowRank(lam)
    G, S = memory.gram, memory.steps()
    C = _orthonormal(S @ G @ S.T, _NEW_CORRECTION)
    Q = C @ S
    Z_h, Z_g = C @ memory.changes_h() - lam * Q, C @ memory.changes_g() + lam * Q
    # combinations of the steps with Q (H_g + lam) Q' = I and Q (H_h - lam) Q' = diag(t)
    w, U = np.linalg.eigh(_symmetric(Q @ G @ Z_g.T))
    if w[-1] <= 0.0:
        return LowRank(lam)
    R = U / np.sqrt(np.maximum(w, _LEAST * w[-1]))
    t, U = np.linalg.eigh(R.T @ _symmetric(Q @ G @ Z_h.T) @ R)
    R = R @ U
    Z_h, Z_g = R.T @ Z_h, R.T @ Z_g
    along = np.maximum(1.0 + t, _FLATTEST)  # of H_f, as far as it is believed
    Z_f = Z_h + (along - t)[:, None] * Z_g
    M = (Z_f.T / along) @ Z_f - Z_g.T @ Z_g
    return LowRank(lam, memory.span(geometry), G, _symmetric(M))


def _bfgs(memory: Memory, Y: Vector | None, lam: float, geometry: Geometry) -> LowRank:
    if Y is None:
        return LowRank(lam)
    G = memory.gram
    M = np.zeros_like(G)
    for s, y in zip(memory.steps(), Y, strict=True):
        M = _updated(M, lam, G, s, y)
    return LowRank(lam, memory.span(geometry), G, _symmetric(M))


def _updated(M: Vector, lam: float, G: Vector, s: Vector, y: Vector) -> Vector:
    """The BFGS update of lam I + V'MV with the pair s'V, y'V."""
    Bs = lam * s + M @ (G @ s)
    sBs, sy = float(s @ G @ Bs), float(s @ G @ y)
    if not (sy > 0.0 and sBs > 1e-14 * sy):
        return M
    return M - np.outer(Bs, Bs) / sBs + np.outer(y, y) / sy


def _orthonormal(gram: Vector, new: float) -> Vector:
    """Coefficients of orthonormal rows: Gram-Schmidt from the newest row to the oldest.

    Rows of length one of which less than the part `new` is new are left out.
    """
    k = len(gram)
    C = np.zeros((0, k))
    for i in range(k - 1, -1, -1):
        row = np.zeros(k)
        row[i] = 1.0
        for _ in range(2):  # twice is enough
            row = row - (C @ (gram @ row)) @ C
        length = np.sqrt(max(float(row @ gram @ row), 0.0))
        if length > new:
            C = np.vstack([C, row / length])
    return C


def _symmetric(M: Vector) -> Vector:
    return 0.5 * (M + M.T)
