"""Compiled loops over a user's own Numba function ``component(x, k)``.

They are compiled again for each such function, so they are not cached on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from numba.core.dispatcher import Dispatcher

from geartrain.compiled.jit import njit


def is_compiled(fn: Any) -> bool:
    """Whether Numba can call `fn` from compiled code."""
    return isinstance(fn, Dispatcher)


@cache
def compiled(loop: Callable[..., Any]) -> Callable[..., Any]:
    """The loop as a Numba function, compiled at its first call with a given component."""
    return njit(loop)
