r"""The coefficients of an inner run of the learned method; Numba is not imported here.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
B          --              the matrix of the model, lam I + V'MV on r rows V
s, y_g     --              the steps, and the changes of grad g along them
y          --              y_g + B s: the change of grad phi
W          --              V, then m places for s_1, s_2, ..., then m places for y_g1, y_g2, ...
Gamma      ``gram``        W W'
R          --              upper triangle of S'Y
T          ``T``           its inverse
w, E V     ``w, E``        eigenvalues and orthonormal eigenvectors of B on the span of V
H_0        --              `inverse` of B + tau I, tau the curvature of g along the last step
=========  ==============  ==================================================================

Of the m places, one more than there are pairs at most, the first ones are taken. What belongs to
the others is finite, and zero in T, so that it has no effect. These functions are for short
vectors; `geartrain.compiled.inner_run` has the same as loops, for long ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

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
    MVS: Vector  # row j is M V s_j
    sy: Vector  # <s_j, y_j>
    dots: Vector  # W s, W y_g and W grad phi of the last step
    M: Vector
    w: Vector  # negative ones set to 0
    E: Vector

    @staticmethod
    def of(G: Vector, M: Vector, w: Vector, E: Vector, places: int) -> RowTable:
        """No pairs, and room for some; G = V V'."""
        r = len(M)
        size = r + 2 * places
        gram, T, MVS = np.zeros((size, size)), np.zeros((places, places)), np.zeros((places, r))
        gram[:r, :r] = G
        M, E = np.ascontiguousarray(M), np.ascontiguousarray(E)
        return RowTable(gram, T, MVS, np.zeros(places), np.zeros((3, size)), M, w, E)


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


def direction(table: RowTable, lam: float, alpha: float, D: Vector) -> tuple[Vector, Vector]:
    """The coefficients c and e of d = W'c - grad phi/alpha and B d = lam d + V'e.

    d = -H grad phi with the BFGS inverse Hessian in compact form, Theorem 2.2 of [1]_.

    References
    ----------
    .. [1] R. Byrd, J. Nocedal, R. Schnabel, Representations of quasi-Newton matrices and their
       use in limited memory methods, Math. Program. 63 (1994).
    """
    gram, T, MVS, M, E = table.gram, table.T, table.MVS, table.M, table.E
    r, m = len(M), len(T)
    y = r + m
    # W z with z = H_0 u, u = grad phi - Y a; and the coefficients of d = -z - S b
    dots, c = table.dots[2] / alpha, np.empty(len(gram))
    a = T @ dots[r:y]  # divided by alpha
    c[:r], c[r:y], c[y:] = a @ MVS, lam * a, a
    dots -= gram @ c
    if len(E) > 0:
        base = alpha * ((D * (E @ dots[:r])) @ E)
        c[:r] -= base
        dots += base @ gram[:r]
    y_z = dots[y:] + lam * dots[r:y] + MVS @ dots[:r]
    b = (table.sy * (alpha * a) - y_z) @ T
    c[r:y] -= b
    V_d = dots[:r] + (b @ gram[r:y])[:r]  # with the sign turned
    return c, -(M @ V_d)


def learn(table: RowTable, lam: float, k: int) -> tuple[bool, float]:
    """Learn pair k from its inner products; whether it shows curvature, and that of g along it.

    The oldest pair is forgotten where the places end, and T of the others is a part of T.
    """
    gram, T, MVS, dots = table.gram, table.T, table.MVS, table.dots
    r, m = len(table.M), len(T)
    s, y = r + k, r + m + k
    ss, sy_g, yy_g = float(dots[0, s]), float(dots[1, s]), float(dots[1, y])
    Vs = dots[0, :r]
    MVs = table.M @ Vs
    WBs = MVs @ gram[:r]  # without its part lam W s
    sy = sy_g + lam * ss + float(np.dot(Vs, MVs))
    low_rank = max(float(np.dot(MVs, WBs[:r])), 0.0)
    size = yy_g**0.5 + lam * ss**0.5 + low_rank**0.5  # at least |y|
    if not sy > CURVED * ss**0.5 * size:
        dots[:, s], dots[:, y] = 0.0, 0.0
        return False, 0.0
    gram[s], gram[y] = dots[0], dots[1]
    gram[:, s], gram[:, y] = dots[0], dots[1]
    gram[s, y] = gram[y, s]
    Sy = dots[1, r : r + m] + lam * dots[0, r : r + m] + WBs[r : r + m]
    Sy[k] = 0.0
    T[:, k] = (T @ Sy) / -sy
    T[k, k] = 1.0 / sy
    MVS[k], table.sy[k] = MVs, sy
    if k + 1 == m:
        gram[r:-1] = gram[r + 1 :]
        gram[:, r:-1] = gram[:, r + 1 :]
        dots[:, r:-1] = dots[:, r + 1 :]
        MVS[:-1], table.sy[:-1], T[:-1, :-1] = MVS[1:], table.sy[1:], T[1:, 1:]
        T[k], T[:, k] = 0.0, 0.0
    return True, max(sy_g, 0.0) / max(ss, TINY)
