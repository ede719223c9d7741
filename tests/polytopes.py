"""Polytopes for projections, many of them degenerate, and what must hold of an answer."""

from __future__ import annotations

import math

import numpy as np

INF = math.inf
KINDS = ("plain", "duplicate rows", "a vertex with 3n rows", "whole numbers", "many equalities")


def polytope(kind, seed):
    """A, lower, upper, lo, hi and a point inside."""
    rng = np.random.default_rng([KINDS.index(kind), seed])
    n, m = int(rng.integers(2, 30)), int(rng.integers(1, 45))
    A, x = rng.standard_normal((m, n)) * 10.0 ** rng.uniform(-2, 2, (m, 1)), rng.standard_normal(n)
    lo, hi = np.full(n, -INF), np.full(n, INF)
    if seed % 3:
        lo, hi = x - 0.5 * rng.random(n), x + rng.random(n)
    if kind == "whole numbers":
        A, x = rng.integers(-1, 2, (m, n)).astype(float), rng.integers(0, 3, n).astype(float)
        lo, hi = np.where(rng.random(n) < 0.5, x, x - 1.0), x + 1.0
        below, above = (rng.random(m) < 0.5, rng.random(m) < 0.5)
        return A, A @ x - below, A @ x + above, lo, hi, x
    if kind == "a vertex with 3n rows":
        A = rng.standard_normal((3 * n, n))
        return A, np.full(3 * n, -INF), A @ x, np.full(n, -INF), np.full(n, INF), x
    length = np.linalg.norm(A, axis=1)
    lower = A @ x - length * rng.random(m) * (rng.random(m) < 0.8)
    upper = A @ x + length * rng.random(m)
    lower[rng.random(m) < 0.3] = -INF
    count = min(m, 2 * n) if kind == "many equalities" else min(m, n // 2) // 2
    lower[:count] = upper[:count] = A[:count] @ x
    if kind == "duplicate rows":
        factor = rng.uniform(0.1, 9.0, m)
        total = A[:count].sum(axis=0)
        A = np.vstack([A, factor[:, None] * A, -A, total])
        lower, upper = (
            np.concatenate([lower, factor * lower, -upper, [total @ x]]),
            np.concatenate([upper, factor * upper, -lower, [total @ x]]),
        )
    return A, lower, upper, lo, hi, x


def kkt(A, lower, upper, lo, hi, u, v, y):
    """How far v is from the projection of u, by multipliers y of the rows; rows as they are.

    v = u - A'y - z: what is active has the right sign, and what is not has none. Rows are compared
    in units of their length, all over the size of u and v.
    """
    length = np.linalg.norm(A, axis=1)
    length[length == 0.0] = 1.0
    Av, pull = A @ v / length, y * length
    z = u - v - A.T @ y
    off = np.concatenate(
        [
            np.maximum(lower / length - Av, 0.0),
            np.maximum(Av - upper / length, 0.0),
            # the smaller one of the multiplier and the distance to its side
            np.minimum(np.maximum(pull, 0.0), np.abs(upper / length - Av)),
            np.minimum(np.maximum(-pull, 0.0), np.abs(Av - lower / length)),
            np.minimum(np.maximum(z, 0.0), np.abs(hi - v)),
            np.minimum(np.maximum(-z, 0.0), np.abs(v - lo)),
        ]
    )
    assert np.all(v >= lo) and np.all(v <= hi)  # exactly
    return float(off.max()) / (np.linalg.norm(u) + np.linalg.norm(v))
