"""State of the learned method."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from geartrain.methods.base import State
from geartrain.methods.quasi_newton.certificate import CutCertificate
from geartrain.methods.quasi_newton.contest import Contest
from geartrain.methods.quasi_newton.cuts import Cuts
from geartrain.methods.quasi_newton.doubt import Doubt
from geartrain.methods.quasi_newton.guard import Guard
from geartrain.methods.quasi_newton.inner_pairs import InnerPairs
from geartrain.methods.quasi_newton.memory import Memory
from geartrain.methods.quasi_newton.quadratic import Factor
from geartrain.methods.quasi_newton.seconds import Usage
from geartrain.methods.quasi_newton.shrinkage import Base
from geartrain.methods.quasi_newton.step import Known
from geartrain.oracles.protocols import Vector


@dataclass(frozen=True)
class Learned:
    """What a run has learned about its terms, so that another one can begin with it."""

    convex: bool  # h is taken to be
    lam: float  # curvature of h where the pairs tell nothing
    scale: float  # that of f, before the first pair
    contest: Contest
    memory: Memory = field(default_factory=Memory)
    inner_pairs: InnerPairs = field(default_factory=InnerPairs)


@dataclass(frozen=True, kw_only=True)
class LearnedState(State):
    """What the states of the learned methods share: the iterate, and what is proven."""

    k: int
    at: Known  # the iterate p
    certificate: CutCertificate
    guard: Guard

    @property
    def A(self) -> float:  # type: ignore[override]
        """f(p) - f* <= |x_0 - x*|^2/(2A)."""
        return self.certificate.A

    @property
    def gap_weight(self) -> float:  # type: ignore[override]
        """A, which no restart touches."""
        return self.certificate.A

    @property
    def point(self) -> Vector:
        """The iterate."""
        return self.at.v


@dataclass(frozen=True, kw_only=True)
class SAEQNState(LearnedState):
    """State of `geartrain.methods.SAEQN` after k iterations."""

    top: float  # f(x_0)
    rho: float  # price of a call of h over that of a gradient of g, as used
    # What was learned.
    memory: Memory  # pairs of all steps, rejected ones included
    lam: float  # curvature of h where the pairs tell nothing
    scale: float  # that of f, before the first pair
    contest: Contest
    base: Base = field(default_factory=Base)  # what the shrunk model keeps of g
    cuts: Cuts  # linearisations of a convex h
    # Inner runs.
    radius: float = math.inf  # trust radius
    inner_pairs: InnerPairs = field(default_factory=InnerPairs)  # of g
    factor: Factor | None = None  # of a quadratic g
    extra: int = 0  # gradients of g beyond one per call of h, without proven steps
    doubt: Doubt
    # The last iteration.
    tries: int = 0  # rejected trial points since the last accepted one
    trials: int = 0  # trial points
    bends: int = 0  # steps along which a convex h was seen to be none, less those of noise
    collapses: int = 0  # of the trust radius, since f last fell
    accepted: bool = True
    stalled: bool = False
    rounding: bool = False  # with `stalled`: it is shown that rounding is the cause
    noisy: bool = False  # with `stalled`: the answers contradict each other
    note: str = ""
    own: tuple[float, float] = (0.0, 0.0)  # own seconds in inner runs, and outside them
    first: Usage = field(default_factory=Usage)  # of the first iterations

    @property
    def convex(self) -> bool:
        """Whether h is taken to be convex."""
        return self.guard.convex

    @property
    def learned(self) -> Learned:
        """What a new run can begin with."""
        return Learned(
            self.convex, self.lam, self.scale, self.contest, self.memory, self.inner_pairs
        )

    @property
    def value(self) -> float:  # type: ignore[override]
        """f at the iterate."""
        return self.at.f

    @property
    def grad(self) -> Vector:
        """Gradient of f at the iterate."""
        return self.at.grad
