r"""The learned method on three levels.

=========  ============  ==========================================================
symbol     name          meaning
=========  ============  ==========================================================
h_1        ``f.h``       first level: modelled by `SAEQN`, asked once per trial point
h_2        ``level.h``   second level: modelled by a second `SAEQN` inside
g          ``level.g``   last level: asked in the inner runs of the second one
=========  ============  ==========================================================

A trial point of the first level minimises phi(v) = <grad h_1(p), v> + 1/2 <v - p, B_1 (v - p)> +
h_2(v) + g(v). This is again a sum of two terms, h_2 and the rest, and the same method minimises it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from geartrain.methods.inner.lbfgs import LBFGS
from geartrain.methods.levels import Levels, Rest, arranged, told
from geartrain.methods.quasi_newton.sae_qn import SAEQN
from geartrain.methods.quasi_newton.state import SAEQNState
from geartrain.oracles.protocols import Vector, answers
from geartrain.oracles.together import gradients
from geartrain.problem import Constant, Model, Sum

# Points whose gradients are remembered, besides the start and the end of the last inner run.
_RECENT = 3
# Steps of the second level after which an inner run is given up.
_MOST = 40

Entry = tuple[Vector, float, Vector]  # a point, the value there or nan, the gradient


class Recalling:
    """A counted oracle that does not ask again for the gradient at its last points."""

    def __init__(self, oracle: Any) -> None:
        self.oracle = oracle
        self.name, self.n, self.ledger = oracle.name, oracle.n, oracle.ledger
        self.term, self.kept = oracle.term, oracle.kept
        self.pinned: tuple[Entry, ...] = ()  # start and end of the last inner run
        self.recent: tuple[Entry, ...] = ()  # newest first
        if "value_and_grad" in answers(oracle.term):
            self.value_and_grad = self._fused

    def __getattr__(self, name: str) -> Any:
        return getattr(self.oracle, name)

    def grad(self, x: Vector) -> Vector:
        """The gradient: recalled, or one call."""
        return self._entry(x)[2]

    def _fused(self, x: Vector) -> tuple[float, Vector]:
        _, value, grad = self._entry(x)
        return value, grad

    def value(self, x: Vector) -> float:
        """The value: recalled where it has come with a gradient, or one call."""
        known = self._recalled(x)
        return self.oracle.value(x) if known is None or math.isnan(known[1]) else known[1]

    def pin(self, x: Vector, *, as_start: bool) -> None:
        """Keep the answer at x, where an inner run starts or where it is now."""
        entry = self._entry(x)
        self.pinned = (entry,) if as_start else (*self.pinned[:1], entry)

    def _recalled(self, x: Vector) -> Entry | None:
        known = (*self.pinned, *self.recent)
        return next((entry for entry in known if np.array_equal(entry[0], x)), None)

    def _entry(self, x: Vector) -> Entry:
        known = self._recalled(x)
        if known is not None:
            return known
        if "value_and_grad" in answers(self.term):
            value, grad = self.oracle.value_and_grad(x)
        else:
            value, grad = math.nan, self.oracle.grad(x)
        entry = (x.copy(), value, grad)
        self.recent = (entry, *self.recent[: _RECENT - 1])
        return entry


class Tilted:
    """g with the quadratic part of a model phi, and with the low-rank part that phi adds to it."""

    def __init__(self, g: Recalling, phi: Model) -> None:
        self.g, self.phi = g, phi
        self.name, self.n, self.ledger = g.name, g.n, g.ledger
        self.kept: dict[str, Any] = {}
        told: dict[str, Callable[..., Any]] = {"grad": self.grad}
        if "value_and_grad" in answers(g.term):
            self.value_and_grad = self._fused
            self.value = lambda v: self._fused(v)[0]
            told |= {"value_and_grad": self._fused, "value": self.value}
        self.term = SimpleNamespace(**told, n=g.n, convex=True, mu=0.0)

    def grad(self, v: Vector) -> Vector:
        """Gradient of the sum: one gradient of g."""
        return self.g.grad(v) + self._tilt(v)[1]

    def _fused(self, v: Vector) -> tuple[float, Vector]:
        value, grad = self.g.value_and_grad(v)
        own, tilt = self._tilt(v)
        return value + own, grad + tilt

    def _tilt(self, v: Vector) -> tuple[float, Vector]:
        phi, dot = self.phi, self.phi.geometry.dot
        grad = phi.beta + phi.alpha * v
        value = float(dot(phi.beta, v)) + 0.5 * phi.alpha * float(dot(v, v))
        if not isinstance(phi.g, Rest):  # a model with a low-rank part around p
            bent = phi.g.small(v - phi.g.p)
            value += 0.5 * float(dot(bent, v - phi.g.p))
            grad = grad + bent
        return value, grad


@dataclass(frozen=True)
class Spent:
    """What the inner runs of one kind have cost so far, and what they have gained."""

    bill: float = 0.0  # in gradients of g
    gain: float = 0.0  # ln of the residual's decrease
    runs: int = 0

    @property
    def rate(self) -> float:
        """Bill per gain; infinite without a gain."""
        return self.bill / self.gain if self.gain > 0.0 else math.inf


@dataclass
class Scratch:
    """What inner runs leave for the next ones; a copy of it is part of the state."""

    nested: Spent = field(default_factory=Spent)
    plain: Spent = field(default_factory=Spent)
    open: tuple[bool, float, float, float] | None = None  # nested?, bill, first, last residual

    @property
    def plain_is_next(self) -> bool:
        """Whether L-BFGS makes the next run: each of the two is tried, then the cheaper one."""
        if not self.nested.runs or not self.plain.runs:
            return self.nested.runs > 0
        return self.plain.rate < self.nested.rate

    def close(self) -> None:
        """Enter the run that has ended."""
        if self.open is None or self.open[1] == 0.0:  # met its rule at the start
            return
        is_nested, bill, first, last = self.open
        gain = math.log(first / last) if 0.0 < last < first else 0.0
        old = self.nested if is_nested else self.plain
        # Old runs fade: the terms may look otherwise near the solution.
        new = Spent(0.7 * old.bill + bill, 0.7 * old.gain + gain, old.runs + 1)
        if is_nested:
            self.nested = new
        else:
            self.plain = new
        self.open = None


@dataclass(frozen=True)
class LearnedGearState:
    """State of `LearnedGear`."""

    v: Vector
    grad_g: Vector  # of the sum that the level splits, and of the low-rank part
    level: Any  # state of the method that runs
    problem: Sum | None  # of the second level; None where L-BFGS runs on the sum
    start: float  # bill when the run began


@dataclass(frozen=True)
class LearnedGear:
    """SAEQN as an inner method for the model of another one, with a guard.

    The guard compares what a unit of progress costs with this method and with L-BFGS on h_2 + g,
    which asks both terms equally often. The first inner run is made by the former, the second one
    by the latter, and then the cheaper one goes on. So a level whose models mislead costs a few
    inner runs.

    Parameters
    ----------
    method : SAEQN
        For the second level.
    rho : float
        Price of a gradient of h_2 over that of one of g.
    """

    method: SAEQN = field(default_factory=SAEQN)
    rho: float = 10.0

    needs: ClassVar[tuple[str, ...]] = ("grad",)
    any_geometry: ClassVar[bool] = True

    def init(
        self, phi: Model, v0: Vector, grad_g0: Vector | None, warm: Any = None
    ) -> LearnedGearState:
        """Start at v0 with the cheaper of the two methods."""
        rest = _rest(phi)
        scratch: Scratch = rest.kept["scratch"]
        scratch.close()
        split, start = rest.problem, self._bill(rest.problem)
        for oracle in (split.h, split.g):
            oracle.pin(v0, as_start=True)
        if scratch.plain_is_next:
            level: Any = LBFGS().init(phi, v0, grad_g0)
            state = LearnedGearState(level.v, level.grad_g, level, None, start)
        else:
            unknown = Constant(None, "unknown")
            mu = Constant(0.0, "unknown")
            tilted = Tilted(split.g, phi)
            problem = Sum(split.h, tilted, unknown, unknown, mu, 0, split.geometry)
            state = self._nested(phi, self.method.init(problem, v0), problem, start)
        size = phi.geometry.norm(phi.grad(state.v, state.grad_g))
        scratch.open = (state.problem is not None, 0.0, size, size)
        return state

    def step(self, phi: Model, state: LearnedGearState) -> LearnedGearState:
        """One iteration of either method."""
        if state.problem is None:
            plain = LBFGS().step(phi, state.level)
            if plain is state.level:
                return state
            after = LearnedGearState(plain.v, plain.grad_g, plain, None, state.start)
        elif state.level.stalled:
            after = state
        else:
            level = self.method.step(state.problem, state.level)
            after = self._nested(phi, level, state.problem, state.start)
        rest = _rest(phi)
        scratch: Scratch = rest.kept["scratch"]
        is_nested, _, first, _ = scratch.open or (after.problem is not None, 0.0, 1.0, 1.0)
        size = phi.geometry.norm(phi.grad(after.v, after.grad_g))
        # A run that makes no step is not free: the start has cost calls.
        scratch.open = (is_nested, max(self._bill(rest.problem) - state.start, 1.0), first, size)
        return after

    def limit(self, phi: Model) -> int:
        """The number of steps after which a run is given up."""
        scratch: Scratch = _rest(phi).kept["scratch"]
        is_nested = scratch.open is not None and scratch.open[0]
        return _MOST if is_nested else LBFGS().limit(phi)

    def _bill(self, split: Sum) -> float:
        return self.rho * gradients(split.h)[0] + gradients(split.g)[0]

    @staticmethod
    def _nested(phi: Model, level: SAEQNState, problem: Sum, start: float) -> LearnedGearState:
        v = level.at.v
        for oracle in (problem.h, problem.g.g):
            oracle.pin(v, as_start=False)
        return LearnedGearState(v, level.at.grad - phi.beta - phi.alpha * v, level, problem, start)


def _rest(phi: Model) -> Rest:
    return phi.g if isinstance(phi.g, Rest) else phi.g.oracle


@dataclass(frozen=True, kw_only=True)
class LearnedTrainState(SAEQNState):
    """State of `LearnedTrain`: that of SAEQN on the first level, and what inner runs have left."""

    recalled: tuple[tuple[Entry, ...], ...] = ((), (), (), ())  # of h_2 and of g
    nested: Spent = Spent()
    plain: Spent = Spent()
    open: tuple[bool, float, float, float] | None = None


@dataclass(frozen=True)
class LearnedTrain:
    r"""The learned method on three levels, h_1 > h_2 > g; needs no constants.

    Algorithm, from p = x_0:

    1. `SAEQN` on h_1 + (h_2 + g): one gradient of h_1 per trial point
    2. its models phi are minimised by `LearnedGear`, which is `SAEQN` on h_2 + (g + the rest of
       phi), or L-BFGS on h_2 + g where that is cheaper

    Guarantee: that of `SAEQN` on the first level, whatever the models of both levels are worth.
    Nothing is asked twice: the gradients of h_2 and g at the start of an inner run are recalled.

    Parameters
    ----------
    levels : tuple of tuple of str
        The names of the terms on the three levels, outermost first.
    rho : tuple of float
        Prices: a gradient of the first level over one of the second, and that over one of the last.
    reason : str
        Why these levels, for ``res.plan``.
    """

    levels: Levels
    rho: tuple[float, float] = (10.0, 10.0)
    reason: str = ""

    needs: ClassVar[tuple[str, ...]] = ("grad",)
    any_geometry: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if len(self.levels) != 3:
            raise ValueError(f"LearnedTrain has three levels, got {told(self.levels)}")

    @property
    def first(self) -> SAEQN:
        """The method of the first level."""
        rho, below = self.rho
        return SAEQN(rho=rho, inner=LearnedGear(SAEQN(rho=below), below))

    def init(self, problem: Sum, x0: Vector) -> LearnedTrainState:
        """All terms at x0."""
        f, scratch = self._split(problem), Scratch()
        f.g.kept["scratch"] = scratch
        return self._kept(self.first.init(f, x0), f)

    def step(self, problem: Sum, state: LearnedTrainState) -> LearnedTrainState:
        """One iteration of the first level."""
        f = self._split(problem)
        level = f.g.problem
        level.h.pinned, level.h.recent, level.g.pinned, level.g.recent = state.recalled
        f.g.kept["scratch"] = Scratch(state.nested, state.plain, state.open)
        return self._kept(self.first.step(f, state), f)

    def describe(self, problem: Sum, state: LearnedTrainState | None) -> str:
        """The levels, why, and how the second one was treated."""
        lines = f"{told(self.levels)}: sae-qn on every level, {self.reason or 'as given'}"
        if state is None or not state.plain.runs:
            return lines
        runs = f"{state.nested.runs} inner runs by sae-qn, {state.plain.runs} by L-BFGS"
        return f"{lines}; {runs}, whichever costs less"

    def _split(self, problem: Sum) -> Sum:
        """The three levels, the last two with memory; made once per problem."""
        key = f"learned {told(self.levels)}"
        if key not in problem.h.kept:
            f = arranged(problem, self.levels)
            level = f.g.problem
            recalling = Sum(
                Recalling(level.h),
                Recalling(level.g),
                level.L_h,
                level.L_g,
                level.mu,
                level.seed,
                level.geometry,
            )
            problem.h.kept[key] = Sum(f.h, Rest(recalling), f.L_h, f.L_g, f.mu, f.seed, f.geometry)
        return problem.h.kept[key]

    @staticmethod
    def _kept(state: SAEQNState, f: Sum) -> LearnedTrainState:
        level, scratch = f.g.problem, f.g.kept["scratch"]
        own = {part.name: getattr(state, part.name) for part in fields(SAEQNState)}
        return LearnedTrainState(
            **own,
            recalled=(level.h.pinned, level.h.recent, level.g.pinned, level.g.recent),
            nested=scratch.nested,
            plain=scratch.plain,
            open=scratch.open,
        )
