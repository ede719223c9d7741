r"""The curvature that an inner run knows: the matrix of the model, and pairs of steps and changes.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
B          ``B``           lam I + V'MV, of `geartrain.methods.quasi_newton.low_rank`
lam        ``lam``         that of B, plus mu
s, y_g     ``pairs``       steps, and the changes of grad g along them
y          --              y_g + (B + mu I) s: the change of grad phi; never formed
W          --              the rows V, s_1, s_2, ... and y_g1, y_g2, ...; oldest pair first
Gamma      ``gram``        W W'
tau        ``tau``         curvature of g along the last step
H_0        --              (B + (mu + tau) I)^{-1}
R          --              upper triangle of S'Y
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
from geartrain.compiled.coefficients import CURVED, TINY, RowTable
from geartrain.geometry import Geometry
from geartrain.methods.quasi_newton import rows
from geartrain.methods.quasi_newton.inner_pairs import InnerPairs
from geartrain.methods.quasi_newton.low_rank import Bare, LowRank
from geartrain.methods.quasi_newton.rows import Rows
from geartrain.oracles.protocols import Vector
from geartrain.oracles.spectrum import lapack


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
        self.mu, self.lam, self.tau, self.k = mu, B.lam + mu, 0.0, 0
        self.V = None if B.small is None else B.small.bare
        none = np.zeros((0, 0))
        G, M, E = (none, none, none) if self.V is None else (self.V.G, self.V.M, self.V.E)
        self.table = RowTable.of(G, M, B.eigenvalues + mu, E, memory + 1)
        self.W: ShortRows | LongRows
        if n <= rows.SHORT:
            self.W = ShortRows(self.table, self.V, geometry)
        else:
            self.W = LongRows(self.table, self.V, geometry, n)
        self._grad: Vector | None = None  # grad phi, where its inner products are known
        if pairs:
            self.k, self.tau = self.W.begin(pairs.last(memory), self.lam)

    def __len__(self) -> int:
        return self.k

    def clear(self) -> None:
        """Forget the pairs."""
        self.k, self._grad, self.table.T[:] = 0, None, 0.0
        self.W.clear()

    def pairs(self) -> InnerPairs:
        """What the next run begins with."""
        W, r = self.W.of_pairs(self.k), len(self.table.M)
        at = r + _in_turn(self.k, len(self.table.T))
        pairs = InnerPairs(
            tuple(zip(W.rows[::2], W.rows[1::2], strict=True)),
            self.table.gram[at[:, None], at],
            () if self.V is None else self.V.vectors,
            self.table.gram[:r, at],
        )
        pairs.__dict__["W"] = W
        return pairs

    def direction(self, grad: Vector) -> tuple[Vector, Vector]:
        """d = -H grad with the inverse Hessian of BFGS, and (B + mu I) d."""
        if self._grad is not grad:
            self.W.of_grad(grad, self.k)
        return self.W.direction(grad, self.lam, self.tau, self.k)

    def add(self, s: Vector, y_g: Vector, grad: Vector) -> None:
        """Learn from a step s that led to the gradient `grad` of phi; that of g changed by y_g.

        The array `grad` does not change until the next direction is asked for.
        """
        added, tau = self.W.learn(s, y_g, grad, self.lam, self.k)
        self._grad = grad
        if added:
            self.k, self.tau = min(self.k + 1, len(self.table.T) - 1), tau


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
    """

    def __init__(self, table: RowTable, V: Bare | None, geometry: Geometry) -> None:
        self.table, self.V, self.geometry, self.W = table, V, geometry, Rows(())

    def clear(self) -> None:
        """Forget the pairs."""
        self.W = Rows(())

    def begin(self, pairs: InnerPairs, lam: float) -> tuple[int, float]:
        """Learn from those pairs of earlier runs along which there is curvature.

        Returns their number, and the curvature of g along the last of them.
        """
        table, k = self.table, len(pairs)
        r, m = len(table.M), len(table.T)
        cross = pairs.against(self.V)
        VS, gram = cross[:, ::2], pairs.gram
        SS, SY, YY = gram[::2, ::2], gram[::2, 1::2], gram[1::2, 1::2]
        MVS = table.M @ VS
        ss, sy_g, yy_g = SS.diagonal(), SY.diagonal(), YY.diagonal()
        R = SY + lam * SS + VS.T @ MVS
        sy = R.diagonal()
        low_rank = np.maximum((MVS * (table.gram[:r, :r] @ MVS)).sum(axis=0), 0.0)
        size = yy_g**0.5 + lam * ss**0.5 + low_rank**0.5  # at least |y|
        good = sy > CURVED * ss**0.5 * size
        if not good.all():
            at = good.nonzero()[0]
            return self.begin(pairs.some(at), lam) if at.size else (0, 0.0)
        S, Y = slice(r, r + k), slice(r + m, r + m + k)
        known = table.gram
        known[S, S], known[S, Y], known[Y, S], known[Y, Y] = SS, SY, SY.T, YY
        known[:r, S], known[:r, Y] = VS, cross[:, 1::2]
        known[S, :r], known[Y, :r] = VS.T, cross[:, 1::2].T
        table.T[:k, :k] = np.triu(lapack().dtrtri(R)[0])
        table.MVS[:k], table.sy[:k], self.W = MVS.T, sy, pairs.W
        return k, max(float(sy_g[-1]), 0.0) / max(float(ss[-1]), TINY)

    def of_pairs(self, k: int) -> Rows:
        """The rows s_1, y_g1, s_2, ... of the k pairs."""
        return self.W

    def _dots(self, W: Rows, vectors: list[Vector], out: Vector, k: int) -> None:
        """Inner products of the vectors with V and with k pairs W."""
        r, m = len(self.table.M), len(self.table.T)
        if self.V is not None:
            out[:, :r] = self.V.dots_all(vectors)
        if k:
            dots = W.dots_all(vectors, self.geometry)
            out[:, r : r + k], out[:, r + m : r + m + k] = dots[:, ::2], dots[:, 1::2]

    def of_grad(self, grad: Vector, k: int) -> None:
        """Enter W grad phi into the table."""
        self._dots(self.W, [grad], self.table.dots[2:], k)

    def learn(self, s: Vector, y_g: Vector, grad: Vector, lam: float, k: int) -> tuple[bool, float]:
        """`coefficients.learn` for these vectors, and W grad phi for the next direction."""
        W = self.W.with_rows((s, y_g))
        self._dots(W, [s, y_g, grad], self.table.dots, k + 1)
        added, tau = coefficients.learn(self.table, lam, k)
        if added:
            self.W = W if k + 1 < len(self.table.T) else W.after(2)
        return added, tau

    def direction(self, grad: Vector, lam: float, tau: float, k: int) -> tuple[Vector, Vector]:
        """The vectors of `coefficients.direction`."""
        r, m = len(self.table.M), len(self.table.T)
        alpha, D = coefficients.inverse(self.table.w, lam, tau)
        c, e = coefficients.direction(self.table, lam, alpha, D)
        d = grad * (-1.0 / alpha)
        if k:
            of_pairs = np.empty((1, 2 * k))
            of_pairs[0, ::2], of_pairs[0, 1::2] = c[r : r + k], c[r + m : r + m + k]
            self.W.add_to([d], of_pairs)
        if self.V is None:
            return d, lam * d
        Bd = np.zeros_like(d)
        self.V.add_to([d, Bd], np.array([c[:r], e]))
        Bd += lam * d
        return d, Bd


class LongRows:
    """The rows W of an inner run, long ones: compiled loops, which read them twice per step.

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
        self.table, self.V = table, V
        self.vectors: list[Vector] = []  # the rows of the pairs
        self.addresses = np.zeros(len(table.gram), dtype=np.intp)
        if V is not None:
            self.addresses[: len(V.at)] = V.rows.addresses[V.at]
        places = np.arange(n, dtype=np.float64)
        primal, dual = geometry.primal(places), geometry.dual(places)
        self.parts = int(primal[0]), int(dual[0]), primal.size
        self.kernels = _kernels()

    def clear(self) -> None:
        """Forget the pairs."""
        self.vectors = []

    def begin(self, pairs: InnerPairs, lam: float) -> tuple[int, float]:
        """Learn from those pairs of earlier runs along which there is curvature.

        Returns their number, and the curvature of g along the last of them.
        """
        good = np.empty(len(pairs), dtype=np.bool_)
        cross = pairs.against(self.V)
        k, tau = self.kernels.begin(self.table, pairs.gram, cross, lam, good)
        if k < len(pairs):
            pairs = pairs.some(good.nonzero()[0])
        r, m, W = len(self.table.M), len(self.table.T), pairs.W
        self.vectors = W.rows.copy()
        self.addresses[r : r + k] = W.addresses[::2]
        self.addresses[r + m : r + m + k] = W.addresses[1::2]
        return k, tau

    def of_pairs(self, k: int) -> Rows:
        """The rows s_1, y_g1, s_2, ... of the k pairs."""
        r, m = len(self.table.M), len(self.table.T)
        both = np.empty(2 * k, dtype=np.intp)
        both[::2], both[1::2] = self.addresses[r : r + k], self.addresses[r + m : r + m + k]
        return Rows.known(self.vectors.copy(), both)

    def of_grad(self, grad: Vector, k: int) -> None:
        """Enter W grad phi into the table."""
        self.kernels.read(self.table, self.addresses, self.parts, grad, grad, grad, k)

    def learn(self, s: Vector, y_g: Vector, grad: Vector, lam: float, k: int) -> tuple[bool, float]:
        """`coefficients.learn` for these vectors, and W grad phi for the next direction."""
        kept = self.table, self.addresses, self.parts
        added, tau = self.kernels.learn(*kept, s, y_g, grad, lam, k)
        if added:
            self.vectors += (s, y_g)
            if k + 1 == len(self.table.T):
                del self.vectors[:2]
        return added, tau

    def direction(self, grad: Vector, lam: float, tau: float, k: int) -> tuple[Vector, Vector]:
        """The vectors of `coefficients.direction`."""
        d, Bd = self.kernels.direction(self.table, self.addresses, grad, lam, tau, k)
        return d, Bd


@lru_cache(maxsize=256)
def _in_turn(k: int, places: int) -> Any:
    """The places of s_1, y_g1, s_2, ... of k pairs behind the rows of the model."""
    return np.array([[i, places + i] for i in range(k)], dtype=np.intp).ravel()


@lru_cache(maxsize=1)
def _kernels() -> Any:
    from geartrain.compiled import inner_run  # here, because importing Numba takes a while

    return inner_run
