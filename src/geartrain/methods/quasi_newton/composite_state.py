"""State of the learned method with a non-smooth term."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from geartrain.methods.inner.proxqn import ProxQNState
from geartrain.methods.quasi_newton.composite_guard import Lowest
from geartrain.methods.quasi_newton.contest import Contest
from geartrain.methods.quasi_newton.memory import Memory
from geartrain.methods.quasi_newton.shrinkage import Base
from geartrain.methods.quasi_newton.state import LearnedState
from geartrain.oracles.protocols import Vector
from geartrain.problem import EPS, norm


@dataclass(frozen=True, kw_only=True)
class CompositeQNState(LearnedState):
    """State of `geartrain.methods.CompositeQN` after k iterations."""

    psi: float  # its value at the iterate; nan where there is none
    grad_psi: Vector
    memory: Memory
    lam: float
    scale: float  # curvature of h + g at the start
    radius: float = math.inf  # trust radius
    rho: float
    top: float  # f(x_0), or nan
    contest: Contest
    gain: float = 0.0  # mean logarithm by which the learned diagonal enlarges cosines
    base: Base = field(default_factory=Base)
    inner: ProxQNState | None = None  # where the last inner run ended
    trials: int = 0
    stalled: bool = False
    note: str = ""

    @property
    def lowest(self) -> Lowest:
        """The iterate for the certificate."""
        return Lowest(self.at, self.psi, self.grad)

    @property
    def value(self) -> float:  # type: ignore[override]
        """f at the iterate."""
        return self.at.f + self.psi

    @property
    def grad(self) -> Vector:
        """The shortest known subgradient of f at the iterate."""
        return self.at.grad + self.grad_psi

    @property
    def rounding(self) -> bool:  # type: ignore[override]
        """Whether the subgradient is rounding error."""
        return norm(self.grad) <= 10.0 * EPS * (norm(self.at.grad_h) + norm(self.at.grad_g))
