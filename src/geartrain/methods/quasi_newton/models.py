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

Each is made of coefficients only: S and Y are unit vectors, their inner products are known.

References
----------
.. [1] W. Gao, D. Goldfarb, Block BFGS methods, SIAM J. Optim. 28 (2018).
.. [2] J. Nocedal, S. Wright, Numerical Optimization, 2nd ed. (2006), Section 7.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from geartrain.geometry import Geometry
from geartrain.methods.quasi_newton.low_rank import LowRank, Small
from geartrain.methods.quasi_newton.memory import Memory
from geartrain.methods.quasi_newton.tuning import Candidate
from geartrain.oracles.protocols import Vector
from geartrain.oracles.spectrum import eigh

_TINY = 1e-300
# A pair shows curvature where <s, y> exceeds this part of |s| |y|.
_CURVED = 1e-12
# A step is left out where less than this part of it is new: block, correction.
_NEW, _NEW_CORRECTION = 0.1, 0.05
# Eigenvalues of a small matrix are at least this part of the largest.
_LEAST = 1e-8
# The curvature of f along a step is taken to be at least this part of that of g.
_FLATTEST = 0.1
# Part of lam that the correction takes back along known steps.
_ALONG = 0.5


@dataclass(frozen=True)
class Shelf:
    """The models of one trial point, each made when it is first asked for."""

    known: Memory  # all pairs
    fresh: Memory  # the same, with the curvature of g measured anew
    lam: float  # curvature of h where the pairs tell nothing
    scale: float  # that of f, before the first pair
    geometry: Geometry
    _made: dict[Candidate, LowRank] = field(default_factory=dict)

    def __getitem__(self, candidate: Candidate) -> LowRank:
        if candidate not in self._made:
            self._made[candidate] = self._make(*candidate)
        return self._made[candidate]

    def _make(self, kind: str, size: int) -> LowRank:
        memory = self.fresh if kind == "correction" else self.known
        if not memory.pairs:
            return LowRank(self.scale if kind == "plain" else self.lam)
        pairs = memory.pairs[-size:]
        k, first = len(pairs), 3 * (len(memory) - len(pairs))
        # rows of C: steps, then changes of a gradient
        i = np.arange(k)
        C = np.zeros(((3 if kind == "correction" else 2) * k, 3 * len(memory)))
        C[i, first + 3 * i] = 1.0
        if kind == "plain":
            C[k + i, first + 3 * i + 1], C[k + i, first + 3 * i + 2] = zip(
                *(p.in_f for p in pairs), strict=True
            )
        else:
            C[k + i, first + 3 * i + 1] = [p.scale for p in pairs]
        if kind == "correction":
            C[2 * k + i, first + 3 * i + 2] = 1.0
        G = C[:, first:] @ memory.gram[first:, first:] @ C[:, first:].T
        lam = self.lam
        if kind == "plain":
            lam = self._plain_scale(np.diag(G[:k, k:]), np.diag(G)[k:])
        if kind == "block":
            M = block(G, k, lam)
        elif kind == "correction":
            M = correction(G, k, _ALONG * lam)
        else:
            M = sequential(G, k, lam)
        return LowRank(lam, Small(memory.rows, C, G, 0.5 * (M + M.T), self.geometry))

    def _plain_scale(self, along: Vector, squares: Vector) -> float:
        """<y, y>/<s, y> of the newest pair that shows curvature, for steps of length one."""
        curved = np.flatnonzero(along > _CURVED * np.sqrt(squares))
        if not curved.size:
            return self.scale
        return float(squares[curved[-1]] / along[curved[-1]])


def sequential(G: Vector, k: int, lam: float) -> Vector:
    """Limited-memory BFGS from lam I; G holds the inner products of k steps and k changes."""
    # in the order s_0, y_0, s_1, y_1, ..., so that update i changes a leading part only
    order = np.arange(2 * k).reshape(2, k).T.ravel()
    ordered = G[order[:, None], order]
    M = np.zeros_like(G)
    for i in range(0, 2 * k, 2):
        _update(M[: i + 2, : i + 2], lam, ordered[: i + 2, : i + 2], i, i + 1)
    back = np.argsort(order)
    return M[back[:, None], back]


def block(G: Vector, k: int, lam: float) -> Vector:
    """Block model of h, with one BFGS update for the newest pair."""
    T = _orthonormal(G[:k, :k], _NEW)  # newest first
    small = T @ G[:k, k:] @ T.T
    # newer steps with older changes: the newest secant equation holds
    w, U = eigh(np.triu(small) + np.triu(small, 1).T)
    M = np.zeros_like(G)
    M[:k, :k] = -lam * T.T @ T
    if len(w) > 0 and w[-1] > _TINY:  # h is not flat along all of the steps
        Z = U.T @ T
        M[k:, k:] = (Z.T / np.maximum(w, _LEAST * w[-1])) @ Z
    _update(M, lam, G, k - 1, 2 * k - 1)
    return M


def correction(G: Vector, k: int, lam: float) -> Vector:
    """What the block BFGS update along the steps [1]_ adds to H_g + lam I to give H_f there."""
    T = _orthonormal(G[:k, :k], _NEW_CORRECTION)
    Q = np.hstack([T, np.zeros((len(T), 2 * k))])
    Z_h = np.roll(Q, k, axis=1) - lam * Q
    Z_g = np.roll(Q, 2 * k, axis=1) + lam * Q
    # combinations of the steps with Q (H_g + lam) Q' = I and Q (H_h - lam) Q' = diag(t)
    small_g, small_h = Q @ G @ Z_g.T, Q @ G @ Z_h.T
    w, U = eigh(0.5 * (small_g + small_g.T))
    if w[-1] <= 0.0:
        return np.zeros_like(G)
    R = U / np.sqrt(np.maximum(w, _LEAST * w[-1]))
    t, U = eigh(R.T @ (0.5 * (small_h + small_h.T)) @ R)
    R = R @ U
    Z_h, Z_g = R.T @ Z_h, R.T @ Z_g
    along = np.maximum(1.0 + t, _FLATTEST)  # of H_f, as far as it is believed
    Z_f = Z_h + (along - t)[:, None] * Z_g
    return (Z_f.T / along) @ Z_f - Z_g.T @ Z_g


def _update(M: Vector, lam: float, G: Vector, s: int, y: int) -> None:
    """The BFGS update of lam I + V'MV with rows s and y of V, in place."""
    Bs = M @ G[s]
    Bs[s] += lam
    sBs, sy = float(G[s] @ Bs), float(G[s, y])
    if sy > 0.0 and sBs > 1e-14 * sy:
        M -= np.outer(Bs / sBs, Bs)
        M[y, y] += 1.0 / sy


def _orthonormal(gram: Vector, new: float) -> Vector:
    """Coefficients of orthonormal rows, from the newest row to the oldest.

    Rows of length one of which less than the part `new` is new are left out.
    """
    k = len(gram)
    T, j = np.zeros((k, k)), 0
    for i in range(k - 1, -1, -1):
        c = T[:j] @ gram[i]
        left = float(gram[i, i] - c @ c)
        if left > new**2:
            size = np.sqrt(left)
            T[j] = -(c / size) @ T[:j]
            T[j, i] += 1.0 / size
            j += 1
    return T[:j]
