r"""The pairs (s, y_h, y_g) that a run has learned, and their inner products.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
s          ``S``           steps, divided by their lengths
y_h, y_g   --              changes of grad h and of grad g along them, divided alike
V          ``rows``        s_1, y_h1, y_g1, s_2, y_h2, y_g2, ...: oldest first
Gamma      ``matrix``      inner products of the rows, in the order s_1, ..., y_h1, ..., y_g1, ...
=========  ==============  ==================================================================
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from geartrain.geometry import Geometry
from geartrain.methods.pqn.low_rank import RowBasis
from geartrain.methods.pqn.rows import dots3, table
from geartrain.oracles.protocols import Vector

# Part of the pairs that are kept for which there is room besides in a new block: few vectors where
# they are long, and few copies; and as many as are kept up to this length.
_SPARE, _SHORT = 0.25, 20_000


def _address(rows: Vector) -> int:
    address: int = rows.__array_interface__["data"][0]  # a fifth of the time of `ctypes`
    return address


class RowBlock:
    """Rows that are written once, so that many windows of them can share them.

    The next window has some rows more at its end, and perhaps fewer at its beginning. Where another
    one has taken that place, or none is left, the rows are copied into a new block.

    Parameters
    ----------
    capacity : int
        Number of rows.
    kept : rows
        The first ones.
    """

    def __init__(self, capacity: int, kept: Vector) -> None:
        self.rows = np.empty((capacity, kept.shape[1]))
        self.rows[: len(kept)] = kept
        self.filled = len(kept)

    def ends_with(self, window: Vector) -> bool:
        """Whether the window is followed by free rows."""
        start = self.filled - len(window)
        free = start >= 0 and self.filled < len(self.rows)
        return free and _address(window) == _address(self.rows) + start * self.rows.strides[0]

    def restart(self, kept: Vector) -> None:
        """Move these rows of its own to the beginning; all other windows are lost."""
        self.filled = len(kept)
        for i, row in enumerate(kept):  # one by one, because they may overlap
            self.rows[i] = row

    def extended(self, kept: Vector, new: Iterable[Vector]) -> Vector:
        """A window with as many rows as are kept of the last one, and the new ones."""
        start = self.filled - len(kept)
        for row in new:
            self.rows[self.filled] = row
            self.filled += 1
        return self.rows[start : self.filled]


@dataclass(frozen=True)
class Memory:
    """At most so many pairs, oldest first."""

    rows: Vector
    matrix: Vector = field(default_factory=lambda: np.zeros((0, 0)))
    age: int = 0  # number of pairs that were ever added
    _block: RowBlock | None = field(default=None, compare=False, metadata={"saved": False})

    @staticmethod
    def empty(n: int) -> Memory:
        """Without pairs."""
        return Memory(np.zeros((0, n)))

    @staticmethod
    def of(rows: Vector, geometry: Geometry) -> Memory:
        """The pairs with these rows."""
        order = _by_kind(len(rows) // 3)
        gram = geometry.primal(rows) @ geometry.dual(rows).T
        return Memory(rows, gram[order[:, None], order])

    def __len__(self) -> int:
        return len(self.rows) // 3

    @property
    def gram(self) -> Vector:
        """The inner products in blocks: [i, j] holds those of rows i, j of the pairs."""
        k = len(self)
        return self.matrix.reshape(3, k, 3, k).transpose(0, 2, 1, 3)

    def products(self, s: Vector, y_h: Vector, y_g: Vector, geometry: Geometry) -> Vector:
        """Inner products of the rows, ordered as in the matrix, with a new pair: three columns."""
        return dots3(self.rows, s, y_h, y_g, geometry, _by_kind(len(self)))

    def add(
        self, pair: tuple[Vector, Vector, Vector], cross: Vector, own: Vector, most: int
    ) -> Memory:
        """With one more pair, of which the inner products with the rows and its own are known."""
        k, n = len(self), self.rows.shape[1]
        less = max(k + 1 - most, 0)
        block, kept = self._block, self.rows[3 * less :]
        if block is None or not block.ends_with(kept):
            spare = most if n <= _SHORT else math.ceil(_SPARE * most)
            block = RowBlock(3 * (most + spare), kept)
        rows = block.extended(kept, pair)
        m = k - less
        gram, cross = np.empty((3, m + 1, 3, m + 1)), cross.reshape(3, k, 3)[:, less:]
        gram[:, :m, :, :m] = self.matrix.reshape(3, k, 3, k)[:, less:, :, less:]
        gram[:, :m, :, m] = cross
        gram[:, m, :, :m] = cross.transpose(2, 0, 1)
        gram[:, m, :, m] = own
        r = 3 * (m + 1)
        return Memory(rows, gram.reshape(r, r), self.age + 1, block)

    def with_changes(self, changes: list[tuple[Vector, float]], geometry: Geometry) -> Memory:
        """With another y_g in each of the newest pairs, newest first, and y_h times a factor."""
        rows, k = self.rows.copy(), len(self)
        factors = np.ones(k)
        for i, (y_g, factor) in enumerate(changes, 1):
            factors[-i] = factor
            rows[-3 * i + 1] *= factor
            rows[-3 * i + 2] = y_g
        gram = self.matrix.copy().reshape(3, k, 3, k)
        gram[1] *= factors[:, None, None]
        gram[:, :, 1] *= factors
        new = rows[2::3][k - len(changes) :]
        to_new = table(new, rows, geometry, _by_kind(k)).reshape(-1, 3, k)
        gram[2, k - len(changes) :] = to_new
        gram[:, :, 2, k - len(changes) :] = to_new.transpose(1, 2, 0)
        return Memory(rows, gram.reshape(3 * k, 3 * k))

    def pair(self, i: int) -> tuple[Vector, Vector, Vector]:
        """Pair i."""
        s, y_h, y_g = self.rows[3 * i : 3 * i + 3]
        return s, y_h, y_g

    def with_pairs_shifted(self, shifts: list[Vector], geometry: Geometry) -> Memory:
        """With a vector added to each y_g."""
        if not len(self):
            return self
        rows = self.rows.copy()
        rows[2::3] += np.array(shifts).reshape(len(self), -1)
        return Memory.of(rows, geometry)

    def basis(self, kinds: int) -> RowBasis:
        """Orthonormal combinations of the rows s, y_h, y_g, or of the first kinds of them."""
        r = kinds * len(self)
        return RowBasis(self.rows, _by_kind(len(self)), self.matrix[:r, :r])


@lru_cache(maxsize=64)
def _by_kind(k: int) -> Any:
    """The order of the rows in which all s come first, then all y_h."""
    return np.arange(3 * k).reshape(k, 3).T.ravel()
