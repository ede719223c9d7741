"""Medians and quartiles of amounts that some runs only bound.

A run that reaches an accuracy tells how much it took; a run that does not, only that it takes more.
Every amount is therefore an interval [low, high], equal ends where it is known, and so is every
quantile over runs: no number is made up for a run that was cut off.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

QUARTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Spread:
    """Bounds of the lower quartile, the median and the upper quartile over runs."""

    low: tuple[float, float, float]
    high: tuple[float, float, float]  # inf where a run did not get there
    runs: int

    @classmethod
    def of(cls, intervals: Iterable[tuple[float, float]]) -> Spread:
        """Quartiles of intervals [low, high]."""
        ends = list(intervals)
        low, high = (
            np.quantile([e[j] for e in ends], QUARTILES, method=method)  # type: ignore[call-overload]
            for j, method in ((0, "lower"), (1, "higher"))
        )
        return cls(tuple(map(float, low)), tuple(map(float, high)), len(ends))  # type: ignore[arg-type]

    @property
    def median(self) -> float:
        """The median where it is known, else nan."""
        return self.low[1] if self.low[1] == self.high[1] else math.nan

    @property
    def quartiles(self) -> tuple[float, float]:
        """Lower and upper quartile; the outer ends where they are only bounded."""
        return self.low[0], self.high[2]

    def __str__(self) -> str:
        low, high = self.low[1], self.high[1]
        if low < high:
            if high < math.inf:
                return f"< {_number(high)}" if low == 0.0 else f"{_number(low)} to {_number(high)}"
            return f"> {_number(low)}" if low > 0.0 else "not known"
        quartiles = f" [{_number(self.low[0])}, {_number(self.high[2])}]" if self.runs > 1 else ""
        return _number(low) + quartiles


def ratio(ours: list[tuple[float, float]], theirs: list[tuple[float, float]]) -> Spread:
    """Quartiles of the ratios of all pairs of a run of ours and a run of theirs."""
    pairs = [
        (a_low / b_high if b_high > 0.0 else math.inf, a_high / b_low if b_low > 0.0 else math.inf)
        for a_low, a_high in ours
        for b_low, b_high in theirs
    ]
    return Spread.of(pairs)


def _number(value: float) -> str:
    if value == math.inf:
        return "∞"
    return f"{value:,.0f}" if value >= 100.0 else f"{value:.3g}"
