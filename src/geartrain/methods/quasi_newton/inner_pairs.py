"""Steps of inner runs and the changes of grad g along them, which serve one run after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from geartrain.geometry import Geometry
from geartrain.methods.quasi_newton.low_rank import Bare
from geartrain.methods.quasi_newton.rows import Rows
from geartrain.oracles.protocols import Vector


@dataclass(frozen=True)
class InnerPairs:
    """Steps and changes of grad g, oldest first, with the inner products that are known of them."""

    pairs: tuple[tuple[Vector, Vector], ...] = ()
    gram: Vector = field(default_factory=lambda: np.zeros((0, 0)))  # of s_1, y_g1, s_2, ...
    rows: tuple[Vector, ...] = ()  # of a model
    cross: Vector = field(default_factory=lambda: np.zeros((0, 0)))  # of the rows with s_1, y_g1...

    @staticmethod
    def of(pairs: Sequence[tuple[Vector, Vector]], geometry: Geometry) -> InnerPairs:
        """These pairs."""
        if not pairs:
            return InnerPairs()
        W = Rows([row for pair in pairs for row in pair])
        return InnerPairs(tuple(pairs), W.dots_all(W.rows, geometry), cross=np.zeros((0, len(W))))

    @cached_property
    def W(self) -> Rows:
        """The rows s_1, y_g1, s_2, ..."""
        return Rows([row for pair in self.pairs for row in pair])

    def __len__(self) -> int:
        return len(self.pairs)

    def __iter__(self) -> Iterator[tuple[Vector, Vector]]:
        return iter(self.pairs)

    def last(self, most: int) -> InnerPairs:
        """The newest pairs."""
        old = 2 * max(len(self) - most, 0)
        if not old:
            return self
        return self.some(np.arange(old // 2, len(self)))

    def some(self, at: Any) -> InnerPairs:
        """Some of them."""
        both = np.stack([2 * at, 2 * at + 1], axis=1).ravel()
        pairs = tuple(self.pairs[i] for i in at)
        return InnerPairs(pairs, self.gram[both[:, None], both], self.rows, self.cross[:, both])

    def beside(self, vectors: Sequence[Vector]) -> InnerPairs:
        """The same, without rows of a model that are not among these vectors: they would stay."""
        kept = {id(row) for row in vectors}
        at = [i for i, row in enumerate(self.rows) if id(row) in kept]
        if len(at) == len(self.rows):
            return self
        rows = tuple(self.rows[i] for i in at)
        pairs = InnerPairs(self.pairs, self.gram, rows, self.cross[at])
        if "W" in self.__dict__:
            pairs.__dict__["W"] = self.W
        return pairs

    def against(self, bare: Bare | None) -> Vector:
        """Inner products of the rows of a model with s_1, y_g1, ...; most are known."""
        if bare is None:
            return np.zeros((0, 2 * len(self)))
        wanted = bare.vectors
        found = dict(zip(map(id, self.rows), range(len(self.rows)), strict=True))
        known = [found.get(id(row), -1) for row in wanted]
        new = [i for i, place in enumerate(known) if place < 0]
        if len(new) == len(wanted):
            return self.W.dots_all(wanted, bare.geometry)
        out = self.cross.take(known, axis=0)
        if new:
            out[new] = self.W.dots_all([wanted[i] for i in new], bare.geometry)
        return out
