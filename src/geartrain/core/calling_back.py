"""The callbacks of a run: how they are called, and how often."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Callback = Callable[..., Any]

# Inside an iteration callbacks are called after so many seconds.
_EVERY = 2.0


class Callbacks:
    """SciPy's two forms, ``callback(intermediate_result)`` by that name and ``callback(x)``.

    They are called after every outer iteration and, in an iteration that takes long, about every
    two seconds with the last complete iterate. A callback with ``inside_iterations = False`` is
    spared the latter. One with a method ``close`` has it called at the end of the run.
    """

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        self._all = [
            (_accepting(callback), getattr(callback, "inside_iterations", True))
            for callback in callbacks
        ]
        self._closing = [c for x in callbacks if callable(c := getattr(x, "close", None))]
        self._inside = any(inside for _, inside in self._all)
        self._last = 0.0  # seconds of the run at the last call

    def __bool__(self) -> bool:
        return bool(self._all)

    def due(self, seconds: float) -> bool:
        return self._inside and seconds - self._last >= _EVERY

    def call(self, inside: bool, **seen: Any) -> bool:
        """Call all, or those that are called inside an iteration; whether one wants to stop."""
        from geartrain.core.result import Intermediate

        self._last = seen["seconds"]
        result = Intermediate(**seen)
        for callback, wants in self._all:
            if inside and not wants:
                continue
            try:
                answer = callback(result)
            except StopIteration:
                return True
            if isinstance(answer, (bool, np.bool_)) and answer:
                return True
        return False

    def close(self) -> None:
        for close in self._closing:
            close()


def _accepting(callback: Callback) -> Callable[[Any], Any]:
    if not callable(callback):
        raise TypeError(f"callback must be callable or a list of callables, got {callback!r}")
    try:
        names = list(inspect.signature(callback).parameters)
    except (TypeError, ValueError):
        names = []
    if names == ["intermediate_result"]:
        return lambda seen: callback(intermediate_result=seen)
    return lambda seen: callback(seen.x)
