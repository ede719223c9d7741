"""The loop that all three levels share: step until a rule says stop.

A *method* is a frozen set of parameters with ``init(problem, x0) -> state`` and a pure
``step(problem, state) -> state``. A *rule* is a function of the state. The outer loop adds
records and budgets (`geartrain.core.driver`); the middle and the inner loop are `iterate`
and `solve_model`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

from geartrain.oracles.ledger import Oracle, in_gradients
from geartrain.oracles.protocols import Vector
from geartrain.problem import Model


class State:
    """What the driver may ask of a state, with the answers of a method that knows nothing more.

    ``point`` is the method's output so far. ``grad`` is the gradient of f at ``grad_point``
    where the method happens to know it; ``grad_bound`` an upper bound of its norm at ``point``
    that rests on the stated constants, where that is all there is.
    """

    A: float = math.nan
    L: float = math.nan
    ms_ratio: float = math.nan
    value: float = math.nan  # f(point), where known
    grad_bound: float = math.nan
    stalled: bool = False  # rounding errors prevent progress
    note: str = ""  # something worth a line in the history

    @property
    def point(self) -> Vector:
        """The method's output so far."""
        raise AttributeError("point")

    @property
    def grad_point(self) -> Vector:
        """The point whose gradient is known."""
        return self.point

    @property
    def grad(self) -> Vector | None:
        """Gradient of f at `grad_point`, if known."""
        return None


S = TypeVar("S")


def iterate(
    step: Callable[[S], S], state: S, done: Callable[[S], bool], limit: int
) -> tuple[S, int]:
    """Step until `done` or `limit` steps; the state and the number of steps."""
    k = 0
    while not done(state) and k < limit:
        state = step(state)
        k += 1
    return state, k


class InnerState(Protocol):
    """State of an inner method: a point and the gradient of g there."""

    @property
    def v(self) -> Vector: ...

    @property
    def grad_g(self) -> Vector: ...


class InnerMethod(Protocol):
    """A method M_inn for phi (Assumption 4 of the paper).

    ``init`` may be given the gradient of g at v0 where it is known. ``limit`` is the number of
    steps after which a run that has not met its rule is given up.
    """

    needs: ClassVar[tuple[str, ...]]

    def init(self, phi: Model, v0: Vector, grad_g0: Vector | None) -> Any: ...

    def step(self, phi: Model, state: Any) -> Any: ...

    def limit(self, phi: Model) -> int: ...


# (v, grad g(v), grad phi(v)) -> may the inner method stop here?
AcceptRule = Callable[[Vector, Vector, Vector], bool]


@dataclass(frozen=True)
class InnerRun:
    """Outcome of an inner run."""

    v: Vector
    grad_g: Vector  # gradient of g at v
    residual: float  # |grad phi(v)|
    steps: int
    accepted: bool  # the rule was met
    floor: bool  # ended because the residual is rounding error
    state: Any  # of the inner method, for what a next run may use


# Paper: Assumption 3
def basic_calls(g: Oracle, needs: tuple[str, ...]) -> int:
    """Calls of g's basic oracle so far, by Assumption 3 of the paper.

    The basic oracle answers what an inner method `needs`: gradients, partial derivatives, gradients
    of summands or values. A gradient is n calls of the second and m of the third.
    """
    calls, name = g.ledger.calls, g.name
    if "coord" in needs:
        return g.n * calls[f"{name}.grad"] + calls[f"{name}.coord"]
    m = int(getattr(g.term, "n_components", None) or 1)
    if "component" in needs:
        return m * calls[f"{name}.grad"] + calls[f"{name}.component"]
    if "value" in needs:
        return calls[f"{name}.value"]
    return math.ceil(in_gradients(calls, name, g.n, m))


def solve_model(
    inner: InnerMethod,
    phi: Model,
    v0: Vector,
    accept: AcceptRule,
    *,
    grad_g0: Vector | None = None,
    calls: int | None = None,
) -> InnerRun:
    """Run `inner` on `phi` from `v0` until `accept`, or for at least so many basic `calls` of g."""
    norm = phi.geometry.norm
    before = 0 if calls is None else basic_calls(phi.g, inner.needs)
    state = inner.init(phi, v0, grad_g0)
    limit = inner.limit(phi)
    k = 0
    while True:
        v, grad_g = state.v, state.grad_g
        grad_phi = phi.grad(v, grad_g)
        residual = norm(grad_phi)
        accepted = calls is None and accept(v, grad_g, grad_phi)
        floor = residual <= phi.floor(v, grad_g)
        if calls is None:
            over = k >= limit
        else:
            over = basic_calls(phi.g, inner.needs) - before >= calls
        if accepted or floor or over:
            return InnerRun(v, grad_g, residual, k, accepted, floor, state)
        after = inner.step(phi, state)
        k += 1
        if after is state:  # it gave up
            return InnerRun(v, grad_g, residual, k, accepted, floor, state)
        state = after
