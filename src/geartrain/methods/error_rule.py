r"""The relative error rule of AFB, on one level or on several.

===========  ============  ============================================================
symbol       name          meaning
===========  ============  ============================================================
G            ``G``         grad h(y) + s + w, s an eps-subgradient of g at v and w in
                           dpsi(v)
e            --            G + (v - y)/lambda, the (sub)gradient of phi at v
beta, alpha  ``beta``,     phi(v) = <beta, v> + alpha/2 \|v\|^2 + g(v) + psi(v)
             ``alpha``
===========  ============  ============================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from geartrain.geometry import Geometry
from geartrain.oracles.protocols import Vector
from geartrain.problem import Model


@dataclass(frozen=True)
class Lengths:
    """The numbers of an iteration."""

    mu_h: float
    tilt: float  # strong convexity that is moved to the side of g
    mu: float  # of the sum
    smooth: float  # smoothness of h - mu_h/2 |.|^2
    lam: float
    eta: float
    radius: float  # of the term with |x_+ - y| in the error rule


@dataclass(frozen=True)
class ErrorRule:
    """The rule of line 2: whether v is good enough, for this level or for one above."""

    zeta: float
    use: Lengths
    y: Vector
    own: Vector  # grad h(y) - mu_h y
    geometry: Geometry
    above: Model | None  # whose rule is tested, too
    has_psi: bool

    @cached_property
    def shifted(self) -> Vector:
        """grad h(y) - mu_h y, and beta of the model above."""
        return self.own if self.above is None else self.own + self.above.beta

    @cached_property
    def beta(self) -> Vector:
        """The linear coefficient of the model phi."""
        return self.shifted - self.y / self.use.lam

    @property
    def alpha(self) -> float:
        """The quadratic coefficient of the model phi."""
        return self.use.tilt + 1.0 / self.use.lam

    def __call__(self, v: Vector, s: Vector, grad_phi: Vector, eps: float = 0.0) -> bool:
        """Whether the rule holds at v, where s is an eps-subgradient of g."""
        use, norm = self.use, self.geometry.norm
        G, w = self.shifted + s + use.tilt * v, None
        if self.has_psi:  # w in dpsi(v) is what grad_phi has beyond the smooth part of phi
            w = grad_phi - (self.beta + self.alpha * v + s)
            G = G + w
        length = norm(v - self.y)
        allowed = math.hypot(self.zeta * use.lam * norm(G), use.radius * length)
        weight = 2.0 * use.lam * (1.0 + use.mu * use.eta)  # of eps
        if math.hypot(use.lam * norm(grad_phi), math.sqrt(weight * eps)) <= allowed:
            return True
        if self.above is None or self.above.accept is None:
            return False
        # Where v is good enough for the level above, both are left.
        s = s + self.own + use.mu_h * v
        above = self.above.subgradient(v, s, w)
        return self.above.accept(v, s, above, eps + 0.5 * use.smooth * length**2)
