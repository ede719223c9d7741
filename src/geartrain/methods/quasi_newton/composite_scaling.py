r"""A diagonal matrix learned from the pairs, in place of the identity, for a separable psi.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
s, y       --              a step, and the change of the gradient of h + g along it
D          ``D``           diagonal: D_i^2 = sum y_i^2/sum s_i^2 over the newest pairs, smoothed
T          ``T``           D^{1/2}; the models are made of T s and T^{-1} y
B          --              lam D + W'MW with rows D s and y
=========  ==============  ==================================================================

The variables of a problem often have very different scales: a rare word bends the loss far less
than a frequent one. A model that takes lam I where the pairs tell nothing learns one direction
after the other; one that takes lam D has learned the scales of all n variables after a few pairs,
because each pair has n entries.

Whether D is better than I is seen on steps that were made after D: there T s and T^{-1} y form a
smaller angle than s and y. It is used only as long as that is so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from geartrain.methods.quasi_newton.low_rank import LowRank, Small
from geartrain.methods.quasi_newton.memory import Memory
from geartrain.methods.quasi_newton.models import Shelf
from geartrain.methods.quasi_newton.rows import Rows
from geartrain.methods.quasi_newton.tuning import Candidate
from geartrain.oracles.protocols import Vector
from geartrain.problem import norm

_TINY = 1e-300
# Weight of a pair over that of the next one: the scales change along the way. Flat from 0.5 to 0.7;
# all pairs alike cost 5 percent on shards, and 10 percent on sparse ones.
_AGE = 0.6
# Weight of what is known about all variables in the entry of one, over the mean weight of an entry.
_PRIOR = 0.05
# Pairs before a diagonal is made.
_FEWEST = 2
# Mean logarithm of the ratio of the cosines above which D is used, and the weight of older ones.
_USEFUL, _DISCOUNT = 0.15, 0.7


@dataclass(frozen=True)
class ScaledLowRank(LowRank):
    """The matrix lam D + V'C'MCV; `small` has the inner products in the metric of D."""

    D: Vector = field(default_factory=lambda: np.ones(0))

    def __call__(self, v: Vector, mu: float = 0.0) -> Vector:
        """The matrix plus mu I, times v."""
        out = (self.lam * self.D + mu) * v
        if self.small is not None:
            out += self.small(v)
        return out

    def all(self, vectors: Sequence[Vector], mu: float) -> list[Vector]:
        """The matrix plus mu I, times each of the vectors."""
        return [self(v, mu) for v in vectors]


def base(B: LowRank, mu: float) -> float | Vector:
    """The diagonal of B + mu I without its low-rank part: a number where all entries are alike."""
    return B.lam * B.D + mu if isinstance(B, ScaledLowRank) else B.lam + mu


def learned_diagonal(memory: Memory) -> Vector | None:
    """D by the pairs, such that steps are on average as long in its metric as they are."""
    if len(memory) < _FEWEST:
        return None
    S = np.array([pair.s for pair in memory.pairs])
    Y = np.array([pair.y_h + pair.y_g for pair in memory.pairs])
    weights = _AGE ** np.arange(len(memory) - 1.0, -1.0, -1.0)
    steps, changes = weights @ S**2, weights @ Y**2
    prior = _PRIOR * float(steps.mean())
    typical = float(changes.sum() / steps.sum())
    if not _TINY < typical < 1.0 / _TINY:
        return None
    D = np.sqrt((changes + prior * typical) / (steps + prior))
    return np.asarray(D * (steps.sum() / float(steps @ D)))


@dataclass(frozen=True)
class Models:
    """The models of one trial point, on the diagonal D where it is useful, and otherwise on I."""

    shelf: Shelf  # in the variables T x, where D is used
    learned: Vector | None  # D by the pairs, used or not
    D: Vector | None  # D where it is used
    _made: dict[Candidate, LowRank] = field(default_factory=dict)

    @staticmethod
    def of(
        known: Memory, fresh: Memory, like: Shelf, learned: Vector | None, gain: float
    ) -> Models:
        """From the pairs; `gain` is the mean logarithm by which D has enlarged the cosines."""
        if learned is None or gain <= _USEFUL:
            return Models(like, learned, None)
        T = np.sqrt(learned)

        def scaled(memory: Memory) -> Memory:
            pairs = [
                replace(pair, s=T * pair.s, y_h=pair.y_h / T, y_g=pair.y_g / T)
                for pair in memory.pairs
            ]
            return Memory.of(pairs, like.geometry)

        known_T = scaled(known)
        fresh_T = known_T if fresh is known else scaled(fresh)
        shelf = replace(like, known=known_T, fresh=fresh_T, _made={}, _bases={})
        return Models(shelf, learned, learned)

    def __getitem__(self, candidate: Candidate) -> LowRank:
        B = self.shelf[candidate]
        if self.D is None:
            return B
        if candidate not in self._made:
            small: Small | None = None
            if B.small is not None:
                T = np.sqrt(self.D)
                small = replace(B.small, rows=Rows([T * row for row in B.small.rows.rows]))
            self._made[candidate] = ScaledLowRank(B.lam, small, self.D)
        return self._made[candidate]

    def part(self, candidate: Candidate) -> float:
        """The part of g that a model keeps; it stands for the curvature of the rest of f."""
        return self.shelf.part(candidate)

    def length(self, s: Vector) -> float:
        """|T s|."""
        return norm(s) if self.D is None else norm(np.sqrt(self.D) * s)

    def size(self, y: Vector) -> float:
        """|T^{-1} y|."""
        return norm(y) if self.D is None else norm(y / np.sqrt(self.D))

    def gain(self, before: float, s: Vector, y: Vector) -> float:
        """The mean logarithm of the ratio of the cosines, after one more step."""
        if self.learned is None:
            return before
        T = np.sqrt(self.learned)
        plain, scaled = norm(s) * norm(y), norm(T * s) * norm(y / T)
        if not min(plain, scaled) > 0.0:
            return before
        return _DISCOUNT * before + (1.0 - _DISCOUNT) * math.log(plain / scaled)
