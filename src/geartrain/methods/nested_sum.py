r"""Levels: a sum of many terms as a chain of problems with two terms each.

The levels (h1) > (h2, h3) > (g) stand for the problem h1 + rest, whose rest is again a problem,
(h2 + h3) + g. A method for two terms minimises the first one, and an inner method that splits its
model once more (`geartrain.methods.afb.Gear`) the others. Terms on one level are asked together
and counted apart. A non-smooth psi is part of every one of these problems, and the inner method of
the last level takes care of it.
"""

from __future__ import annotations

from typing import TypeAlias

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
