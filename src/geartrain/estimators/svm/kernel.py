r"""Kernel functions: matrices in float64, and rows in float32 with a bound of their error.

For the Gaussian kernel the points of the rows are scaled such that
K(a, b) = exp(<a, b> - |a|^2/2 - |b|^2/2). A row then takes one matrix product and one fused
exponential.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import row_norms

from geartrain.compiled.records import Array

KERNELS = ("rbf", "linear", "poly", "sigmoid", "precomputed")
ENTRIES = 1 << 18  # entries of a float64 block: 2 MB stay in the L2 cache
OVERFLOW = (
    "The dual coefficients or intercepts are not finite, because the kernel overflows. The input "
    "data may contain large values and need to be preprocessed, e.g. by StandardScaler."
)

ROUND, ROUND_DOUBLE = 2.0**-24, 2.0**-53  # unit roundoffs of float32 and float64
LN2 = float(np.log(2.0))
EXP_ERROR = 1e-6  # relative error of `gaussian_f4`
# Error of the exponents in float32 beyond which rows are computed in float64: SMO would work with
# a wrong matrix. Only a gamma far too large for the data comes here.
LARGEST_ERROR = 0.01
GRID = 2.0**22  # squared norm over squared unit up to which sums of products are exact in float32
HUGE = 1e30  # a gamma that may overflow in float32
BLOCK = 128  # rows in one matrix product
FEW = 1 << 16  # coordinates of all points together, up to which they stay in the L2 cache


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
        a, b = self._halves(A), self._halves(points)
        for rows in blocks(A.shape[0], max(1, ENTRIES // max(1, points.shape[0]))):
            K = self._from_products(_products(A[rows], points), a[rows], b)
            out[rows] = K @ coefficients
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


class FloatRows:
    """Rows of the kernel matrix of the points X, rounded to float32.

    If `kernel` is precomputed, X is K itself. With `by_columns`, rows may be computed by
    `geartrain.compiled.smo.solve_block` when they are needed, instead of by `compute`.
    """

    def __init__(self, kernel: Kernel, X: Any, by_columns: bool) -> None:
        self.kernel, self.X = kernel, X
        self._by_columns = (
            by_columns and kernel.name == "rbf" and not sparse.issparse(X) and X.size <= FEW
        )

    @cached_property
    def _on_grid(self) -> bool:
        """Whether products of points are exact in float32, for a Gaussian kernel.

        They are if the coordinates are multiples of some 2^-k that is not too small: categories
        as zeros and ones, counts, pixels.
        """
        if self.kernel.name != "rbf" or self._by_columns:
            return False
        largest = float(square_norms(self.X).max(initial=1.0))
        unit = 2.0 ** np.ceil(0.5 * np.log2(largest / GRID)) if largest < np.inf else 1.0
        # The first rows are enough to refuse most data.
        for rows in (slice(BLOCK), slice(None)):
            part = self.X[rows].data if sparse.issparse(self.X) else self.X[rows]
            if (np.rint(part / unit) * unit != part).any():
                return False
        return largest < GRID and self.kernel.gamma < HUGE

    @cached_property
    def _scaled(self) -> tuple[Any, Array]:
        """The scaled points and half their squared norms; float64 if float32 is too inaccurate.

        Dense points are centred, which does not change the Gaussian and reduces cancellation.
        Points on a grid are not changed; the exponent is scaled instead.
        """
        if self.kernel.name == "precomputed":
            return None, np.empty(0, np.float32)
        if self.kernel.name != "rbf":
            return self.X.astype(np.float32), np.empty(0, np.float32)
        points = self.X
        if not self._on_grid:
            points = points.copy() if sparse.issparse(points) else points - points.mean(axis=0)
            points *= np.sqrt(2.0 * self.kernel.gamma)
        halves = _finite(0.5 * square_norms(points))
        if self._off(halves, ROUND) > LARGEST_ERROR:
            return points, halves
        return points.astype(np.float32), halves.astype(np.float32)

    @property
    def _exponent(self) -> float:
        """The factor of <a, b> - |a|^2/2 - |b|^2/2 of the scaled points."""
        return 2.0 * self.kernel.gamma if self._on_grid else 1.0

    def _off(self, halves: Array, unit: float) -> float:
        """Bound of the error of the exponents.

        With R the norm of the longest scaled point and u the unit roundoff, the exponent is off by
        at most (n + 16) u R^2: n from the product, 8 from rounding the points and their norms, 4
        from the differences and 4 from the factor 1/ln 2. On a grid only these last 4 remain.
        """
        square = 2.0 * self._exponent * float(halves.max(initial=0.0))
        return (4 if self._on_grid else self.X.shape[1] + 16) * unit * square

    @cached_property
    def error(self) -> float:
        """Bound of |float32 row - K|/K for all entries; infinite if none is known.

        Entries below 2^-126 are replaced by it.
        """
        if self.kernel.name != "rbf":
            return np.inf
        unit = ROUND if self.halves.dtype == np.float32 else ROUND_DOUBLE
        error = float(np.expm1(min(self._off(self.halves, unit), 1.0))) + EXP_ERROR
        return error / (1.0 - error) if error < 0.5 else np.inf

    def compute(self, W: Array, out: Array) -> None:
        """``out <- K[W]`` in float32."""
        name = self.kernel.name
        if name == "precomputed":
            out[:] = self.X[W]
        elif name == "rbf":
            self._gaussians(W, out)
        else:
            self._products(self._scaled[0], W, out)
            if name in ("poly", "sigmoid"):
                out *= np.float32(self.kernel.gamma)
                out += np.float32(self.kernel.coef0)
            if name == "poly":
                np.power(out, self.kernel.degree, out=out)
            if name == "sigmoid":
                np.tanh(out, out=out)
        if name != "rbf" and not np.isfinite(out).all():
            raise ValueError(OVERFLOW)

    def _gaussians(self, W: Array, out: Array) -> None:
        from geartrain.compiled.smo import gaussian_f4, gaussian_f8

        points, halves = self._scaled
        if halves.dtype == np.float32:
            self._products(points, W, out)
            gaussian_f4(out, halves[W], halves, np.float32(self._exponent / LN2))
        else:
            G = np.empty(out.shape)
            self._products(points, W, G)
            G *= self._exponent
            gaussian_f8(G, self._exponent * halves[W], self._exponent * halves)
            out[:] = G
        out[np.arange(W.size), W] = 1.0

    @staticmethod
    def _products(points: Any, W: Array, out: Array) -> None:
        if sparse.issparse(points):
            out[:] = (points @ points[W].toarray().T).T
        else:
            np.dot(points[W], points.T, out=out)

    @cached_property
    def _columns(self) -> tuple[Array, Array] | None:
        """The scaled points by coordinates and half their squared norms, if float32 is enough."""
        from geartrain.compiled.smo import centred_columns

        if not self._by_columns:
            return None
        m, n = self.X.shape
        out, halves = np.zeros((-(-n // 4) * 4, m), np.float32), np.empty(m)
        mean = np.full(m, 1.0 / m) @ self.X
        centred_columns(self.X, mean, np.sqrt(2.0 * self.kernel.gamma), out, halves)
        if self._off(_finite(halves), ROUND) > LARGEST_ERROR:
            return None
        return out, halves.astype(np.float32)

    @property
    def coordinates(self) -> Array:
        """The scaled points, one row per coordinate, if they are few; otherwise empty.

        A compiled loop computes a row of K from them as fast as a matrix product does. Zeros pad
        the number of coordinates to a multiple of four.
        """
        return np.empty((0, 0), np.float32) if self._columns is None else self._columns[0]

    @property
    def halves(self) -> Array:
        """Half the squared norms of the scaled points."""
        return self._scaled[1] if self._columns is None else self._columns[1]


def _finite(numbers: Array) -> Array:
    if not np.isfinite(numbers).all():
        raise ValueError(OVERFLOW)
    return numbers
