r"""What RPDG, SPDC and APCG share: a finite sum with one dual variable per summand.

====================  ============  ======================================================
symbol                name          meaning
====================  ============  ======================================================
x^t                   ``v``         primal point, where the rule is tested
x^{t-1}               ``before``    the one before
y_k                   ``slopes``    dual variable of summand k; for a linear model the number
                                    s_k with y_k = s_k a_k, else the gradient itself
x_k                   ``points``    where y_k was taken; for a linear model <a_k, x_k>
(1/m) sum_k y_k       ``total``
====================  ============  ======================================================

The ridge of a `geartrain.LinearModel` counts as part of the quadratic of phi, whose weights by
coordinate are D. Where the gradient of g at the start is handed in, a dual variable is asked for
when it is first needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from geartrain.methods.inner.finite_sum import (
    ComponentSum,
    FiniteSum,
    LinearSum,
    _check_finite,
    finite_sum,
)
from geartrain.methods.pieces import pieces
from geartrain.oracles.protocols import Vector
from geartrain.problem import Model


@dataclass(frozen=True)
class PrimalDualState:
    """State of RPDG and SPDC after s chunks."""

    v: Vector  # x^t
    grad_g: Vector  # gradient of g at v
    before: Vector  # x^{t-1}
    total: Vector  # mean of the dual variables
    slopes: Any  # dual variables, NaN where not yet known
    points: Any  # where they were taken, NaN where that is the start
    start: Vector
    s: int = 0


@dataclass(frozen=True)
class Numbers:
    """The numbers of the recursion."""

    eta: float  # weight of the primal proximal term
    dual: float  # of the dual step: tau of RPDG, 1/sigma of SPDC
    extrapolate: float  # x^t + extrapolate (x^t - x^{t-1})


def start(phi: Model, v0: Vector, grad_g0: Vector | None) -> PrimalDualState:
    """x^0 = x^{-1} = v0, the dual variables those of v0."""
    terms = finite_sum(phi.g)
    grad_g, memory = terms.start(v0, grad_g0)
    if isinstance(terms, LinearSum):
        total = grad_g - terms.term.ridge(v0)
    else:
        total = grad_g
        if memory.shape[0] == 0:
            raise ValueError(
                f"RPDG keeps a point and a gradient of every summand, which for {terms.m} summands "
                f"in dimension {phi.n} is too much; use inner='katyusha'"
            )
    return PrimalDualState(v0, grad_g, v0, total, memory, np.full_like(memory, np.nan), v0)


def weights_of_quadratic(phi: Model, terms: FiniteSum) -> Vector:
    """D: alpha and the ridge, by coordinate."""
    D = np.full(phi.n, phi.alpha + terms.ridges[0])
    D[-1] = phi.alpha + terms.ridges[-1]
    return D


def need_linear(phi: Model, method: str) -> LinearSum:
    """The finite sum of a linear model; an error that names `method` for any other."""
    terms = finite_sum(phi.g)
    if not isinstance(terms, LinearSum):
        raise TypeError(
            f"{method} takes proximal steps of single losses and needs a g that is a LinearModel "
            "with a loss of the library; use inner='rpdg', which asks for gradients of summands"
        )
    return terms


def walk(
    phi: Model, state: PrimalDualState, order: Any, weight: Vector, numbers: Numbers, kind: int
) -> PrimalDualState:
    """The steps of `order`, then the gradient of g."""
    terms = finite_sum(phi.g)
    slopes, points = state.slopes.copy(), state.points.copy()
    x, before, total = state.v.copy(), state.before.copy(), state.total + phi.beta
    eta, dual, extrapolate = numbers.eta, numbers.dual, numbers.extrapolate
    for part in pieces(phi.g, "component", order.size, calls=2):
        if isinstance(terms, LinearSum):
            from geartrain.compiled import primal_dual as kernels
            from geartrain.compiled.losses import encode

            term, A = terms.term, terms._A
            summands = kernels.Summands(
                encode(term.loss), term.y, weight, slopes, points, state.start
            )
            D = weights_of_quadratic(phi, terms)
            steps = kernels.PrimalDualSteps(
                kind, order[part], x, before, total, D, eta, dual, extrapolate
            )
            if sparse.issparse(A):
                rows = kernels.CSRRows(A.data, A.indices, A.indptr, term.n_features)
                phi.g.bulk("component", kernels.walk_csr, rows, summands, steps)
            else:
                phi.g.bulk("component", kernels.walk_dense, A, summands, steps)
        else:
            assert isinstance(terms, ComponentSum)
            kept = (order[part], weight, slopes, points, state.start, x, before, total)
            x, before, total = terms.run(
                rpdg_by_components, *kept, phi.alpha, eta, dual, extrapolate
            )
    _check_finite(x, phi.g, "component")
    grad_g = terms.snapshot(x)[0]
    return PrimalDualState(
        x, grad_g, before, total - phi.beta, slopes, points, state.start, state.s + 1
    )


def rpdg_by_components(
    tally: Any,
    component: Any,
    order: Any,
    weight: Vector,
    slopes: Any,
    points: Any,
    start: Vector,
    x: Vector,
    before: Vector,
    total: Vector,
    alpha: float,
    eta: float,
    tau: float,
    extrapolate: float,
) -> Any:
    """RPDG as printed, for any ``component(x, k)``; Numba can compile it.

    Rows of `slopes` and `points` are the kept gradients and where they were taken.
    """
    m = slopes.shape[0]
    for k in order:
        ahead = x + extrapolate * (x - before)
        if np.isnan(points[k, 0]):
            points[k] = start
            if np.isnan(slopes[k, 0]):
                slopes[k] = component(start, k)
                tally[0] += 1
        points[k] = (ahead + tau * points[k]) / (1.0 + tau)
        new = component(points[k], k)
        tally[0] += 1
        change = new - slopes[k]
        slopes[k] = new
        before = x
        x = (eta * x - total - weight[k] * change) / (alpha + eta)
        total = total + change / m
    return x, before, total
