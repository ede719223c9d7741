"""Ctrl-C ends a run, and never the program around it.

Python raises KeyboardInterrupt wherever the program happens to be. Inside an iteration that is
right: a slow oracle is interrupted. While a problem is set up, a state recorded or a result put
together, the signal only sets `Interrupts.pending`, which the run looks at before its next call of
an oracle.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType


class Interrupts:
    """A context in which Ctrl-C raises KeyboardInterrupt only where it may.

    It changes nothing outside the main thread, or where the program has a handler of its own.
    """

    def __init__(self) -> None:
        self.pending = False  # Ctrl-C was pressed
        self.over = False  # the iterations have ended
        self._raising = False
        self._installed = False

    def __enter__(self) -> Interrupts:
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._handle)
            self._installed = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    @contextmanager
    def raising(self, now: bool = True) -> Iterator[None]:
        """Inside, Ctrl-C raises KeyboardInterrupt, or with False it does not."""
        before, self._raising = self._raising, now
        try:
            yield
        finally:
            self._raising = before

    def _handle(self, number: int, frame: FrameType | None) -> None:
        # A set-up may take long: the second time, it is interrupted all the same.
        again = self.pending and not self.over
        self.pending = True
        if self._raising or again:
            raise KeyboardInterrupt
