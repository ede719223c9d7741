r"""The pairs that a learned model is made of, and the inner products of their vectors.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
s          ``s``           step v - p between two points where the gradients are known, |s| = 1
y_h, y_g   ``y_h, y_g``    changes of the two gradients along it, divided by the same length
V          ``rows``        all these vectors, three rows per pair, oldest pair first
G = V V'   ``gram``        their inner products, in the geometry of the problem
=========  ==============  ==================================================================

All models are matrices lam I + V'NV with a small matrix N, so that their construction needs the
inner products G alone and no vector of length n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from geartrain.geometry import Geometry
from geartrain.methods.quasi_newton.rows import Rows
from geartrain.oracles.protocols import Vector

# Squared lengths between this and its reciprocal have lost nothing to underflow or overflow.
_SMALL = 1e-200
# g bends alike along steps where its curvature differs by this part at most.
_EVEN = 1e-3


@dataclass(frozen=True)
class Pair:
    """A step of length one with the changes of the gradients along it.

    What the models take for the change of grad h is ``scale * y_h``, and for that of grad f
    ``in_f[0] * y_h + in_f[1] * y_g``.
    """

    s: Vector
    y_h: Vector
    y_g: Vector
    scale: float = 1.0
    in_f: tuple[float, float] = (1.0, 1.0)

    @property
    def rows(self) -> tuple[Vector, Vector, Vector]:
        """The three vectors."""
        return self.s, self.y_h, self.y_g


class Products(Protocol):
    """Inner products of s, y_h and y_g of a step, before they are divided by its length."""

    own: Vector  # with each other

    def __call__(self, rows: Rows) -> Vector:
        """With the rows."""


@dataclass(frozen=True)
class Memory:
    """The last pairs, oldest first, with the inner products of their vectors."""

    pairs: tuple[Pair, ...] = ()
    gram: Vector = field(default_factory=lambda: np.zeros((0, 0)))  # V V', (3 k, 3 k)

    @staticmethod
    def of(pairs: Sequence[Pair], geometry: Geometry) -> Memory:
        """These pairs, oldest first."""
        if not pairs:
            return Memory()
        rows = Rows([row for pair in pairs for row in pair.rows])
        return Memory(tuple(pairs), rows.dots_all(rows.rows, geometry))

    def __len__(self) -> int:
        return len(self.pairs)

    @cached_property
    def rows(self) -> Rows:
        """V."""
        return Rows([row for pair in self.pairs for row in pair.rows])

    @cached_property
    def even(self) -> float:
        """The curvature of g if it is alike along all steps, as that of a ridge is; 0 otherwise."""
        along, square = self.gram.diagonal(-2)[::3], self.gram.diagonal()[2::3]
        if not len(along) or not 0.0 < along.max() <= (1.0 + _EVEN) * along.min():
            return 0.0
        turned = square - along**2  # part of y_g that is orthogonal to s, squared
        return float(along[-1]) if (turned <= _EVEN**2 * square).all() else 0.0

    def add(
        self, pair: Pair, geometry: Geometry, most: int, products: Products | None = None
    ) -> Memory:
        """With one more pair, and no more than `most`; `products` of its step where known."""
        first = max(len(self) + 1 - most, 0)
        pairs = (*self.pairs[first:], pair)
        k = 3 * len(pairs)
        gram = np.empty((k, k))
        gram[:-3, :-3] = self.gram[3 * first :, 3 * first :]
        if products is not None and _SMALL < products.own[0, 0] < 1.0 / _SMALL:
            length = np.sqrt(products.own[0, 0])
            dots, own = products(self.rows) / length, products.own / length / length
        else:
            dots = self.rows.dots_all(pair.rows, geometry)
            own = np.array([[geometry.dot(u, v) for v in pair.rows] for u in pair.rows])
        dots = dots[:, 3 * first :]
        gram[-3:, :-3], gram[:-3, -3:], gram[-3:, -3:] = dots, dots.T, own
        return Memory(pairs, gram)._with(self.rows.with_rows(pair.rows, 3 * first))

    def _with(self, rows: Rows) -> Memory:
        """The same, where V is known."""
        self.__dict__["rows"] = rows
        return self

    def basis(self, of: str, k: int) -> tuple[Vector, Vector]:
        """C and the inner products of C V for the last k pairs: steps, then changes of a gradient.

        Those `of` "h" or of "f", as the models take them; or "h, g": of h, and then of g.
        """
        pairs, first, width = self.pairs[-k:], 3 * (len(self) - k), 3 * len(self)
        if of == "f":
            w_h, w_g = np.array([pair.in_f for pair in pairs]).T
        else:
            w_h = np.array([pair.scale for pair in pairs])
        C = np.zeros(((3 if of == "h, g" else 2) * k, width))

        def put(weight: Vector | float, part: int, column: int) -> None:
            start = part * k * width + first + column  # and then three columns further in each row
            C.ravel()[start : start + k * (width + 3) : width + 3][:k] = weight

        put(1.0, 0, 0)
        put(w_h, 1, 1)
        if of == "f":
            put(w_g, 1, 2)
        if of == "h, g":
            put(1.0, 2, 2)

        def times(A: Vector) -> Vector:
            change = w_h[:, None] * A[1::3]
            if of == "f":
                change += w_g[:, None] * A[2::3]
            return np.concatenate([A[::3], change, *([A[2::3]] if of == "h, g" else [])])

        return C, times(times(self.gram[first:, first:]).T)

    def with_curvature_of_g(self, i: int, y_g: Vector, ratio: float, geometry: Geometry) -> Memory:
        """Pair i with a new y_g, and its y_h scaled by `ratio`."""
        pair = replace(self.pairs[i], y_g=y_g, scale=ratio * self.pairs[i].scale)
        row = self.rows.dots(y_g, geometry)
        row[3 * i + 2] = geometry.dot(y_g, y_g)
        gram = self.gram.copy()
        gram[3 * i + 2, :] = gram[:, 3 * i + 2] = row
        return Memory((*self.pairs[:i], pair, *self.pairs[i + 1 :]), gram)
