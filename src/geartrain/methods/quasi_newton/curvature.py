r"""The curvature that an inner run knows: the matrix of the model, and pairs of steps and changes.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
B          ``B``           lam I + V'MV, of `geartrain.methods.quasi_newton.low_rank`
lam        ``lam``         that of B, plus mu
s, y_g     ``pairs``       steps, and the changes of grad g along them
y          --              y_g + (B + mu I) s: the change of grad phi; never formed
W          --              the rows V, and places for pairs: s_1, y_g1, s_2, y_g2, ...
Gamma      ``gram``        W W'
tau        ``tau``         curvature of g along the last step
H_0        --              (B + (mu + tau) I)^{-1}
R          --              upper triangle of S'Y, the pairs in the order of their age
T          ``T``           its inverse
=========  ==============  ==================================================================

All that the method applies to grad phi leads to combinations of the rows W and grad phi, whose
coefficients follow from the inner products Gamma and W grad phi, by the formulas of
`geartrain.compiled.coefficients`. So the rows are read twice per step: for the combinations d and
B d, and for the inner products with the new pair and the new grad phi. All inner products are sums
over n products; where they were recursions or differences of others, inner runs on problems with
few variables took up to a third longer.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from geartrain.compiled import coefficients
from geartrain.compiled.coefficients import RowTable
from geartrain.geometry import EUCLIDEAN, Geometry
from geartrain.methods.quasi_newton import rows
from geartrain.methods.quasi_newton.inner_pairs import InnerPairs
from geartrain.methods.quasi_newton.low_rank import Bare, LowRank
from geartrain.methods.quasi_newton.rows import Rows
from geartrain.oracles.protocols import Vector

_NONE = np.zeros((0, 0))


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
        self.lam, self.tau, self.memory = B.lam + mu, 0.0, memory
        self.V = None if B.small is None else B.small.bare
        G, M, E = (_NONE, _NONE, _NONE) if self.V is None else (self.V.G, self.V.M, self.V.E)
        self.table = RowTable.of(G, M, B.eigenvalues + mu, E, memory + 1)
        make = ShortRows if n <= rows.SHORT else LongRows
        self.W: ShortRows | LongRows = make(self.table, self.V, geometry, n)
        self.order: list[int] = []  # places of the pairs, oldest first
        self.spare = list(range(memory, -1, -1))  # other places, the first of them last
        self._grad: Vector | None = None  # grad phi, where its inner products are known
        if pairs:
            self._begin(pairs.last(memory))

    def _begin(self, pairs: InnerPairs) -> None:
        """Learn from those pairs of earlier runs along which there is curvature."""
        r, k = len(self.table.M), len(pairs)
        known, cross = self.table.gram[: r + 2 * k, : r + 2 * k], pairs.against(self.V)
        known[r:, r:], known[:r, r:], known[r:, :r] = pairs.gram, cross, cross.T
        self.W.begin(pairs)
        _, self.tau = self.W.learn_first(self.lam, k)
        good = self.table.sy[:k].nonzero()[0]
        if len(good) < k:
            self.clear()
            if good.size:
                self._begin(pairs.some(good))
            return
        self.order, self.spare = list(range(k)), self.spare[:-k]

    def __len__(self) -> int:
        return len(self.order)

    def clear(self) -> None:
        """Forget the pairs."""
        self.W.begin(InnerPairs())
        self.order, self.spare, self._grad = [], list(range(self.memory, -1, -1)), None
        r, table = len(self.table.M), self.table
        for known in (table.gram[r:], table.gram[:, r:], table.T, table.WY, table.MVS, table.dots):
            known[:] = 0.0

    def pairs(self) -> InnerPairs:
        """What the next run begins with."""
        r = len(self.table.M)
        at = _rows_of_places(r, self.memory + 1).take(self.order, axis=0).ravel()
        gram = self.table.gram.take(at, axis=1)
        kept = tuple([self.W.pairs[i] for i in self.order])
        vectors = () if self.V is None else self.V.vectors
        pairs = InnerPairs(kept, gram.take(at, axis=0), vectors, gram[:r])
        pairs.__dict__["W"] = self.W.rows([row for pair in kept for row in pair], at)
        return pairs

    def direction(self, grad: Vector) -> tuple[Vector, Vector]:
        """d = -H grad with the inverse Hessian of BFGS, and (B + mu I) d."""
        if self._grad is not grad:
            self.W.read(grad, grad, grad)
        return self.W.direction(grad, self.lam, self.tau)

    def add(self, s: Vector, y_g: Vector, grad: Vector) -> None:
        """Learn from a step s that led to the gradient `grad` of phi; that of g changed by y_g.

        The array `grad` does not change until the next direction is asked for.
        """
        i, oldest = self.spare.pop(), self.order[0] if len(self.order) == self.memory else -1
        self.W.put(i, s, y_g)
        self.W.read(s, y_g, grad)
        added, tau = self.W.learn(self.lam, i, oldest)
        self._grad = grad
        if not added:  # another one takes its place: a row that overflows must not be read again
            gram, at = self.table.gram, len(self.table.M) + 2 * i
            gram[at : at + 2], gram[:, at : at + 2], self.table.dots[:, at : at + 2] = 0.0, 0.0, 0.0
            self.spare.append(i)
            nothing = np.zeros_like(s)
            self.W.put(i, *(self.W.pairs[self.order[-1]] if self.order else (nothing, nothing)))
            return
        self.tau = tau
        self.order.append(i)
        if oldest >= 0:
            self.spare.append(self.order.pop(0))


class ShortRows:
    """The rows W of an inner run, short ones: a few calls of BLAS per step.

    Parameters
    ----------
    table : RowTable
        What is known of the rows.
    V : Bare, optional
        Those of the model.
    geometry : Geometry
        Of the inner products.
    n : int
        Length of the rows.
    """

    def __init__(self, table: RowTable, V: Bare | None, geometry: Geometry, n: int) -> None:
        self.table, self.V, self.geometry = table, V, geometry
        self.pairs: list[tuple[Vector, Vector]] = []  # at the places that were taken so far
        self.block = np.empty((2 * len(table.T), n))  # their vectors

    def begin(self, pairs: InnerPairs) -> None:
        """Put pairs at the first places."""
        self.pairs = list(pairs)
        if pairs:
            self.block[: 2 * len(pairs)] = pairs.W.rows

    def put(self, i: int, s: Vector, y_g: Vector) -> None:
        """Put a pair at place i, one that was taken before or the next one."""
        self.pairs[i : i + 1] = [(s, y_g)]
        self.block[2 * i], self.block[2 * i + 1] = s, y_g

    def rows(self, vectors: list[Vector], at: Any) -> Rows:
        """Those of the vectors, which are the rows `at` of W."""
        return Rows(vectors)

    def read(self, *vectors: Vector) -> None:
        """Enter the inner products of W with three vectors into the table."""
        r, dual, dots = len(self.table.M), self.geometry.dual, self.table.dots
        if self.V is not None:
            dots[:, :r] = self.V.dots_all(vectors)
        end = 2 * len(self.pairs)
        block = self.geometry.primal(self.block[:end])
        for v, out in zip(vectors, dots[:, r : r + end], strict=True):
            np.matmul(block, dual(v), out=out)

    def learn(self, lam: float, i: int, oldest: int) -> tuple[int, float]:
        """`coefficients.learn`."""
        return coefficients.learn(self.table, lam, i, oldest)

    def learn_first(self, lam: float, k: int) -> tuple[int, float]:
        """`coefficients.learn_first`."""
        return coefficients.learn_first(self.table, lam, k)

    def direction(self, grad: Vector, lam: float, tau: float) -> tuple[Vector, Vector]:
        """The vectors of `coefficients.direction`."""
        r, end = len(self.table.M), 2 * len(self.pairs)
        alpha = coefficients.direction(self.table, lam, tau)
        c = self.table.c
        d = grad * (-1.0 / alpha)
        d += c[0, r : r + end] @ self.block[:end]
        if self.V is None:
            return d, lam * d
        Bd = np.zeros_like(d)
        self.V.add_to([d, Bd], c[:, :r])
        Bd += lam * d
        return d, Bd


class LongRows:
    """The rows W of an inner run, long ones: compiled loops, which read them twice per step.

    In a geometry other than the Euclidean one, inner products take one part of the rows and another
    one of the vectors.

    Parameters
    ----------
    table : RowTable
        What is known of the rows.
    V : Bare, optional
        Those of the model.
    geometry : Geometry
        Of the inner products.
    n : int
        Length of the rows.
    """

    def __init__(self, table: RowTable, V: Bare | None, geometry: Geometry, n: int) -> None:
        self.table, self.dual, self.kernels = table, geometry.dual, _kernels()
        self.pairs: list[tuple[Vector, Vector]] = []  # at the places that were taken so far
        self.addresses = np.zeros(len(table.gram), dtype=np.intp)
        if V is not None:
            self.addresses[: len(V.at)] = V.rows.addresses[V.at]
        self.shift = 0  # from a row to the part of it that inner products take
        if geometry is not EUCLIDEAN:
            whole, address = np.empty(n), self.kernels.address
            self.shift = address(geometry.primal(whole)) - address(whole)

    def begin(self, pairs: InnerPairs) -> None:
        """Put pairs at the first places."""
        r, self.pairs = len(self.table.M), list(pairs)
        self.addresses[r : r + 2 * len(pairs)] = pairs.W.addresses

    def put(self, i: int, s: Vector, y_g: Vector) -> None:
        """Put a pair at place i, one that was taken before or the next one."""
        at, address = len(self.table.M) + 2 * i, self.kernels.address
        self.pairs[i : i + 1] = [(s, y_g)]
        self.addresses[at], self.addresses[at + 1] = address(s), address(y_g)

    def rows(self, vectors: list[Vector], at: Any) -> Rows:
        """Those of the vectors, which are the rows `at` of W."""
        return Rows.known(vectors, self.addresses[at])

    def _taken(self) -> Any:
        """Addresses of the rows of the model and of the places that were taken."""
        return self.addresses[: len(self.table.M) + 2 * len(self.pairs)]

    def read(self, *vectors: Vector) -> None:
        """Enter the inner products of W with three vectors into the table."""
        rows = self._taken() + self.shift if self.shift else self._taken()
        self.kernels.dots_into(rows, *map(self.dual, vectors), self.table.dots)

    def learn(self, lam: float, i: int, oldest: int) -> tuple[int, float]:
        """`coefficients.learn`."""
        learned: tuple[int, float] = self.kernels.learn(*self.table, lam, i, i + 1, True, oldest)
        return learned

    def learn_first(self, lam: float, k: int) -> tuple[int, float]:
        """`coefficients.learn_first`."""
        learned: tuple[int, float] = self.kernels.learn(*self.table, lam, 0, k, False, -1)
        return learned

    def direction(self, grad: Vector, lam: float, tau: float) -> tuple[Vector, Vector]:
        """The vectors of `coefficients.direction`."""
        alpha = self.kernels.direction(*self.table, lam, tau)
        d, Bd = np.empty(grad.size), np.empty(grad.size)
        r, c = len(self.table.M), self.table.c
        self.kernels.add_rows(self._taken(), c, r, d, Bd, grad, -1.0 / alpha, lam)
        return d, Bd


@lru_cache(maxsize=256)
def _rows_of_places(r: int, places: int) -> Any:
    """The rows s and y_g of each place behind the r rows of the model."""
    return r + np.arange(2 * places).reshape(places, 2)


@lru_cache(maxsize=1)
def _kernels() -> Any:
    from geartrain.compiled import inner_run  # here, because importing Numba takes a while

    return inner_run
