r"""What the models say about a step, from inner products that the next memory needs anyway.

=============  ===========  ====================================================================
symbol         name         meaning
=============  ===========  ====================================================================
s, y_h, y_g    ``vectors``  the step and the changes of the gradients along it
own            ``own``      their inner products with each other
B              --           a model, lam I + V'C'MCV
=============  ===========  ====================================================================

The rows V are read once per step, for their inner products with all three vectors. These give
<s, B s>, |y - B s| for every model, and the inner products of the pair that is learned.
"""

from __future__ import annotations

import math

import numpy as np

from geartrain.geometry import Geometry
from geartrain.methods.quasi_newton.low_rank import LowRank, Small
from geartrain.methods.quasi_newton.rows import Rows
from geartrain.methods.quasi_newton.step import Step
from geartrain.oracles.protocols import Vector

# A squared error below this part of its terms has lost digits, and is computed from vectors.
_CANCELLED = 1e-6


class StepProducts:
    """Inner products of the vectors of a step with the rows of models and of the memory.

    Parameters
    ----------
    step : Step
        The step.
    geometry : Geometry
        Of the inner products.
    """

    def __init__(self, step: Step, geometry: Geometry) -> None:
        self.vectors, self.geometry = (step.s, step.y_h, step.y_g), geometry
        dot, (s, y_h, y_g) = geometry.dot, self.vectors
        hh, hg, gg = (float(dot(u, v)) for u, v in ((y_h, y_h), (y_h, y_g), (y_g, y_g)))
        h, g = step.h.rise, step.g.rise
        self.own = np.array([[float(dot(s, s)), h, g], [h, hh, hg], [g, hg, gg]])
        self._whole: list[tuple[Rows, Vector]] = []
        self._parts: list[tuple[Small, Vector]] = []

    def __call__(self, rows: Rows) -> Vector:
        """Inner products of s, y_h and y_g with the rows; a row of the result for each."""
        for known, dots in self._whole:
            if known is rows:
                return dots
        if not self._whole:
            dots = rows.dots_all(self.vectors, self.geometry)
        else:
            seen = {
                id(row): of_row
                for known, dots in self._whole
                for row, of_row in zip(known.rows, dots.T, strict=True)
            }
            new = [i for i, row in enumerate(rows.rows) if id(row) not in seen]
            dots = rows.dots_all(self.vectors, self.geometry, new)
            for i, row in enumerate(rows.rows):
                dots[:, i] = seen.get(id(row), dots[:, i])
        self._whole.append((rows, dots))
        return dots

    def _of(self, small: Small) -> Vector:
        """Inner products of s, y_h and y_g with the rows C V; models of one kind share C."""
        for known, dots in self._parts:
            if known.C is small.C and known.rows is small.rows:
                return dots
        dots = self(small.rows) @ small.C.T
        self._parts.append((small, dots))
        return dots

    def bend(self, B: LowRank) -> float:
        """<s, B s>."""
        bend = B.lam * self.own[0, 0]
        if B.small is not None:
            c = self._of(B.small)[0]
            bend += c @ B.small.M @ c
        return float(bend)

    def error(self, B: LowRank, part: float) -> float:
        """|y - B s|, y the change of the gradient of f without this part of g."""
        (ss, sh, sg), (_, hh, hg), (_, _, gg) = self.own.tolist()
        rest, yy, ys = 1.0 - part, hh, sh
        if rest > 0.0:
            yy, ys = hh + 2.0 * rest * hg + rest**2 * gg, sh + rest * sg
        terms = [yy, -2.0 * B.lam * ys, B.lam * (B.lam * ss)]
        if B.small is not None:
            dots = self._of(B.small)
            with np.errstate(over="ignore", invalid="ignore"):  # the vectors tell it then
                c = B.small.M @ dots[0]
                (s_V, h_V, g_V), c_G = (dots @ c).tolist(), float(B.small.G @ c @ c)
            y_V = h_V + rest * g_V if rest > 0.0 else h_V
            terms += [-2.0 * y_V, 2.0 * B.lam * s_V, c_G]
        square = sum(terms)
        if square > _CANCELLED * sum(map(abs, terms)) and math.isfinite(square):
            return math.sqrt(square)
        s, y_h, y_g = self.vectors
        return self.geometry.norm((y_h + rest * y_g if rest > 0.0 else y_h) - B(s))
