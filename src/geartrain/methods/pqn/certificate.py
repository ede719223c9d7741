r"""A bound on f(y) - f* that holds from the start of the run, and costs no call.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
y          the output      the lowest point so far
w_i        a cut           a point where the gradient of f is known: f >= its linearisation there
a_i        weights         A = sum a_i, G = sum a_i grad f(w_i)
c          ``c``           sum a_i (f(w_i) - f(y) + <grad f(w_i), x_0 - w_i>)
E          ``slack``       c - |G|^2/2 >= 0, kept by the choice of the weights
R          --              |x_0 - x*|
=========  ==============  ==================================================================

The weighted mean of the cuts at x* gives A (f(y) - f*) <= -c + <G, x_0 - x*>, and
<G, x_0 - x*> <= |G|^2/2 + R^2/2, hence f(y) - f* <= R^2/(2A). The z of SAE is x_0 - G.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from geartrain.geometry import Geometry
from geartrain.oracles.protocols import Vector

# |G + r grad|^2 below this part of the terms in it is rounding.
_CANCELLED = 1e-14


@dataclass(frozen=True)
class CutCertificate:
    """The weighted cuts; f(y) - f* <= R^2/(2A) with R = |x_0 - x*|."""

    x0: Vector
    G: Vector
    A: float = 0.0
    c: float = 0.0

    @property
    def z(self) -> Vector:
        """x_0 - G."""
        return self.x0 - self.G

    def lowered(self, drop: float, geometry: Geometry) -> CutCertificate:
        """After y was replaced by a point that is lower by at least `drop`.

        Where `drop` is negative, which rounding may make it, the weights shrink such that E >= 0.
        """
        c = self.c + self.A * drop
        square = float(geometry.dot(self.G, self.G)) if drop < 0.0 else 0.0
        if c >= 0.5 * square:
            return CutCertificate(self.x0, self.G, self.A, c)
        factor = max(0.0, 2.0 * c / square) if square > 0.0 else 0.0
        if factor == 0.0:  # also where `drop` is not a number
            return CutCertificate(self.x0, np.zeros_like(self.G))
        return CutCertificate(self.x0, factor * self.G, factor * self.A, factor * c)

    def with_cut(self, w: Vector, grad: Vector, above: float, geometry: Geometry) -> CutCertificate:
        """With the gradient at w, f(w) - f(y) >= `above`: the best weight for it.

        The old weights may be scaled by one factor. A never falls.
        """
        dot = geometry.dot
        new = above + float(dot(grad, self.x0 - w))
        gg, GG, Gg = (float(dot(u, v)) for u, v in ((grad, grad), (self.G, self.G), (self.G, grad)))
        if not (gg > 0.0 and math.isfinite(gg)):
            return self
        # E as a function of the new weight a is E + a b - a^2 |grad|^2/2; its root keeps E = 0
        b, slack = new - Gg, max(self.c - 0.5 * GG, 0.0)
        root = (b + math.sqrt(b * b + 2.0 * gg * slack)) / gg
        choices = [(self.A, 1.0, 0.0), (self.A + root, 1.0, root)]
        if new > 0.0:
            choices.append((2.0 * new / gg, 0.0, 2.0 * new / gg))
        if self.A > 0.0:
            # weights a_i with a factor, and r times it for the new cut: E = 0 gives the factor
            for r in (0.0, root, *_stationary(self.c, new, self.A, GG, Gg, gg)):
                c, size = self.c + r * new, GG + 2.0 * r * Gg + r * r * gg
                if c > 0.0 and size > _CANCELLED * (GG + r * r * gg):
                    scale = 2.0 * c / size
                    choices.append((scale * (self.A + r), scale, scale * r))
        A, factor_old, a = max(choices)
        if a == 0.0 and factor_old == 1.0:
            return self
        G = factor_old * self.G + a * grad
        return CutCertificate(self.x0, G, A, factor_old * self.c + a * new)


def _stationary(
    c: float, new: float, A: float, GG: float, Gg: float, gg: float
) -> tuple[float, ...]:
    """The r > 0 where (c + r new)(A + r)/(GG + 2 r Gg + r^2 gg) is stationary."""
    b = c + new * A
    square, half, rest = 2.0 * new * Gg - b * gg, new * GG - c * A * gg, b * GG - 2.0 * c * A * Gg
    under = half * half - square * rest
    if not 0.0 <= under < math.inf:
        return ()
    q = -half - math.copysign(math.sqrt(under), half)
    roots = (q / square if square != 0.0 else 0.0, rest / q if q != 0.0 else 0.0)
    return tuple(r for r in roots if 0.0 < r < math.inf)
