r"""What a few gradients tell about the curvature of h: quasi-Newton models from pairs.

A pair is a step s with the changes of the two gradients along it, y_h = grad h(v) - grad h(p) and
y_g = grad g(v) - grad g(p). What is made of the last pairs:

- `clipped_sr1`: limited-memory SR1 for h alone, B = Y_h (S'Y_h)^{-1} Y_h', its negative
  eigenvalues set to zero. For convex h.
- `two_loops`: the BFGS inverse Hessian of f, with any initial matrix; f is convex where h is not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from geartrain.oracles.protocols import Vector

# Pairs are dropped, oldest first, while their small matrix is worse conditioned than this.
_CONDITION = 1e10


@dataclass(frozen=True)
class Pairs:
    """The last `memory` pairs, newest last, each divided by |s|."""

    S: Vector  # (k, n)
    Y_h: Vector  # (k, n)
    Y_g: Vector  # (k, n)
    memory: int

    @staticmethod
    def none(n: int, memory: int) -> Pairs:
        """No pairs yet."""
        empty = np.zeros((0, n))
        return Pairs(empty, empty, empty, memory)

    def newest(self, k: int) -> Pairs:
        """The last k pairs."""
        return Pairs(self.S[-k:], self.Y_h[-k:], self.Y_g[-k:], self.memory)

    def add(self, s: Vector, y_h: Vector, y_g: Vector) -> Pairs:
        """With one more pair, and the oldest forgotten."""
        length = float(np.linalg.norm(s))
        if length == 0.0:
            return self
        keep = slice(max(0, len(self.S) + 1 - self.memory), None)

        def stack(rows: Vector, row: Vector) -> Vector:
            return np.vstack([rows, row / length])[keep]

        return Pairs(stack(self.S, s), stack(self.Y_h, y_h), stack(self.Y_g, y_g), self.memory)


@dataclass(frozen=True)
class LowRank:
    """The matrix U' diag(w) U."""

    U: Vector  # (r, n)
    w: Vector  # (r,)

    @staticmethod
    def zero(n: int) -> LowRank:
        """The zero matrix."""
        return LowRank(np.zeros((0, n)), np.zeros(0))

    def __matmul__(self, v: Vector) -> Vector:
        return (self.w * (self.U @ v)) @ self.U


def clipped_sr1(pairs: Pairs) -> LowRank:
    """SR1 with base matrix 0, made positive semidefinite."""
    S, Y = pairs.S, pairs.Y_h
    M = S @ Y.T
    M = 0.5 * (M + M.T)
    first = _well_conditioned(M)
    M, Y = M[first:, first:], Y[first:]
    if len(Y) == 0:
        return LowRank.zero(pairs.S.shape[1])
    # Y' M^{-1} Y by an orthonormal basis of the rows of Y
    Q, R = np.linalg.qr(Y.T)
    small = R @ np.linalg.solve(M, R.T)
    w, V = np.linalg.eigh(0.5 * (small + small.T))
    positive = w > 0.0
    return LowRank((Q @ V[:, positive]).T, w[positive])


def two_loops(
    pairs: Pairs, L: float, gradient: Vector, initial: Callable[[Vector], Vector]
) -> Vector:
    """-H gradient, H the BFGS inverse Hessian of f + L/2 |.|^2 from the pairs.

    `initial` stands for -H_0 between the loops (Nocedal and Wright, Algorithm 7.4); it may be
    nonlinear.
    """
    q = gradient.copy()
    used: list[tuple[Vector, Vector, float, float]] = []
    for s, y_h, y_g in zip(pairs.S[::-1], pairs.Y_h[::-1], pairs.Y_g[::-1], strict=True):
        y = y_h + y_g + L * s
        sy = float(s @ y)
        if sy <= 1e-10 * float(np.linalg.norm(y)):
            continue
        a = float(s @ q) / sy
        q -= a * y
        used.append((s, y, sy, a))
    d = initial(q)
    for s, y, sy, a in reversed(used):
        d -= (a + float(y @ d) / sy) * s
    return d


def _well_conditioned(M: Vector) -> int:
    """Index of the oldest pair that can be kept."""
    for first in range(len(M)):
        w = np.abs(np.linalg.eigvalsh(M[first:, first:]))
        if w.min() > w.max() / _CONDITION:
            return first
    return len(M)
