r"""What convexity tells about h at a trial point before h is asked there.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
v_i        --              points where h was asked
l(v)       `Cuts.highest`  max_i h(v_i) + <grad h(v_i), v - v_i> <= h(v), for a convex h
p          ``at``          the iterate
h_i(p)     ``values``      h(v_i) + <grad h(v_i), p - v_i>, the cuts at p
=========  ==============  ==================================================================

A step to v lowers f by at most f(p) - l(v) - g(v). Where this is far from what the model promises,
the call of h can be spared: the step is shortened as if h had answered with l(v) and with the
gradient of the cut that is highest at v. Both are what h itself would answer if it were the maximum
of its cuts, so that the model learns where another piece of h takes over.

A cut is one vector and its value at p, which is moved along with p: a difference of h(v_i) and
<grad h(v_i), v_i> would lose digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from geartrain.geometry import Geometry
from geartrain.methods.quasi_newton.rows import Rows
from geartrain.methods.quasi_newton.step import Known
from geartrain.oracles.protocols import Vector

# A cut above the linearisation at p counts where it is higher by this part of the values at p, and
# of the largest value that the cut has had at an iterate, to whose rounding it is known.
_CLEAR, _ROUNDING = 1e-9, 1e-13


@dataclass(frozen=True)
class CutAnswer:
    """What h would answer at v if it were the maximum of its cuts."""

    v: Vector
    h: float
    grad_h: Vector

    def with_g(self, g: float, grad_g: Vector) -> Known:
        """The point, with the answer of g."""
        return Known(self.v, self.h, g, self.grad_h, grad_g)


@dataclass(frozen=True)
class Cuts:
    """The newest linearisations of h, oldest first."""

    at: Vector  # p
    values: Vector = field(default_factory=lambda: np.zeros(0))
    sizes: Vector = field(default_factory=lambda: np.zeros(0))  # largest |h_i(p)| so far
    grads: tuple[Vector, ...] = ()

    @cached_property
    def _rows(self) -> Rows:
        return Rows(self.grads)

    def _with(self, rows: Rows) -> Cuts:
        """The same, where the gradients are known as rows."""
        self.__dict__["_rows"] = rows
        return self

    def __len__(self) -> int:
        return len(self.grads)

    def heights(self, v: Vector, geometry: Geometry) -> Vector:
        """The value of each cut at v."""
        if not self.grads:
            return self.values
        return self.values + self._rows.dots(v - self.at, geometry)

    def moved(self, p: Vector, geometry: Geometry) -> Cuts:
        """The same cuts, with their values at another iterate."""
        values = self.heights(p, geometry)
        sizes = np.maximum(self.sizes, np.abs(values))
        return Cuts(p, values, sizes, self.grads)._with(self._rows)

    def add(self, new: Known, most: int, geometry: Geometry) -> Cuts:
        """With the linearisation at one more point, and no more than `most`."""
        value = new.h + float(geometry.dot(new.grad_h, self.at - new.v))
        if not math.isfinite(value):
            return self
        first = max(len(self) + 1 - most, 0)
        values = np.concatenate([self.values[first:], [value]])
        sizes = np.concatenate([self.sizes[first:], [max(abs(value), abs(new.h))]])
        cuts = Cuts(self.at, values, sizes, (*self.grads[first:], new.grad_h))
        return cuts._with(self._rows.with_rows((new.grad_h,), first))

    def highest(self, p: Known, v: Vector, geometry: Geometry) -> CutAnswer | None:
        """The cut that is highest at v, if it is clearly above the linearisation at p."""
        if not self.grads:
            return None
        heights = self.heights(v, geometry)
        j = int(heights.argmax())
        linear = p.h + float(geometry.dot(p.grad_h, v - p.v))
        rounding = _CLEAR * (abs(p.h) + abs(p.g)) + _ROUNDING * self.sizes[j]
        if not heights[j] > linear + rounding or np.array_equal(v, p.v):
            return None
        return CutAnswer(v, float(heights[j]), self.grads[j])
