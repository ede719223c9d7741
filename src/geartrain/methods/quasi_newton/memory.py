r"""The pairs that a learned model is made of, and the inner products of their vectors.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
s          ``s``           step v - p between two points where the gradients are known, |s| = 1
y_h, y_g   ``y_h, y_g``    changes of the two gradients along it, divided by the same length
V          ``rows``        all these vectors, three rows per pair, oldest pair first
G = V V'   ``gram``        their inner products, in the geometry of the problem
=========  ==============  ==================================================================

All models are matrices lam I + V'MV with a small matrix M, so that their construction needs the
inner products G alone and no vector of length n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from geartrain.geometry import EUCLIDEAN, Geometry
from geartrain.oracles.protocols import Vector


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


class Span:
    """Linear combinations of a few vectors.

    Parameters
    ----------
    rows : sequence of arrays
        The vectors.
    geometry : Geometry
        Of the inner products.
    """

    def __init__(self, rows: Sequence[Vector], geometry: Geometry) -> None:
        self.rows, self.geometry = tuple(rows), geometry

    @cached_property
    def _block(self) -> Vector:
        return np.stack(self.rows)

    def dots(self, v: Vector) -> Vector:
        """Inner products of all rows with v, or with each row of v."""
        return self.geometry.primal(self._block) @ self.geometry.dual(v).T

    def combine(self, c: Vector) -> Vector:
        """The vector sum_i c_i rows_i."""
        return c @ self._block


@dataclass(frozen=True)
class Memory:
    """The last pairs, oldest first, with the inner products of their vectors."""

    pairs: tuple[Pair, ...] = ()
    gram: Vector = field(
        default_factory=lambda: np.zeros((0, 0))
    )  # (3 k, 3 k), rows s, y_h, y_g of each pair

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def rows(self) -> tuple[Vector, ...]:
        """V."""
        return tuple(row for pair in self.pairs for row in pair.rows)

    def span(self, geometry: Geometry = EUCLIDEAN) -> Span:
        """The rows as a `Span`."""
        return Span(self.rows, geometry)

    def add(self, pair: Pair, geometry: Geometry, most: int) -> Memory:
        """With one more pair, and no more than `most`."""
        kept = self.newest(most - 1)
        new = Span(pair.rows, geometry)
        corner = new.dots(np.stack(pair.rows))
        side = kept.span(geometry).dots(np.stack(pair.rows)) if kept.pairs else np.zeros((0, 3))
        gram = np.block([[kept.gram, side], [side.T, 0.5 * (corner + corner.T)]])
        return Memory((*kept.pairs, pair), gram)

    def newest(self, k: int) -> Memory:
        """The last k pairs."""
        if k >= len(self.pairs):
            return self
        first = len(self.pairs) - max(k, 0)
        return Memory(self.pairs[first:], self.gram[3 * first :, 3 * first :])

    def with_curvature_of_g(self, i: int, y_g: Vector, ratio: float, geometry: Geometry) -> Memory:
        """Pair i with a new y_g, and its y_h scaled by `ratio`."""
        pair = replace(self.pairs[i], y_g=y_g, scale=ratio * self.pairs[i].scale)
        pairs = (*self.pairs[:i], pair, *self.pairs[i + 1 :])
        changed = Memory(pairs, self.gram.copy())
        row = changed.span(geometry).dots(y_g)
        changed.gram[3 * i + 2, :] = changed.gram[:, 3 * i + 2] = row
        return changed

    # Rows of these are coefficients in V.

    def steps(self) -> Vector:
        """Coefficients of the steps."""
        return np.eye(3 * len(self))[0::3]

    def changes_h(self) -> Vector:
        """Coefficients of the changes of grad h, as the models take them."""
        return np.eye(3 * len(self))[1::3] * np.array([[p.scale] for p in self.pairs])

    def changes_g(self) -> Vector:
        """Coefficients of the changes of grad g."""
        return np.eye(3 * len(self))[2::3]

    def changes_f(self) -> Vector:
        """Coefficients of the changes of grad f, as the models take them."""
        eye = np.eye(3 * len(self))
        a, b = np.array([p.in_f for p in self.pairs]).T[:, :, None]
        return a * eye[1::3] + b * eye[2::3]
