r"""Triangular factors of small matrices of inner products, with some of the rows left out.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
C          ``C``           lower triangle with C C' = A, row by row; C_ii^2 is the i-th pivot
T          ``T``           inverse of C: the rows of T V are orthonormal if A = V V'
=========  ==============  ==================================================================

One call of LAPACK takes the place of a loop over the rows.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from geartrain.oracles.protocols import Vector
from geartrain.oracles.spectrum import lapack

_TINY = 1e-300
_ALONE = 1024
# Rows of which this part, squared, is new are independent whatever their order.
_CLEAR = 1e-8


@lru_cache(maxsize=1)
def blas() -> Any:
    """BLAS without NumPy around it."""
    from scipy.linalg import blas  # here, because importing it takes a while

    return blas


def cholesky(A: Vector, least: Any) -> tuple[Vector, int]:
    """C, and the number of its leading rows whose pivots exceed `least`; the others mean nothing.

    A is symmetric, and not kept.
    """
    C, info = lapack().dpotrf(A.T, lower=1, clean=1, overwrite_a=1)
    enough = C.diagonal() ** 2 > least
    if info:
        enough[info - 1] = False
    worst = int(enough.argmin())
    return C, len(C) if enough[worst] else worst


def solved(C: Vector, B: Vector) -> Vector:
    """C^{-1} B.

    By BLAS: LAPACK's ``dtrtrs`` of OpenBLAS wakes all threads for the smallest matrix, and its
    ``dtrsm`` for a B with `_ALONE` entries, of which a few columns at a time are therefore solved.
    """
    dtrsm, few = blas().dtrsm, max(1, (_ALONE - 1) // len(C))
    if B.shape[1] <= few:
        return dtrsm(1.0, C, B, lower=1)
    pieces = (B[:, j : j + few] for j in range(0, B.shape[1], few))
    return np.concatenate([dtrsm(1.0, C, piece, lower=1) for piece in pieces], axis=1)


def root(G: Vector) -> Vector:
    """R with G = R R' up to rounding, with as many columns as there are independent rows in G.

    By Cholesky's method; where a row hardly adds to those before it, with pivots and the rows
    scaled to length one.
    """
    C, info = lapack().dpotrf(G, lower=1, clean=1)
    clear = C.diagonal() ** 2 > _CLEAR * G.diagonal()
    if not info and len(G) and clear[clear.argmin()]:
        return C
    sizes = np.sqrt(np.maximum(G.diagonal(), _TINY))
    C, pivots, rank, _ = lapack().dpstrf(G / (sizes[:, None] * sizes))  # upper: C' is lower
    R, order = np.empty((len(G), rank)), pivots - 1
    R[order] = np.where(from_diagonal(len(G)), C.T, 0.0)[:, :rank]
    return R * sizes[:, None]


def orthonormal(gram: Vector, new: float, least: float) -> Vector:
    """Coefficients of orthonormal rows, from the newest row, which is the last, to the oldest.

    Rows of length one of which less than the part `new` is new are left out at first. Then those
    follow of which the part `least` is new, most of them first: in the order of age, many rows that
    differ by little would make coefficients that are all rounding.
    """
    k = len(gram)
    A, kept = gram[::-1, ::-1], np.arange(k)[::-1]
    while len(kept):
        C, j = cholesky(A.copy(), new**2)
        if j == len(kept):
            break
        # what is new in the later rows can only become less
        ahead = solved(C[:j, :j], A[:j, j:]) if j else A[:j, j:]
        left = A.diagonal()[j:] - (ahead**2).sum(axis=0)
        left[0] = 0.0
        going_on = np.concatenate([np.arange(j), j + (left > new**2).nonzero()[0]])
        A, kept = A[going_on[:, None], going_on], kept[going_on]
    if len(kept) and least < new:
        rest = np.delete(np.arange(k), kept)
        ahead = solved(C, gram[kept[:, None], rest])
        clear = gram.diagonal()[rest] - (ahead**2).sum(axis=0) > least**2
        if clear.any():
            rest, ahead = rest[clear], ahead[:, clear]
            left = gram[rest[:, None], rest] - ahead.T @ ahead
            _, pivots, rank, _ = lapack().dpstrf(left, tol=least**2, lower=1)
            kept = np.append(kept, rest[pivots[:rank] - 1])
            C, j = cholesky(gram[kept[:, None], kept], 0.0)
            C, kept = C[:j, :j], kept[:j]
    T = np.zeros((len(kept), k))
    if len(kept):
        T[:, kept] = lapack().dtrtri(C, lower=1, overwrite_c=1)[0]
    return T


def bfgs(SS: Vector, SY: Vector, lam: float, least: float) -> Vector:
    """The matrix M of limited-memory BFGS, lam I + V'MV with the rows V = (S, Y).

    `SS` and `SY` are inner products of steps with steps and with changes, oldest first. Pairs are
    left out where <s, y> <= 0, or <s, B s> <= `least` <s, y> for the matrix B of the pairs before.

    Row i of X is B s/sqrt(<s, B s>) of update i, and <s, B s> is the pivot: M = diag(0, 1/<s, y>)
    - X'X, with C C' = lam SS + L D^{-1} L' and C X = (lam I, L D^{-1}), where L is the part of SY
    below the diagonal and D its diagonal.
    """
    k, along = len(SS), SY.diagonal()
    good = along > 0.0
    if good[good.argmin()]:
        root = np.sqrt(along)
        L = np.where(_below(k), SY, 0.0) / root
        C, j = cholesky(lam * SS + L @ L.T, least * along)
        if j == k:
            X = solved(C, np.concatenate([lam * identity(k), L / root], axis=1))
            M = X.T @ -X
            M.ravel()[k * (2 * k + 1) :: 2 * k + 1] += 1.0 / along
            return M
        good[j] = False
    M, used = np.zeros((2 * k, 2 * k)), good.nonzero()[0]
    if used.size:
        at, both = (used[:, None], used), np.append(used, k + used)
        M[both[:, None], both] = bfgs(SS[at], SY[at], lam, least)
    return M


@lru_cache(maxsize=128)
def _below(k: int) -> Any:
    """Where a matrix is below its diagonal."""
    return np.tri(k, k, -1, dtype=bool)


@lru_cache(maxsize=128)
def from_diagonal(k: int) -> Any:
    """Where a matrix is on its diagonal or below."""
    return np.tri(k, k, dtype=bool)


@lru_cache(maxsize=128)
def identity(k: int) -> Vector:
    """The identity; not to be changed."""
    return np.eye(k)
