r"""Inner solve for a quadratic g: conjugate gradients with its own factorisation.

=============  ================  ==============================================================
symbol         name              meaning
=============  ================  ==============================================================
Q              --                Hessian of g
B              ``B``             the model of h, lam I + V'C'MCV
A              --                Q + B + mu I; the step s solves A s = -grad f(p)
alpha_0        ``alpha``         shift with which g was factorised; prox(u, alpha_0) gives
                                 K u = (Q + alpha_0 I)^{-1} u, the preconditioner
d, D           ``d``, ``D``      search direction, and (Q + alpha_0 I) d, known by recursion
=============  ================  ==============================================================

With z = K r the product (Q + alpha_0 I) z is r itself, so no product with Q and no gradient of g is
needed: an iteration costs one proximal step of g. K A differs from the identity by as many
directions as the model has, which is what the Woodbury formula uses; conjugate gradients find the
few that matter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from geartrain.geometry import Geometry
from geartrain.methods.quasi_newton.low_rank import LowRank
from geartrain.oracles.ledger import Oracle
from geartrain.oracles.protocols import Vector, answers

# g is factorised again where the wanted shift differs from alpha_0 by more than this factor.
_NEAR = 4.0


@dataclass(frozen=True)
class Factor:
    """A factorisation of Q + alpha I, by way of the proximal step."""

    alpha: float
    offset: Vector  # prox(0, alpha)

    @staticmethod
    def near(old: Factor | None, g: Oracle, alpha: float, zero: Vector) -> Factor:
        """The old one, or a new one where the shift is another."""
        if old is not None and old.alpha / _NEAR <= alpha <= _NEAR * old.alpha:
            return old
        return Factor(alpha, g.prox(zero, alpha))

    def solve(self, g: Oracle, r: Vector) -> Vector:
        """(Q + alpha I)^{-1} r: one proximal step of g."""
        return g.prox(r / self.alpha, self.alpha) - self.offset


@dataclass(frozen=True)
class Solved:
    """An approximate solution of A s = -grad f(p)."""

    s: Vector
    residual: float  # |A s + grad f(p)|
    calls: int  # proximal steps of g
    factor: Factor
    bent: bool  # A was seen to be indefinite


def is_solvable(g: Oracle) -> bool:
    """Whether g is a quadratic with a proximal step of its own."""
    term = g.term
    constant = callable(getattr(term, "hessian_product", None)) or hasattr(term, "weights")
    return constant and "prox" in answers(term) and bool(getattr(term, "convex", True))


def minimised(
    g: Oracle,
    B: LowRank,
    mu: float,
    grad: Vector,
    is_enough: Callable[[float, float], bool],
    factor: Factor | None,
    most: int,
    geometry: Geometry,
) -> Solved:
    """The step to the minimiser of the model, until `is_enough(residual, length)` of the step."""
    dot, norm = geometry.dot, geometry.norm
    factor = Factor.near(factor, g, B.lam + mu, np.zeros_like(grad))
    shift = B.lam + mu - factor.alpha
    s, r = np.zeros_like(grad), -grad
    z = factor.solve(g, r)
    calls, rz = 1, float(dot(r, z))
    d, D = z, r
    while True:
        Ad = D + shift * d
        if B.small is not None:
            Ad = Ad + B.small(d)
        bent = float(dot(d, Ad))
        if not bent > 0.0:
            return Solved(s, norm(r), calls, factor, True)
        t = rz / bent
        s, r = s + t * d, r - t * Ad
        residual = norm(r)
        if is_enough(residual, norm(s)) or calls >= most:
            return Solved(s, residual, calls, factor, False)
        z = factor.solve(g, r)
        calls += 1
        rz, before = float(dot(r, z)), rz
        d, D = z + (rz / before) * d, r + (rz / before) * D
