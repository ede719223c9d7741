"""The record of a run, and what a stopping rule may ask about it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from geartrain.core.array_format import Form
from geartrain.core.clock import Clock
from geartrain.core.contracts import AnyMethod, State
from geartrain.core.points import NOTHING_SEEN, RunPoint, Seen
from geartrain.core.stopping import Rule
from geartrain.oracles.answer_cache import PaidValues, StartGradients
from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.oracles.protocols import Vector
from geartrain.oracles.vectors import dot
from geartrain.problem import Sum


@dataclass
class RunState:
    """All that a run needs to go on, and what its stopping rule has learned.

    The driver and the view of the rule write into one record. ``res.state`` and checkpoints are
    copies of it after the last complete iteration: ``minimize(h, g, state=res.state)`` goes on.
    """

    method: AnyMethod
    x0: Vector
    best: RunPoint
    seed: int
    form: Form | None  # of the points that the user sees; None for plain vectors
    calls: dict[str, int]
    oracle_seconds: dict[str, float]
    state: State | None = None
    iteration: int = 0
    seconds: float = 0.0  # of the method so far, records not included
    initial_grad_norm: float = math.nan
    gradient_scale: float = 0.0  # see Look.gradient_scale
    initial_gap: float = math.nan  # see Look.initial_gap
    initial_value: float = math.nan  # f(x0)
    initial_values: dict[str, float] = field(default_factory=dict)  # of the terms at x0
    asked_bound: float = math.inf  # the bound at which the gradient was last asked for
    # Of the terms at best.x, where gradients have brought them along and f is not known.
    best_values: dict[str, float] = field(default_factory=dict)
    psi_memory: Any = None  # see Psi.memory
    rows: tuple[tuple[float, ...], ...] = ()  # of the history, in a copy
    notes: tuple[tuple[int, str], ...] = ()
    status: int | None = None  # with which the rule ended the run

    def copied(self, **changes: Any) -> RunState:
        """A copy that the run does not change any more."""
        copy = RunState.__new__(RunState)  # a third of the time of `replace`, every iteration
        copy.__dict__.update(self.__dict__)
        copy.calls, copy.oracle_seconds = dict(self.calls), dict(self.oracle_seconds)
        copy.__dict__.update(changes)
        return copy

    @property
    def now(self) -> State:
        """The state of the method after the first report."""
        assert self.state is not None
        return self.state


class RunView:
    """A `geartrain.core.stopping.Look` at the current state of a run.

    What the rule learns goes into the record. The clock runs while a gradient is asked for.
    """

    def __init__(
        self, problem: Sum, rule: Rule, clock: Clock, paid: PaidValues, record: RunState
    ) -> None:
        self.problem, self.rule, self.clock, self.record = problem, rule, clock, record
        self.calls, self.x0 = problem.ledger.calls, record.x0
        self._paid = paid
        self.known_f = self.known_grad_norm = math.nan  # at the current state
        self._seen = NOTHING_SEEN  # by psi
        self.looked_at: RunPoint | None = None  # the point on which the rule has decided
        self._heard: StartGradients | None = None
        self._bounded: bool | None = None  # see `can_bound_gap`, once that was asked

    def listen(self) -> None:
        """Hear the gradients of the terms at x0, for the scale of the stopping rule."""
        self._heard = StartGradients(self.problem.oracles, self.x0, self.problem.geometry.norm)

    def hear_no_more(self) -> None:
        if self._heard is not None:
            self._heard.close()
            self._heard = None

    def update(self) -> None:
        """Take the numbers that the method knows after an iteration."""
        state = self.record.now
        self.known_f = float(state.value)
        self.known_grad_norm, self._seen = math.nan, NOTHING_SEEN
        if (grad := state.grad) is not None:
            x, point = state.grad_point, state.point
            at_point = x is point or np.array_equal(x, point)
            self._see_gradient(grad, state.grad_psi if at_point else None)
        elif not math.isnan(state.frank_wolfe_gap):
            self._seen = Seen(spread=float(state.frank_wolfe_gap))
        self.looked_at = None
        if self.record.iteration == 0:
            self._set_start()

    def _set_start(self) -> None:
        """Take what is known at x0; a method may start elsewhere."""
        self.record.initial_values = self._paid.known(self.x0)
        self.record.initial_value = self._paid.total(self.record.initial_values, self.x0)
        self.record.initial_gap = float(self.record.now.frank_wolfe_gap)
        if self._is_at_start():
            self.record.initial_grad_norm = self.known_grad_norm
        if math.isnan(self.record.initial_value) and self.record.now.point is self.x0:
            self.record.initial_value = self.known_f

    def settle_start(self) -> None:
        """Keep the value at x0 where the rule has looked at it."""
        at_x0 = self.record.iteration == 0 and np.array_equal(self.record.now.point, self.x0)
        if at_x0 and math.isnan(self.record.initial_value):
            self.record.initial_value = self.known_f

    @property
    def seconds(self) -> float:
        return self.clock.seconds

    def f(self) -> float:
        if math.isnan(self.known_f):
            if self.problem.monitor is None:
                raise TypeError("stop.Value needs terms that give values")
            self.known_f = self.problem.monitor(self.record.now.point)
            if math.isnan(self.known_f):
                raise NonFiniteAnswer("f is NaN")
        self.looked_at = self.points()[0]
        return self.known_f

    def grad_norm(self, threshold: float) -> float:
        if math.isnan(self.known_grad_norm) and self._worth_asking(threshold):
            self._ask_gradient()
        self.looked_at = self.points()[-1]
        return self.known_grad_norm

    def initial_grad_norm(self) -> float:
        if math.isnan(self.record.initial_grad_norm):
            if self.record.iteration == 0 and self._is_at_start():
                self._ask_gradient()
                self.record.initial_grad_norm = self.known_grad_norm
            else:  # the method started elsewhere
                self.clock.start()
                heard = self._heard
                grad = self.problem.grad(self.x0) if heard is None else heard.total()
                self.record.initial_grad_norm = self.problem.geometry.norm(grad)
                self.clock.stop()
        return self.record.initial_grad_norm

    def initial_gap(self) -> float:
        return self.record.initial_gap

    def gradient_scale(self) -> float:
        heard = 0.0 if self._heard is None else self._heard.second
        initial, record = self.initial_grad_norm(), self.record
        record.gradient_scale = max(record.gradient_scale, initial, heard)
        return record.gradient_scale

    def single_precision(self) -> str:
        return " and ".join(oracle.name for oracle in self.problem.oracles if oracle.is_single)

    def starts_at_solution(self) -> bool:
        """Whether the subgradient or gap at x0, where psi is there, is rounding error."""
        if not math.isnan(self.record.initial_gap):
            return self.record.iteration == 0 and self.record.now.rounding
        if self.problem.psi is None or self._heard is None:
            return False
        return self.initial_grad_norm() <= self._heard.rounding < math.inf

    def can_bound_gap(self) -> bool:
        self._refuse_operators()
        psi = self.problem.psi
        if not math.isnan(self.record.initial_gap):
            return True
        if self.problem.mu.value or psi is None:
            return bool(self.problem.mu.value)
        if self._bounded is None:
            ones = np.ones_like(self.x0)
            self._bounded = all(math.isfinite(psi.gap(self.x0, s)) for s in (ones, -ones)) or (
                self.problem.lower_bound is not None and math.isfinite(psi.polar(ones))
            )
        return self._bounded

    def gap(self, threshold: float = math.inf) -> float:
        # Without R it rests on a gradient, which is asked for now and then if the method knows
        # none, and for norms on f, which is asked for where the bound may be below the threshold.
        self._refuse_operators()
        if self.record.now.refuted:
            return math.inf
        unknown = math.isnan(self.known_grad_norm) and math.isnan(self.record.initial_gap)
        by_gradient = unknown and getattr(self.rule, "R", None) is None
        if by_gradient and self._worth_asking(math.inf):
            self._ask_gradient()
        psi, u = self.problem.psi, self._seen.subgradient
        if psi is not None and u is not None:
            slope = dot(u, self.points()[-1].x)
            if slope <= threshold and math.isfinite(psi.polar(u)):
                self._ask_value()
        bounds = [(p.certificate(self.problem, self.x0, self.rule), p) for p in self.points()]
        known = [(c.bound, p) for c, p in bounds if c is not None]
        if not known:
            return math.inf
        bound, self.looked_at = min(known, key=lambda pair: pair[0])
        return bound

    def _refuse_operators(self) -> None:
        if not self.problem.of_functions:
            raise TypeError("operators have no f - f*: stop by tol= or gt.stop.Gradient")

    def points(self) -> tuple[RunPoint, ...]:
        """The output of the current state, and the point of its gradient if that is another one."""
        return RunPoint.of(self.record.now, self.known_f, self.known_grad_norm, self._seen)

    def _is_at_start(self) -> bool:
        """Whether the first gradient that the method knows is that at x0."""
        return self.problem.psi is not None or np.array_equal(self.record.now.grad_point, self.x0)

    def _worth_asking(self, threshold: float) -> bool:
        bound = float(self.record.now.grad_bound)
        if not math.isnan(bound):
            if bound > threshold or bound > 0.5 * self.record.asked_bound:
                return False
            self.record.asked_bound = bound
            return True
        # Without a bound, ask at iterations whose numbers grow by a tenth.
        k = self.record.iteration
        return k > 0 and math.floor(_tenths(k)) > math.floor(_tenths(k - 1))

    def _ask_gradient(self) -> None:
        self.clock.start()
        x, p = self.record.now.point, self.problem
        grad = p.grad(x)
        u = p.subgradient(x, grad, self.record.now.grad_psi)
        self._see_gradient(u, u - grad)
        self.clock.stop()

    def _ask_value(self) -> None:
        """f at the current point: known, paid for, or asked for and counted."""
        if math.isnan(self.known_f) and self.problem.monitor is not None:
            self.clock.start()
            self.known_f = self._paid.f(self.record.now.point)
            self.clock.stop()

    def _see_gradient(self, grad: Vector, grad_psi: Vector | None) -> None:
        self.known_grad_norm = self.problem.geometry.norm(grad)
        if self.problem.psi is not None:
            self._seen = Seen(grad, grad_psi)


def _tenths(k: int) -> float:
    return math.log(k) / math.log(1.1) if k > 0 else -1.0
