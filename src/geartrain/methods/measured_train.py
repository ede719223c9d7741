r"""Levels by what the first calls show, where no prices are given.

=========  ==================  ============================================================
symbol     name                meaning
=========  ==================  ============================================================
p_i        ``price``           seconds per gradient of a term, and the library's own share
L_i        ``L``               smoothness of a term: known, or the largest secant
                               \|change of grad h_i\|/\|step\| of the first iteration
=========  ==================  ============================================================
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast

from geartrain import theory
from geartrain.methods.arrangement import are_alike, listed
from geartrain.methods.delegated import Delegated
from geartrain.methods.learned_levels import learned, levels_of
from geartrain.methods.learned_train import LearnedTrain
from geartrain.methods.levels import Levels, told
from geartrain.methods.pqn.method import ProximalQuasiNewton
from geartrain.methods.smoothness import curvature
from geartrain.methods.train import Train
from geartrain.oracles.answer_cache import AnswerCache, Answered, CachedOracle
from geartrain.oracles.protocols import Vector
from geartrain.problem import Sum, Summand

# Seconds of the library's own arithmetic per gradient, about what an inner step takes for some
# thousand variables. Terms that answer faster than that are alike.
_OWN = 1e-4
# Levels are changed after the first iteration where the bill falls by this factor at least; half
# of that is within the noise of two calls and the error of the cost model.
_WORTH = 1.25
# Answers of the first iteration that are recalled where the next method starts.
_RECENT = 16
# The smoothness in use for a term that has shown no curvature, over the largest one.
_FLAT = 1e-3

Timing = tuple[int, float]  # gradients so far, and their seconds


class LargestSecant:
    """Notes the largest secant of the gradients of a term.

    Parameters
    ----------
    geometry : Geometry
        Of the norms.
    """

    def __init__(self, geometry: Any) -> None:
        self.geometry, self.secant = geometry, math.nan

    def __call__(self, known: AnswerCache, new: Answered) -> None:
        """Look at a new answer beside the last one."""
        before = (*known.recent, *known.kept.get(0, ()))
        if before:
            norm, old = self.geometry.norm, before[0]
            size = norm(old.grad) + norm(new.grad)
            seen = curvature(new.x - old.x, new.grad - old.grad, size, self.geometry)
            self.secant = seen if math.isnan(self.secant) else max(self.secant, seen)


class _Observed(CachedOracle):
    """A counted oracle that recalls its answers, and the largest secant of its gradient."""

    def __init__(self, oracle: Any, geometry: Any) -> None:
        self.largest = LargestSecant(geometry)
        super().__init__(oracle, _RECENT, self.largest)
        self.kept = {}  # chains of levels with this oracle in them end with it


@dataclass(frozen=True, kw_only=True)
class MeasuredState(Delegated):
    """State of `MeasuredTrain`: that of the method on the levels in use, and how they came."""

    method: Any  # on these levels
    # After the first calls; both are empty once the levels are settled.
    recalled: dict[str, AnswerCache] = field(default_factory=dict)
    timings: dict[str, Timing] = field(default_factory=dict)
    changed: bool = False  # the levels, after the first iteration

    @property
    def gap_weight(self) -> float:  # type: ignore[override]
        """That of the method, if it has started at x0."""
        return math.nan if self.changed else self.current.gap_weight


@dataclass(frozen=True)
class MeasuredTrain:
    r"""The learned method on levels that follow from the seconds and curvatures of the first calls.

    Algorithm, from x_0:

    1. every term is asked for its gradient at x_0; the levels follow from the seconds of these
       calls and the constants that are known, dearest first
    2. one iteration on these levels
    3. the levels are chosen again, by the seconds of the calls after the first one and with the
       largest secants in place of unknown constants; where the bill falls by a quarter, the run
       goes on from the new point on the new levels

    Where seconds are alike up to a factor of 3, the levels are as listed.

    Guarantee: that of the method on the levels in use. No gradient is asked for twice.
    """

    needs: ClassVar[tuple[str, ...]] = ("grad",)
    any_geometry: ClassVar[bool] = True
    takes_psi: ClassVar[bool] = True

    def init(self, problem: Sum, x0: Vector) -> MeasuredState:
        """Line 1."""
        seen = _observed(problem, {})
        for oracle in _leaves(seen):
            oracle.keep_start(0, x0)
        timings = _timings(problem)
        method = _chosen(problem, _prices(timings, {}), _constants(problem))
        return MeasuredState(
            current=method.init(seen, x0),
            method=method,
            recalled={oracle.name: oracle.recalled for oracle in _leaves(seen)},
            timings=timings,
        )

    def step(self, problem: Sum, state: MeasuredState) -> MeasuredState:
        """Line 2, and line 3 after the first iteration."""
        if not state.recalled:
            current = state.method.step(problem, state.current)
            return replace(state, current=current, note=current.note)
        seen = _observed(problem, state.recalled)
        current = state.method.step(seen, state.current)
        settled = replace(state, current=current, note=current.note, recalled={}, timings={})
        price = _prices(_timings(problem), state.timings)
        L = _constants(problem) | _secants(problem, seen)
        method, before = _chosen(problem, price, L), state.method.levels
        if method.levels == before:
            return replace(settled, method=method)  # with better numbers
        if current.stalled or not _pays(before, method.levels, price, L, problem):
            return settled
        note = f"levels changed from {told(before)} to {told(method.levels)}"
        begun = method.init(seen, current.point)  # the gradients there are recalled
        return replace(settled, current=begun, method=method, changed=True, note=note)

    def describe(self, problem: Sum, state: MeasuredState | None) -> str:
        """The levels, and why."""
        if state is None:
            return "levels by the seconds of the first calls"
        return state.method.describe(problem, state.current)


def _chosen(
    problem: Sum, price: dict[str, float], L: Mapping[str, float | None]
) -> Train | LearnedTrain:
    """The learned method on the levels that these numbers tell."""
    if are_alike(price):
        first, *others = listed(problem)
        why = "pqn, as listed, because a gradient of each term takes about as long"
        # It has L-BFGS on the sum among its models.
        return Train((first, sum(others, ())), ProximalQuasiNewton(rho=None), why)
    levels, why = levels_of(problem, price, L)
    why += f" (measured: {', '.join(f'{name} {price[name]:.2g} s' for name in price)})"
    return learned(problem, levels, why, price)


def _observed(problem: Sum, recalled: Mapping[str, AnswerCache]) -> Sum:
    """The same sum, with oracles that recall and note secants."""
    seen = []
    for oracle, L in problem.summands:
        cached = _Observed(oracle, problem.geometry)
        cached.recalled = recalled.get(oracle.name, AnswerCache())
        seen.append(Summand(cached, L))
    *expensive, last = seen
    h = Summand.of(expensive)
    return replace(problem, h=h.oracle, g=last.oracle, expensive=tuple(expensive))


def _leaves(seen: Sum) -> tuple[_Observed, ...]:
    return cast("tuple[_Observed, ...]", seen.oracles)


def _timings(problem: Sum) -> dict[str, Timing]:
    calls, seconds = problem.ledger.calls, problem.ledger.seconds
    keys = {oracle.name: f"{oracle.name}.grad" for oracle in problem.oracles}
    return {name: (calls[key], seconds[key]) for name, key in keys.items()}


def _prices(now: Mapping[str, Timing], then: Mapping[str, Timing]) -> dict[str, float]:
    """Seconds per gradient since `then`, or since the start where there was none."""
    price = {}
    for name, (calls, seconds) in now.items():
        before, spent = then.get(name, (0, 0.0))
        if calls == before:
            before, spent = 0, 0.0
        price[name] = (seconds - spent) / max(calls - before, 1) + _OWN
    return price


def _constants(problem: Sum) -> dict[str, float | None]:
    return {s.oracle.name: s.L.value for s in problem.summands}


def _secants(problem: Sum, seen: Sum) -> dict[str, float]:
    """The largest secants of the terms without a constant."""
    unknown = [s.oracle.name for s in problem.summands if s.L.value is None]
    found = {o.name: o.largest.secant for o in _leaves(seen) if o.name in unknown}
    known = {name: secant for name, secant in found.items() if not math.isnan(secant)}
    floor = _FLAT * max(known.values(), default=0.0)
    return {name: max(secant, floor) for name, secant in known.items() if floor > 0.0}


def _pays(
    old: Levels,
    new: Levels,
    price: Mapping[str, float],
    L: Mapping[str, float | None],
    problem: Sum,
) -> bool:
    """Whether new levels cost much less than the old ones."""
    known = {name: value for name, value in L.items() if value is not None}
    if len(known) < len(price):
        return False
    mu = problem.mu.value or 0.0
    before, after = (theory.level_bill(levels, known, price, mu=mu) for levels in (old, new))
    return before > _WORTH * after
