"""``method="auto"``: steps the method that the planner has chosen, and changes it where it fails.

`ProximalQuasiNewton` weighs prices itself: L-BFGS on the sum is one of its models. Where seconds
are the price and the terms take microseconds, its own arithmetic is what is paid for, and SciPy's
L-BFGS has less of it. Which of the two gets to the end sooner is seen by what each has gained per
second: a run of cheap terms begins with L-BFGS, and after a while the other one is tried.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from geartrain.core import clock
from geartrain.methods.base import Method, Report, State, drive
from geartrain.methods.choice import Bill, Change, Choice, Prices, Reason, alternatives
from geartrain.methods.delegated import Delegated
from geartrain.methods.pqn.evaluation import TermEvaluator
from geartrain.methods.pqn.method import ProximalQuasiNewton
from geartrain.methods.pqn.state import PQNState
from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.oracles.protocols import Vector
from geartrain.oracles.splitting import Zero
from geartrain.problem import Sum

# Evaluations of a line search of L-BFGS that finds no lower point; they are seldom more than five.
_SEARCH = 10
# An evaluation of both terms that takes fewer seconds is cheap: a trial point of the learned method
# takes as long by itself.
_CHEAP = 5e-4
# Seconds after which the two methods are compared; again after twice as many, and so on.
_COMPARE = 0.05
# Where the other method is tried for the first time, it is compared when the run has taken this
# many times as long.
_TRY = 1.5
# The method that was left goes on where it has gained so many times as much per second: it starts
# again without what it had learned.
_AHEAD = 2.0
# h and g change roles where a gradient of h takes at most this part of the seconds of one of g.
_DEARER = 0.25


@dataclass(frozen=True)
class Race:
    """What L-BFGS and the learned method have gained per second, where they share a run."""

    until: float = _COMPARE  # seconds of the run, at which they are compared next
    spent: float = 0.0  # seconds of the run so far
    rates: dict[str, float] = field(default_factory=dict)  # ln of the fall of |grad f| per second


@dataclass(frozen=True, kw_only=True)
class AutoState(Delegated):
    """State of `Auto`: that of the current method, and how the run came there."""

    choice: Choice  # with the changes so far
    race: Race = field(default_factory=Race)

    @property
    def gap_weight(self) -> float:  # type: ignore[override]
        """That of the first method: a later one has started from another point."""
        return math.nan if self.choice.changes else self.current.gap_weight

    @property
    def stalled(self) -> bool:  # type: ignore[override]
        """Whether the current method is, and no other one goes on."""
        current = self.current
        shown = current.rounding or current.noisy or current.unbounded
        return current.stalled and (self.choice.settled or shown)


@dataclass(frozen=True)
class Auto:
    """The method of a `Choice`, and its runner-up where that method does not do well.

    Algorithm, from x_0 with the method of the choice:

    1. one iteration of the current method
    2. where prices are measured: a run whose terms take microseconds begins with L-BFGS. After 0.05
       seconds the other method is tried, also where the learned one takes longer than what it asks;
       then, again and again after twice as many seconds, the one goes on that has gained more per
       second, in ln of the gradient norm, and a change is made only for twice as much. Where g
       turns out to be the dearer term at x_0, h and g change roles
    3. where the current method stalls before the stopping rule is met, and not by rounding or
       noise, the other one goes on from the best point, and there are no further changes; L-BFGS
       stalls where a line search takes ten evaluations and f has not fallen, and is also left where
       an answer is not finite

    Guarantee: that of the method in use, `geartrain.methods.ProximalQuasiNewton` or
    `geartrain.ScipyLBFGS`. A change costs the calls with which the next method starts.

    Parameters
    ----------
    choice : Choice
        Made by `geartrain.planner.choose`.
    prices : Prices
        Of one call.
    """

    choice: Choice
    prices: Prices = field(default_factory=Prices)

    @property
    def needs(self) -> tuple[str, ...]:
        """What the first method needs."""
        return self.choice.method.needs

    @property
    def any_geometry(self) -> bool:
        """Whether the first method works in any geometry."""
        return getattr(self.choice.method, "any_geometry", False)

    def solve(self, problem: Sum, x0: Vector, report: Report) -> None:
        """Run from x0."""
        self._run(problem, x0, report, self.choice, None, Race())

    def resume(self, problem: Sum, state: AutoState, report: Report) -> None:
        """Go on from `state`."""
        self._run(problem, state.point, report, state.choice, state.current, state.race)

    def describe(self, problem: Sum, state: AutoState | None) -> str:
        """The choice, what happened, and the bill."""
        choice = self.choice if state is None else state.choice
        others = alternatives(problem, self.prices, choice.name)
        return str(replace(choice, bill=Bill.of(problem.ledger, self.prices), others=others))

    def _run(
        self,
        problem: Sum,
        x0: Vector,
        report: Report,
        choice: Choice,
        current: State | None,
        race: Race,
    ) -> None:
        p = exchanged(problem) if choice.exchanged else problem
        note = ""
        if current is not None and not isinstance(choice.current, Method):
            name = type(choice.current).__name__
            note = f"{name} cannot be stepped: started again from the last point"
        while True:
            leg = _Leg(self, p, choice, report, note, race)
            try:
                if current is None or leg.goes_on(current):
                    drive(choice.current, p, x0, leg.tell, current)
            except NonFiniteAnswer:
                leg.change = leg.after_infinity()
                if leg.change is None:
                    raise
            if leg.ended or (leg.change is None and choice.settled):
                return
            change, race = leg.change or _stalled(choice), leg.race
            if change.reason is Reason.EXPENSIVE:
                p, choice = exchanged(p), replace(choice, exchanged=True, told=change.told)
                note = f"h and g have changed roles: {change.told}"
                current = _with_exchanged_roles(p, choice, leg.state)
                continue
            choice = replace(choice, changes=(*choice.changes, change))
            note = f"method changed: {change.told}"
            x0, current = leg.best, None
            following = choice.current
            if isinstance(following, Method):
                current = following.init(p, x0)  # the point itself was reported before


class _Leg:
    """The part of a run that one method makes: reports its states, and says when it is left."""

    def __init__(
        self, auto: Auto, problem: Sum, choice: Choice, report: Report, note: str, race: Race
    ) -> None:
        self.auto, self.problem, self.choice, self.report = auto, problem, choice, report
        self.note = note  # for the first state
        self.race = race
        self.ended = False  # the whole run
        self.change: Change | None = None  # why the method is left
        self.best, self.lowest = np.zeros(0), math.inf  # the point of the lowest value
        self.state: State | None = None  # the last one
        self.asked = self._calls()  # gradients of h until the last state
        self.size = math.nan  # |grad f| where it began, or the race was last looked at
        self.begun = self.looked = clock.perf_counter()

    def tell(self, state: State) -> bool:
        """Report a new state of the method; True if the method should end."""
        note = "; ".join(filter(None, (self.note, state.note)))
        self.note = ""
        told = AutoState(current=state, choice=self.choice, note=note, race=self._race_now())
        self.ended = self.report(told)
        return self.ended or not self.goes_on(state)

    def goes_on(self, state: State) -> bool:
        """Whether the method goes on from `state`."""
        calls, self.state = self._calls(), state
        lost = calls - self.asked >= _SEARCH and not state.value < self.lowest
        self.asked = calls
        if not state.value > self.lowest:  # the newest where no value is known
            self.best, self.lowest = state.point, state.value
        choice = self.choice
        if lost and choice.current_name == "lbfgs" and not choice.settled:
            self.change = _stalled(choice)
        else:
            self.change = self._leave(state)
        return self.change is None

    def _leave(self, state: State) -> Change | None:
        """Line 2: why the method should be left now, or None."""
        auto, choice, problem = self.auto, self.choice, self.problem
        if choice.settled:
            return None
        if state.stalled:
            return _stalled(choice)
        if auto.prices.given is not None or choice.name != "pqn":
            return None
        dear, cheap, calls = problem.h.name, problem.g.name, problem.ledger.calls
        if calls.get(f"{dear}.grad") == 1 and choice.current_name == "pqn":
            at_h, at_g = (
                auto.prices.of_call(f"{name}.grad", problem.ledger) for name in (dear, cheap)
            )
            if isinstance(problem.g.term, Zero):
                at_g = 0.0
            if at_h + at_g < _CHEAP and choice.runner_up is not None:
                told = Reason.CHEAP.value.format(evaluation=at_h + at_g)
                return Change(Reason.CHEAP, told)
            if at_h <= _DEARER * at_g and isinstance(state, PQNState) and problem.h_is_convex:
                told = Reason.EXPENSIVE.value.format(dear=cheap, ratio=at_g / at_h)
                return Change(Reason.EXPENSIVE, told)
        if choice.changes or (choice.runner_up is not None and self._mostly_own(state)):
            return self._by_race(state)
        return None

    def _mostly_own(self, state: State) -> bool:
        """Whether the learned method takes longer than what it asks."""
        own = sum(state.own) if isinstance(state, PQNState) else 0.0
        return own > sum(self.problem.ledger.seconds.values())

    def _race_now(self) -> Race:
        """With the seconds of this leg."""
        return replace(self.race, spent=self.race.spent + clock.perf_counter() - self.begun)

    def _by_race(self, state: State) -> Change | None:
        """A change to the method that gains more per second, where it is time to compare them."""
        if state.grad is None:
            return None
        size = self.problem.geometry.norm(state.grad)
        if math.isnan(self.size):
            self.size = size
        race = self._race_now()
        if race.spent < race.until:
            return None
        now = clock.perf_counter()
        name, seconds = self.choice.current_name, now - self.looked
        other = self.choice.name if name == self.choice.second else self.choice.second
        gained = math.log(self.size / size) if 0.0 < size < self.size else 0.0
        rates = {**race.rates, name: gained / seconds if seconds > 0.0 else math.inf}
        tried = other in rates
        self.race = replace(self.race, until=(2.0 if tried else _TRY) * race.spent, rates=rates)
        self.size, self.looked = size, now
        if tried and rates[other] <= _AHEAD * rates[name]:
            return None
        told = Reason.SLOWER.value.format(name=name, seconds=race.spent)
        self.race = replace(self.race, spent=race.spent)
        return Change(Reason.SLOWER, told)

    def after_infinity(self) -> Change | None:
        """The change of method after an answer that is not finite, or None if it ends the run."""
        choice = self.choice
        if choice.current_name != "lbfgs" or choice.settled or not self.best.size:
            return None
        return Change(Reason.NON_FINITE, Reason.NON_FINITE.value)

    def _calls(self) -> int:
        """Gradients of h so far."""
        return self.problem.ledger.calls.get(f"{self.problem.h.name}.grad", 0)


def _stalled(choice: Choice) -> Change:
    name = {"lbfgs": "L-BFGS"}.get(choice.current_name, choice.current_name)
    return Change(Reason.STALLED, Reason.STALLED.value.format(name=name))


def _with_exchanged_roles(problem: Sum, choice: Choice, state: State | None) -> State:
    """The start of the learned method on the exchanged problem: all terms are known already."""
    assert isinstance(choice.method, ProximalQuasiNewton) and isinstance(state, PQNState)
    at, terms = state.at, TermEvaluator(problem, state.scale)
    swapped = replace(at, h=at.g, grad_h=at.grad_g, g=at.h, grad_g=at.grad_h)
    return choice.method.start(terms, swapped)


def exchanged(problem: Sum) -> Sum:
    """The same sum with h and g in each other's place."""
    return replace(problem, h=problem.g, g=problem.h, L_h=problem.L_g, L_g=problem.L_h)
