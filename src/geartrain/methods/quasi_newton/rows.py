"""Vectors of length n as rows: inner products with all of them, and linear combinations.

Short rows are kept in one array, so that both are one call of BLAS. Long rows stay where they are:
a call per row costs nothing there, and an array of all rows would double the memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from geartrain.geometry import Geometry
from geartrain.oracles.protocols import Vector

# Rows up to this length are copied into one array.
SHORT = 20_000
# Long rows are combined by pieces of this length, which stay in the cache.
_PIECE = 16_384
# Products of many long rows with many others go by slices of this length, copied side by side.
_SLICE = 2_048


class Rows:
    """A few vectors.

    Parameters
    ----------
    rows : sequence of arrays
        The vectors.
    """

    def __init__(self, rows: Sequence[Vector]) -> None:
        self.rows = tuple(rows)
        short = bool(self.rows) and self.rows[0].size <= SHORT
        self._block = np.array(self.rows) if short else None

    def __len__(self) -> int:
        return len(self.rows)

    def dots(self, v: Vector, geometry: Geometry, used: Any = None) -> Vector:
        """Inner products of all rows with v; of long rows, only of those that are `used`."""
        w = geometry.dual(v)
        if self._block is not None:
            return geometry.primal(self._block) @ w
        out = np.zeros(len(self.rows))
        for i in range(len(self.rows)) if used is None else used:
            out[i] = geometry.primal(self.rows[i]) @ w
        return out

    def combine(self, c: Vector) -> Vector:
        """The vector sum_i c_i rows_i."""
        if self._block is not None:
            return c @ self._block
        return _combined(c, self.rows)

    def dots_all(self, vectors: Sequence[Vector], geometry: Geometry) -> Vector:
        """Inner products of all rows with each of the vectors; a row of the result per vector."""
        W = [geometry.dual(v) for v in vectors]
        if self._block is not None:
            return np.array(W) @ geometry.primal(self._block).T
        V = [geometry.primal(row) for row in self.rows]
        out = np.zeros((len(W), len(V)))
        for start in range(0, V[0].size, _SLICE):
            piece = slice(start, start + _SLICE)
            out += np.array([w[piece] for w in W]) @ np.array([row[piece] for row in V]).T
        return out

    def combine_all(self, C: Vector) -> list[Vector]:
        """The vectors sum_j C_ij rows_j, one per row of C."""
        if self._block is not None:
            return list(C @ self._block)
        n = self.rows[0].size
        out = [np.empty(n) for _ in C]
        for start in range(0, n, _SLICE):
            piece = slice(start, start + _SLICE)
            made = C @ np.array([row[piece] for row in self.rows])
            for vector, part in zip(out, made, strict=True):
                vector[piece] = part
        return out


def _combined(c: Vector, rows: Sequence[Vector]) -> Vector:
    """By pieces that stay in the cache while all rows are added to them."""
    axpy, n = _axpy(), rows[0].size
    out = np.zeros(n)
    used = [(float(a), row) for a, row in zip(c, rows, strict=True) if a != 0.0]
    for start in range(0, n, _PIECE):
        piece = slice(start, start + _PIECE)
        for a, row in used:
            axpy(row[piece], out[piece], a=a)
    return out


@lru_cache(maxsize=1)
def _axpy() -> Any:
    from scipy.linalg.blas import daxpy  # here, because importing it takes a while

    return daxpy


class Window:
    """The last `most` of a growing number of rows, with the inner products R_ij = <s_i, y_j>.

    Parameters
    ----------
    most : int
        How many pairs of rows are kept.
    n : int
        Their length.
    geometry : Geometry
        Of the inner products.
    """

    def __init__(self, most: int, n: int, geometry: Geometry) -> None:
        self.most, self.geometry = most, geometry
        self.S: Any = np.empty((2 * most, n)) if n <= SHORT else [None] * (2 * most)
        self.Y: Any = np.empty((2 * most, n)) if n <= SHORT else [None] * (2 * most)
        self.R = np.zeros((2 * most, 2 * most))
        self.low = self.high = 0

    def __len__(self) -> int:
        return self.high - self.low

    def add(self, s: Vector, y: Vector) -> None:
        """Add a pair, and forget the oldest if there are too many."""
        if self.high == 2 * self.most:
            self._to_the_front()
        self.S[self.high], self.Y[self.high] = s, y
        self.high += 1
        self.R[self.low : self.high, self.high - 1] = self.dots(self.S, y)
        self.low = max(self.low, self.high - self.most)

    def _to_the_front(self) -> None:
        k, kept = len(self), slice(self.low, self.high)
        self.S[:k], self.Y[:k] = self.S[kept], self.Y[kept]
        self.R[:k, :k] = self.R[kept, kept]
        self.low, self.high = 0, k

    def clear(self) -> None:
        """Forget all."""
        self.low = self.high = 0

    def dots(self, rows: Any, v: Vector) -> Vector:
        """Inner products of the rows that are kept with v."""
        primal, w = self.geometry.primal, self.geometry.dual(v)
        kept = rows[self.low : self.high]
        if isinstance(rows, np.ndarray):
            return primal(kept) @ w
        return np.array([primal(row) @ w for row in kept])

    def combine(self, rows: Any, c: Vector) -> Vector:
        """The vector sum_i c_i rows_i."""
        kept = rows[self.low : self.high]
        return c @ kept if isinstance(rows, np.ndarray) else _combined(c, kept)
