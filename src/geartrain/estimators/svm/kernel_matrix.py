"""Kernel matrices: float32 rows under a memory limit for the solvers, float64 blocks for the rest.

The solvers need rows of K again and again. Rows are computed in float32 by blocks (one matrix
product and, for the Gaussian kernel, one fused exponential), kept as long as the memory limit
allows, and computed again otherwise. Certificates and predictions are computed in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import row_norms

from geartrain.compiled.records import Dual, KernelRows
from geartrain.estimators.arrays import Array
from geartrain.oracles.ledger import Ledger

BLOCK = 128  # rows of K in one matrix product
ROWS_SHARE = 0.8  # share of the memory limit for cached rows; the rest is for blocks and copies
ENTRIES = 1 << 18  # entries of a float64 block: 2 MB stay in the L2 cache
ROUND, LN2 = 2.0**-24, float(np.log(2.0))  # the unit roundoff of float32, and ln 2
EXP_ERROR = 1e-6  # relative error of `gaussian_f4`
OVERFLOW = "the kernel overflows in float32; scale the features"
SMALL = 640  # points up to which K is one block
STALE = 8  # requests for rows after which a row that was not used may be replaced
SAMPLE = 8  # one in this many points is taken for a sample
GRID = 2.0**22  # squared norm over squared unit up to which sums of products are exact in float32
HUGE = 1e30  # a gamma that may overflow in float32
FEW = 1 << 16  # coordinates of all points together, up to which they stay in the L2 cache
KERNELS = ("rbf", "linear", "poly", "precomputed")
KEYS = ("kernel.row", "kernel.product", "smo.step")  # counted by the ledger of a kernel


@dataclass(frozen=True)
class Kernel:
    """K(a, b): exp(-gamma |a - b|^2), <a, b>, (gamma <a, b> + coef0)^degree or a callable."""

    name: str | Callable[[Any, Any], Any]
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0

    def matrix(self, A: Any, B: Any) -> Array:
        """K between the rows of A and those of B, float64."""
        if callable(self.name):
            return np.asarray(self.name(A, B), dtype=np.float64)
        a = self._halves(A)
        return self._from_products(_products(A, B), a, a if B is A else self._halves(B))

    def _halves(self, points: Any) -> Array:
        """gamma |a|^2 of every point, which only the Gaussian kernel needs."""
        if self.name != "rbf":
            return np.empty(points.shape[0])
        return self.gamma * square_norms(points)

    def _from_products(self, G: Array, a: Array, b: Array) -> Array:
        """K from the matrix G of inner products, which may be overwritten."""
        if self.name == "rbf":
            from geartrain.compiled.smo import gaussian_f8

            # exp(-gamma |a - b|^2) = exp(2 gamma <a, b> - gamma |a|^2 - gamma |b|^2)
            G *= 2.0 * self.gamma
            gaussian_f8(G, a, b)
        elif self.name == "poly":
            G = (self.gamma * G + self.coef0) ** self.degree
        return G

    def expand(self, A: Any, points: Any, coefficients: Array) -> Array:
        """``matrix(A, points) @ coefficients`` by blocks of rows."""
        out = np.empty((A.shape[0], *coefficients.shape[1:]))
        size = max(1, ENTRIES // max(1, points.shape[0]))
        if callable(self.name) or sparse.issparse(A):
            for rows in blocks(A.shape[0], size):
                out[rows] = self.matrix(A[rows], points) @ coefficients
            return out
        a, b = self._halves(A), self._halves(points)
        G = np.empty((min(size, A.shape[0]), points.shape[0]))
        for rows in blocks(A.shape[0], size):
            part = np.dot(A[rows], points.T, out=G[: rows.stop - rows.start])
            out[rows] = self._from_products(part, a[rows], b) @ coefficients
        return out

    def expand_symmetric(self, points: Any, coefficients: Array) -> Array:
        """``matrix(points, points) @ coefficients``, from half of the entries."""
        m = points.shape[0]
        out = np.zeros(m)
        halves = self._halves(points)
        for rows in blocks(m, max(1, ENTRIES // max(1, m))):
            here, later = rows.stop - rows.start, slice(rows.start, None)
            G = _products(points[rows], points[later])
            K = self._from_products(G, halves[rows], halves[later])
            out[rows] += K @ coefficients[later]
            out[rows.stop :] += coefficients[rows] @ K[:, here:]
        return out


def square_norms(points: Any) -> Array:
    """|a|^2 of every row."""
    if sparse.issparse(points):
        return row_norms(points, squared=True)
    return np.einsum("ij,ij->i", points, points)


def _finite(numbers: Array) -> Array:
    """`numbers` in float32; an error if they overflow."""
    with np.errstate(over="ignore"):
        numbers = numbers.astype(np.float32)
    if not np.isfinite(numbers).all():
        raise ValueError(OVERFLOW)
    return numbers


def _products(A: Any, B: Any) -> Array:
    """Array of <a, b> for all rows a of A and b of B."""
    G = A @ B.T
    return G.toarray() if sparse.issparse(G) else np.asarray(G)


def blocks(m: int, size: int) -> Iterator[slice]:
    """Slices of at most `size` that cover range(m)."""
    for start in range(0, m, size):
        yield slice(start, min(start + size, m))


class TrainingKernel:
    """K of the training points: a cache of float32 rows, and products in float64.

    Parameters
    ----------
    kernel : Kernel
    X : array or CSR (m, n)
        The points, or K itself if `kernel` is precomputed.
    memory_limit : float
        Bytes, of which the cache takes the share `ROWS_SHARE`.

    Attributes
    ----------
    rows : array (capacity, m)
        The cached rows, float32.
    ledger : Ledger
        Rows computed so far ("kernel.row", including those of the sample), products with K
        ("kernel.product") and two-variable steps ("smo.step").
    forgets : bool
        Whether rows were replaced so far.
    """

    def __init__(
        self, kernel: Kernel, X: Any, memory_limit: float, ledger: Ledger | None = None
    ) -> None:
        self.ledger = Ledger(names=(), more=KEYS) if ledger is None else ledger
        self.kernel = kernel
        self.X = X
        self.memory_limit = memory_limit
        self.m = int(X.shape[0])
        self.capacity = int(min(self.m, ROWS_SHARE * memory_limit // (4 * self.m)))
        if self.capacity < min(self.m, 2 * BLOCK):
            need = 4 * self.m * min(self.m, 2 * BLOCK) / (1e6 * ROWS_SHARE)
            raise ValueError(
                f"memory_limit is too small for {self.m} samples: a block of "
                f"{min(self.m, 2 * BLOCK)} kernel rows needs {need:.1f} MB; raise memory_limit "
                "or fit a subset of the samples"
            )
        self.small = self.m <= min(SMALL, self.capacity)  # row i is in slot i
        self.slot = np.full(self.m, -1)  # where a row is kept
        self._owner = np.full(self.capacity, -1)
        self._last_use = np.zeros(self.capacity, np.int64)
        self._filled = 0
        self._clock = 0
        self.forgets = False

    @cached_property
    def rows(self) -> Array:
        """The cache; pages that are never written take no memory."""
        return np.empty((self.capacity, self.m), np.float32)

    @cached_property
    def _on_grid(self) -> bool:
        """Whether products of points are exact in float32, for a Gaussian kernel.

        They are if the coordinates are multiples of some 2^-k that is not too small: categories
        as zeros and ones, counts, pixels.
        """
        if self.kernel.name != "rbf" or self.small:
            return False
        largest = float(square_norms(self.X).max(initial=1.0))
        unit = 2.0 ** np.ceil(0.5 * np.log2(largest / GRID)) if largest < np.inf else 1.0
        # The first rows are enough to refuse most data.
        for rows in (slice(BLOCK), slice(None)):
            part = self.X[rows].data if sparse.issparse(self.X) else self.X[rows]
            if (np.rint(part / unit) * unit != part).any():
                return False
        return largest < GRID and self.kernel.gamma < HUGE

    @cached_property
    def _scaled(self) -> tuple[Any, Array]:
        """Float32 points and half their squared norms, such that rbf is exp(<a, b> - ...).

        Dense points are centred, which does not change the Gaussian and reduces cancellation.
        Points on a grid are not changed; the exponent is scaled instead.
        """
        if callable(self.kernel.name) or self.kernel.name == "precomputed":
            return None, np.empty(0, np.float32)
        if self.kernel.name != "rbf":
            return self.X.astype(np.float32), np.empty(0, np.float32)
        points = self.X
        if not self._on_grid:
            points = points.copy() if sparse.issparse(points) else points - points.mean(axis=0)
            points *= np.sqrt(2.0 * self.kernel.gamma)
        return points.astype(np.float32), _finite(0.5 * square_norms(points))

    @property
    def _exponent(self) -> float:
        """The factor of <a, b> - |a|^2/2 - |b|^2/2 of the scaled points."""
        return 2.0 * self.kernel.gamma if self._on_grid else 1.0

    @cached_property
    def error(self) -> float:
        """Bound of |float32 row - K|/K for all entries; infinite if none is known.

        With R the norm of the longest scaled point and u = 2^-24, the exponent is off by at most
        (n + 16) u R^2: n from the product, 8 from rounding the points and their norms, 4 from the
        differences and 4 from the factor 1/ln 2. On a grid only these last 4 remain. Entries
        below 2^-126 are replaced by it.
        """
        if self.kernel.name != "rbf":
            return np.inf
        square = 2.0 * self._exponent * float(self.halves.max(initial=0.0))
        roundings = 4 if self._on_grid else self.X.shape[1] + 16
        exponent = min(roundings * ROUND * square, 1.0)
        error = float(np.expm1(exponent)) + EXP_ERROR
        return error / (1.0 - error) if error < 0.5 else np.inf

    def fill(self, W: Array, out: Array) -> None:
        """``out <- K[W]`` in float32."""
        start = perf_counter()
        self._compute(W, out)
        self.ledger.add("kernel.row", W.size, perf_counter() - start)

    def _compute(self, W: Array, out: Array) -> None:
        points, half = self._scaled
        if self.kernel.name == "precomputed":
            out[:] = self.X[W]
        elif callable(self.kernel.name):
            out[:] = self.kernel.matrix(self.X[W], self.X)
        elif sparse.issparse(points):
            out[:] = (points @ points[W].toarray().T).T
        else:
            np.dot(points[W], points.T, out=out)
        if self.kernel.name == "rbf":
            from geartrain.compiled.smo import gaussian_f4

            gaussian_f4(out, half[W], half, np.float32(self._exponent / LN2))
        elif self.kernel.name == "poly":
            out *= np.float32(self.kernel.gamma)
            out += np.float32(self.kernel.coef0)
            np.power(out, self.kernel.degree, out=out)
        if self.kernel.name != "rbf" and not np.isfinite(out).all():
            raise ValueError(OVERFLOW)

    @cached_property
    def _columns(self) -> tuple[Array, Array]:
        """The scaled points by coordinates, and half their squared norms."""
        from geartrain.compiled.smo import centred_columns

        out = np.zeros((-(-self.X.shape[1] // 4) * 4, self.m), np.float32)
        mean, halves = np.full(self.m, 1.0 / self.m) @ self.X, np.empty(self.m)
        centred_columns(self.X, mean, np.sqrt(2.0 * self.kernel.gamma), out, halves)
        return out, _finite(halves)

    @cached_property
    def _in_columns(self) -> bool:
        dense = self.kernel.name == "rbf" and not sparse.issparse(self.X)
        return self.small and dense and self.X.size <= FEW

    @property
    def coordinates(self) -> Array:
        """The scaled points, one row per coordinate, if they are few; otherwise empty.

        A compiled loop computes a row of K from them as fast as a matrix product does. Zeros pad
        the number of coordinates to a multiple of four.
        """
        return self._columns[0] if self._in_columns else np.empty((0, self.m), np.float32)

    @property
    def halves(self) -> Array:
        """Half the squared norms of the scaled points."""
        return self._columns[1] if self._in_columns else self._scaled[1]

    @cached_property
    def sample(self) -> tuple[Array, TrainingKernel]:
        """One in `SAMPLE` points, always the same ones, and their kernel."""
        order = np.random.default_rng(self.m).permutation(self.m)
        A = np.sort(order[: self.m // SAMPLE])
        X = self.X[np.ix_(A, A)] if self.kernel.name == "precomputed" else self.X[A]
        return A, TrainingKernel(self.kernel, X, self.memory_limit / SAMPLE, self.ledger)

    def solve_block(self, rows: KernelRows, dual: Dual, goal: float, max_steps: int) -> int:
        """`geartrain.compiled.smo.solve_block`, with its steps and rows counted; the steps."""
        from geartrain.compiled.smo import solve_block

        tally, start = np.zeros(2, np.int64), perf_counter()
        solve_block(tally, rows, dual, goal, max_steps)
        steps, fresh = tally.tolist()
        self.ledger.add("smo.step", steps, perf_counter() - start)
        self.ledger.add("kernel.row", fresh, 0.0)  # their seconds are among those of the steps
        return steps

    def adopt(self, known: Array) -> None:
        """Take note of rows that were computed in place: row i is in slot i."""
        fresh = np.flatnonzero(known & (self.slot < 0))
        self.slot[fresh] = fresh

    def cached(self, W: Array) -> Array:
        """Slots of the rows W in `rows`; missing rows are computed."""
        self._clock += 1
        missing = W[self.slot[W] < 0]
        if self.small:
            if missing.size:
                fresh_rows = np.empty((missing.size, self.m), np.float32)
                self.fill(missing, fresh_rows)
                self.rows[missing] = fresh_rows
                self.slot[missing] = missing
            return W
        held = self.slot[W]
        self._last_use[held[held >= 0]] = self._clock
        # Memory that was already written is faster than new pages.
        stale = np.flatnonzero(self._last_use[: self._filled] < self._clock - STALE)
        self._replace(missing[: stale.size], stale[: missing.size])
        missing = missing[stale.size :]
        fresh = min(missing.size, self.capacity - self._filled)
        for part in blocks(fresh, BLOCK):
            ids = missing[part]
            where = slice(self._filled, self._filled + ids.size)
            self.fill(ids, self.rows[where])
            self._keep(ids, np.arange(where.start, where.stop))
            self._filled += ids.size
        missing = missing[fresh:]
        if missing.size:
            oldest = np.argpartition(self._last_use, missing.size - 1)[: missing.size]
            self._replace(missing, oldest)
        return self.slot[W]

    def _replace(self, ids: Array, slots: Array) -> None:
        """Compute the rows `ids` in place of those in the `slots`."""
        self.forgets = self.forgets or ids.size > 0
        self.slot[self._owner[slots]] = -1
        buffer = np.empty((min(BLOCK, ids.size), self.m), np.float32)
        for part in blocks(ids.size, BLOCK):
            self.fill(ids[part], buffer[: ids[part].size])
            self.rows[slots[part]] = buffer[: ids[part].size]
            self._keep(ids[part], slots[part])

    def _keep(self, ids: Array, slots: Array) -> None:
        self.slot[ids] = slots
        self._owner[slots] = ids
        self._last_use[slots] = self._clock

    def move(self, F: Array, G: Array, S: Array, d: Array, a: Array) -> None:
        """``F -= K[:, S] d`` and ``G += K[:, S] a``, from cached rows."""
        from geartrain.compiled.smo import move_rows

        # Few parts, so that rows of the first part are not stale when the last one is computed.
        for part in blocks(S.size, min(max(2 * BLOCK, -(-S.size // 4)), self.capacity)):
            move_rows(F, G, self.rows, self.cached(S[part]), d[part], a[part])

    def exact(self, P: Array, S: Array) -> Array:
        """``K[P, S]`` in float64."""
        if self.kernel.name == "precomputed":
            return self.X[np.ix_(P, S)]
        points = self.X[S]  # NumPy computes only half of A A'
        return self.kernel.matrix(points if P is S else self.X[P], points)

    def exact_product(self, P: Array, S: Array, coefficients: Array) -> Array:
        """``K[P, S] @ coefficients`` in float64, from half of the entries if P is S."""
        if self.kernel.name == "precomputed":
            return self.X[np.ix_(P, S)] @ coefficients
        if P is S and not callable(self.kernel.name):
            return self.kernel.expand_symmetric(self.X[S], coefficients)
        return self.kernel.expand(self.X[P], self.X[S], coefficients)

    def diagonal(self) -> Array:
        """K_ii in float64."""
        if self.kernel.name == "rbf":
            return np.ones(self.m)
        out = np.empty(self.m)
        for part in blocks(self.m, BLOCK):
            ids = np.arange(part.start, part.stop)
            out[part] = self.exact(ids, ids).diagonal()
        return out

    def product(self, v: Array) -> Array:
        """``K v``, the sum of v_i times row i: float32 rows, float64 sums.

        Rows are cached as far as they fit; the others are computed again.
        """
        from geartrain.compiled.smo import move_rows

        start = perf_counter()
        out, negative = np.zeros(self.m), np.zeros(self.m)
        kept = np.arange(self.capacity)
        move_rows(negative, out, self.rows, self.cached(kept), v[kept], v[kept])
        buffer = np.empty((min(BLOCK, self.m - kept.size), self.m), np.float32)
        for part in blocks(self.m - kept.size, BLOCK):
            ids = np.arange(kept.size + part.start, kept.size + part.stop)
            self.fill(ids, buffer[: ids.size])
            move_rows(negative, out, buffer, np.arange(ids.size), v[ids], v[ids])
        self.ledger.add("kernel.product", 1, perf_counter() - start)
        return out
