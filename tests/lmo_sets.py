"""Sets with a linear minimisation, and sums h + g over them whose minimiser is known.

f = 1/2 <x - x*, (H + G) (x - x*)> + <p, x> with x* in the set and p such that x* minimises <p, v>
over it: then x* minimises f, on a face of the set where p is not 0.
"""

from __future__ import annotations

import math

import numpy as np

import geartrain as gt
from problems import Known


class Vertices:
    """The simplex, by its vertices alone."""

    def __init__(self, n):
        self.n, self.diameter = n, math.sqrt(2.0)

    def lmo(self, d):
        s = np.zeros(d.size)
        s[np.argmin(d)] = 1.0
        return s

    def price(self, x, rng):
        """A p of the head of this file."""
        return 0.3 + np.where(x > 0.0, 0.0, rng.uniform(0.0, 0.1, x.size))


class GridPaths:
    """Paths from one corner of an m x m grid to the other, right and down: no projection is known.

    A point is the flow on the edges to the right, then on those down.
    """

    def __init__(self, m):
        self.m, self.n, self.diameter = m, 2 * m * (m - 1), 2.0 * math.sqrt(m - 1)

    def split(self, x):
        m = self.m
        return x[: m * (m - 1)].reshape(m, m - 1), x[m * (m - 1) :].reshape(m - 1, m)

    def lmo(self, d):
        """The shortest path, by dynamic programming from the end."""
        m, (right, down) = self.m, self.split(d)
        far = np.full((m + 1, m + 1), np.inf)
        far[m - 1, m - 1] = 0.0
        for i in reversed(range(m)):
            for j in reversed(range(m)):
                if j < m - 1:
                    far[i, j] = right[i, j] + far[i, j + 1]
                if i < m - 1:
                    far[i, j] = min(far[i, j], down[i, j] + far[i + 1, j])
        s = np.zeros(d.size)
        along, below = self.split(s)
        i = j = 0
        while (i, j) != (m - 1, m - 1):
            if j < m - 1 and (i == m - 1 or far[i, j] == right[i, j] + far[i, j + 1]):
                along[i, j], j = 1.0, j + 1
            else:
                below[i, j], i = 1.0, i + 1
        return s

    def price(self, x, rng):
        """Differences of potentials, and more on edges without flow."""
        potential = rng.uniform(0.0, 1.0, (self.m, self.m))
        p = np.append(np.diff(potential, axis=1).ravel(), np.diff(potential, axis=0).ravel())
        return p + np.where(x > 0.0, 0.0, rng.uniform(0.0, 0.5, x.size))


class NuclearBall:
    """Matrices of a shape whose singular values sum to one at most: lmo is a pair of vectors."""

    def __init__(self, rows, columns):
        self.shape, self.n, self.diameter = (rows, columns), rows * columns, 2.0

    def lmo(self, d):
        U, _, V = np.linalg.svd(d.reshape(self.shape), full_matrices=False)
        return -np.outer(U[:, 0], V[0]).reshape(d.shape)

    def price(self, x, rng):
        """Against the singular vectors of x, which has nuclear norm 1."""
        U, sizes, V = np.linalg.svd(x.reshape(self.shape), full_matrices=False)
        return -(U @ np.diag(np.where(sizes > 1e-9, 1.0, 0.3)) @ V).ravel()


SETS = {
    "simplex": lambda: Vertices(30),
    "paths": lambda: GridPaths(6),
    "nuclear": lambda: NuclearBall(5, 6),
}


def known_on(name, seed=0, L_h=1.0, L_g=4.0):
    """A set, and h + g with a known minimiser in it, which is a mean of five of its vertices."""
    C, rng = SETS[name](), np.random.default_rng(seed)
    if name == "nuclear":
        U, V = (np.linalg.qr(rng.standard_normal((k, k)))[0] for k in C.shape)
        x_star = (0.7 * np.outer(U[0], V[0]) + 0.3 * np.outer(U[1], V[1])).ravel()
    else:
        x_star = np.mean([C.lmo(rng.standard_normal(C.n)) for _ in range(5)], axis=0)
    p, Qs = 0.2 * C.price(x_star, rng), []
    for L in (L_h, L_g):
        U = np.linalg.qr(rng.standard_normal((C.n, C.n)))[0]
        Q = (U * np.geomspace(1e-3, L, C.n)) @ U.T
        Qs.append((Q + Q.T) / 2)
    h = gt.Quadratic(Qs[0], b=Qs[0] @ x_star)
    g = gt.Quadratic(Qs[1], b=Qs[1] @ x_star - p)
    return C, Known(h, g, x_star, 0.0)
