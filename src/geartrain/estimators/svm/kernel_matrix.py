"""The kernel matrix of the training points: a cache of float32 rows, and products in float64.

The solvers need rows of K again and again. Rows are computed in float32 by blocks, kept as long as
the memory limit allows, and computed again otherwise. Certificates are computed in float64.
"""

from __future__ import annotations

from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np

from geartrain.compiled.records import Array, Dual, KernelRows
from geartrain.estimators.svm.kernel import BLOCK, FloatRows, Kernel, blocks
from geartrain.oracles.ledger import Ledger

ROWS_SHARE = 0.8  # share of the memory limit for cached rows; the rest is for blocks and copies
SMALL = 640  # points up to which K is one block
STALE = 8  # requests for rows after which a row that was not used may be replaced
SAMPLE = 8  # one in this many points is taken for a sample
KEYS = ("kernel.row", "kernel.product", "smo.block", "smo.step")  # in the ledger of a kernel


class TrainingKernel:
    """K of the points X, or X itself if `kernel` is precomputed.

    The cache takes the share `ROWS_SHARE` of the `memory_limit`, which is in bytes. The ledger
    counts the rows computed so far ("kernel.row", including those of the sample), products with K
    ("kernel.product"), blocks ("smo.block") and two-variable steps ("smo.step").
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
        self.block_capacity = int(np.sqrt((1.0 - ROWS_SHARE) * memory_limit / 4))  # of K[W, W]
        if self.capacity < min(self.m, 2 * BLOCK):
            need = 4 * self.m * min(self.m, 2 * BLOCK) / (1e6 * ROWS_SHARE)
            raise ValueError(
                f"memory_limit is too small for {self.m} samples: a block of "
                f"{min(self.m, 2 * BLOCK)} kernel rows needs {need:.1f} MB; raise memory_limit "
                "or fit a subset of the samples"
            )
        self.small = self.m <= min(SMALL, self.capacity)  # row i is in slot i
        self.float_rows = FloatRows(kernel, X, by_columns=self.small)
        self.slot = np.full(self.m, -1)  # where a row is kept
        self._owner = np.full(self.capacity, -1)
        self._last_use = np.zeros(self.capacity, np.int64)
        self._filled = 0
        self._clock = 0
        self.forgets = False  # whether rows were replaced so far

    @cached_property
    def rows(self) -> Array:
        """The cache; pages that are never written take no memory."""
        return np.empty((self.capacity, self.m), np.float32)

    @property
    def error(self) -> float:
        """Bound of |float32 row - K|/K for all entries; infinite if none is known."""
        return self.float_rows.error

    def fill(self, W: Array, out: Array) -> None:
        """``out <- K[W]`` in float32."""
        start = perf_counter()
        self.float_rows.compute(W, out)
        self.ledger.add("kernel.row", W.size, perf_counter() - start)

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
        self.ledger.add("smo.block", int(steps > 0), 0.0)
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
        if P is S:
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
