"""Seconds of work: the time that passes, less what Numba takes to be imported and to compile."""

from __future__ import annotations

import time
from typing import Any
from weakref import WeakSet


class CompileTimer:
    """Listens to Numba's events of compilation, which may be nested, and adds up their seconds."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.listeners: WeakSet[Any] = WeakSet()  # their `compiles` is called when one begins
        self._depth, self._begun = 0, 0.0

    def __enter__(self) -> None:
        self.on_start(None)

    def __exit__(self, *error: object) -> None:
        self.on_end(None)

    def on_start(self, event: Any) -> None:
        if self._depth == 0:
            self._begun = time.perf_counter()
            for listener in self.listeners:
                listener.compiles()
        self._depth += 1

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._begun

    def notify(self, event: Any) -> None:
        (self.on_start if event.is_start else self.on_end)(event)


compiling = CompileTimer()


def perf_counter() -> float:
    """`time.perf_counter` that stands still while Numba is imported and compiles."""
    return time.perf_counter() - compiling.seconds
