"""A method for two terms on a sum of many: one level after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from geartrain.methods.base import State
from geartrain.methods.nested_sum import Levels, arranged, told
from geartrain.oracles.protocols import Vector
from geartrain.problem import Sum


@dataclass(frozen=True)
class Train:
    r"""A train of gears: `method` on f = h_1 + ... + h_k + g, split into levels.

    Algorithm:

    1. the terms of the first level take the place of h, and all others that of g
    2. `method` minimises this sum; the models of its inner problem are sums again, of the second
       level and the others, and are split in turn
    3. the model of the last level is minimised by the inner method

    Guarantee: that of the method. With `geartrain.methods.AFB` on every level and S_i the sum of
    the constants L_1, ..., L_i of the first i levels, the terms of level i are asked for
    C^i sqrt(1 + S_i/mu) ln(1/eps) gradients up to logarithms of L_j/L_{j-1}, independently of the
    levels below.

    Parameters
    ----------
    levels : tuple of tuple of str
        The names of the terms on every level, outermost first.
    method : method
        For the first level: `geartrain.methods.AFB`, which splits the models of the others itself.
    reason : str
        Why these levels, for ``res.plan``.
    """

    levels: Levels
    method: Any
    reason: str = ""

    @property
    def needs(self) -> tuple[str, ...]:
        """What the method needs."""
        return self.method.needs

    @property
    def any_geometry(self) -> bool:
        """Whether the method works in any geometry."""
        return getattr(self.method, "any_geometry", False)

    @property
    def core(self) -> Any:
        """The method inside a restart."""
        return getattr(self.method, "method", self.method)

    def init(self, problem: Sum, x0: Vector) -> State:
        """The start of the method."""
        return self.method.init(arranged(problem, self.levels), x0)

    def step(self, problem: Sum, state: State) -> State:
        """One iteration of the first level."""
        return self.method.step(arranged(problem, self.levels), state)

    def describe(self, problem: Sum, state: State | None) -> str:
        """The levels, and why."""
        return f"{told(self.levels)}: {self.reason}" if self.reason else told(self.levels)
