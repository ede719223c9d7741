"""Vectors of length n as rows: inner products with all of them, and linear combinations.

Both read every row from memory, which for long rows is all that they cost. Several vectors are
therefore treated together, so that each row is read once for all of them.

Short rows are kept in one array, so that a product is one call of BLAS. Long rows stay where they
are: a call per row costs nothing there, and an array of all rows would double the memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from geartrain.geometry import Geometry
from geartrain.oracles.protocols import Vector

# Rows up to this length are copied into one array.
SHORT = 2_000
# Products with more vectors than this go by slices of this length, copied side by side.
_FEW, _SLICE = 4, 2_048


class Rows:
    """A few vectors.

    Parameters
    ----------
    rows : sequence of arrays
        The vectors.
    """

    def __init__(self, rows: Sequence[Vector]) -> None:
        self.rows = list(rows)
        short = bool(self.rows) and self.rows[0].size <= SHORT
        self._block = np.array(self.rows) if short else None
        found = [] if short else [_compiled().address(row) for row in self.rows]
        self._addresses = np.array(found, dtype=np.intp)

    def __len__(self) -> int:
        return len(self.rows)

    def dots(self, v: Vector, geometry: Geometry, used: Any = None) -> Vector:
        """Inner products of all rows with v; of long rows, only of those that are `used`."""
        if self._block is not None:
            return geometry.primal(self._block) @ geometry.dual(v)
        return self.dots_all([v], geometry, used)[0]

    def dots_all(self, vectors: Sequence[Vector], geometry: Geometry, used: Any = None) -> Vector:
        """`dots` of each of the vectors; a row of the result per vector."""
        W = [geometry.dual(v) for v in vectors]
        if self._block is not None:
            V = geometry.primal(self._block)
            return np.array([V @ w for w in W] if len(W) <= _FEW else np.array(W) @ V.T)
        where = np.arange(len(self.rows)) if used is None else np.asarray(used)
        out = np.zeros((len(W), len(self.rows)))
        if len(where) == 0:
            return out
        if len(W) > _FEW:
            out[:, where] = _many_dots(W, [geometry.primal(self.rows[i]) for i in where])
            return out
        address, dots = _compiled().address, _compiled().dots
        offset = address(geometry.primal(self.rows[0])) - address(self.rows[0])
        rows = self._addresses[where] + offset
        for i in range(0, len(W), 2):
            out[i : i + 2, where] = dots(rows, W[i : i + 2])
        return out

    def combine(self, c: Vector) -> Vector:
        """The vector sum_i c_i rows_i."""
        if self._block is not None:
            return c @ self._block
        out = np.zeros(self.rows[0].size)
        self.add_to([out], c[None])
        return out

    def combine_all(self, C: Vector) -> list[Vector]:
        """The vectors sum_j C_ij rows_j, one per row of C."""
        if self._block is not None:
            return list(C @ self._block)
        n = self.rows[0].size
        if len(C) <= _FEW:
            out = [np.zeros(n) for _ in C]
            self.add_to(out, C)
            return out
        out = [np.empty(n) for _ in C]
        used = np.flatnonzero(C.any(axis=0))
        for start in range(0, n, _SLICE):
            piece = slice(start, start + _SLICE)
            made = C[:, used] @ np.array([self.rows[i][piece] for i in used])
            for vector, part in zip(out, made, strict=True):
                vector[piece] = part
        return out

    def add_to(self, vectors: Sequence[Vector], C: Vector) -> None:
        """Add sum_j C_ij rows_j to vector i, in place."""
        if self._block is not None:
            for vector, c in zip(vectors, C, strict=True):
                vector += c @ self._block
            return
        used = np.flatnonzero(C.any(axis=0))
        if not len(used):
            return
        for i in range(0, len(C), 2):
            _compiled().add_to(self._addresses[used], C[i : i + 2, used], vectors[i : i + 2])


class Slots(Rows):
    """A fixed number of places for rows, empty at first.

    Parameters
    ----------
    count : int
        The number of places.
    n : int
        Length of the rows.
    """

    def __init__(self, count: int, n: int) -> None:
        self.rows = [np.zeros(0)] * count
        self._block = np.zeros((count, n)) if n <= SHORT else None
        self._addresses = np.zeros(count, dtype=np.intp)

    def put(self, i: int, row: Vector) -> None:
        """Put a row into place i."""
        if self.rows[i] is row:
            return
        self.rows[i] = row
        if self._block is not None:
            self._block[i] = row
        else:
            self._addresses[i] = _compiled().address(row)

    def part(self, low: int, high: int) -> Rows:
        """The rows in places low, ..., high - 1, not copied."""
        part = Rows(())
        part.rows = self.rows[low:high]
        part._block = None if self._block is None else self._block[low:high]
        part._addresses = self._addresses[low:high]
        return part


def _many_dots(vectors: Sequence[Vector], rows: Sequence[Vector]) -> Vector:
    """Inner products of many vectors with long rows."""
    out = np.zeros((len(vectors), len(rows)))
    for start in range(0, rows[0].size, _SLICE):
        piece = slice(start, start + _SLICE)
        out += np.array([v[piece] for v in vectors]) @ np.array([row[piece] for row in rows]).T
    return out


@lru_cache(maxsize=1)
def _compiled() -> Any:
    from geartrain.compiled import rows  # here, because importing Numba takes a while

    return rows
