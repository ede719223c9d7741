"""Kernel matrices: float32 rows under a memory limit for the solvers, float64 blocks for the rest.

The solvers ask for rows of K again and again. Rows are computed in float32 by blocks (one matrix
product and, for the Gaussian kernel, one fused exponential), kept as long as the memory limit
allows, and computed again where it does not. What is certified or predicted is float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from geartrain.estimators.arrays import Array

BLOCK = 128  # rows of K in one matrix product
ROWS_SHARE = 0.8  # of the memory limit is for cached rows; the rest for blocks and copies
ENTRIES = 1 << 18  # of a float64 block: 2 MB stay in the cache
KERNELS = ("rbf", "linear", "poly", "precomputed")


@dataclass(frozen=True)
class Kernel:
    """K(a, b): exp(-gamma |a - b|^2), <a, b>, (gamma <a, b> + coef0)^degree or a callable."""

    name: str | Callable[[Any, Any], Any]
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0

    def matrix(self, A: Any, B: Any) -> Array:
        """K between the rows of A and those of B, float64."""
        if callable(self.name):
            return np.asarray(self.name(A, B), dtype=np.float64)
        G = safe_sparse_dot(A, B.T, dense_output=True)
        return self._from_products(G, *(self._halves(points) for points in (A, B)))

    def _halves(self, points: Any) -> Array:
        """|a|^2 times gamma for every point, which only the Gaussian asks for."""
        if self.name != "rbf":
            return np.empty(points.shape[0])
        return self.gamma * row_norms(points, squared=True)

    def _from_products(self, G: Array, a: Array, b: Array) -> Array:
        """K from the matrix G of inner products, which may be overwritten."""
        if self.name == "rbf":
            from geartrain.kernels.smo import gaussian_f8

            # exp(-gamma |a - b|^2) = exp(2 gamma <a, b> - gamma |a|^2 - gamma |b|^2)
            G *= 2.0 * self.gamma
            gaussian_f8(G, a, b)
        elif self.name == "poly":
            G = (self.gamma * G + self.coef0) ** self.degree
        return G

    def expand(self, A: Any, points: Any, coefficients: Array) -> Array:
        """``matrix(A, points) @ coefficients`` by blocks of rows."""
        out = np.empty((A.shape[0], *coefficients.shape[1:]))
        size = max(1, ENTRIES // max(1, points.shape[0]))
        if callable(self.name) or sparse.issparse(A):
            for rows in blocks(A.shape[0], size):
                out[rows] = self.matrix(A[rows], points) @ coefficients
            return out
        a, b = self._halves(A), self._halves(points)
        G = np.empty((min(size, A.shape[0]), points.shape[0]))
        for rows in blocks(A.shape[0], size):
            part = np.dot(A[rows], points.T, out=G[: rows.stop - rows.start])
            out[rows] = self._from_products(part, a[rows], b) @ coefficients
        return out


def blocks(m: int, size: int) -> Iterator[slice]:
    """Slices of at most `size` that cover range(m)."""
    for start in range(0, m, size):
        yield slice(start, min(start + size, m))


class TrainingKernel:
    """K of the training points: float32 rows in a cache by last use, exact products.

    Parameters
    ----------
    kernel : Kernel
    X : array or CSR (m, n)
        The points, or K itself if `kernel` is precomputed.
    memory_limit : float
        Bytes, of which the cache takes `ROWS_SHARE`.

    Attributes
    ----------
    rows : array (capacity, m)
        The cached rows, float32.
    n_rows : int
        Rows computed so far.
    """

    def __init__(self, kernel: Kernel, X: Any, memory_limit: float) -> None:
        self.kernel = kernel
        self.X = X
        self.m = int(X.shape[0])
        self.capacity = int(min(self.m, ROWS_SHARE * memory_limit // (4 * self.m)))
        if self.capacity < min(self.m, 2 * BLOCK):
            need = 4 * self.m * min(self.m, 2 * BLOCK) / (1e6 * ROWS_SHARE)
            raise ValueError(
                f"memory_limit is too small for {self.m} samples: a block of "
                f"{min(self.m, 2 * BLOCK)} kernel rows needs {need:.1f} MB; raise memory_limit "
                "or fit a subset of the samples"
            )
        self.n_rows = 0
        self.slot = np.full(self.m, -1)  # where a row is kept
        self._owner = np.full(self.capacity, -1)
        self._last_use = np.zeros(self.capacity, np.int64)
        self._filled = 0
        self._clock = 0

    @cached_property
    def rows(self) -> Array:
        """The cache; pages that are never written take no memory."""
        return np.empty((self.capacity, self.m), np.float32)

    @cached_property
    def _scaled(self) -> tuple[Any, Array]:
        """Float32 points and half their squared norms, such that rbf is exp(<a, b> - ...).

        Dense points are centred: the Gaussian does not see it, and less is cancelled.
        """
        if self.kernel.name != "rbf":
            return self.X.astype(np.float32), np.empty(0, np.float32)
        factor = np.sqrt(2.0 * self.kernel.gamma)
        if sparse.issparse(self.X):
            points = (self.X * factor).astype(np.float32)
        else:
            points = ((self.X - self.X.mean(axis=0)) * factor).astype(np.float32)
        return points, np.asarray(0.5 * row_norms(points, squared=True), np.float32)

    def fill(self, W: Array, out: Array) -> None:
        """``out <- K[W]`` in float32."""
        self.n_rows += W.size
        if self.kernel.name == "precomputed":
            out[:] = self.X[W]
            return
        if callable(self.kernel.name):
            out[:] = self.kernel.matrix(self.X[W], self.X)
            return
        points, half = self._scaled
        if sparse.issparse(points):
            out[:] = (points @ points[W].toarray().T).T
        else:
            np.dot(points[W], points.T, out=out)
        if self.kernel.name == "rbf":
            from geartrain.kernels.smo import gaussian_f4

            gaussian_f4(out, half[W], half)
        elif self.kernel.name == "poly":
            out *= np.float32(self.kernel.gamma)
            out += np.float32(self.kernel.coef0)
            np.power(out, self.kernel.degree, out=out)

    def cached(self, W: Array) -> Array:
        """Slots of the rows W in `rows`; the missing ones are computed."""
        self._clock += 1
        missing = W[self.slot[W] < 0]
        held = self.slot[W]
        self._last_use[held[held >= 0]] = self._clock
        fresh = min(missing.size, self.capacity - self._filled)
        for part in blocks(fresh, BLOCK):
            ids = missing[part]
            where = slice(self._filled, self._filled + ids.size)
            self.fill(ids, self.rows[where])
            self._keep(ids, np.arange(where.start, where.stop))
            self._filled += ids.size
        evicted = missing[fresh:]
        if evicted.size:
            oldest = np.argpartition(self._last_use, evicted.size - 1)[: evicted.size]
            self.slot[self._owner[oldest]] = -1
            buffer = np.empty((min(BLOCK, evicted.size), self.m), np.float32)
            for part in blocks(evicted.size, BLOCK):
                ids = evicted[part]
                self.fill(ids, buffer[: ids.size])
                self.rows[oldest[part]] = buffer[: ids.size]
                self._keep(ids, oldest[part])
        return self.slot[W]

    def _keep(self, ids: Array, slots: Array) -> None:
        self.slot[ids] = slots
        self._owner[slots] = ids
        self._last_use[slots] = self._clock

    def columns(self, S: Array, coefficients: Array) -> Array:
        """``K[:, S] @ coefficients`` in float64, nothing of it from the cache."""
        if self.kernel.name == "precomputed":
            return self.X[:, S] @ coefficients
        return self.kernel.expand(self.X, self.X[S], coefficients)

    def column_matrix(self, S: Array) -> Array:
        """``K[:, S]`` in float64."""
        if self.kernel.name == "precomputed":
            return self.X[:, S]
        return self.kernel.matrix(self.X, self.X[S])

    def product(self, v: Array) -> Array:
        """``K v`` from float32 rows: cached as far as they fit, computed again beyond."""
        out = np.empty(self.m)
        v4 = v.astype(np.float32)
        kept = np.arange(min(self.capacity, self.m))
        slots = self.cached(kept)
        out[kept] = (self.rows[: kept.size] @ v4)[slots]
        buffer = np.empty((BLOCK, self.m), np.float32)
        for part in blocks(self.m - kept.size, BLOCK):
            ids = np.arange(kept.size + part.start, kept.size + part.stop)
            self.fill(ids, buffer[: ids.size])
            out[ids] = buffer[: ids.size] @ v4
        return out
