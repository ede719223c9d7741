"""``method="auto"``: steps the method that the planner has chosen, and changes it where it fails.

SAE-QN weighs prices itself: L-BFGS on the sum is one of its models. So it is left only where
measured prices turn out to be alike, or the terms take so little time that its own arithmetic is
what is paid for: L-BFGS in compiled code has less of it. Where that stalls before the stopping rule
is met, or meets an answer that is not finite, SAE-QN goes on: its test is not a comparison of
values, and it comes back from outside the domain of a term.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from geartrain.methods.base import Method, Report, State, drive
from geartrain.methods.choice import (
    ALIKE,
    LAST,
    Bill,
    Change,
    Choice,
    Prices,
    Reason,
    alternatives,
)
from geartrain.methods.delegated import Delegated
from geartrain.methods.quasi_newton.sae_qn import SAEQN
from geartrain.methods.quasi_newton.seconds import Usage
from geartrain.methods.quasi_newton.state import SAEQNState
from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.oracles.protocols import Vector
from geartrain.problem import Sum

# Evaluations of a line search of L-BFGS that finds no lower point; they are seldom more than five.
_SEARCH = 10
# h and g change roles where a gradient of h takes at most this part of the seconds of one of g, and
# that one at least so many: a trial point of SAE-QN itself takes as long.
_DEARER, _WORTH = 0.25, 1e-3


@dataclass(frozen=True, kw_only=True)
class AutoState(Delegated):
    """State of `Auto`: that of the current method, and how the run came there."""

    choice: Choice  # with the changes so far

    @property
    def gap_weight(self) -> float:  # type: ignore[override]
        """That of the first method: a later one has started from another point."""
        return math.nan if self.choice.changes else self.current.gap_weight

    @property
    def stalled(self) -> bool:  # type: ignore[override]
        """Whether the current method is, and no other one goes on."""
        shown = self.current.rounding or self.current.noisy
        return self.current.stalled and (self.choice.settled or shown)


@dataclass(frozen=True)
class Auto:
    """The method of a `Choice`, and its runner-up where that method does not do well.

    Algorithm, from x_0 with the method of the choice:

    1. one iteration of the current method
    2. SAE-QN is left for L-BFGS on the sum, from the last point, where measured prices turn out to
       be alike after the first evaluations, or its own arithmetic to be most of what is paid for;
       where g turns out to be the dearer term then, h and g change roles
    3. where the current method stalls before the stopping rule is met, and not by rounding or
       noise, the other one goes on from the best point, and there are no further changes; L-BFGS
       stalls where a line search takes ten evaluations and f has not fallen, and is also left where
       an answer is not finite

    Guarantee: that of the method in use, `geartrain.methods.SAEQN` or `geartrain.ScipyLBFGS`. A
    change costs the calls with which the next method starts. With SAE-QN at a price ratio rho, the
    bill is at most twice that of L-BFGS on the sum with the same number of calls of h, and that of
    3 max(10, rho) gradients of g, where no proven step is taken and h is not known to be a
    quadratic.

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
        self._run(problem, x0, report, self.choice, None)

    def resume(self, problem: Sum, state: AutoState, report: Report) -> None:
        """Go on from `state`."""
        self._run(problem, state.point, report, state.choice, state.current)

    def describe(self, problem: Sum, state: AutoState | None) -> str:
        """The choice, what happened, and the bill."""
        choice = self.choice if state is None else state.choice
        others = alternatives(problem, self.prices, choice.name)
        return str(replace(choice, bill=Bill.of(problem.ledger, self.prices), others=others))

    def _run(
        self, problem: Sum, x0: Vector, report: Report, choice: Choice, current: State | None
    ) -> None:
        p = exchanged(problem) if choice.exchanged else problem
        note = ""
        if current is not None and not isinstance(choice.current, Method):
            name = type(choice.current).__name__
            note = f"{name} cannot be stepped: started again from the last point"
        while True:
            leg = _Leg(self, p, choice, report, note)
            try:
                if current is None or leg.goes_on(current):
                    drive(choice.current, p, x0, leg.tell, current)
            except NonFiniteAnswer:
                leg.change = leg.after_infinity()
                if leg.change is None:
                    raise
            if leg.ended or (leg.change is None and choice.settled):
                return
            change = leg.change or _stalled(choice)
            if change.reason is Reason.EXPENSIVE:
                p, choice = exchanged(p), replace(choice, exchanged=True, told=change.told)
                note = f"h and g have changed roles: {change.told}"
                current = _with_exchanged_roles(p, choice, leg.state)
                continue
            choice = replace(choice, changes=(*choice.changes, change))
            note = f"method changed: {change.told}"
            x0, current = leg.best, None
            following = choice.current
            if change.reason in LAST and isinstance(following, Method):
                current = following.init(p, x0)  # the point itself was reported before
                if isinstance(current, SAEQNState):  # what f fell before counts, too
                    current = replace(current, top=max(current.top, leg.first))

    def leave(self, problem: Sum, choice: Choice, state: State) -> Change | None:
        """Line 2: why the method should be left now, or None."""
        if choice.settled or choice.changes or not isinstance(choice.method, Method):
            return None
        if state.stalled:
            return _stalled(choice)
        if choice.name != "sae-qn" or self.prices.given is not None:
            return None
        if isinstance(state, SAEQNState) and state.first.calls_h:
            used = Usage.of(problem, state.own).since(state.first)
            if used.is_mostly_own:
                told = Reason.OWN_TIME.value.format(
                    iteration=used.per_call, evaluation=used.evaluation
                )
                return Change(Reason.OWN_TIME, told)
        dear, cheap, calls = problem.h.name, problem.g.name, problem.ledger.calls
        if calls[f"{dear}.grad"] != 1:
            return None
        ratio = self.prices.of(dear, problem) / self.prices.of(cheap, problem)
        if ratio >= ALIKE:
            return None
        dearer = ratio <= _DEARER and self.prices.of(cheap, problem) >= _WORTH
        if dearer and isinstance(state, SAEQNState) and problem.h_is_convex:
            told = Reason.EXPENSIVE.value.format(dear=cheap, ratio=1.0 / ratio)
            return Change(Reason.EXPENSIVE, told)
        if choice.reason is Reason.QUADRATIC:  # what is learned of h is exact
            return None
        told = Reason.CHEAP.value.format(dear=dear, cheap=cheap, ratio=ratio)
        return Change(Reason.CHEAP, told)


class _Leg:
    """The part of a run that one method makes: reports its states, and says when it is left."""

    def __init__(self, auto: Auto, problem: Sum, choice: Choice, report: Report, note: str) -> None:
        self.auto, self.problem, self.choice, self.report = auto, problem, choice, report
        self.note = note  # for the first state
        self.ended = False  # the whole run
        self.change: Change | None = None  # why the method is left
        self.best, self.lowest = np.zeros(0), math.inf  # the point of the lowest value
        self.state: State | None = None  # the last one
        self.first = math.nan  # value
        self.asked = self._calls()  # gradients of h until the last state

    def tell(self, state: State) -> bool:
        """Report a new state of the method; True if the method should end."""
        note = "; ".join(filter(None, (self.note, state.note)))
        self.note = ""
        self.ended = self.report(AutoState(current=state, choice=self.choice, note=note))
        return self.ended or not self.goes_on(state)

    def goes_on(self, state: State) -> bool:
        """Whether the method goes on from `state`."""
        calls, self.state = self._calls(), state
        lost = calls - self.asked >= _SEARCH and not state.value < self.lowest
        self.asked = calls
        if not self.best.size:
            self.first = state.value
        if not state.value > self.lowest:  # the newest where no value is known
            self.best, self.lowest = state.point, state.value
        choice = self.choice
        if lost and choice.current_name == "lbfgs" and not choice.settled:
            self.change = _stalled(choice)
        else:
            self.change = self.auto.leave(self.problem, choice, state)
        return self.change is None

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
    """The start of SAE-QN on the exchanged problem, where both terms are known already."""
    assert isinstance(choice.method, SAEQN) and isinstance(state, SAEQNState)
    return choice.method.start(problem, state.at.exchanged())


def exchanged(problem: Sum) -> Sum:
    """The same sum with h and g in each other's place."""
    return replace(problem, h=problem.g, g=problem.h, L_h=problem.L_g, L_g=problem.L_h)
