"""A term that is as dear as asked for, without waiting: the clock of the library runs ahead.

`DearTerm` answers like h and counts. `running` replaces ``perf_counter`` in all modules of the
library, so that whatever measures seconds there (prices, budgets, own time) sees a call of h take
as much longer as said. Nothing is waited for, so that runs with 100 ms added take no longer than
others; their seconds are those of the process and ``calls * added``, exactly.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Any

import geartrain as gt
from geartrain.lab.seconds.problem import Array, Evaluation


class DearTerm:
    """A term whose calls take `added` seconds more, on the clock of the library alone.

    Parameters
    ----------
    term : term
        Any smooth one.
    added : float
        Seconds that are added to every call.
    """

    def __init__(self, term: Any, added: float) -> None:
        self.added, self.calls, self.watched = added, 0, False
        self._term, self._ahead, self._now = term, 0.0, time.perf_counter
        # A term that is dear is one whose inside is not seen: a simulator, a cluster.
        self.term = gt.Term(self._value_and_grad, n=term.n)

    def _value_and_grad(self, x: Array) -> Evaluation:
        if not self.watched:  # what the bench looks at is not the run's
            self.calls += 1
            self._ahead += self.added
        value, grad = self._term.value_and_grad(x)
        return value, grad

    def __call__(self) -> float:
        """The time of day."""
        return self._now() + self._ahead

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Within this, the library sees the clock that runs ahead."""
        name, true = "perf_counter", self._now
        self._put(name, true, self)
        try:
            yield
        finally:  # modules that were imported meanwhile have it, too
            self._put(name, self, true)

    @staticmethod
    def _put(name: str, old: Any, new: Any) -> None:
        modules = [m for key, m in list(sys.modules.items()) if key.startswith("geartrain.")]
        for module in (time, *modules):
            if getattr(module, name, None) is old:
                setattr(module, name, new)
