r"""The coefficients of an inner run of the learned method; Numba is not imported here.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
B          --              the matrix of the model, lam I + V'MV on r rows V
s, y_g     --              the steps, and the changes of grad g along them
y          --              y_g + B s: the change of grad phi
W          --              V, then m places for pairs: s_1, y_g1, s_2, y_g2, ...
Gamma      ``gram``        W W'
R          --              upper triangle of S'Y, the pairs in the order of their age
T          ``T``           its inverse
w, E V     ``w, E``        eigenvalues and orthonormal eigenvectors of B on the span of V
H_0        --              `inverse` of B + tau I, tau the curvature of g along the last step
=========  ==============  ==================================================================

There is one more place than pairs. Where all are taken, the place of the oldest pair is the next
one to be written; the order of the places does not matter. What belongs to a place without a pair
is finite, and zero in T, so that it has no effect. These functions are for short vectors;
`geartrain.compiled.inner_run` has the same as loops, for long ones.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from geartrain.oracles.spectrum import lapack
from geartrain.oracles.vectors import Vector

TINY = 1e-300
# In solves, eigenvalues are at least these parts of the largest: along V, and off it.
FLAT, FLAT_OFF = 1e-10, 1e-8
# A pair is used where <s, y> exceeds this part of |s| (|y_g| + lam |s| + |V'MVs|).
CURVED = 1e-12


class RowTable(NamedTuple):
    """What an inner run knows of the rows W; the functions change it in place."""

    gram: Vector
    T: Vector
    WY: Vector  # column j is W y_j
    MVS: Vector  # row j is M V s_j
    sy: Vector  # <s_j, y_j>
    dots: Vector  # W s, W y_g and W grad phi of the last step
    c: Vector  # of d = W'c_0 - grad phi/alpha and B d = lam d + W'c_1
    scratch: Vector  # of the loops
    M: Vector
    w: Vector  # negative ones set to 0
    E: Vector

    @staticmethod
    def of(G: Vector, M: Vector, w: Vector, E: Vector, places: int) -> RowTable:
        """No pairs, and room for some; G = V V'."""
        r = len(M)
        size = r + 2 * places
        # few arrays, because many short runs make them
        of_rows, of_places = np.zeros((size + 9, size)), np.zeros((size + places + 1, places))
        gram, dots, c = of_rows[:size], of_rows[size : size + 3], of_rows[size + 3 : size + 5]
        T, WY, sy = of_places[:places], of_places[places:-1], of_places[-1]
        gram[:r, :r] = G
        M, E = np.ascontiguousarray(M), np.ascontiguousarray(E)
        MVS, scratch = np.zeros((places, r)), of_rows[size + 5 :]
        return RowTable(gram, T, WY, MVS, sy, dots, c, scratch, M, w, E)


def inverse(w: Vector, lam: float, mu: float) -> tuple[float, Vector]:
    """alpha and the diagonal of D in the matrix I/alpha + V'E'DEV: the inverse of B + mu I.

    Its eigenvalues are positive, and not too small beside the largest.
    """
    alpha = max(lam + mu, TINY)
    if len(w) == 0:
        return alpha, w
    top = max(float(w.max()) + mu, alpha)
    alpha = max(alpha, FLAT_OFF * top)
    return alpha, 1.0 / np.maximum(w + mu, FLAT * top) - 1.0 / alpha


def direction(table: RowTable, lam: float, tau: float) -> float:
    """Enter the coefficients of d and B d, and return alpha.

    d = -H grad phi with the BFGS inverse Hessian in compact form, Theorem 2.2 of [1]_.

    References
    ----------
    .. [1] R. Byrd, J. Nocedal, R. Schnabel, Representations of quasi-Newton matrices and their
       use in limited memory methods, Math. Program. 63 (1994).
    """
    gram, T, WY, MVS, M, E, c = (*table[:4], table.M, table.E, table.c)
    r = len(M)
    alpha, D = inverse(table.w, lam, tau)
    # W z with z = H_0 u, u = grad phi - Y a; and the coefficients of d = -z - S b
    dots = table.dots[2] / alpha
    a = T @ dots[r::2]  # divided by alpha
    dots -= WY @ a
    V_u = dots[:r]
    base = alpha * ((D * (E @ V_u)) @ E)
    y_z = dots[r + 1 :: 2] + lam * dots[r::2] + MVS @ V_u + base @ WY[:r]
    b = (table.sy * (alpha * a) - y_z) @ T
    c[0, :r], c[0, r::2], c[0, r + 1 :: 2] = a @ MVS - base, lam * a - b, a
    V_d = V_u + base @ gram[:r, :r] + gram[:r, r::2] @ b  # with the sign turned
    c[1, :r] = -(M @ V_d)
    return alpha


def learn(table: RowTable, lam: float, i: int, oldest: int) -> tuple[int, float]:
    """Learn the pair at place i from its inner products in `dots`; `oldest` loses its pair.

    Returns 1 if the pair shows curvature and 0 otherwise, and the curvature of g along it. `oldest`
    is -1 where there is room.
    """
    gram, T, WY, MVS, sy, dots = table[:6]
    r = len(table.M)
    s, y = r + 2 * i, r + 2 * i + 1
    gram[s : y + 1], gram[:, s : y + 1] = dots[:2], dots[:2].T
    MVs = table.M @ gram[s, :r]
    WBs = MVs @ gram[:r]  # without its part lam W s
    Wy = gram[y] + lam * gram[s] + WBs
    ss, sy_g, yy_g, along = (float(x) for x in (gram[s, s], gram[s, y], gram[y, y], Wy[s]))
    low_rank = max(float(np.dot(MVs, WBs[:r])), 0.0)
    size = yy_g**0.5 + lam * ss**0.5 + low_rank**0.5  # at least |y|
    if not along > CURVED * ss**0.5 * size:
        sy[i] = 0.0
        return 0, 0.0
    WY[:, i], MVS[i], sy[i] = Wy, MVs, along
    both = gram[s : y + 1]
    WY[s : y + 1] = both[:, r + 1 :: 2] + lam * both[:, r::2] + both[:, :r] @ MVS.T
    T[:, i] = (T @ Wy[r::2]) / -along
    T[i, i] = 1.0 / along
    if oldest >= 0:
        T[oldest], T[:, oldest] = 0.0, 0.0
    return 1, max(sy_g, 0.0) / max(ss, TINY)


def learn_first(table: RowTable, lam: float, k: int) -> tuple[int, float]:
    """`learn` for the first k places, all at once, from `gram`.

    Returns how many of the pairs show curvature, and the curvature of g along the last of them.
    """
    r = len(table.M)
    end = r + 2 * k
    gram = table.gram[:end, :end]
    MVS = gram[r::2, :r] @ table.M
    WBS = gram[:, :r] @ MVS.T  # without its part lam W S
    WY = gram[:, r + 1 :: 2] + lam * gram[:, r::2] + WBS
    squares, R = gram.diagonal()[r:], WY[r::2]
    along, lengths = R.diagonal(), np.sqrt(squares[::2])
    low_rank = np.maximum((MVS * WBS[:r].T).sum(axis=1), 0.0)
    sizes = np.sqrt(squares[1::2]) + lam * lengths + np.sqrt(low_rank)  # at least |y|
    at = (along > CURVED * lengths * sizes).nonzero()[0]
    if not at.size:
        return 0, 0.0
    table.WY[:end, :k], table.MVS[:k], table.sy[at] = WY, MVS, along[at]
    inverse_R = lapack().dtrtri(R[at[:, None], at])[0]
    table.T[at[:, None], at] = np.where(_upper(len(at)), inverse_R, 0.0)
    s = r + 2 * at[-1]
    return len(at), max(float(gram[s, s + 1]), 0.0) / max(float(gram[s, s]), TINY)


@lru_cache(maxsize=128)
def _upper(k: int) -> Any:
    """Where a matrix is on its diagonal or above."""
    return np.tri(k, k, dtype=bool).T
