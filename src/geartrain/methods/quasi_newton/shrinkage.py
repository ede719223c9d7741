r"""How much of the curvature of g a model of f = h + g should keep, by what steps have shown.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
s          --              a step; y_f and y_g are the changes of grad (h + g) and grad g
D          --              the diagonal of the models, or I
a, b       ``shares``      least sum of \|y_f - a y_g - b D s\|^2, in the metric of D^{-1}
=========  ==============  ==================================================================

A shard with few rows bends too much along the directions of its own rows, and too little along
others. H_g + lam D mends the second, but not the first. The base a H_g + b D is a shrunk estimate
of H_f, as estimates of covariances are [1]_: a = 1 trusts g, and a = 0 leaves it out. Each step
enters with the D that was learned before it.

References
----------
.. [1] O. Ledoit, M. Wolf, A well-conditioned estimator for large-dimensional covariance matrices,
   J. Multivariate Anal. 88 (2004).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from geartrain.oracles.protocols import Vector

# Weight of an older step over that of the next one; flat from 0.7 to 0.85.
_DISCOUNT = 0.7
# A smaller part of g is not worth an inner run, and b is at least this part of what it would be
# without g.
_LEAST_A, _LEAST_B = 0.02, 0.03
# Two directions differ where the sine of their angle is above the root of this.
_SAME = 1e-10


@dataclass(frozen=True)
class Base:
    """Inner products of y_g, D s and y_f, discounted: those of the first two, and with y_f."""

    A: Vector = field(default_factory=lambda: np.zeros((2, 2)))
    c: Vector = field(default_factory=lambda: np.zeros(2))

    def after(self, y_g: Vector, s: Vector, y_f: Vector) -> Base:
        """After one more step; all are T^{-1} times the vectors above, T = D^{1/2}."""
        V = np.array([y_g, s])
        return self.with_products(V @ V.T, V @ y_f, float(y_f @ y_f))

    def after_step(self, own: Vector) -> Base:
        """After one more step; `own` has the inner products of s, y_h and y_g."""
        (ss, sh, sg), (_, hh, hg), (_, _, gg) = own.tolist()
        A, c = np.array([[gg, sg], [sg, ss]]), np.array([hg + gg, sh + sg])
        return self.with_products(A, c, hh + 2.0 * hg + gg)

    def with_products(self, A: Vector, c: Vector, square: float) -> Base:
        """After one more step with these inner products; `square` is that of y_f."""
        if not square > 0.0:
            return self
        return Base(_DISCOUNT * self.A + A / square, _DISCOUNT * self.c + c / square)

    @property
    def shares(self) -> tuple[float, float]:
        """a, between 0 and 1, and the b that is best with it; b = 0 where nothing is known."""
        (gg, gs), (_, ss) = self.A
        to_g, to_s = self.c
        det = gg * ss - gs * gs
        if not (0.0 < to_s < math.inf and 0.0 < ss < math.inf):
            return 1.0, 0.0
        a = min((ss * to_g - gs * to_s) / det, 1.0) if det > _SAME * gg * ss else 1.0
        a = a if a >= _LEAST_A else 0.0
        b = max(to_s - a * gs, _LEAST_B * to_s) / ss
        return float(a), float(b) if math.isfinite(b) else 0.0
