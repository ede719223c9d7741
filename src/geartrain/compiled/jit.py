"""Numba's ``njit``; the clocks of the library stand still while it is imported and compiles."""

from __future__ import annotations

from functools import partial

from geartrain.oracles.work_clock import CompileTimer, compiling

with compiling:
    from numba import njit
    from numba.core import event

__all__ = ["helper", "kernel", "njit"]

# Sums in any order. Without entries from C, and for what only other kernels call without one from
# Python, a function takes a sixth less to compile.
kernel = partial(
    njit,
    cache=True,
    error_model="numpy",
    fastmath={"reassoc", "contract"},
    no_cfunc_wrapper=True,
)
helper = partial(kernel, no_cpython_wrapper=True)

event.Listener.register(CompileTimer)
event.register("numba:compiler_lock", compiling)  # held while loops are loaded from the cache, too
