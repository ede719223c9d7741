r"""The curvature that an inner run knows: the matrix of the model, and pairs of steps and changes.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
B          ``B``           lam I + V'C'MCV, of `geartrain.methods.quasi_newton.low_rank`
lam        ``lam``         that of B, plus mu
s, y_g     ``pairs``       steps, and the changes of grad g along them
y          --              y_g + (B + mu I) s: the change of grad phi; never formed
W          ``W``           the rows C V, s_1, y_g1, s_2, y_g2, ...; oldest pair first
Gamma      ``gram``        W W'
q          ``q``           W grad phi, at the last point
tau        ``tau``         curvature of g along the last step
H_0        --              (B + (mu + tau) I)^{-1}
R          ``R``           upper triangle of S'Y
=========  ==============  ==================================================================

All that the method applies to grad phi leads to combinations of the rows W and grad phi, whose
coefficients follow from the inner products Gamma and q. So vectors of length n are read twice per
step: for the inner products of W with a new step and a new gradient, and for the combinations d and
B d. All entries of Gamma are sums over n products, or differences of two such sums; none is a
recursion on others.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from geartrain.geometry import Geometry
from geartrain.methods.quasi_newton.low_rank import LowRank
from geartrain.methods.quasi_newton.rows import Rows, Slots
from geartrain.oracles.protocols import Vector

InnerPairs = tuple[tuple[Vector, Vector], ...]  # steps and changes of grad g, newest last

# A pair is used where <s, y> exceeds this part of |s| |y|.
_CURVED = 1e-12
_TINY = 1e-300


class Curvature:
    """The matrix of the model and the pairs, at a point with a gradient of phi.

    Parameters
    ----------
    B : LowRank
        The matrix of the model.
    mu : float
        Added to its diagonal.
    pairs : InnerPairs
        Known at the start.
    memory : int
        Number of pairs used.
    grad : array
        Gradient of phi.
    geometry : Geometry
        Of the inner products.
    """

    def __init__(
        self,
        B: LowRank,
        mu: float,
        pairs: InnerPairs,
        memory: int,
        grad: Vector,
        geometry: Geometry,
    ) -> None:
        self.B, self.mu, self.geometry, self.memory = B, mu, geometry, memory
        self.lam, self.tau, self.q = B.lam + mu, 0.0, np.zeros(0)
        self.M = np.zeros((0, 0)) if B.small is None else B.small.M
        self.r, self.k = len(self.M), 0
        self.W = Slots(4 * memory, grad.size)  # the rows of the pairs, in places low, low + 1, ...
        self.low = 0
        size = self.r + 2 * memory
        self.gram, self.R = np.zeros((size, size)), np.zeros((memory, memory))
        self.MVS = np.zeros((self.r, memory))  # M C V s of each pair
        if B.small is not None:
            self.gram[: self.r, : self.r] = B.small.G
        self._start(pairs[-memory:])
        self.q = self._dots([grad])[0]

    def __len__(self) -> int:
        return self.k

    @property
    def steps(self) -> slice:
        """Where W has the steps."""
        return slice(self.r, self.r + 2 * self.k, 2)

    @property
    def changes(self) -> slice:
        """Where W has the changes of grad g."""
        return slice(self.r + 1, self.r + 2 * self.k, 2)

    def clear(self) -> None:
        """Forget the pairs."""
        self.k, self.low, self.q = 0, 0, self.q[: self.r]

    def direction(self, grad: Vector) -> tuple[Vector, Vector]:
        """d = -H grad with the BFGS inverse Hessian in compact form [1]_, and (B + mu I) d.

        References
        ----------
        .. [1] R. Byrd, J. Nocedal, R. Schnabel, Representations of quasi-Newton matrices and their
           use in limited memory methods, Math. Program. 63 (1994), Theorem 2.2.
        """
        r, k, lam = self.r, self.k, self.lam
        S, Y, R, MVS = self.steps, self.changes, self.R[:k, :k], self.MVS[:, :k]
        gram, solve = self.gram[: r + 2 * k, : r + 2 * k], _triangular()
        alpha, D, E = self.B.inverse(self.mu + self.tau)
        # u = grad - Y a: its coefficients c, and W u
        c, dots = np.zeros(r + 2 * k), self.q
        if k:
            a = solve(R, self.q[S])[0]
            c[:r], c[S], c[Y] = -(MVS @ a), -lam * a, -a
            dots = dots + gram @ c
        # z = H_0 u
        c, dots = c / alpha, dots / alpha
        if len(D):
            base = alpha * ((D * (E @ dots[:r])) @ E)
            c[:r] += base
            dots += gram[:, :r] @ base
        # z + S b
        if k:
            y_z = dots[Y] + lam * dots[S] + dots[:r] @ MVS
            b = solve(R, np.diag(R) * a - y_z, trans=1)[0]
            c[S] += b
            dots += gram[:, S] @ b
        d = grad * (-1.0 / alpha)
        Bd = np.zeros_like(d)
        if self.B.small is not None:
            self.B.small.add_to([d, Bd], -np.array([c[:r], self.M @ dots[:r]]))
        if k:
            self._pairs().add_to([d], -c[None, r:])
        Bd += lam * d
        return d, Bd

    def add(self, s: Vector, y_g: Vector, grad: Vector) -> None:
        """Learn from a step s that led to a point with this gradient of phi."""
        r, dot = self.r, self.geometry.dot
        q, along = self._dots([grad, s])
        # y_g is the change of grad phi less that of the quadratic
        change = q - self.q - self.lam * along
        change -= self.gram[: len(q), :r] @ (self.M @ along[:r])
        ss, sy, yy = (float(dot(u, v)) for u, v in ((s, s), (s, y_g), (y_g, y_g)))
        self.q = q
        if self._put(s, y_g, np.array([[*along, ss, sy], [*change, sy, yy]])):
            self.q = np.append(self.q, [float(dot(s, grad)), float(dot(y_g, grad))])

    def _pairs(self) -> Rows:
        """The rows of W that belong to pairs."""
        return self.W.part(self.low, self.low + 2 * self.k)

    def _dots(self, vectors: list[Vector]) -> Vector:
        """W v for each of the vectors."""
        parts = [] if self.B.small is None else [self.B.small.dots_all(vectors)]
        if self.k:
            parts.append(self._pairs().dots_all(vectors, self.geometry))
        return np.hstack(parts) if parts else np.zeros((len(vectors), 0))

    def _start(self, pairs: InnerPairs) -> None:
        """Learn from the pairs of earlier runs."""
        vectors = [row for pair in pairs for row in pair]
        for i, row in enumerate(vectors):
            self.W.put(i, row)
        self.k = len(pairs)
        dots = self._dots(vectors) if pairs else None
        self.k, kept = 0, list(range(self.r))
        for j, (s, y_g) in enumerate(pairs):
            i = self.r + 2 * j
            if self._put(s, y_g, dots[2 * j : 2 * j + 2, [*kept, i, i + 1]]):
                kept += [i, i + 1]

    def _put(self, s: Vector, y_g: Vector, dots: Vector) -> bool:
        """Use a pair if there is curvature along it; `dots` are those with W, s and y_g."""
        r, lam = self.r, self.lam
        (along, change), (ss, sy_g, yy_g) = dots, (*dots[0, -2:], dots[1, -1])
        MVs = self.M @ along[:r]
        bend = float(along[:r] @ MVs)
        sy = sy_g + lam * ss + bend
        yy = yy_g + 2.0 * lam * (sy_g + bend) + lam**2 * ss
        yy += float(MVs @ (2.0 * change[:r] + self.gram[:r, :r] @ MVs))
        if not sy > _CURVED * math.sqrt(ss * max(yy, 0.0)):
            return False
        if self.k == self.memory:
            self._drop()
            dots = np.delete(dots, [r, r + 1], axis=1)
            along, change = dots
        k, i = self.k, r + 2 * self.k
        self.gram[i : i + 2, : i + 2], self.gram[: i + 2, i : i + 2] = dots, dots.T
        self.MVS[:, k], self.k = MVs, k + 1
        S = self.steps
        self.R[: k + 1, k] = change[S] + lam * along[S] + MVs @ self.gram[:r, S]
        self.W.put(self.low + 2 * k, s)
        self.W.put(self.low + 2 * k + 1, y_g)
        self.tau = max(sy_g, 0.0) / max(ss, _TINY)
        return True

    def _drop(self) -> None:
        """Forget the oldest pair."""
        r, k, high = self.r, self.k - 1, self.r + 2 * self.k
        self.gram[r : high - 2, :high] = self.gram[r + 2 : high, :high]
        self.gram[:high, r : high - 2] = self.gram[:high, r + 2 : high]
        self.R[:k, :k] = self.R[1 : k + 1, 1 : k + 1]
        self.MVS[:, :k] = self.MVS[:, 1 : k + 1]
        self.q = np.delete(self.q, [r, r + 1])
        self.k, self.low = k, self.low + 2
        if self.low + 2 * self.memory > len(self.W):
            for i, row in enumerate(self.W.rows[self.low : self.low + 2 * k]):
                self.W.put(i, row)
            self.low = 0


@lru_cache(maxsize=1)
def _triangular() -> Any:
    from scipy.linalg.lapack import dtrtrs  # here, because importing it takes a while

    return dtrtrs
