"""Numba's ``njit``; the clocks of the library stand still while it compiles."""

from __future__ import annotations

from numba import njit
from numba.core import event

from geartrain.oracles.work_clock import CompileTimer, compiling

__all__ = ["njit"]

event.Listener.register(CompileTimer)
event.register("numba:compile", compiling)
