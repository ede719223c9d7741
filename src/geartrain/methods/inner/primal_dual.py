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

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse

from geartrain.methods.chunking import pieces
from geartrain.methods.inner.finite_sum import (
    ComponentSum,
    FiniteSum,
    LinearSum,
    Sampling,
    _check_finite,
    finite_sum,
)
from geartrain.oracles.linear_model import LinearModel
from geartrain.oracles.losses import Huber, Logistic, Loss, SmoothedHinge, SquaredHinge
from geartrain.oracles.protocols import Vector
from geartrain.problem import Model

# Steps between two looks at the budget: some tens of milliseconds.
LONGEST = 2**10


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


class Numbers(NamedTuple):
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
            "with a loss of bounded curvature; use inner='rpdg', which asks for gradients of "
            "summands"
        )
    return terms


def rows_of(terms: LinearSum) -> Callable[[int], Vector]:
    """The function k -> a_k, with the 1 of an intercept."""
    A, term = terms._A, terms.term

    def row(k: int) -> Vector:
        a = np.zeros(term.n)
        a[term.n_features :] = 1.0
        if sparse.issparse(A):
            part = slice(A.indptr[k], A.indptr[k + 1])
            a[A.indices[part]] = A.data[part]
        else:
            a[: term.n_features] = A[k]
        return a

    return row


def dual_step(loss: Loss, y: float, kappa: float, rho: float) -> float:
    """s = loss'(zeta) for the zeta with zeta + kappa loss'(zeta) = rho: a proximal step.

    `kappa` is more than -1 over the largest curvature of the loss.
    """
    if isinstance(loss, Logistic):
        return -y * _logistic_share(kappa, y * rho)
    if isinstance(loss, SmoothedHinge):
        return -y * _logistic_share(kappa / loss.mu, (y * rho - 1.0) / loss.mu)
    if isinstance(loss, SquaredHinge):
        return -2.0 * y * max(0.0, 1.0 - y * rho) / (1.0 + 2.0 * kappa)
    s = (rho - y) / (1.0 + kappa)
    return min(max(s, -loss.delta), loss.delta) if isinstance(loss, Huber) else s


def _logistic_share(kappa: float, r: float) -> float:
    """q = 1/(1 + exp(t)) for the root t of t - kappa q = r, whose left side grows in t."""
    low, high = min(r, r + kappa), max(r, r + kappa)
    t = 0.5 * (low + high)
    for _ in range(100):
        q = _share(t)
        value = t - kappa * q - r
        low, high = (low, t) if value > 0.0 else (t, high)
        last, t = t, t - value / (1.0 + kappa * q * (1.0 - q))
        if not low < t < high:  # Newton's step leads too far
            t = 0.5 * (low + high)
        if abs(t - last) <= 1e-15 * (1.0 + abs(t)):
            break
    return _share(t)


def _share(t: float) -> float:
    """1/(1 + exp(t)) without overflow."""
    small = math.exp(-abs(t))
    return small / (1.0 + small) if t > 0.0 else 1.0 / (1.0 + small)


class PrimalDualMethod(ABC):
    """What RPDG and SPDC share: chunks of steps, each followed by the gradient of g."""

    needs: ClassVar[tuple[str, ...]] = ("component",)
    # Line 2 on a linear model, the new s_k: of the term, k, `slopes`, `points`, the predictions of
    # a_k at x~ and at the start, and the weight of the dual step.
    dual_step: ClassVar[Callable[..., float]]

    def init(
        self, phi: Model, v0: Vector, grad_g0: Vector | None, warm: Any = None
    ) -> PrimalDualState:
        return start(phi, v0, grad_g0)

    @abstractmethod
    def plan(self, phi: Model) -> tuple[Sampling, Numbers]:
        """How summands are drawn, and the numbers of the recursion."""

    def step(self, phi: Model, state: PrimalDualState) -> PrimalDualState:
        terms, (draw, numbers) = finite_sum(phi.g), self.plan(phi)
        chunk = math.ceil(1.0 / (1.0 - numbers.extrapolate))
        order = draw.order(np.random.default_rng((*phi.key, state.s)), chunk)
        slopes, points = state.slopes.copy(), state.points.copy()
        x, before, total = state.v, state.before, state.total + phi.beta
        for part in pieces(phi.g, "component", order.size, calls=2, longest=LONGEST):
            kept = (order[part], draw.scale, slopes, points, state.start, x, before, total)
            if isinstance(terms, LinearSum):
                D = weights_of_quadratic(phi, terms)
                given = (terms.term, rows_of(terms), self.dual_step, *kept, D, numbers)
                x, before, total = phi.g.bulk("component", walk_by_rows, *given)
            else:
                assert isinstance(terms, ComponentSum)
                x, before, total = terms.run(rpdg_by_components, *kept, phi.alpha, *numbers)
        _check_finite(x, phi.g, "component")
        grad_g = terms.snapshot(x)[0]
        return PrimalDualState(
            x, grad_g, before, total - phi.beta, slopes, points, state.start, state.s + 1
        )

    def limit(self, phi: Model) -> int:
        """Limit on the chunks, each of which contracts the error by e."""
        return 300


def walk_by_rows(
    tally: Any,
    term: LinearModel,
    row: Callable[[int], Vector],
    dual: Callable[..., float],
    order: Any,
    weight: Vector,
    slopes: Vector,
    points: Vector,
    start: Vector,
    x: Vector,
    before: Vector,
    total: Vector,
    D: Vector,
    numbers: Numbers,
) -> tuple[Vector, Vector, Vector]:
    """RPDG or SPDC on a linear model: x^t, x^{t-1} and the linear term of the next step."""
    eta = numbers.eta
    for k in order:
        a = row(k)
        at_start = float(a @ start)
        if np.isnan(slopes[k]):
            slopes[k] = term.loss.derivative(term.y[k], np.asarray(at_start))
            tally[0] += 1
        ahead = float(a @ (x + numbers.extrapolate * (x - before)))
        new = dual(term, k, slopes, points, ahead, at_start, numbers.dual)
        tally[0] += 1
        change = new - slopes[k]
        slopes[k] = new
        before, x = x, (eta * x - total - weight[k] * change * a) / (D + eta)
        total = total + change / term.m * a
    return x, before, total


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
