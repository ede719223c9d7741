r"""The inner run for a quadratic g with a proximal step, psi = 0: conjugate gradients.

=============  ================  ==============================================================
symbol         name              meaning
=============  ================  ==============================================================
Q              --                Hessian of g
A              --                a Q + B + mu I; the step s solves A s = -grad f(p)
alpha          ``alpha``         shift with which a Q was factorised; a proximal step gives
                                 K r = (a Q + alpha I)^{-1} r, the preconditioner
d, D           ``d``, ``D``      search direction, and (a Q + alpha I) d, known by recursion
=============  ================  ==============================================================

With z = K r the product (a Q + alpha I) z is r itself, so no product with Q and no gradient of g is
needed: an iteration costs one proximal step of g. K A differs from the identity by as many
directions as the model has; conjugate gradients find the few that matter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from geartrain.methods.pqn.evaluation import TermEvaluator
from geartrain.methods.pqn.inner import InnerOutcome, Leave, Pairs, Phi
from geartrain.oracles.protocols import Vector, answers, calls_user_code

# g is factorised again where the wanted shift differs from alpha by more than this factor.
_NEAR = 4.0
# Variables up to which a full matrix is solved with.
_DENSE = 300


def is_quadratic(oracle: Any) -> bool:
    """Whether the term is known to be a convex quadratic."""
    term = oracle.term
    known = callable(getattr(term, "hessian_product", None)) or hasattr(term, "weights")
    return known and bool(getattr(term, "convex", True))


def _calls_user_code(term: Any) -> bool:
    """Whether a part of the term does."""
    return any(map(calls_user_code, [part for _, part in getattr(term, "parts", [(1.0, term)])]))


def is_solvable(g: Any) -> bool:
    """Whether g is a quadratic with a proximal step of its own, and no multiple of |x|^2.

    L-BFGS from B + tau I knows a multiple of |x|^2 without being told.
    """
    # Terms that are asked together have no common proximal step that could be counted.
    told = is_quadratic(g) and "prox" in answers(g.term) and hasattr(g, "prox")
    return told and getattr(g.term, "spherical", None) is None


def solve(
    phi: Phi, enough: float, pairs: Pairs, leave: Leave, most: int, alpha: float | None
) -> tuple[InnerOutcome, float]:
    """Until |grad phi| <= `enough`, `leave`, or `most` proximal steps; and the shift in use."""
    terms, p, a, B = phi.terms, phi.p, phi.part, phi.B
    dot, norm, g = terms.dot, terms.norm, terms.problem.g
    want = B.lam + phi.mu
    if alpha is None or not alpha / _NEAR <= want <= _NEAR * alpha:
        alpha = want

    def K(r: Vector) -> Vector:
        return g.prox(p.v + (p.grad_g + r / a) * (a / alpha), alpha / a) - p.v

    s, r, calls = np.zeros_like(p.v), -p.grad, 1
    z = K(r)
    rz = float(dot(r, z))
    d, D = z, r
    while True:
        Ad = D + B(d, phi.mu - alpha)
        bend = float(dot(d, Ad))
        bent = not bend > 0.0
        if not bent:
            t = rz / bend
            s, r = s + t * d, r - t * Ad
        residual = norm(r)
        over = bent or residual <= enough or calls >= most or rz == 0.0
        if over or leave(p.v + s, residual):
            return InnerOutcome(p.v + s, None, residual, pairs), alpha
        z = K(r)
        calls += 1
        rz, before = float(dot(r, z)), rz
        d, D = z + (rz / before) * d, r + (rz / before) * D


def spherical(terms: TermEvaluator) -> float | None:
    """c where g is c/2 |v|^2 and a linear function in the variables of the run, else None."""
    known = getattr(terms.problem.g.term, "spherical", None)
    if known is None or (known[0] and terms.scale is not None):
        return None
    return float(known[0])


def hessian(terms: TermEvaluator) -> Vector | None:
    """Of a quadratic g with few variables, as the term states it; else None.

    It serves a psi that tells the derivative of its step and is not separable; with a separable
    one, inner runs learn from pairs. Like the numbers of a spherical g, and the matrix from which
    the term knows its L, it is no answer and is not counted: the term must have it in memory, and
    call no function of the user.
    """
    g, psi = terms.problem.g, terms.psi
    product = getattr(g.term, "hessian_product", None)
    fits = psi.has_derivative and not psi.separable and terms.problem.n <= _DENSE
    if not fits or not callable(product) or not is_quadratic(g) or _calls_user_code(g.term):
        return None
    if "hessian" not in g.kept:
        Q = np.array([product(e) for e in np.eye(terms.problem.n)])
        g.kept["hessian"] = 0.5 * (Q + Q.T)
    return np.asarray(g.kept["hessian"])


def direct(phi: Phi, c: float, pairs: Pairs) -> InnerOutcome:
    """The minimiser where g is spherical: one linear system, and g is not asked."""
    p, a = phi.p, phi.part
    s = -phi.B.inverse(phi.mu + a * c)(p.grad)
    return InnerOutcome(p.v + s, None, 0.0, pairs)
