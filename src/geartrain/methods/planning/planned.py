"""``method="auto"``: steps the method of a plan, and plans again where prices have been measured.

`ProximalQuasiNewton` weighs prices itself: L-BFGS on the sum is one of its models. Where seconds
are the price and the terms take microseconds, its own arithmetic is what is paid for, and
`ProjectedLBFGS` has less of it, or `SpaRSA` with a non-smooth term that is no box. Which of the two
gets to the end sooner is not known before, so both run, by turns and from the same point, and most
seconds are for the one whose value is lower after as many seconds of its own.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from functools import cached_property

from geartrain.core import clock
from geartrain.methods.base import Report, State
from geartrain.methods.nested_sum import told
from geartrain.methods.planning.bill import (
    METHOD_NAMES,
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
    """State of `Planned`: those of its methods, and how the run came there."""

    current: State  # of the method that is stepped
    other: State | None = None  # of the other one, where both have turns
    note: str = ""
    plan: Plan  # with the changes so far
    since: Timings = field(default_factory=dict)  # at x0; empty once the levels are settled
    known: dict[str, Answered] = field(default_factory=dict)  # by term, at the best point
    at_start: dict[str, Answered] = field(default_factory=dict)  # until both methods have begun
    restarted: bool = False  # the current method has not started at x0

    @cached_property
    def best(self) -> State:
        """The state with the lower value, which the driver is shown."""
        return self.current if self.front is None else self.front

    @cached_property
    def front(self) -> State | None:
        """The state of the other method, where that has come to a lower value."""
        value, other = self.current.value, self.other
        ahead = other is not None and value - other.value > _SAME * abs(value)
        return other if ahead else None

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
       first; a run of two terms that take less than 2 milliseconds begins with the runner-up, which
       is L-BFGS, or SpaRSA where there is a non-smooth term that is no box
    2. one iteration of the current method
    3. after the first iteration, the plan is made again by the seconds of its calls, with the
       largest secants in place of unknown constants; where the bill falls by a quarter, the run
       goes on from the new point on the new levels
    4. where there is a runner-up and prices are measured: after 0.1 seconds of it, or of the
       learned method where that takes longer than what it asks (the first three iterations, in
       which its code is loaded or compiled, do not count), the other one has its turn, from
       x_0 or from where its last turn has ended, and so on. The one that leads, by its value after
       as many seconds, has nine times the seconds of the other one, which then catches up to a
       third
    5. where the current method stalls before the stopping rule is met, and not by rounding or
       noise, the other one goes on from the best point, and there are no further changes

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
        run = _PlannedRun(self, problem, x0, report)
        with run.heard:
            run.begin()

    def resume(self, problem: Sum, state: PlannedState, report: Report) -> None:
        """Go on from `state`."""
        run = _PlannedRun(self, problem, state.point, report, state)
        with run.heard:
            run.go_on(state.current)

    def describe(self, problem: Sum, state: PlannedState | None) -> str:
        """The plan, what happened, and the bill."""
        plan, current = (self.plan, None) if state is None else (state.plan, state.current)
        if problem.expensive:
            return plan.method.describe(problem, current)
        others = alternatives(problem, self.prices, plan.name)
        return plan.in_words(Bill.of(problem.ledger, self.prices), others)


class _PlannedRun:
    """A run of `Planned`: steps its methods, reports their states, and says when one is left."""

    def __init__(
        self,
        planned: Planned,
        problem: Sum,
        x: Vector,
        report: Report,
        state: PlannedState | None = None,
    ) -> None:
        self.first, self.problem, self.start, self.report = planned.plan, problem, x, report
        self.measured = planned.prices.given is None and planned.plan.name == "pqn"
        self.plan, self.note = planned.plan, ""  # the note is for the next state
        self.restarted = False
        self.turns = Turns()
        self.states: dict[str, State] = {}  # the last one of each method
        self.best, self.lowest = x, math.inf  # the point of the lowest value
        self.since: Timings = {}
        self.heard = HeardAnswers(problem.oracles, problem.n, {} if state is None else state.known)
        if state is not None:
            self.plan, self.since, self.restarted = state.plan, state.since, state.restarted
            self.states[self.plan.current_name] = state.current
            if state.other is not None:
                self.states[self.plan.other_name] = state.other
            self.lowest = state.value
        self.at_start = {} if state is None else state.at_start

    def begin(self) -> None:
        """Line 1, and the run."""
        if self.measured:
            self.heard.ask(self.start)
            self.at_start = self.heard.known
            self._plan_at_start()
        self.turns.start()
        state = self._started(self.start, self.at_start)
        if not self._tell(state):
            self.go_on(state)

    def go_on(self, state: State) -> None:
        """Lines 2 to 5, from the last state that was reported."""
        self.turns.start()
        while True:
            self._change(state)
            state = self._stepped()
            if self._tell(state):
                return

    def _stepped(self) -> State:
        """Line 2 and line 3; where an answer is not finite, the other method goes on if it can."""
        name = self.plan.current_name
        try:
            state = self.plan.current.step(self.problem, self.states[name])
        except NonFiniteAnswer:
            if self.plan.settled or self.plan.other_name not in self.states:
                raise
            self.turns.note(name, math.inf)
            self._turn()
            return self._stepped()
        return self._plan_after_first(state) if self.since else state

    def _started(self, x: Vector, known: dict[str, Answered]) -> State:
        """The state of the current method at x, where these answers are known."""
        return self.plan.current.init(self.heard.recalling(self.problem, known), x)

    def _tell(self, state: State) -> bool:
        """Report a new state of the current method; True if the run should end."""
        name = self.plan.current_name
        self.states[name] = state
        if self.measured:
            self.turns.note(name, state.value)
        if not state.value > self.lowest:  # the newest where no value is known
            self.best, self.lowest = state.point, state.value
            self.heard.keep(self.best)
        if self.plan.settled and not self.since:
            self.heard.end()
        note = "; ".join(filter(None, (self.note, state.note)))
        self.note = ""
        return self.report(
            PlannedState(
                current=state,
                other=self.states.get(self.plan.other_name),
                note=note,
                plan=self.plan,
                since=self.since,
                known=self.heard.known,
                at_start=self.at_start,
                restarted=self.restarted,
            )
        )

    # Levels by measured prices ----------------------------------------------------------------

    def _plan_at_start(self) -> None:
        """The plan by the seconds of the gradients at x0."""
        problem, plan = self.problem, self.plan
        self.since = timings(problem)
        seconds = seconds_per_gradient(problem, {})
        evaluation = sum(seconds.values())
        if plan.runner_up is not None and evaluation < _CHEAP:
            change = Change(Reason.CHEAP, Reason.CHEAP.value.format(evaluation=evaluation))
            method, name = rival(problem, evaluation)
            self.plan = replace(plan, runner_up=method, second=name, changes=(change,))
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
            state = self._started(state.point, self.heard.known)
        self.heard.forget_first()
        return state

    # Changes of method ------------------------------------------------------------------------

    def _change(self, state: State) -> None:
        """Lines 4 and 5: go on with the other method where it is time."""
        plan = self.plan
        if plan.settled:
            return
        if state.stalled:
            self._leave()
        elif self.measured and self._is_over(state):
            self._turn()

    def _is_over(self, state: State) -> bool:
        """Whether the turn of the current method, which has come to `state`, is over."""
        plan, waiting = self.plan, self.states.get(self.plan.other_name)
        if waiting is None and plan.current_name == plan.name and not self._is_mostly_own(state):
            return False
        ended = waiting is not None and waiting.stalled
        return not ended and self.turns.is_over(plan.current_name, plan.other_name)

    def _is_mostly_own(self, state: State) -> bool:
        """Whether the learned method takes longer than what it asks, once its code is loaded."""
        if not isinstance(state, PQNState) or state.k < WARM:
            return False
        used = Usage.of(self.problem, state.own).since(state.first)
        return used.inner + used.outer > used.seconds_h + used.seconds_g

    def _turn(self) -> None:
        """The other method goes on, from where it has ended, or from where the run has begun."""
        name, seconds = self.plan.other_name, sum(map(self.turns.seconds, self.turns.curves))
        self._note(Change(Reason.TURN, Reason.TURN.value.format(name=name, seconds=seconds)))
        self.turns.start()
        if name not in self.states:
            x = next(iter(self.at_start.values())).x
            self.states[name] = self._started(x, self.at_start)
            self.turns.note(name, self.states[name].value)
            self.at_start = {}

    def _leave(self) -> None:
        """The other method goes on for good, from the best point."""
        name = METHOD_NAMES.get(self.plan.current_name, self.plan.current_name)
        self._note(Change(Reason.STALLED, Reason.STALLED.value.format(name=name)))
        state = self.states.get(self.plan.current_name)
        if state is None or state.value > self.lowest:  # the point itself was reported before
            state = self._started(self.best, self.heard.known)
        self.states, self.at_start = {self.plan.current_name: state}, {}
        self.turns.start()

    def _note(self, change: Change) -> None:
        self.plan = replace(self.plan, changes=(*self.plan.changes, change))
        self.note, self.restarted = f"method changed: {change.told}", True
