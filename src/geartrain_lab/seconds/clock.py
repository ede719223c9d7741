"""A clock for the library that other programs do not disturb, and that can run ahead.

Within `ShiftedClock.running`, ``perf_counter`` is this clock in all modules of the library:
whatever measures seconds there (prices, budgets, own time) sees those of the process, which on a
quiet machine are the same, and sees a call of a `dear` term take as much longer as said. Nothing is
waited for: runs with 100 ms added take no longer than others, and their seconds are those of the
process and ``calls * added``, exactly.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Any

import geartrain as gt
from geartrain_lab.seconds.problem import Array, Evaluation

_NAME = "perf_counter"


class ShiftedClock:
    """Process seconds, and what was added to calls of a term."""

    def __init__(self) -> None:
        self.calls = 0  # of the dear term
        self.added = 0.0  # by them
        self.watched = False  # while the bench itself asks, nothing is counted and added

    def __call__(self) -> float:
        return time.process_time() + self.added

    def dear(self, term: Any, added: float) -> gt.Term:
        """The term with `added` seconds more per call.

        Its inside is not seen, as that of a simulator or a cluster; its constants are, since rivals
        use them, too.
        """
        names = ("L", "L_coord", "lower_bound")
        constants: dict[str, Any] = {name: getattr(term, name, None) for name in names}

        def value_and_grad(x: Array) -> Evaluation:
            if not self.watched:
                self.calls += 1
                self.added += added
            value, grad = term.value_and_grad(x)
            return value, grad

        return gt.Term(value_and_grad, n=term.n, **constants)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Within this, the library sees this clock."""
        true = getattr(time, _NAME)
        _put(true, self)
        try:
            yield
        finally:  # modules that were imported meanwhile have it, too
            _put(self, true)


def _put(old: Any, new: Any) -> None:
    for key, module in list(sys.modules.items()):
        library = key.startswith("geartrain.") and not key.startswith("geartrain_lab.")
        if (library or module is time) and getattr(module, _NAME, None) is old:
            setattr(module, _NAME, new)
