r"""Inner solve for a quadratic g: conjugate gradients with its own factorisation.

=============  ================  ==============================================================
symbol         name              meaning
=============  ================  ==============================================================
Q              --                Hessian of g
B              ``B``             the model of h, lam I + V'C'MCV
A              --                Q + B + mu I; the step s solves A s = -grad f(p)
alpha_0        ``alpha``         shift with which g was factorised; a proximal step gives
                                 K r = (Q + alpha_0 I)^{-1} r, the preconditioner
d, D           ``d``, ``D``      search direction, and (Q + alpha_0 I) d, known by recursion
=============  ================  ==============================================================

With z = K r the product (Q + alpha_0 I) z is r itself, so no product with Q and no gradient of g is
needed: an iteration costs one proximal step of g. K A differs from the identity by as many
directions as the model has, which is what the Woodbury formula uses; conjugate gradients find the
few that matter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from geartrain.geometry import Geometry
from geartrain.methods.quasi_newton.low_rank import LowRank
from geartrain.methods.quasi_newton.step import Known
from geartrain.oracles.ledger import Oracle
from geartrain.oracles.protocols import Vector, answers

# g is factorised again where the wanted shift differs from alpha_0 by more than this factor.
_NEAR = 4.0
# A quadratic of so many variables is known after as many iterations, before L-BFGS has converged.
_FEW = 10
# So is one whose curvature is in few directions: its trace is at most this multiple of L.
_NARROW = 5.0


@dataclass(frozen=True)
class Factor:
    """A factorisation of Q + alpha I, by way of the proximal step."""

    alpha: float
    v: Vector  # the point p
    grad_g: Vector  # the gradient of g there
    first: Vector | None = None  # (Q + alpha I)^{-1} grad f(p), where it is known

    @staticmethod
    def near(old: Factor | None, alpha: float, p: Known) -> Factor:
        """At p, with the old shift unless the wanted one is far from it."""
        if old is not None and old.alpha / _NEAR <= alpha <= _NEAR * old.alpha:
            if old.v is p.v:
                return old
            alpha = old.alpha
        return Factor(alpha, p.v, p.grad_g)

    def solve(self, g: Oracle, r: Vector) -> Vector:
        """(Q + alpha I)^{-1} r: one proximal step of g."""
        return g.prox(self.v + (self.grad_g + r) / self.alpha, self.alpha) - self.v


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
    # Terms that are asked together have no common proximal step that could be counted.
    return _is_constant(g) and "prox" in answers(g.term) and hasattr(g, "prox")


def is_learnable(h: Oracle) -> bool:
    """Whether h is a quadratic that a few pairs tell: one with a matrix, or of few variables."""
    return _is_constant(h) and ("prox" in answers(h.term) or h.n <= _FEW)


def is_narrow(h: Oracle) -> bool:
    """Whether a learnable quadratic is learned in few iterations: few directions bend it."""
    if h.n <= _FEW:
        return True
    L, diagonal = getattr(h.term, "L", None), getattr(h.term, "L_coord", None)
    return L is not None and diagonal is not None and float(np.sum(diagonal)) <= _NARROW * L


def _is_constant(oracle: Oracle) -> bool:
    """Whether the term is known to be a convex quadratic."""
    term = oracle.term
    constant = callable(getattr(term, "hessian_product", None)) or hasattr(term, "weights")
    return constant and bool(getattr(term, "convex", True))


def minimised(
    g: Oracle,
    B: LowRank,
    mu: float,
    p: Known,
    is_enough: Callable[[float, float], bool],
    factor: Factor | None,
    most: int,
    geometry: Geometry,
) -> Solved:
    """The step to the minimiser of the model, until `is_enough(residual, length)` of the step."""
    dot, norm = geometry.dot, geometry.norm
    factor, grad = Factor.near(factor, B.lam + mu, p), p.grad
    shift = B.lam + mu - factor.alpha
    s, r = np.zeros_like(grad), -grad
    calls = 0
    if factor.first is None:
        factor = replace(factor, first=factor.solve(g, grad))
        calls = 1
    assert factor.first is not None
    z = -factor.first
    rz = float(dot(r, z))
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
        if is_enough(residual, norm(s)) or calls >= most or rz == 0.0:  # products may underflow
            return Solved(s, residual, calls, factor, False)
        z = factor.solve(g, r)
        calls += 1
        rz, before = float(dot(r, z)), rz
        d, D = z + (rz / before) * d, r + (rz / before) * D
