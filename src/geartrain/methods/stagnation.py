"""Whether a run gets anywhere."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Stagnation:
    """The lowest value and the smallest gradient so far, and the steps since one of them fell."""

    value: float = math.inf
    slope: float = math.inf
    idle: int = 0

    def after(self, value: float, slope: float) -> Stagnation:
        """A step to a point with this value and gradient."""
        lower = value < self.value or slope < self.slope
        idle = 0 if lower else self.idle + 1
        return Stagnation(min(value, self.value), min(slope, self.slope), idle)
