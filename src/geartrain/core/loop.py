"""The loops that all levels share: step until a rule says stop.

The outer loop is `drive`, to which `geartrain.core.driver` adds records and budgets; the middle and
the inner loop are `iterate` and `solve_model`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from geartrain.core.contracts import AcceptRule, AnyMethod, InnerMethod, Report, State, WholeMethod
from geartrain.oracles.ledger import Oracle, in_gradients
from geartrain.oracles.protocols import Vector
from geartrain.oracles.questions import asked_of_inner
from geartrain.problem import Model, Sum

T = TypeVar("T")


def drive(
    method: AnyMethod, problem: Sum, x0: Vector, report: Report, state: State | None = None
) -> None:
    """Run any outer method from x0, or from `state` on, until `report` answers True.

    It returns earlier where a `WholeMethod` finds no further progress.
    """
    if isinstance(method, WholeMethod):
        if state is None:
            method.solve(problem, x0, report)
        elif goes_on(method):
            method.resume(problem, state, report)  # type: ignore[attr-defined]
        else:
            method.solve(problem, state.point, report)
        return
    if state is None:
        state = method.init(problem, x0)
        if report(state):
            return
    while True:
        state = method.step(problem, state)
        if report(state):
            return


def goes_on(method: AnyMethod) -> bool:
    """Whether `method` can go on from a state exactly as if it had not been stopped."""
    return not isinstance(method, WholeMethod) or callable(getattr(method, "resume", None))


def ceiling(number: float) -> int:
    """The next whole number; a very large one for what is larger or infinite."""
    return math.ceil(min(number, 2.0**62))


def iterate(
    step: Callable[[T], T], state: T, done: Callable[[T], bool], limit: int
) -> tuple[T, int]:
    """Step until `done` or `limit` steps; the state and the number of steps."""
    k = 0
    while not done(state) and k < limit:
        state = step(state)
        k += 1
    return state, k


@dataclass(frozen=True)
class InnerRun:
    """Outcome of an inner run."""

    v: Vector
    grad_g: Vector  # gradient of g at v
    residual: float  # |grad phi(v)|
    steps: int
    accepted: bool  # the rule was met
    floor: bool  # ended because the residual is rounding error
    state: Any  # of the inner method, for the warm start of the next run
    gave_up: bool = False  # the method found no further step
    grad_psi: Vector | None = None  # the element of dpsi(v) in the subgradient of phi


# Paper: Assumption 3
def basic_calls(g: Oracle, needs: tuple[str, ...]) -> int:
    """Calls of g's basic oracle so far, by Assumption 3 of the paper.

    The basic oracle answers what an inner method `needs`: gradients, partial derivatives, gradients
    of summands or values. A gradient is n calls of the second and m of the third.
    """
    calls, name, question = g.ledger.calls, g.name, asked_of_inner(needs)
    m = int(g.term.n_components or 1)
    if question.key == "grad":
        return math.ceil(in_gradients(calls, name, g.n, m))
    asked = calls[f"{name}.{question.key}"]
    if question.per_gradient is None:
        return asked
    return question.per_gradient(g.n, m) * calls[f"{name}.grad"] + asked


def solve_model(
    inner: InnerMethod,
    phi: Model,
    v0: Vector,
    accept: AcceptRule,
    *,
    grad_g0: Vector | None = None,
    calls: int | None = None,
    warm: Any = None,
) -> InnerRun:
    """Run `inner` on `phi` from `v0` until `accept`, or for at least so many basic `calls` of g."""
    norm = phi.geometry.norm
    before = 0 if calls is None else basic_calls(phi.g, inner.needs)
    state = inner.init(phi, v0, grad_g0, warm)
    limit = inner.limit(phi)
    splits = getattr(inner, "splits", False)  # then grad_g is an eps-subgradient
    k, gave_up, first = 0, False, math.inf
    while True:
        v, grad_g = state.v, state.grad_g
        grad_phi, grad_psi = phi.grad(v, grad_g), None
        if phi.psi is not None:
            smooth, grad_phi = grad_phi, phi.psi.residual(v, grad_phi, state.grad_psi)
            grad_psi = grad_phi - smooth
        residual = norm(grad_phi)
        first = residual if k == 0 else first
        if splits:
            accepted, floor = accept(v, grad_g, grad_phi, state.eps), state.rounding
        else:
            accepted = calls is None and accept(v, grad_g, grad_phi)
            # Far away, after steps that were too long, rounding errors are large, too.
            floor = residual <= min(phi.floor(v, grad_g), first)
        if calls is None:
            over = k >= limit
        else:
            over = basic_calls(phi.g, inner.needs) - before >= calls
        if accepted or floor or gave_up or over:
            if phi.psi is not None and state.guessed:
                state = inner.settle(phi, state)  # type: ignore[attr-defined]
                continue
            return InnerRun(v, grad_g, residual, k, accepted, floor, state, gave_up, grad_psi)
        after = inner.step(phi, state)
        k += 1
        gave_up = after is state
        state = after
