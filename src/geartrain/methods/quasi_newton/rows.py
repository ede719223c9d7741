"""Vectors of length n as rows: inner products with all of them, and linear combinations.

Both read every row from memory, which for long rows is all that they cost. Several vectors are
therefore treated together, so that each row is read once for all of them.

Short rows are kept in one array, so that a product is one call of BLAS. Long rows stay where they
are: a call per row costs nothing there, and an array of all rows would double the memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from geartrain.geometry import Geometry
from geartrain.oracles.protocols import Vector

# Rows up to this length are copied into one array.
SHORT = 500
# Products with more vectors than this go by slices of this length, copied side by side.
_FEW, _SLICE = 4, 2_048
# They are shorter where OpenBLAS would take several threads, which it does from so many
# multiplications on: for work as short as that, waking threads costs more than they save.
_ALONE = 2**18
# Room for this many more short rows, at least, where an array of them is made to grow.
_SPARE = 16
_NO_ADDRESSES = np.zeros(0, dtype=np.intp)


class _Room:
    """An array with room for more short rows than are in it; rows once written do not change."""

    def __init__(self, rows: Sequence[Vector], count: int) -> None:
        self.array = np.empty((count, rows[0].size))
        self.array[: len(rows)] = rows
        self._taken: dict[int, object] = {}

    def write(self, place: int, rows: Sequence[Vector]) -> bool:
        """Write behind the first `place` rows, unless that was done before or the room ends."""
        end, mine = place + len(rows), object()
        if end > len(self.array) or self._taken.setdefault(place, mine) is not mine:
            return False
        for i, row in enumerate(rows):
            self.array[place + i] = row
        return True


class Rows:
    """A few vectors.

    Parameters
    ----------
    rows : sequence of arrays, or array
        The vectors; an array of them is kept as `array`.
    """

    def __init__(self, rows: Sequence[Vector] | Vector) -> None:
        self.array = rows if isinstance(rows, np.ndarray) else None
        self.rows = list(rows)
        self._block: Vector | None = None
        self._addresses = _NO_ADDRESSES
        if self.rows and self.rows[0].size <= SHORT:
            self._place(_Room(self.rows, len(self.rows)), 0)
        elif self.rows:
            self._addresses = _addresses(self.rows)

    def _place(self, room: _Room, start: int) -> None:
        """The rows are in this room."""
        self._room, self._start = room, start
        self._block = room.array[start : start + len(self.rows)]

    def with_rows(self, rows: Sequence[Vector], first: int = 0) -> Rows:
        """Without those before `first`, and with more at the end; short rows are not copied again.

        The first one to add rows writes them behind the rows that are there, into an array that
        both share.
        """
        if not self.rows:
            return Rows(rows)
        out = Rows.__new__(Rows)
        out.array = out._block = None
        out.rows, out._addresses = [*self.rows[first:], *rows], self._addresses
        if self._block is None:
            out._addresses = np.concatenate([self._addresses[first:], _addresses(rows)])
        elif self._room.write(self._start + len(self.rows), rows):
            out._place(self._room, self._start + first)
        else:
            out._place(_Room(out.rows, 2 * len(out.rows) + _SPARE), 0)
        return out

    def after(self, first: int) -> Rows:
        """Without those before `first`."""
        out = Rows.__new__(Rows)
        out.array = out._block = None
        out.rows, out._addresses = self.rows[first:], self._addresses[first:]
        if self._block is not None:
            out._place(self._room, self._start + first)
        return out

    @staticmethod
    def known(rows: list[Vector], addresses: Any) -> Rows:
        """Long rows, where their addresses are known."""
        out = Rows.__new__(Rows)
        out.array = out._block = None
        out.rows, out._addresses = rows, addresses
        return out

    @property
    def addresses(self) -> Any:
        """Where long rows are in memory."""
        return self._addresses

    def _some(self, at: Any) -> Rows:
        """Some of the long rows."""
        return Rows.known([self.rows[i] for i in at], self._addresses[at])

    def __reduce__(self) -> tuple[Any, ...]:
        return Rows, (self.rows,)  # a copy has rows, and addresses, of its own

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
            if len(W) > _FEW:
                return np.array(W) @ V.T
            out = np.empty((len(W), len(V)))
            for i, w in enumerate(W):
                np.matmul(V, w, out=out[i])
            return out
        if used is None:
            return self._long_dots(W, geometry)
        out = np.zeros((len(W), len(self.rows)))
        if len(used):
            out[:, used] = self._some(used)._long_dots(W, geometry)
        return out

    def _long_dots(self, W: list[Vector], geometry: Geometry) -> Vector:
        """Inner products of long rows with vectors that are `dual` already."""
        if not self.rows:
            return np.zeros((len(W), 0))
        if len(W) > _FEW:
            return _many_dots(W, [geometry.primal(row) for row in self.rows])
        addresses, first = self._addresses, geometry.primal(self.rows[0])
        if first is not self.rows[0]:
            addresses = addresses + (_compiled().address(first) - addresses[0])
        most = _compiled().DOTS
        dots = [_compiled().dots(addresses, W[i : i + most]) for i in range(0, len(W), most)]
        return dots[0] if len(dots) == 1 else np.concatenate(dots)

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
        for piece in slices(n, len(C) * len(used)):
            made = C[:, used] @ np.array([self.rows[i][piece] for i in used])
            for vector, part in zip(out, made, strict=True):
                vector[piece] = part
        return out

    def add_to(self, vectors: Sequence[Vector], C: Vector) -> None:
        """Add sum_j C_ij rows_j to vector i, in place."""
        if self._block is not None:
            for i, vector in enumerate(vectors):
                vector += C[i] @ self._block
            return
        addresses, used = self._addresses, np.flatnonzero(C.any(axis=0))
        if not len(used):
            return
        if len(used) < len(addresses):
            addresses, C = addresses[used], C[:, used]
        most = _compiled().SUMS
        for i in range(0, len(C), most):
            _compiled().add_to(addresses, C[i : i + most], vectors[i : i + most])


def _many_dots(vectors: Sequence[Vector], rows: Sequence[Vector]) -> Vector:
    """Inner products of many vectors with long rows."""
    out = np.zeros((len(vectors), len(rows)))
    for piece in slices(rows[0].size, out.size):
        out += np.array([v[piece] for v in vectors]) @ np.array([row[piece] for row in rows]).T
    return out


def slices(n: int, each: int) -> Iterator[slice]:
    """Of n entries, so short that BLAS keeps to one thread: each takes so many multiplications."""
    length = max(1, min(_SLICE, _ALONE // max(each, 1)))
    return (slice(start, start + length) for start in range(0, n, length))


def _addresses(rows: Sequence[Vector]) -> Any:
    """Where long rows are in memory."""
    return np.array([*map(_compiled().address, rows)], dtype=np.intp)


@lru_cache(maxsize=1)
def _compiled() -> Any:
    from geartrain.compiled import rows  # here, because importing Numba takes a while

    return rows
