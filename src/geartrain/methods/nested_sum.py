r"""Levels: a sum of many terms as a chain of problems with two terms each.

The levels (h1) > (h2, h3) > (g) stand for the problem h1 + rest, whose rest is again a problem,
(h2 + h3) + g. A method for two terms minimises the first one, and an inner method that splits its
model once more (`geartrain.methods.afb.Gear`) the others. Terms on one level are asked together
and counted apart. A non-smooth psi is part of every one of these problems, and the inner method of
the last level takes care of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from geartrain.methods.base import State
from geartrain.oracles.protocols import Vector
from geartrain.problem import Sum, Summand, Whole, total

# The names of the terms on every level, outermost first.
Levels: TypeAlias = tuple[tuple[str, ...], ...]


class Rest(Whole):
    """The terms of all further levels as one oracle; `problem` is how they are split."""

    def __init__(self, problem: Sum) -> None:
        super().__init__(problem)
        self.name = " + ".join(self.counted_as)


def told(levels: Levels) -> str:
    """The levels in words: "simulator > cluster + local > g"."""
    return " > ".join(" + ".join(names) for names in levels)


def arranged(f: Sum, levels: Levels) -> Sum:
    """f with the terms of the first level as h and those of the others as g, split in turn.

    There are at least two levels. The chain is made once per problem.
    """
    key = f"levels {told(levels)}"
    if key not in f.h.kept:
        f.h.kept[key] = _chain(f, levels)
    return f.h.kept[key]


def _chain(f: Sum, levels: Levels) -> Sum:
    by_name = {s.oracle.name: s for s in f.summands}
    *before, last = [Summand.of([by_name[name] for name in names]) for names in levels]
    rest, L_rest = last.oracle, last.L
    while True:
        level = before.pop()
        problem = Sum(level.oracle, rest, level.L, L_rest, f.mu, f.seed, f.geometry, psi=f.psi)
        if not before:
            return problem
        rest, L_rest = Rest(problem), total((level.L, L_rest))


def innermost(split: Sum) -> Sum:
    """The problem of the last two levels."""
    while isinstance(split.g, Rest):
        split = split.g.problem
    return split


# A method for two terms on a sum of many: one level after the other.


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
        return self.method.needs

    @property
    def any_geometry(self) -> bool:
        return getattr(self.method, "any_geometry", False)

    @property
    def core(self) -> Any:
        return getattr(self.method, "method", self.method)

    def init(self, problem: Sum, x0: Vector) -> State:
        return self.method.init(arranged(problem, self.levels), x0)

    def step(self, problem: Sum, state: State) -> State:
        return self.method.step(arranged(problem, self.levels), state)

    def describe(self, problem: Sum, state: State | None) -> str:
        return f"{told(self.levels)}: {self.reason}" if self.reason else told(self.levels)
