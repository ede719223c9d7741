"""State of the learned method."""

from __future__ import annotations

from dataclasses import dataclass, field

from geartrain.methods.base import State
from geartrain.methods.pqn.certificate import CutCertificate
from geartrain.methods.pqn.evaluation import Point
from geartrain.methods.pqn.inner import Pairs
from geartrain.methods.pqn.memory import Memory
from geartrain.methods.pqn.model_selection import Selection
from geartrain.methods.pqn.models import Share
from geartrain.methods.pqn.noise_detection import ProgressMonitor
from geartrain.methods.pqn.prices import Usage
from geartrain.methods.pqn.safeguard import Safeguard
from geartrain.oracles.protocols import Vector


@dataclass(frozen=True)
class Learned:
    """What a run has learned about its terms, so that another one can begin with it."""

    convex: bool  # h is taken to be
    lam: float  # curvature of h where the pairs tell nothing
    flat: float  # that of f, before the first pair
    selection: Selection
    share: Share
    memory: Memory
    inner_pairs: Pairs = ()


@dataclass(frozen=True, kw_only=True)
class PQNState(State):
    """State of `geartrain.methods.ProximalQuasiNewton` after k iterations."""

    k: int
    at: Point  # the iterate p, in the variables of the method
    scale: Vector | None  # sqrt(D): the variables of the method are sqrt(D) x
    rho: float  # price of a call of h over that of a gradient of g, as used
    # What was learned.
    convex: bool
    memory: Memory  # pairs of all steps, rejected ones included
    lam: float
    flat: float
    shift: float = 0.0  # mu: added to the model after rejected steps
    selection: Selection
    share: Share = field(default_factory=Share)  # of g in the shrunk model
    steepest: float = 0.0  # largest secant of grad (h + g)
    length: float = 0.0  # of the last inner run's step
    gain: float = 0.0  # by scales of the variables that the pairs tell
    # Inner runs.
    inner_pairs: Pairs = ()
    factored: float | None = None  # shift with which a quadratic g was factorised
    # What is proven, and what is in doubt.
    certificate: CutCertificate
    safeguard: Safeguard
    unit: float = 0.0  # the first step, and where lines through gradients vanish
    progress: ProgressMonitor
    # The last iteration.
    lost: bool = False  # a step of the iteration before was rejected
    tries: int = 0  # rejected trial points since the last accepted one
    trials: int = 0  # trial points
    accepted: bool = True
    stalled: bool = False
    rounding: bool = False  # with `stalled`: it is shown that rounding is the cause
    noisy: bool = False  # with `stalled`: the answers contradict each other
    unbounded: bool = False  # with `stalled`: no minimiser is near
    refuted: bool = False  # h, which is stated to be convex, is not
    note: str = ""
    own: tuple[float, float] = (0.0, 0.0)  # own seconds in inner runs, and outside them
    first: Usage = field(default_factory=Usage)  # of the first iterations

    @property
    def learned(self) -> Learned:
        """What a new run can begin with."""
        return Learned(
            self.convex,
            self.lam,
            self.flat,
            self.selection,
            self.share,
            self.memory,
            self.inner_pairs,
        )

    @property
    def A(self) -> float:  # type: ignore[override]
        """f(p) - f* <= |x_0 - x*|^2/(2A)."""
        return self.certificate.A

    @property
    def gap_weight(self) -> float:  # type: ignore[override]
        """A, which is that of the variables x."""
        return self.certificate.A

    @property
    def value(self) -> float:  # type: ignore[override]
        """f at the iterate."""
        return self.at.f

    @property
    def point(self) -> Vector:
        """The iterate."""
        return self.at.v if self.scale is None else self.at.v / self.scale

    @property
    def grad(self) -> Vector:
        """The shortest known subgradient of f at the iterate."""
        return self.at.r if self.scale is None else self.at.r * self.scale

    @property
    def grad_psi(self) -> Vector:  # type: ignore[override]
        """Its part that belongs to psi."""
        u = self.at.r - self.at.grad
        return u if self.scale is None else u * self.scale
