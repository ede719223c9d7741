"""Largest eigenvalues and norms, by a few products instead of crude norms."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import sparse

from geartrain.oracles.float32_products import is_single, times, transposed_times
from geartrain.oracles.vectors import Vector, norm

# Up to this size all eigenvalues are computed, which takes milliseconds and is exact.
DENSE_LIMIT = 400
# Largest number of products of the Lanczos method.
LANCZOS_STEPS = 120
# The Lanczos method approaches the largest eigenvalue from below; this margin covers the rest.
LANCZOS_MARGIN = 1e-3


@lru_cache(maxsize=1)
def lapack() -> Any:
    """LAPACK without the checks around it."""
    from scipy.linalg import lapack  # here, because importing it takes a while

    return lapack


def eigh(A: Vector) -> tuple[Vector, Vector]:
    """Eigenvalues and eigenvectors of a symmetric matrix, given by its lower triangle.

    The divide-and-conquer method of LAPACK, which is the fastest, does not converge for some
    well-scaled matrices; QR iterations do. All are nan for a matrix with entries that are not
    finite.
    """
    if not len(A):
        return np.zeros(0), np.zeros((0, 0))
    # one inner product shows in most cases that all entries are finite
    if not norm(A.ravel()) < math.inf and not np.isfinite(A).all():
        return np.full(len(A), np.nan), np.full_like(A, np.nan)
    w, U, failed = lapack().dsyevd(A, lower=1)
    if failed:
        w, U, failed = lapack().dsyev(A, lower=1)
    if failed:
        raise np.linalg.LinAlgError("the eigenvalues of a symmetric matrix did not converge")
    return w, U


def random_start(n: int) -> Vector:
    return np.random.default_rng(20260101).standard_normal(n)


def _dots(B: Vector, w: Vector) -> Any:
    return B @ w


@np.errstate(all="ignore")
def extreme_eigenvalues(
    product: Callable[[Vector], Vector],
    n: int,
    start: Vector | None = None,
    dots: Callable[[Vector, Vector], Any] = _dots,
) -> tuple[float, float]:
    """Estimates (low, high) of the ends of the spectrum of a symmetric operator.

    The Lanczos method with full reorthogonalisation is run from a fixed random start until the end
    that is larger in modulus has stopped growing. That end is accurate to 0.1 % and moved outwards
    to be a bound. The other end is a Ritz value, which lies inside the spectrum, so that a negative
    `low` proves the operator indefinite. This takes 20 to 60 products for any `n`, and never more
    than 120.

    `dots` is the inner product in which the operator is symmetric, and `start` is then the vector
    to start from (see `geartrain.geometry`).
    """
    q = random_start(n) if start is None else start
    q = q / np.sqrt(dots(q, q))
    steps = min(n, LANCZOS_STEPS)
    basis = np.empty((steps, q.size))
    diagonal: list[float] = []
    off: list[float] = []
    low = high = theta = 0.0
    scale = 1.0  # of the operator, a power of two: squares of its eigenvalues may overflow
    for k in range(steps):
        basis[k] = q
        w = np.asarray(product(q), dtype=np.float64) / scale
        if k == 0 and 0.0 < (size := norm(w)) < math.inf:
            scale = 2.0 ** (math.frexp(size)[1] - 1)
            w = w / scale
        diagonal.append(float(dots(q, w)))
        for _ in range(2):
            w = w - basis[: k + 1].T @ dots(basis[: k + 1], w)
        beta = float(np.sqrt(max(dots(w, w), 0.0)))
        T = np.diag(diagonal) + np.diag(off, 1) + np.diag(off, -1)
        ritz = np.linalg.eigvalsh(T)
        low, high = float(ritz[0]), float(ritz[-1])
        theta_next = max(high, -low)
        settled = k >= 5 and theta_next - theta <= 0.01 * LANCZOS_MARGIN * theta_next
        theta = theta_next
        if settled or beta <= 1e-12 * max(theta, 1e-300):
            break
        off.append(beta)
        q = w / beta
    margin = LANCZOS_MARGIN * theta
    low, high = (low - margin, high) if -low > high else (low, high + margin)
    return scale * low, scale * high


@np.errstate(all="ignore")
def symmetric_spectrum(
    product: Callable[[Vector], Vector], n: int, entries: Any = None
) -> tuple[float, float]:
    """Bounds (low, high) of the spectrum of a symmetric operator.

    All eigenvalues are computed if the matrix `entries` is given and n <= 400, or if n <= 120
    products give the matrix. Otherwise `low` is 0 unless a Ritz value proves the operator
    indefinite.
    """
    if n <= (LANCZOS_STEPS if entries is None else DENSE_LIMIT):
        if entries is None:
            entries = np.array([product(e) for e in np.eye(n)])
        dense = entries.toarray() if sparse.issparse(entries) else entries
        values = np.linalg.eigvalsh(dense.astype(np.float64, copy=False))
        return computed_ends(values)
    return ritz_ends(*extreme_eigenvalues(product, n))


def computed_ends(values: Vector) -> tuple[float, float]:
    """Ends of a computed spectrum; an eigenvalue of the size of rounding errors counts as 0."""
    low, high = float(values[0]), float(values[-1])
    size = max(high, -low)
    # Rounding errors give a singular matrix an eigenvalue of this size.
    return (0.0 if -1e-12 * size <= low <= 4e-16 * values.size * size else low), high


def ritz_ends(low: float, high: float) -> tuple[float, float]:
    """Bounds from Ritz values; a positive one is no lower bound, a negative one proves its sign."""
    return (low if low < -1e-10 * abs(high) else 0.0), high


def largest_eigenvalue(product: Callable[[Vector], Vector], n: int) -> float:
    """Upper estimate, accurate to 0.1 %, of the largest eigenvalue of a psd operator."""
    return max(extreme_eigenvalues(product, n)[1], 0.0)


@np.errstate(all="ignore")
def gram_norm(A: Any) -> float:
    """Largest eigenvalue of ``A'A`` for an array, a sparse matrix or a LinearOperator."""
    m, n = A.shape
    small = min(m, n) <= DENSE_LIMIT and not is_single(A)
    if small and (isinstance(A, np.ndarray) or sparse.issparse(A)):
        largest = float(abs(A).max())
        if largest == 0.0:
            return 0.0
        scale = 2.0 ** (math.frexp(largest)[1] - 1)  # the squares of its entries may overflow
        A = A / scale
        gram = A @ A.T if m <= n else A.T @ A
        gram = gram.toarray() if sparse.issparse(gram) else gram
        return max(float(np.linalg.eigvalsh(gram)[-1]), 0.0) * scale * scale
    if m <= n:
        return largest_eigenvalue(lambda u: times(A, transposed_times(A, u)), m)
    return largest_eigenvalue(lambda v: transposed_times(A, times(A, v)), n)


@np.errstate(all="ignore")
def row_norms_squared(A: Any) -> Vector:
    if sparse.issparse(A):
        return np.asarray(A.multiply(A).sum(axis=1, dtype=np.float64)).ravel()
    return np.einsum("ij,ij->i", A, A, dtype=np.float64)


@np.errstate(all="ignore")
def column_norms_squared(A: Any) -> Vector:
    if sparse.issparse(A):
        return np.asarray(A.multiply(A).sum(axis=0, dtype=np.float64)).ravel()
    return np.einsum("ij,ij->j", A, A, dtype=np.float64)
