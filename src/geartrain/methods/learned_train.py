r"""The learned method on any number of levels.

=========  ==================  ============================================================
symbol     name                meaning
=========  ==================  ============================================================
h_i        ``problem.h``       the terms of level i: modelled by pqn, asked once per trial
                               point of that level
phi_i      ``phi``             model of level i: <grad h_i(p), v> + 1/2 <v - p, B_i (v - p)>
                               + all further levels
g          ``problem.g``       last level: asked in the inner runs of the one before
=========  ==================  ============================================================

A trial point of level i minimises phi_i. This is again a sum of two terms, h_{i+1} and the rest,
and the same method minimises it. What a level has learned about its terms is kept from one of its
runs to the next: h_{i+1} and g are the same functions in all of them, and only the quadratic part
of phi_i changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from operator import mul
from typing import Any, ClassVar

import numpy as np

from geartrain.geometry import Geometry
from geartrain.methods.nested_sum import Levels, Rest, arranged, told
from geartrain.methods.pqn.evaluation import TermEvaluator
from geartrain.methods.pqn.inner_method import QuadraticModel, ShiftedOracle
from geartrain.methods.pqn.low_rank import LowRank
from geartrain.methods.pqn.method import ProximalQuasiNewton
from geartrain.methods.pqn.state import Learned, PQNState
from geartrain.oracles.answer_cache import AnswerCache, CachedOracle
from geartrain.oracles.protocols import Vector
from geartrain.oracles.sum_oracle import gradients
from geartrain.problem import Constant, Model, Sum

# Steps of a level after which an inner run is given up.
_MOST = 40
# Trial points of the level below, per trial point, beyond which the guard looks for a cheaper way:
# twice the number of gradients that an inner run of ProximalQuasiNewton may always take.
_MANY = 20
# An infinite ratio of prices counts as this one.
_DEAREST = 100.0
# The ratio of prices of neighbours where none is given.
_RATIO = 10.0

_UNKNOWN = Constant(None, "unknown")


@dataclass(frozen=True)
class Spent:
    """What iterations of one kind have cost, and what they have gained; older ones fade."""

    bill: float = 0.0  # in gradients of the last level
    gain: float = 0.0  # ln of the decrease of |grad f|
    runs: int = 0

    def after(self, bill: float, gain: float) -> Spent:
        """With one more iteration."""
        return Spent(0.7 * self.bill + bill, 0.7 * self.gain + gain, self.runs + 1)

    @property
    def rate(self) -> float:
        """Bill per gain; infinite without a gain."""
        return self.bill / self.gain if self.gain > 0.0 else math.inf


@dataclass(frozen=True)
class Account:
    """The guard of a level: whether a model of the level below is worth what it costs."""

    nested: Spent = Spent()  # iterations with such a model
    plain: Spent = Spent()  # iterations without
    doubtful: bool = False  # an iteration with a model has failed, or was long

    @property
    def is_plain_next(self) -> bool:
        """Whether the next iteration does without a model of the level below.

        In doubt it is tried once; then the cheaper kind goes on.
        """
        if not self.plain.runs:
            return self.doubtful
        return self.plain.rate < self.nested.rate


@dataclass
class Level:
    """One level of a run: pqn, with the levels below as its inner method or without them."""

    method: ProximalQuasiNewton
    bill: Callable[[], float]  # of this level and all below, in gradients of the last one
    below: LearnedGear | None = None  # None for the last level but one
    account: Account = Account()

    def step(self, problem: Sum, state: PQNState) -> PQNState:
        """One iteration."""
        if self.below is None:
            return self.method.step(problem, state)
        plain, norm = self.account.is_plain_next, problem.geometry.norm
        method = self.method if plain else replace(self.method, inner=self.below)
        before, asked = self.bill(), self.below.asked()
        self.below.failed = False
        after = method.step(problem, state)
        size, new = norm(state.at.r), norm(after.at.r)
        gain = math.log(size / new) if 0.0 < new < size else 0.0
        bill, account = self.bill() - before, self.account
        if plain:
            self.account = replace(account, plain=account.plain.after(bill, gain))
        else:
            long = self.below.asked() - asked > _MANY * max(after.trials, 1)
            self.account = Account(
                account.nested.after(bill, gain),
                account.plain,
                account.doubtful or self.below.failed or long,
            )
        return after


@dataclass(frozen=True)
class LearnedGearState:
    """State of `LearnedGear`."""

    v: Vector
    grad_g: Vector  # of the sum that the level splits, and of the low-rank part
    level: PQNState
    grad_psi: Vector  # in dpsi(v)
    guessed: bool = False


@dataclass
class LearnedGear:
    """A level as an inner method for the models of the level above.

    It is made for one iteration of the first level, and keeps what its runs learn.

    Parameters
    ----------
    level : Level
        The level.
    number : int
        Its number, counted from the first level on.
    h : CachedOracle
        The terms of the level.
    before : Learned, optional
        By earlier runs, without the quadratic part of their phi.
    """

    level: Level
    number: int
    h: CachedOracle
    before: Learned | None = None
    failed: bool = False  # a run has ended because the level found no further step
    _last: tuple[PQNState, tuple[QuadraticModel, ...], Geometry] | None = None  # of the last run

    needs: ClassVar[tuple[str, ...]] = ("grad",)
    any_geometry: ClassVar[bool] = True
    takes_psi: ClassVar[bool] = True
    recalls: ClassVar[bool] = True  # the gradients of all terms where a run ends

    @property
    def learned(self) -> Learned | None:
        """By all runs so far, without the quadratic part of their phi."""
        if self._last is not None:
            state, quadratics, geometry = self._last
            self.before, self._last = _shifted(state.learned, quadratics, -1.0, geometry), None
        return self.before

    def init(
        self, phi: Model, v0: Vector, grad_g0: Vector | None, warm: Any = None
    ) -> LearnedGearState:
        """Start at v0, where the gradients of all terms are recalled."""
        split, quadratics = _parts(phi)
        for oracle in _oracles(split):
            oracle.keep_start(self.number, v0)
        terms, method, learned = TermEvaluator(_lowered(phi)), self.level.method, self.learned
        if learned is None:
            return self._after(phi, method.start(terms, terms.both(v0)))
        learned = _shifted(learned, quadratics, 1.0, phi.geometry)
        return self._after(phi, method.begin(terms, terms.both(v0), learned))

    def step(self, phi: Model, state: LearnedGearState) -> LearnedGearState:
        """One iteration of the level."""
        if state.level.stalled:
            self.failed = True
            return state
        return self._after(phi, self.level.step(_lowered(phi), state.level))

    def limit(self, phi: Model) -> int:
        """The number of steps after which a run is given up."""
        return _MOST

    def asked(self) -> int:
        """Gradients of the level so far."""
        return gradients(self.h)[0]

    def _after(self, phi: Model, level: PQNState) -> LearnedGearState:
        (split, quadratics), v = _parts(phi), level.at.v
        for oracle in _oracles(split):
            oracle.keep_end(self.number, v)
        self._last = level, quadratics, phi.geometry
        grad_g = level.at.grad - phi.beta - phi.alpha * v
        return LearnedGearState(v, grad_g, level, level.at.r - level.at.grad)


def _parts(phi: Model) -> tuple[Sum, tuple[QuadraticModel, ...]]:
    """The sum that a level splits, and the quadratics that the levels above have added to it."""
    beneath = QuadraticModel(phi.beta, LowRank(phi.alpha), np.zeros_like(phi.beta), phi.geometry)
    quadratics, oracle = [beneath], phi.g
    while isinstance(oracle, ShiftedOracle):
        quadratics.append(oracle.quadratic)
        oracle = oracle.oracle
    return oracle.problem, tuple(quadratics)


def _lowered(phi: Model) -> Sum:
    """The problem of a level: the quadratics belong to the side of g."""
    split, quadratics = _parts(phi)
    g = split.g
    for quadratic in quadratics:
        g = ShiftedOracle(g, quadratic)
    mu = Constant(0.0, "unknown")
    return Sum(split.h, g, _UNKNOWN, _UNKNOWN, mu, split.seed, split.geometry, psi=phi.psi)


def _shifted(
    learned: Learned, quadratics: Sequence[QuadraticModel], sign: float, geometry: Geometry
) -> Learned:
    """With the curvature of the quadratics added to that of g, or taken away (`sign` -1)."""

    def shift(s: Vector) -> Vector:
        return sign * sum((quadratic.B(s) for quadratic in quadratics), np.zeros_like(s))

    memory = learned.memory
    memory = memory.with_pairs_shifted([shift(s) for s in memory.rows[::3]], geometry)
    inner_pairs = tuple((s, y_g + shift(s)) for s, y_g in learned.inner_pairs)
    return replace(learned, memory=memory, inner_pairs=inner_pairs)


def _oracles(split: Sum) -> list[CachedOracle]:
    """The oracles of all levels of a sum, outermost first."""
    found = [split.h]
    while isinstance(split.g, Rest):
        split = split.g.problem
        found.append(split.h)
    return [*found, split.g]


@dataclass(frozen=True, kw_only=True)
class LearnedTrainState(PQNState):
    """State of `LearnedTrain`: that of pqn on the first level, and what the next step needs."""

    recalled: tuple[AnswerCache, ...] = ()  # by the oracles of all levels but the first
    learned_below: tuple[Learned | None, ...] = ()  # by all levels but the first and the last
    accounts: tuple[Account, ...] = ()  # of all levels but the last


@dataclass(frozen=True)
class LearnedTrain:
    r"""The learned method on any number of levels, h_1 > h_2 > ... > g; needs no constants.

    Algorithm, from p = x_0:

    1. `ProximalQuasiNewton` on h_1 + (h_2 + ... + g): one gradient of h_1 per trial point
    2. its models phi are minimised by `LearnedGear`, which is `ProximalQuasiNewton` on h_2 + (the
       other levels and the quadratic part of phi), and so on; every level starts with what it has
       learned before
    3. a guard on each level: where an inner run fails or is long, one iteration is made without a
       model of the level below, that is, all further levels are asked equally often; then the kind
       goes on that costs less per decrease of \|grad f\|

    Guarantee: that of `ProximalQuasiNewton` on the first level, whatever the models of all levels
    are worth. Nothing is asked twice: the gradients at the start of an inner run are recalled.

    Parameters
    ----------
    levels : tuple of tuple of str
        The names of the terms on each level, outermost first.
    first : ProximalQuasiNewton
        The method of the first level, with that of the second level as its `inner`, and so on; the
        `rho` of each is the price of a gradient of its level over one of the next. By default 10
        each.
    reason : str
        Why these levels, for ``res.plan``.
    """

    levels: Levels
    first: ProximalQuasiNewton | None = None
    reason: str = ""

    needs: ClassVar[tuple[str, ...]] = ("grad",)
    any_geometry: ClassVar[bool] = True
    takes_psi: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if len(self.levels) < 2:
            raise ValueError(f"LearnedTrain needs two levels or more, got {told(self.levels)}")
        steps = len(self.levels) - 1
        if self.first is None:
            object.__setattr__(self, "first", nested((_RATIO,) * steps))
        if len(self.methods) != steps:
            raise ValueError(
                f"ProximalQuasiNewton is nested {len(self.methods)} times, but "
                f"{told(self.levels)} needs {steps}, one for every level but the last"
            )

    @property
    def methods(self) -> tuple[ProximalQuasiNewton, ...]:
        """The method of every level but the last, the first one first."""
        assert self.first is not None
        found = [self.first]
        while isinstance(found[-1].inner, ProximalQuasiNewton):
            found.append(found[-1].inner)
        return tuple(found)

    def init(self, problem: Sum, x0: Vector) -> LearnedTrainState:
        """All terms at x0."""
        f = self._split(problem)
        terms, steps = TermEvaluator(f), len(self.methods)
        state = self.methods[0].start(terms, terms.both(x0))
        return LearnedTrainState(
            **_fields(state),
            recalled=tuple(oracle.recalled for oracle in _oracles(f)[1:]),
            learned_below=(None,) * (steps - 1),
            accounts=(Account(),) * steps,
        )

    def step(self, problem: Sum, state: LearnedTrainState) -> LearnedTrainState:
        """One iteration of the first level."""
        f = self._split(problem)
        oracles = _oracles(f)
        for oracle, recalled in zip(oracles[1:], state.recalled, strict=True):
            oracle.recalled = recalled
        levels = self._made(oracles, state)
        after = levels[0].step(f, state)
        gears = [level.below for level in levels if level.below is not None]
        return LearnedTrainState(
            **_fields(after),
            recalled=tuple(oracle.recalled for oracle in oracles[1:]),
            learned_below=tuple(gear.learned for gear in gears),
            accounts=tuple(level.account for level in levels),
        )

    def describe(self, problem: Sum, state: LearnedTrainState | None) -> str:
        """The levels, why, and how the second one was treated."""
        words = f"{told(self.levels)}: pqn on every level, {self.reason or 'as given'}"
        if state is None or not state.accounts[0].plain.runs:
            return words
        account = state.accounts[0]
        return (
            f"{words}; {account.nested.runs} iterations with a model of the second level, "
            f"{account.plain.runs} without, whichever costs less"
        )

    def _made(self, oracles: list[Any], state: LearnedTrainState) -> list[Level]:
        """The levels of one iteration, the first one first; each holds the next one."""
        methods = self.methods
        steps = [min(method.rho or _RATIO, _DEAREST) for method in reversed(methods)]
        prices = list(accumulate(steps, mul, initial=1.0))[::-1]
        levels: list[Level] = []
        for i in reversed(range(len(methods))):
            listed = list(zip(prices[i:], oracles[i:], strict=True))
            method = methods[i] if not levels else replace(methods[i], inner=None)
            level = Level(method, _bill_of(listed), account=state.accounts[i])
            if levels:
                learned = state.learned_below[i]
                level.below = LearnedGear(levels[0], i + 1, oracles[i + 1], learned)
            levels.insert(0, level)
        return levels

    def _split(self, problem: Sum) -> Sum:
        """The levels, all but the first with memory; made once per problem."""
        key = f"learned {told(self.levels)}"
        if key not in problem.h.kept:
            f = arranged(problem, self.levels)
            problem.h.kept[key] = replace(f, g=_with_memory(f.g))
        return problem.h.kept[key]


def nested(rho: Sequence[float]) -> ProximalQuasiNewton:
    """The learned method inside itself, at these ratios of prices, the first level first."""
    *outer, last = rho
    method = ProximalQuasiNewton(rho=last)
    for ratio in reversed(outer):
        method = ProximalQuasiNewton(rho=ratio, inner=method)
    return method


def _fields(state: PQNState) -> dict[str, Any]:
    return {part.name: getattr(state, part.name) for part in fields(PQNState)}


def _bill_of(priced: list[tuple[float, Any]]) -> Callable[[], float]:
    return lambda: sum(price * gradients(oracle)[0] for price, oracle in priced)


def _with_memory(oracle: Any) -> Any:
    """The oracles of a rest, each of which recalls its last answers."""
    if not isinstance(oracle, Rest):
        return CachedOracle(oracle)
    split = oracle.problem
    return Rest(replace(split, h=CachedOracle(split.h), g=_with_memory(split.g)))
