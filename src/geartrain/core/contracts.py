"""What the loops ask of a method, of an inner method and of their states.

Nothing has to be inherited except `State`, which answers for a method that knows nothing more. The
public name of this module is `geartrain.methods`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

from geartrain.oracles.protocols import Vector
from geartrain.problem import Model, Sum


class State:
    """State of an outer method; inherit from it and override what the method knows.

    The driver reads every field once after each iteration, in this order: ``value`` and ``grad``
    (they cost no call), then whatever the stopping rule asks for, then the rest for the row of the
    history. It never changes a state. A state should be a frozen dataclass: it is kept as the
    starting point of a resumed run.
    """

    value: float = math.nan  # f(point), where known without a further call
    grad_bound: float = math.nan  # upper bound on |grad f(point)| by the stated constants
    gap_weight: float = math.nan  # w with f(point) - f* <= |x0 - x*|^2/(2w), proven from x0 on
    gap_rests_on: tuple[str, ...] = ()  # constants of the problem that this proof uses
    # Of a method that asks for linear minimisations over a set: the largest <grad f, v - s> over
    # all s in it, v = `grad_point`; and a bound on f(point) - f* by its rate.
    frank_wolfe_gap: float = math.nan
    gap_bound: float = math.nan
    stalled: bool = False  # no further progress: the run ends after this iteration
    rounding: bool = False  # with `stalled`: it is shown that rounding is the cause
    noisy: bool = False  # with `stalled`: the answers contradict each other
    unbounded: bool = False  # with `stalled`: f has no minimiser near, as far as is proven
    refuted: bool = False  # a term that is stated to be convex is not, as its answers show
    note: str = ""  # a line for ``res.history.notes``
    grad_psi: Vector | None = None  # with a non-smooth term: a subgradient of it at `point`
    # Recorded only: the weight A_k, the parameter of the envelope, the Monteiro-Svaiter ratio.
    A: float = math.nan
    L: float = math.nan
    ms_ratio: float = math.nan

    @property
    def point(self) -> Vector:
        """The output of the method so far. Every method must define it."""
        raise NotImplementedError(f"{type(self).__name__} has no `point`")

    @property
    def grad(self) -> Vector | None:
        """Gradient of f at `grad_point`, where the method knows it; never asked for.

        With a non-smooth term it is a subgradient of f, the shortest one that is known.
        """
        return None

    @property
    def grad_point(self) -> Vector:
        """The point at which `grad` or `frank_wolfe_gap` is known."""
        return self.point


S = TypeVar("S", bound=State)
# Called with every new state; the answer says whether the run is over.
Report: TypeAlias = Callable[[State], bool]


@runtime_checkable
class Method(Protocol[S]):
    """An outer method that goes step by step: a frozen set of parameters and two pure functions.

    Optional parts: ``inner``, the inner method (then g is asked what that one needs);
    ``any_geometry = True`` if all norms and inner products are taken from ``problem.geometry``;
    ``takes_psi = True`` if it is made for a non-smooth term ``problem.psi``, too, and
    ``asks_psi = "lmo"`` if that one is asked for linear minimisations, not for proximal steps;
    ``many_terms = True`` if h may be several terms at once, each counted apart;
    ``restart(state) -> state`` for `geartrain.methods.Restarted`;
    ``describe(problem, state) -> str`` for ``res.plan``.
    """

    @property
    def needs(self) -> tuple[str, ...]:
        """The questions that both terms have to answer; see `geartrain.oracles.protocols`."""

    def init(self, problem: Sum, x0: Vector) -> S:
        """The state before the first iteration; the driver calls it once per run."""

    def step(self, problem: Sum, state: S) -> S:
        """One outer iteration; called until the stopping rule is met."""


@runtime_checkable
class WholeMethod(Protocol):
    """An outer method that runs its own loop and reports its states.

    Optional part: ``resume(problem, state, report)``, which goes on from a reported state. A method
    without it is started again from the last point.
    """

    @property
    def needs(self) -> tuple[str, ...]:
        """The questions that both terms have to answer."""

    def solve(self, problem: Sum, x0: Vector, report: Report) -> None:
        """Run from `x0`, call `report` with every state, and end when it answers True.

        Ending before that means that no further progress is possible.
        """


AnyMethod: TypeAlias = Method | WholeMethod


class InnerState(Protocol):
    """State of an inner method: a point and the gradient of g there.

    For a model with psi a state also has ``grad_psi``, an element of the subdifferential of psi at
    v, and ``guessed``: whether `grad_g` is a guess. Where the rule accepts a guess, the method is
    asked for ``settle(phi, state) -> state``, the same state with the gradient itself.
    """

    @property
    def v(self) -> Vector:
        """The point at which the inner run may end."""

    @property
    def grad_g(self) -> Vector:
        """Gradient of g at v."""


I = TypeVar("I", bound=InnerState)


@runtime_checkable
class InnerMethod(Protocol[I]):
    """A method M_inn for phi(v) = <beta, v> + alpha/2 |v|^2 + g(v) (Assumption 4 of the paper).

    Optional parts: ``any_geometry = True``, as for `Method`; ``takes_psi = True`` if it minimises
    models with a non-smooth psi, see `InnerState`; ``splits = True`` if g is a sum that the method
    splits once more. The states of such a method also have ``eps``, where ``grad_g`` is an
    eps-subgradient of g, and ``rounding``, whether only rounding keeps it from going on.
    """

    @property
    def needs(self) -> tuple[str, ...]:
        """The questions that g has to answer."""

    def init(self, phi: Model, v0: Vector, grad_g0: Vector | None, warm: I | None = None) -> I:
        """The state before the first step.

        `grad_g0` is the gradient of g at v0, where it is known. `warm` is the state in which an
        earlier run of the same method ended, on another model with the same g: what it has learned
        about g may be used, and may be ignored.
        """

    def step(self, phi: Model, state: I) -> I:
        """One step; the answer ``state`` itself means that no step helps any more."""

    def limit(self, phi: Model) -> int:
        """The number of steps after which a run that has not met its rule is given up."""


# (v, grad g(v), grad phi(v)) -> may the inner method stop here? Where g is a sum that is split once
# more, a fourth argument eps follows: the second one is then an eps-subgradient of g at v.
AcceptRule: TypeAlias = Callable[..., bool]


def check_state(state: object, method: object) -> None:
    """Raise a TypeError unless `state`, given by `method`, is a `State` with a point."""
    kind, name = type(state).__name__, type(method).__name__
    if not isinstance(state, State):
        raise TypeError(
            f"{name} gave a {kind} as its state; a state inherits from gt.methods.State and "
            "defines `point`"
        )
    if type(state).point is State.point:
        raise TypeError(f"the state {kind} of {name} does not define `point`")
