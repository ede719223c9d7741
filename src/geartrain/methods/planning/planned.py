"""``method="auto"``: steps the method of a plan, and plans again where prices have been measured.

`ProximalQuasiNewton` weighs prices itself: L-BFGS on the sum is one of its models. Where seconds
are the price and the terms take microseconds, its own arithmetic is what is paid for, and SciPy's
L-BFGS has less of it. Which of the two gets to the end sooner is not known before, so both run, by
turns and from the same point, and most seconds are for the one whose value is lower after as many
seconds of its own.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field, replace

import numpy as np

from geartrain.core import clock
from geartrain.methods.base import Method, Report, State, drive
from geartrain.methods.nested_sum import told
from geartrain.methods.planning.bill import (
    Bill,
    Prices,
    Timings,
    alternatives,
    seconds_per_gradient,
    timings,
)
from geartrain.methods.planning.heard_answers import HeardAnswers
from geartrain.methods.planning.level_order import constants
from geartrain.methods.planning.plan import Change, Plan, Reason
from geartrain.methods.planning.planner import pays, plan_by_seconds, rival
from geartrain.methods.pqn.prices import WARM, Usage
from geartrain.methods.pqn.state import PQNState
from geartrain.oracles.answer_cache import Answered
from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.oracles.protocols import Vector
from geartrain.problem import Sum

# Evaluations of a line search of L-BFGS that finds no lower point; they are seldom more than five.
_SEARCH = 10
# An evaluation of both terms that takes fewer seconds is cheap: a trial point of the learned method
# takes about as long by itself, and saves every other evaluation.
_CHEAP = 2e-3
# Seconds until the other method has its first turn. Then the one that is behind has its turns until
# its seconds are this part of those of the other one.
_FIRST, _PART = 0.1, 1.0 / 3.0
# Values that differ by a smaller part may differ by rounding.
_SAME = 1e-10


class Turns:
    """What two methods have reached after how many seconds of their own."""

    def __init__(self) -> None:
        self.curves: dict[str, list[tuple[float, float]]] = {}  # seconds and value, by method
        self._since = math.nan

    def start(self) -> None:
        """A method goes on."""
        self._since = clock.perf_counter()

    def note(self, name: str, value: float) -> None:
        """It has come to a point with this value."""
        now = clock.perf_counter()
        spent = self.seconds(name) + now - self._since
        self.curves.setdefault(name, []).append((spent, value))
        self._since = now

    def seconds(self, name: str) -> float:
        """So far."""
        return self.curves[name][-1][0] if name in self.curves else 0.0

    def is_over(self, name: str, other: str) -> bool:
        """Whether the other one has its turn."""
        own, others = self.seconds(name), self.seconds(other)
        if not others:
            return own >= _FIRST
        return own >= others * (1.0 / _PART**2 if self.leads(name, other) else _PART)

    def leads(self, name: str, other: str) -> bool:
        """Whether its value is lower than that of the other one after as many seconds."""
        seconds, value = self.curves[name][-1]
        found = bisect_right(self.curves[other], (seconds, math.inf))
        return value < self.curves[other][max(found - 1, 0)][1]


@dataclass(frozen=True, kw_only=True)
class PlannedState(State):
    """State of `Planned`: that of the current method, and how the run came there."""

    current: State  # of the method that is stepped
    front: State | None = None  # of the other one, where that has come to a lower value
    note: str = ""
    plan: Plan  # with the changes so far
    since: Timings = field(default_factory=dict)  # at x0; empty once the levels are settled
    known: dict[str, Answered] = field(default_factory=dict)  # by term, at the best point
    restarted: bool = False  # the current method has not started at x0

    @property
    def best(self) -> State:
        """The state with the lowest value, which the driver is shown."""
        return self.front or self.current

    A = property(lambda self: self.best.A)
    L = property(lambda self: self.best.L)
    ms_ratio = property(lambda self: self.best.ms_ratio)
    value = property(lambda self: self.best.value)
    point = property(lambda self: self.best.point)
    grad = property(lambda self: self.best.grad)
    grad_point = property(lambda self: self.best.grad_point)
    grad_psi = property(lambda self: self.best.grad_psi)
    grad_bound = property(lambda self: self.best.grad_bound)
    gap_rests_on = property(lambda self: self.best.gap_rests_on)
    rounding = property(lambda self: self.best.rounding)
    noisy = property(lambda self: self.best.noisy)
    unbounded = property(lambda self: self.best.unbounded)
    refuted = property(lambda self: self.current.refuted or self.best.refuted)

    @property
    def gap_weight(self) -> float:  # type: ignore[override]
        """That of the method, if it has started at x0."""
        return math.nan if self.restarted else self.current.gap_weight

    @property
    def stalled(self) -> bool:  # type: ignore[override]
        """Whether the current method is, and no other one goes on."""
        current = self.current
        shown = current.rounding or current.noisy or current.unbounded
        return current.stalled and self.front is None and (self.plan.settled or shown)


@dataclass(frozen=True)
class Planned:
    """The method of a `Plan`, which is made again as prices are measured.

    Algorithm, from x_0:

    1. where prices are measured and the plan is the learned method: all terms are asked for their
       gradients at x_0, and the plan is made again by the seconds of these calls, the dearest terms
       first; a run of two terms that take less than 2 milliseconds begins with L-BFGS
    2. one iteration of the current method
    3. after the first iteration, the plan is made again by the seconds of its calls, with the
       largest secants in place of unknown constants; where the bill falls by a quarter, the run
       goes on from the new point on the new levels
    4. where L-BFGS is the runner-up and prices are measured: after 0.1 seconds of L-BFGS, or of the
       learned method where that takes longer than what it asks (the first three iterations, in
       which its code is loaded or compiled, do not count), the other one has its turn, from
       x_0 or from where its last turn has ended, and so on. The one that leads, by its value after
       as many seconds, has nine times the seconds of the other one, which then catches up to a
       third
    5. where the current method stalls before the stopping rule is met, and not by rounding or
       noise, the runner-up goes on from the best point, and there are no further changes; L-BFGS
       stalls where a line search takes ten evaluations and f has not fallen, and is also left where
       an answer is not finite

    Where seconds are alike up to a factor of 3, the levels are as listed.

    Guarantee: that of the method in use. A change asks for no gradient again that was asked for at
    the point where the next method starts.

    Parameters
    ----------
    plan : Plan
        Made by `geartrain.methods.planning.planner.plan`.
    prices : Prices
        Of one call.
    """

    plan: Plan
    prices: Prices = field(default_factory=Prices)

    @property
    def needs(self) -> tuple[str, ...]:
        """What the first method needs."""
        return self.plan.method.needs

    @property
    def any_geometry(self) -> bool:
        """Whether the first method works in any geometry."""
        return getattr(self.plan.method, "any_geometry", False)

    def solve(self, problem: Sum, x0: Vector, report: Report) -> None:
        """Run from x0."""
        run = _PlannedRun(self, problem, report)
        with run.heard:
            run.begin(x0)

    def resume(self, problem: Sum, state: PlannedState, report: Report) -> None:
        """Go on from `state`."""
        run = _PlannedRun(self, problem, report, state)
        with run.heard:
            run.go_on(state.point, state.current)

    def describe(self, problem: Sum, state: PlannedState | None) -> str:
        """The plan, what happened, and the bill."""
        plan, current = (self.plan, None) if state is None else (state.plan, state.current)
        if problem.expensive:
            return plan.method.describe(problem, current)
        others = alternatives(problem, self.prices, plan.name)
        return plan.in_words(Bill.of(problem.ledger, self.prices), others)


class _PlannedRun:
    """A run of `Planned`: reports the states of its methods, and says when one is left."""

    def __init__(
        self, planned: Planned, problem: Sum, report: Report, state: PlannedState | None = None
    ) -> None:
        self.first, self.problem, self.report = planned.plan, problem, report
        self.measured = planned.prices.given is None and planned.plan.name == "pqn"
        self.plan, self.note = planned.plan, ""  # the note is for the next state
        self.restarted = False
        self.turns = Turns()
        self.waiting: State | None = None  # of the learned method, between its turns
        self.last: dict[str, State] = {}  # the last state of each method
        self.since: Timings = {}
        self.heard = HeardAnswers(problem.oracles, problem.n, {} if state is None else state.known)
        if state is not None:
            self.plan, self.since = state.plan, state.since
            self.restarted = state.restarted
        self.ended = False  # the whole run

    def _enter(self) -> None:
        """Begin with what is noted about one method."""
        self.change: Change | None = None  # why it is left
        self.best, self.lowest = np.zeros(0), math.inf  # the point of the lowest value
        self.lost = False  # a line search of L-BFGS has found nothing
        self.asked = self._calls()  # gradients of the first term until the last state
        self.turns.start()

    # From method to method --------------------------------------------------------------------

    def begin(self, x0: Vector) -> None:
        """Line 1, and the run."""
        if self.measured:
            self.heard.ask(x0)
            self._plan_at_start()
        self._go(x0, None)

    def go_on(self, x: Vector, current: State) -> None:
        """The run from a state that was reported."""
        if not isinstance(self.plan.current, Method):
            name = type(self.plan.current).__name__
            self.note = f"{name} cannot be stepped: started again from the last point"
        self._go(x, current)

    def _go(self, x: Vector, current: State | None) -> None:
        self.start, self.known = x, self.heard.known
        while True:
            self._enter()
            try:
                self._drive(x, current)
            except NonFiniteAnswer:
                self.change = self._after_infinity()
                if self.change is None:
                    raise
            if self.ended or (self.change is None and self.plan.settled):
                return
            change, waiting = self.change or _stalled(self.plan), self.waiting
            self._note(change)
            if change.reason is not Reason.TURN:
                self.last = {}  # the next one goes on from the best point
            x, current, method = self.best, None, self.plan.current
            if change.reason is Reason.TURN:  # of L-BFGS, for the first time
                x, self.heard.known = self.start, self.known
            elif waiting is not None and waiting.value <= self.lowest:
                current = waiting
            elif isinstance(method, Method):  # the point itself was reported before
                current = method.init(self.heard.recalling(self.problem), x)

    def _note(self, change: Change) -> None:
        """Go on with the other method."""
        self.plan = replace(self.plan, changes=(*self.plan.changes, change))
        self.note, self.restarted = f"method changed: {change.told}", True

    def _drive(self, x: Vector, current: State | None) -> None:
        """Run the current method until it is left, or the run ends."""
        method = self.plan.current
        if not isinstance(method, Method):
            drive(method, self.heard.recalling(self.problem), x, self._tell)
            return
        if current is None:
            current = method.init(self.heard.recalling(self.problem), x)
            left = self._tell(current)
        else:
            self._notice(current)
            left = not self._goes_on(current)
        while not left:
            current = self.plan.current.step(self.problem, current)
            if self.since:
                current = self._plan_after_first(current)
            left = self._tell(current)

    def _tell(self, state: State) -> bool:
        """Report a new state of the method; True if the method should end."""
        self._notice(state)
        return self._report(state) or not self._goes_on(state)

    def _report(self, state: State) -> bool:
        """Report a state; True if the run should end."""
        self.last[self.plan.current_name] = state
        front = min(self.last.values(), key=lambda last: last.value)
        note = "; ".join(filter(None, (self.note, state.note)))
        self.note = ""
        self.ended = self.report(
            PlannedState(
                current=state,
                front=front if state.value - front.value > _SAME * abs(state.value) else None,
                note=note,
                plan=self.plan,
                since=self.since,
                known=self.heard.known,
                restarted=self.restarted,
            )
        )
        return self.ended

    def _notice(self, state: State) -> None:
        """The best point so far, and whether a line search was in vain."""
        calls = self._calls()
        self.lost = calls - self.asked >= _SEARCH and not state.value < self.lowest
        self.asked = calls
        if self.measured:
            self.turns.note(self.plan.current_name, state.value)
        if not state.value > self.lowest:  # the newest where no value is known
            self.best, self.lowest = state.point, state.value
            self.heard.keep(self.best)
        if self.plan.settled and not self.since:
            self.heard.end()

    # Levels by measured prices ----------------------------------------------------------------

    def _plan_at_start(self) -> None:
        """The plan by the seconds of the gradients at x0."""
        problem, plan = self.problem, self.plan
        self.since = timings(problem)
        seconds = seconds_per_gradient(problem, {})
        evaluation = sum(seconds.values())
        if plan.runner_up is not None and evaluation < _CHEAP:
            change = Change(Reason.CHEAP, Reason.CHEAP.value.format(evaluation=evaluation))
            self.plan = replace(plan, runner_up=rival(problem, evaluation), changes=(change,))
            self.note, self.since = f"method changed: {change.told}", {}
            return
        self.plan = plan_by_seconds(problem, self.first, seconds, constants(problem))
        if not problem.expensive and self.plan.levels != plan.levels:
            self.note = f"h and g have changed roles: {self.plan.told}"

    def _plan_after_first(self, state: State) -> State:
        """The plan by what the first iteration has shown, and the state to go on from."""
        problem, before = self.problem, self.plan.levels
        seconds = seconds_per_gradient(problem, self.since)
        shown = self.heard.secants(problem.geometry)
        L = {name: shown.get(name) if L is None else L for name, L in constants(problem).items()}
        self.since = {}
        plan = plan_by_seconds(problem, self.first, seconds, L)
        levels = plan.levels
        if levels == before:
            self.plan = plan  # with better numbers
        elif not state.stalled and pays(problem, before, levels, seconds, L):
            self.plan, self.restarted = plan, True
            self.note = f"levels changed from {told(before)} to {told(levels)}"
            self.heard.keep(state.point)
            state = plan.method.init(self.heard.recalling(problem), state.point)
        self.heard.forget_first()
        return state

    # Changes of method ------------------------------------------------------------------------

    def _goes_on(self, state: State) -> bool:
        """Whether the method goes on from `state`."""
        plan = self.plan
        if not plan.settled and (state.stalled or (self.lost and plan.current_name == "lbfgs")):
            self.change = _stalled(plan)
        else:
            self.change = self._leave(state)
        return self.change is None

    def _leave(self, state: State) -> Change | None:
        """Line 4: why the method should be left now, or None."""
        plan = self.plan
        if plan.settled or not self.measured:
            return None
        if plan.current_name == plan.second:
            ended = self.waiting is not None and self.waiting.stalled
            if not ended and self.turns.is_over(plan.second, plan.name):
                return self._turn_of_learned()
        elif self._is_mostly_own(state) and self.turns.is_over(plan.name, plan.second):
            self.waiting = state
            return self._turn(plan.second)
        return None

    def _is_mostly_own(self, state: State) -> bool:
        """Whether the learned method takes longer than what it asks, once its code is loaded."""
        if not isinstance(state, PQNState) or state.k < WARM:
            return False
        used = Usage.of(self.problem, state.own).since(state.first)
        return used.inner + used.outer > used.seconds_h + used.seconds_g

    def _turn(self, name: str) -> Change:
        seconds = sum(map(self.turns.seconds, self.turns.curves))
        return Change(Reason.TURN, Reason.TURN.value.format(name=name, seconds=seconds))

    def _turn_of_learned(self) -> Change | None:
        """The learned method goes on while L-BFGS waits; what is told where the run ends with it.

        What L-BFGS knows is kept by SciPy, which goes on where this returns None.
        """
        plan, known = self.plan, self.heard.known
        change = self._turn(plan.name)
        self._note(change)
        self.turns.start()
        try:
            if self.waiting is None:
                self.heard.known = self.known
                self.waiting = plan.method.init(self.heard.recalling(self.problem), self.start)
                self.turns.note(plan.name, self.waiting.value)
            while not (self.waiting.stalled or self.turns.is_over(plan.name, plan.second)):
                self.waiting = plan.method.step(self.problem, self.waiting)
                self.turns.note(plan.name, self.waiting.value)
                if self._report(self.waiting):
                    return change
        except NonFiniteAnswer:
            self.turns.note(plan.name, math.inf)
        self._note(self._turn(plan.second))
        self.heard.known, self.asked = known, self._calls()
        self.turns.start()
        return None

    def _after_infinity(self) -> Change | None:
        """The change of method after an answer that is not finite, or None if it ends the run."""
        plan = self.plan
        if plan.current_name != "lbfgs" or plan.settled or not self.best.size:
            return None
        return Change(Reason.NON_FINITE, Reason.NON_FINITE.value)

    def _calls(self) -> int:
        """Gradients of the first term so far."""
        return self.problem.ledger.calls.get(f"{self.problem.oracles[0].name}.grad", 0)


def _stalled(plan: Plan) -> Change:
    name = {"lbfgs": "L-BFGS"}.get(plan.current_name, plan.current_name)
    return Change(Reason.STALLED, Reason.STALLED.value.format(name=name))
