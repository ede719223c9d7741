r"""What a few gradients tell about the curvature of h: quasi-Newton models from pairs.

A pair is a step s with the changes of the two gradients along it, y_h = grad h(v) - grad h(p) and
y_g = grad g(v) - grad g(p). What is made of the last pairs:

- `clipped_sr1`: limited-memory SR1 for h alone, B = Y_h (S'Y_h)^{-1} Y_h', its negative
  eigenvalues set to zero. For convex h.
- `bfgs_correction`: what is missing to the Hessian of g to be that of f = h + g along the steps,
  such that their sum is positive definite. For an h that may be non-convex, with f convex.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geartrain.oracles.protocols import Vector
from geartrain.problem import norm

# Pairs are dropped, oldest first, while their small matrix is worse conditioned than this.
_CONDITION = 1e10
# A step is left out where less than this part of it is new.
_NEW = 0.05
# The curvature of f along a step is taken to be at least this part of that of g.
FLATTEST = 0.1
# Between these the curvature of g along a step may have changed since the step was made.
_FADED, _GROWN = 0.01, 3.0


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

    def newest_ratio(self) -> float:
        """|y_h| / |y_g| of the last pair; 0 without one."""
        if len(self.S) == 0:
            return 0.0
        return norm(self.Y_h[-1]) / max(norm(self.Y_g[-1]), np.finfo(float).tiny)

    def orthonormal(self) -> Pairs:
        """The same along orthonormal steps: Gram-Schmidt from the newest to the oldest."""
        n = self.S.shape[1]
        rows = np.zeros((0, 3 * n))
        for row in np.hstack([self.S, self.Y_h, self.Y_g])[::-1]:
            for _ in range(2):  # twice is enough
                row = row - (rows[:, :n] @ row[:n]) @ rows
            new = norm(row[:n])
            if new > _NEW:
                rows = np.vstack([rows, row / new])
        return Pairs(rows[:, :n], rows[:, n : 2 * n], rows[:, 2 * n :], self.memory)

    def refreshed(self, g: Any, p: Vector, grad_g: Vector) -> Pairs:
        """The pairs as they would be at p: one gradient of g each.

        The curvature of g along a step is measured anew; that of h is taken to have changed as
        much, as it has for a difference f - f_1 of means of one loss.
        """
        length = 1e-4 * max(norm(p), 1.0)
        Y_h, Y_g = self.Y_h.copy(), self.Y_g.copy()
        for i, s in enumerate(self.S):
            now = (g.grad(p + length * s) - grad_g) / length
            before = float(s @ self.Y_g[i])
            if before > 0.0:
                Y_h[i] *= min(max(float(s @ now) / before, _FADED), _GROWN)
            Y_g[i] = now
        return replace(self, Y_h=Y_h, Y_g=Y_g)


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

    def positive_part(self) -> LowRank:
        """With its negative eigenvalues set to zero."""
        return _positive_part(self.U, np.diag(self.w))


def clipped_sr1(pairs: Pairs) -> LowRank:
    """SR1 with base matrix 0, made positive semidefinite."""
    M = _symmetric(pairs.S @ pairs.Y_h.T)
    first = _well_conditioned(M)
    M, Y = M[first:, first:], pairs.Y_h[first:]
    return _positive_part(Y, np.linalg.inv(M))


def bfgs_correction(pairs: Pairs) -> LowRank:
    r"""C = H_f S'(S H_f S')^{-1} S H_f - H_g S'(S H_g S')^{-1} S H_g, with H_f = H_h + H_g.

    H_g + C is the block BFGS update of H_g along the rows of S [1]_: it agrees with H_f there, and
    is positive definite as H_g is. Curvature of f along the steps below `FLATTEST` times that of g
    is not believed and raised to that.

    References
    ----------
    .. [1] W. Gao, D. Goldfarb, Block BFGS methods, SIAM J. Optim. 28 (2018).
    """
    steps = pairs.orthonormal()
    M_h, M_g = _symmetric(steps.S @ steps.Y_h.T), _symmetric(steps.S @ steps.Y_g.T)
    # combinations of the steps with S H_g S' = I and S H_h S' = diag(t)
    w, V = np.linalg.eigh(M_g)
    if len(w) == 0 or w[-1] <= 0.0:
        return LowRank.zero(pairs.S.shape[1])
    R = V / np.sqrt(np.maximum(w, 1e-8 * w[-1]))
    t, W = np.linalg.eigh(R.T @ M_h @ R)
    R = R @ W
    Y_h, Y_g = R.T @ steps.Y_h, R.T @ steps.Y_g
    along = np.maximum(1.0 + t, FLATTEST)  # S H_f S', as far as it is believed
    Y_f = Y_h + (along - t)[:, None] * Y_g
    return LowRank(np.vstack([Y_f, Y_g]), np.concatenate([1.0 / along, -np.ones(len(t))]))


def _positive_part(U: Vector, M: NDArray[Any]) -> LowRank:
    """U' M U with its negative eigenvalues set to zero, by an orthonormal basis of U's rows."""
    Q, R = np.linalg.qr(U.T)
    w, V = np.linalg.eigh(_symmetric(R @ M @ R.T))
    positive = w > 0.0
    return LowRank((Q @ V[:, positive]).T, w[positive])


def _symmetric(M: NDArray[Any]) -> Vector:
    return 0.5 * (M + M.T)


def _well_conditioned(M: Vector) -> int:
    """Index of the oldest pair that can be kept."""
    for first in range(len(M)):
        w = np.abs(np.linalg.eigvalsh(M[first:, first:]))
        if w.min() > w.max() / _CONDITION:
            return first
    return len(M)
