"""Oracles that remember their last answers, for methods that come back to a point."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from geartrain.oracles.protocols import Vector, answers

# Points whose gradients are remembered, besides those that are kept on purpose.
_RECENT = 4

Entry = tuple[Vector, float, Vector]  # a point, the value there or nan, the gradient


@dataclass(frozen=True)
class Recalled:
    """The answers that an oracle remembers."""

    kept: dict[int, tuple[Entry, ...]] = field(default_factory=dict)  # by level: start, end
    recent: tuple[Entry, ...] = ()  # newest first

    def at(self, x: Vector) -> Entry | None:
        """What is known at x."""
        known = (*(entry for entries in self.kept.values() for entry in entries), *self.recent)
        return next((entry for entry in known if np.array_equal(entry[0], x)), None)

    def with_recent(self, entry: Entry, most: int = _RECENT) -> Recalled:
        """With one more answer; of more than `most` the oldest one is forgotten."""
        return Recalled(self.kept, (entry, *self.recent[: most - 1]))

    def with_start(self, level: int, entry: Entry) -> Recalled:
        """With the answer where a run of this level starts; its last run is forgotten."""
        return Recalled({**self.kept, level: (entry,)}, self.recent)

    def with_end(self, level: int, entry: Entry) -> Recalled:
        """With the answer where the run of this level is now."""
        return Recalled({**self.kept, level: (*self.kept[level][:1], entry)}, self.recent)


class Recalling:
    """A counted oracle that does not ask again for the gradient at its last points.

    Parameters
    ----------
    oracle : Oracle or Together
        What is asked.
    """

    def __init__(self, oracle: Any) -> None:
        self.oracle = oracle
        self.name, self.n, self.ledger = oracle.name, oracle.n, oracle.ledger
        self.term, self.kept = oracle.term, oracle.kept
        self.recalled = Recalled()
        if "value_and_grad" in answers(oracle.term):
            self.value_and_grad = self._fused

    def __getattr__(self, name: str) -> Any:
        return getattr(self.oracle, name)

    def grad(self, x: Vector) -> Vector:
        """The gradient: recalled, or one call."""
        return self._entry(x)[2]

    def _fused(self, x: Vector) -> tuple[float, Vector]:
        _, value, grad = self._entry(x)
        return value, grad

    def value(self, x: Vector) -> float:
        """The value: recalled where it has come with a gradient, or one call."""
        known = self.recalled.at(x)
        return self.oracle.value(x) if known is None or math.isnan(known[1]) else known[1]

    def keep_start(self, level: int, x: Vector) -> None:
        """Keep the answer at x, where a run of this level starts."""
        self.recalled = self.recalled.with_start(level, self._entry(x))

    def keep_end(self, level: int, x: Vector) -> None:
        """Keep the answer at x, where the run of this level is now."""
        self.recalled = self.recalled.with_end(level, self._entry(x))

    def _entry(self, x: Vector) -> Entry:
        known = self.recalled.at(x)
        if known is not None:
            return known
        if "value_and_grad" in answers(self.term):
            value, grad = self.oracle.value_and_grad(x)
        else:
            value, grad = math.nan, self.oracle.grad(x)
        entry = (x.copy(), value, grad)
        self._asked(entry)
        return entry

    def _asked(self, entry: Entry) -> None:
        self.recalled = self.recalled.with_recent(entry)
