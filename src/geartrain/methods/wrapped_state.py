"""The state of a method that steps another one."""

from __future__ import annotations

from dataclasses import dataclass

from geartrain.methods.base import State
from geartrain.oracles.protocols import Vector


@dataclass(frozen=True, kw_only=True)
class WrappedState(State):
    """What the driver reads is that of the method that is stepped."""

    current: State  # of that method
    note: str = ""

    A = property(lambda self: self.current.A)
    L = property(lambda self: self.current.L)
    ms_ratio = property(lambda self: self.current.ms_ratio)
    value = property(lambda self: self.current.value)
    grad_bound = property(lambda self: self.current.grad_bound)
    gap_weight = property(lambda self: self.current.gap_weight)
    gap_rests_on = property(lambda self: self.current.gap_rests_on)
    stalled = property(lambda self: self.current.stalled)
    rounding = property(lambda self: self.current.rounding)
    noisy = property(lambda self: self.current.noisy)
    unbounded = property(lambda self: self.current.unbounded)
    refuted = property(lambda self: self.current.refuted)
    grad_psi = property(lambda self: self.current.grad_psi)

    @property
    def point(self) -> Vector:
        """The output of the method."""
        return self.current.point

    @property
    def grad(self) -> Vector | None:
        """Gradient of f at `grad_point`, if the method knows it."""
        return self.current.grad

    @property
    def grad_point(self) -> Vector:
        """The point at which the method knows the gradient."""
        return self.current.grad_point
