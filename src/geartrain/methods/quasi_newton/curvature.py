r"""The curvature that an inner run knows: the matrix of the model, and pairs of steps and changes.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
B          ``B``           lam I + V'MV, of `geartrain.methods.quasi_newton.low_rank`
lam        ``lam``         that of B, plus mu
s, y_g     ``pairs``       steps, and the changes of grad g along them
y          --              y_g + (B + mu I) s: the change of grad phi; never formed
W          ``W``           the rows V, s_1, y_g1, s_2, y_g2, ...; oldest pair first
Gamma      ``gram``        W W'
tau        ``tau``         curvature of g along the last step
H_0        --              (B + (mu + tau) I)^{-1}
R          ``R``           upper triangle of S'Y
=========  ==============  ==================================================================

All that the method applies to grad phi leads to combinations of the rows W and grad phi, whose
coefficients follow from the inner products Gamma and W grad phi. So the rows are read three times
per step: for their inner products with grad phi, for the combinations d and B d, and for the inner
products with the new pair. All inner products are sums over n products; where they were recursions
or differences of others, inner runs on problems with few variables took up to a third longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from geartrain.geometry import Geometry
from geartrain.methods.quasi_newton.low_rank import Bare, LowRank
from geartrain.methods.quasi_newton.rows import Rows, Slots
from geartrain.oracles.protocols import Vector

# A pair is used where <s, y> exceeds this part of |s| (|y_g| + lam |s| + |V'MVs|).
_CURVED = 1e-12
_TINY = 1e-300


@dataclass(frozen=True)
class InnerPairs:
    """Steps and changes of grad g, oldest first, with the inner products that are known of them."""

    pairs: tuple[tuple[Vector, Vector], ...] = ()
    gram: Vector = field(default_factory=lambda: np.zeros((0, 0)))  # of s_1, y_g1, s_2, ...
    rows: tuple[Vector, ...] = ()  # of a model
    cross: Vector = field(default_factory=lambda: np.zeros((0, 0)))  # of the rows with s_1, y_g1...

    @staticmethod
    def of(pairs: Sequence[tuple[Vector, Vector]], geometry: Geometry) -> InnerPairs:
        """These pairs."""
        vectors = [row for pair in pairs for row in pair]
        if not vectors:
            return InnerPairs()
        return InnerPairs(
            tuple(pairs),
            Rows(vectors).dots_all(vectors, geometry),
            cross=np.zeros((0, len(vectors))),
        )

    def __len__(self) -> int:
        return len(self.pairs)

    def __iter__(self) -> Iterator[tuple[Vector, Vector]]:
        return iter(self.pairs)

    def last(self, most: int) -> InnerPairs:
        """The newest pairs."""
        old = 2 * max(len(self) - most, 0)
        if not old:
            return self
        return InnerPairs(self.pairs[-most:], self.gram[old:, old:], self.rows, self.cross[:, old:])

    def against(self, bare: Bare) -> Vector:
        """Inner products of the rows of a model with s_1, y_g1, ...; most are known."""
        found = {id(row): i for i, row in enumerate(self.rows)}
        wanted = [bare.rows.rows[i] for i in bare.at]
        known = [found.get(id(row), -1) for row in wanted]
        out = np.empty((len(wanted), 2 * len(self)))
        new = [i for i, place in enumerate(known) if place < 0]
        old = [i for i, place in enumerate(known) if place >= 0]
        out[old] = self.cross[[known[i] for i in old]]
        if new:
            vectors = [row for pair in self.pairs for row in pair]
            out[new] = Rows(vectors).dots_all([wanted[i] for i in new], bare.geometry)
        return out


class Curvature:
    """The matrix of the model, and the pairs.

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
    n : int
        Length of the vectors.
    geometry : Geometry
        Of the inner products.
    """

    def __init__(
        self,
        B: LowRank,
        mu: float,
        pairs: InnerPairs,
        memory: int,
        n: int,
        geometry: Geometry,
    ) -> None:
        self.B, self.mu, self.geometry, self.memory = B, mu, geometry, memory
        self.lam, self.tau = B.lam + mu, 0.0
        self.V = None if B.small is None else B.small.bare
        self.M = np.zeros((0, 0)) if self.V is None else self.V.M
        self.r, self.k = len(self.M), 0
        self.W = Slots(4 * memory, n)  # the rows of the pairs, in places low, low + 1, ...
        self.low = 0
        size = self.r + 2 * memory
        self.gram, self.R = np.zeros((size, size)), np.zeros((memory, memory))
        self.MVS = np.zeros((self.r, memory))  # M V s of each pair
        if self.V is not None:
            self.gram[: self.r, : self.r] = self.V.G
        self._start(pairs.last(memory))

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
        self.k = self.low = 0

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
        alpha, D = self.B.inverse(self.mu + self.tau)
        # u = grad - Y a: its coefficients c, and W u
        c, dots = np.zeros(r + 2 * k), self._dots([grad])[0]
        if k:
            a = solve(R, dots[S])[0]
            c[:r], c[S], c[Y] = -(MVS @ a), -lam * a, -a
            dots = dots + gram @ c
        # z = H_0 u
        c, dots = c / alpha, dots / alpha
        if self.V is not None:
            base = alpha * ((D * (self.V.E @ dots[:r])) @ self.V.E)
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
        if self.V is not None:
            self.V.add_to([d, Bd], -np.array([c[:r], self.M @ dots[:r]]))
        if k:
            self._pairs().add_to([d], -c[None, r:])
        Bd += lam * d
        return d, Bd

    def add(self, s: Vector, y_g: Vector) -> None:
        """Learn from a step s, along which grad g changed by y_g."""
        dot = self.geometry.dot
        ss, sy, yy = (float(dot(u, v)) for u, v in ((s, s), (s, y_g), (y_g, y_g)))
        own = np.array([[ss, sy], [sy, yy]])
        self._put([(s, y_g)], np.hstack([self._dots([s, y_g]), own]))

    def _pairs(self) -> Rows:
        """The rows of W that belong to pairs."""
        return self.W.part(self.low, self.low + 2 * self.k)

    def _dots(self, vectors: list[Vector]) -> Vector:
        """W v for each of the vectors."""
        parts = [] if self.V is None else [self.V.dots_all(vectors)]
        if self.k:
            parts.append(self._pairs().dots_all(vectors, self.geometry))
        return np.hstack(parts) if parts else np.zeros((len(vectors), 0))

    def _start(self, pairs: InnerPairs) -> None:
        """Learn from the pairs of earlier runs."""
        if not pairs:
            return
        cross = np.zeros((0, 2 * len(pairs))) if self.V is None else pairs.against(self.V)
        self._put(pairs.pairs, np.hstack([cross.T, pairs.gram]))

    def pairs(self) -> InnerPairs:
        """What the next run begins with."""
        r, high = self.r, self.r + 2 * self.k
        rows = self._pairs().rows
        return InnerPairs(
            tuple(zip(rows[::2], rows[1::2], strict=True)),
            self.gram[r:high, r:high].copy(),
            () if self.V is None else tuple(self.V.rows.rows[i] for i in self.V.at),
            self.gram[:r, r:high].copy(),
        )

    def _put(self, pairs: Sequence[tuple[Vector, Vector]], dots: Vector) -> None:
        """Use the pairs along which there is curvature; `dots` are those with W and themselves."""
        r, lam, known = self.r, self.lam, self.r + 2 * self.k
        VS = dots[::2, :r].T
        MVS = self.M @ VS
        square = np.diag(dots, known)
        ss, yy_g, sy_g = square[::2], square[1::2], np.diag(dots, known + 1)[::2]
        sy = sy_g + lam * ss + (VS * MVS).sum(axis=0)
        low_rank = np.maximum((MVS * (self.gram[:r, :r] @ MVS)).sum(axis=0), 0.0)
        size = np.sqrt(yy_g) + lam * np.sqrt(ss) + np.sqrt(low_rank)  # at least |y|
        good = np.flatnonzero(sy > _CURVED * np.sqrt(ss) * size)
        if len(good) < len(pairs):
            if not len(good):
                return
            rows = np.stack([2 * good, 2 * good + 1], axis=1).ravel()
            dots = dots[rows][:, [*range(known), *(known + rows)]]
            pairs, MVS = [pairs[int(i)] for i in good], MVS[:, good]
        if self.k == self.memory:
            self._drop()
            dots = np.delete(dots, [r, r + 1], axis=1)
        k, end = self.k, dots.shape[1]
        self.gram[end - len(dots) : end, :end], self.gram[:end, end - len(dots) : end] = (
            dots,
            dots.T,
        )
        self.k += len(pairs)
        self.MVS[:, k : self.k], S = MVS, self.steps
        secant = dots[1::2, S] + lam * dots[::2, S] + MVS.T @ self.gram[:r, S]
        self.R[: self.k, k : self.k] = secant.T
        for i, row in enumerate((row for pair in pairs for row in pair), start=self.low + 2 * k):
            self.W.put(i, row)
        self.tau = max(float(sy_g[good[-1]]), 0.0) / max(float(ss[good[-1]]), _TINY)

    def _drop(self) -> None:
        """Forget the oldest pair."""
        r, k, high = self.r, self.k - 1, self.r + 2 * self.k
        self.gram[r : high - 2, :high] = self.gram[r + 2 : high, :high]
        self.gram[:high, r : high - 2] = self.gram[:high, r + 2 : high]
        self.R[:k, :k] = self.R[1 : k + 1, 1 : k + 1]
        self.MVS[:, :k] = self.MVS[:, 1 : k + 1]
        self.k, self.low = k, self.low + 2
        if self.low + 2 * self.memory > len(self.W):
            for i, row in enumerate(self.W.rows[self.low : self.low + 2 * k]):
                self.W.put(i, row)
            self.low = 0


@lru_cache(maxsize=1)
def _triangular() -> Any:
    from scipy.linalg.lapack import dtrtrs  # here, because importing it takes a while

    return dtrtrs
