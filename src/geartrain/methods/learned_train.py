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
from dataclasses import dataclass, field, fields, replace
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

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
class LearnedGearState:
    """State of `LearnedGear`."""

    v: Vector
    grad_g: Vector  # of the sum that the level splits, and of the low-rank part
    level: SAEQNState
    problem: Sum  # of the second level


@dataclass(frozen=True)
class LearnedGear:
    """SAEQN as an inner method for the model of another one, whose g is a sum of two levels.

    Parameters
    ----------
    method : SAEQN
        For the second level.
    """

    method: SAEQN = field(default_factory=SAEQN)

    needs: ClassVar[tuple[str, ...]] = ("grad",)
    any_geometry: ClassVar[bool] = True

    def init(
        self, phi: Model, v0: Vector, grad_g0: Vector | None, warm: Any = None
    ) -> LearnedGearState:
        """Start at v0, where the gradients of both terms are recalled."""
        split = (phi.g if isinstance(phi.g, Rest) else phi.g.oracle).problem
        for oracle in (split.h, split.g):
            oracle.pin(v0, as_start=True)
        unknown, mu = Constant(None, "unknown"), Constant(0.0, "unknown")
        tilted = Tilted(split.g, phi)
        problem = Sum(split.h, tilted, unknown, unknown, mu, 0, split.geometry)
        return self._after(phi, self.method.init(problem, v0), problem)

    def step(self, phi: Model, state: LearnedGearState) -> LearnedGearState:
        """One iteration of the second level."""
        if state.level.stalled:
            return state
        return self._after(phi, self.method.step(state.problem, state.level), state.problem)

    def limit(self, phi: Model) -> int:
        """The number of steps after which a run is given up."""
        return _MOST

    @staticmethod
    def _after(phi: Model, level: SAEQNState, problem: Sum) -> LearnedGearState:
        v = level.at.v
        for oracle in (problem.h, problem.g.g):
            oracle.pin(v, as_start=False)
        return LearnedGearState(v, level.at.grad - phi.beta - phi.alpha * v, level, problem)


@dataclass(frozen=True)
class Spent:
    """What iterations of one kind have cost, and what they have gained; older ones fade."""

    bill: float = 0.0  # in gradients of g
    gain: float = 0.0  # ln of the decrease of |grad f|
    runs: int = 0

    def after(self, bill: float, gain: float) -> Spent:
        """With one more iteration."""
        return Spent(0.7 * self.bill + bill, 0.7 * self.gain + gain, self.runs + 1)

    @property
    def rate(self) -> float:
        """Bill per gain; infinite without a gain."""
        return self.bill / self.gain if self.gain > 0.0 else math.inf


@dataclass(frozen=True, kw_only=True)
class LearnedTrainState(SAEQNState):
    """State of `LearnedTrain`: that of SAEQN on the first level, and what the next step needs."""

    recalled: tuple[tuple[Entry, ...], ...] = ((), (), (), ())  # of h_2 and of g
    nested: Spent = Spent()  # iterations with a model of h_2
    plain: Spent = Spent()  # iterations without

    @property
    def is_plain_next(self) -> bool:
        """Whether the next iteration does without a model of h_2.

        Both kinds are tried, then the cheaper one goes on.
        """
        if not self.nested.runs or not self.plain.runs:
            return self.nested.runs > 0
        return self.plain.rate < self.nested.rate


@dataclass(frozen=True)
class LearnedTrain:
    r"""The learned method on three levels, h_1 > h_2 > g; needs no constants.

    Algorithm, from p = x_0:

    1. `SAEQN` on h_1 + (h_2 + g): one gradient of h_1 per trial point
    2. its models phi are minimised by `LearnedGear`, which is `SAEQN` on h_2 + (g + the rest of
       phi)
    3. a guard compares what a decrease of \|grad f\| costs with line 2 and with `SAEQN` on
       h_1 + (h_2 + g) alone, which asks h_2 and g equally often: the first iteration is made with
       line 2, the second one without, and then the cheaper kind goes on

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

    def init(self, problem: Sum, x0: Vector) -> LearnedTrainState:
        """All terms at x0."""
        f = self._split(problem)
        return _kept(SAEQN(rho=self.rho[0]).init(f, x0), f, Spent(), Spent())

    def step(self, problem: Sum, state: LearnedTrainState) -> LearnedTrainState:
        """One iteration of the first level."""
        f, (rho, below) = self._split(problem), self.rho
        h_2, g = f.g.problem.h, f.g.problem.g
        h_2.pinned, h_2.recent, g.pinned, g.recent = state.recalled
        inner = None if state.is_plain_next else LearnedGear(SAEQN(rho=below))
        before, norm = self._bill(f), f.geometry.norm
        after = SAEQN(rho=rho, inner=inner).step(f, state)
        size, new = norm(state.at.grad), norm(after.at.grad)
        gain = math.log(size / new) if 0.0 < new < size else 0.0
        nested, plain = state.nested, state.plain
        if inner is None:
            plain = plain.after(self._bill(f) - before, gain)
        else:
            nested = nested.after(self._bill(f) - before, gain)
        return _kept(after, f, nested, plain)

    def describe(self, problem: Sum, state: LearnedTrainState | None) -> str:
        """The levels, why, and how the second one was treated."""
        words = f"{told(self.levels)}: sae-qn on every level, {self.reason or 'as given'}"
        if state is None or not state.plain.runs:
            return words
        return (
            f"{words}; {state.nested.runs} iterations with a model of the second level, "
            f"{state.plain.runs} without, whichever costs less"
        )

    def _bill(self, f: Sum) -> float:
        """Calls so far, in gradients of the last level."""
        rho, below = self.rho
        asked = [gradients(o)[0] for o in (f.h, f.g.problem.h, f.g.problem.g)]
        # An infinite price counts as 100 times that of the level below.
        rho, below = min(rho, 100.0), min(below, 100.0)
        return rho * below * asked[0] + below * asked[1] + asked[2]

    def _split(self, problem: Sum) -> Sum:
        """The three levels, the last two with memory; made once per problem."""
        key = f"learned {told(self.levels)}"
        if key not in problem.h.kept:
            f = arranged(problem, self.levels)
            level = f.g.problem
            h, g = Recalling(level.h), Recalling(level.g)
            rest = Rest(replace(level, h=h, g=g))
            problem.h.kept[key] = replace(f, g=rest)
        return problem.h.kept[key]


def _kept(state: SAEQNState, f: Sum, nested: Spent, plain: Spent) -> LearnedTrainState:
    h_2, g = f.g.problem.h, f.g.problem.g
    return LearnedTrainState(
        **{part.name: getattr(state, part.name) for part in fields(SAEQNState)},
        recalled=(h_2.pinned, h_2.recent, g.pinned, g.recent),
        nested=nested,
        plain=plain,
    )
