"""Kernel functions in float64."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import row_norms

from geartrain.estimators.arrays import Array

KERNELS = ("rbf", "linear", "poly", "sigmoid", "precomputed")
ENTRIES = 1 << 18  # entries of a float64 block: 2 MB stay in the L2 cache
OVERFLOW = (
    "The dual coefficients or intercepts are not finite, because the kernel overflows. The input "
    "data may contain large values and need to be preprocessed, e.g. by StandardScaler."
)


@dataclass(frozen=True)
class Kernel:
    """The kernels of LIBSVM.

    "rbf" is exp(-gamma |a - b|^2), "linear" is <a, b>, "poly" is (gamma <a, b> + coef0)^degree,
    "sigmoid" is tanh(gamma <a, b> + coef0); "precomputed" stands for a matrix.
    """

    name: str
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0

    def matrix(self, A: Any, B: Any) -> Array:
        """K between the rows of A and those of B, float64."""
        a = self._halves(A)
        return self._from_products(_products(A, B), a, a if B is A else self._halves(B))

    def _halves(self, points: Any) -> Array:
        """gamma |a|^2 of every point, which only the Gaussian kernel needs."""
        if self.name != "rbf":
            return np.empty(points.shape[0])
        return self.gamma * square_norms(points)

    def _from_products(self, G: Array, a: Array, b: Array) -> Array:
        """K from the matrix G of inner products, which may be overwritten."""
        if self.name == "rbf":
            from geartrain.compiled.smo import gaussian_f8

            # exp(-gamma |a - b|^2) = exp(2 gamma <a, b> - gamma |a|^2 - gamma |b|^2)
            G *= 2.0 * self.gamma
            gaussian_f8(G, a, b)
        elif self.name == "poly":
            G = (self.gamma * G + self.coef0) ** self.degree
        elif self.name == "sigmoid":
            G = np.tanh(self.gamma * G + self.coef0)
        return G

    def expand(self, A: Any, points: Any, coefficients: Array) -> Array:
        """``matrix(A, points) @ coefficients`` by blocks of rows."""
        out = np.empty((A.shape[0], *coefficients.shape[1:]))
        size = max(1, ENTRIES // max(1, points.shape[0]))
        if sparse.issparse(A):
            for rows in blocks(A.shape[0], size):
                out[rows] = self.matrix(A[rows], points) @ coefficients
            return out
        a, b = self._halves(A), self._halves(points)
        G = np.empty((min(size, A.shape[0]), points.shape[0]))
        for rows in blocks(A.shape[0], size):
            part = np.dot(A[rows], points.T, out=G[: rows.stop - rows.start])
            out[rows] = self._from_products(part, a[rows], b) @ coefficients
        return out

    def expand_symmetric(self, points: Any, coefficients: Array) -> Array:
        """``matrix(points, points) @ coefficients``, from half of the entries."""
        m = points.shape[0]
        out = np.zeros(m)
        halves = self._halves(points)
        for rows in blocks(m, max(1, ENTRIES // max(1, m))):
            here, later = rows.stop - rows.start, slice(rows.start, None)
            G = _products(points[rows], points[later])
            K = self._from_products(G, halves[rows], halves[later])
            out[rows] += K @ coefficients[later]
            out[rows.stop :] += coefficients[rows] @ K[:, here:]
        return out


def square_norms(points: Any) -> Array:
    """|a|^2 of every row."""
    if sparse.issparse(points):
        return row_norms(points, squared=True)
    return np.einsum("ij,ij->i", points, points)


def _products(A: Any, B: Any) -> Array:
    """Array of <a, b> for all rows a of A and b of B."""
    G = A @ B.T
    return G.toarray() if sparse.issparse(G) else np.asarray(G)


def blocks(m: int, size: int) -> Iterator[slice]:
    """Slices of at most `size` that cover range(m)."""
    for start in range(0, m, size):
        yield slice(start, min(start + size, m))
