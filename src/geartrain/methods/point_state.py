"""The state of a method on f as a whole, at a point where it knows f and its gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass

from geartrain.methods.base import State
from geartrain.oracles.protocols import Vector


@dataclass(frozen=True)
class Stagnation:
    """The lowest value and the smallest gradient so far, and the steps since one of them fell."""

    value: float = math.inf
    slope: float = math.inf
    idle: int = 0

    def after(self, value: float, slope: float) -> Stagnation:
        """A step to a point with this value and gradient."""
        lower = value < self.value or slope < self.slope
        idle = 0 if lower else self.idle + 1
        return Stagnation(min(value, self.value), min(slope, self.slope), idle)


@dataclass(frozen=True, kw_only=True)
class PointState(State):
    """An iterate x."""

    x: Vector
    value: float  # of f at x
    grad_f: Vector  # of h + g
    grad_psi: Vector | None = None  # with psi: the part that makes it a subgradient of f
    stalled: bool = False
    progress: Stagnation = Stagnation()

    @property
    def point(self) -> Vector:
        return self.x

    @property
    def grad(self) -> Vector:
        """Gradient of f at x; with psi, the shortest subgradient that is known."""
        return self.grad_f if self.grad_psi is None else self.grad_f + self.grad_psi
