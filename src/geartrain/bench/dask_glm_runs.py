"""dask-glm, stopped at the first round that reaches a target."""

from __future__ import annotations

import contextlib
from time import perf_counter
from typing import Any
from unittest import mock

import dask.array as da
import numpy as np
from distributed import wait
from scipy import sparse

MAX_ROUNDS, MAX_SECONDS = 400, 120.0


class _Reached(Exception):
    """The target is reached, or the budget is used up."""


class _Watch:
    """Counts rounds and stops the run."""

    def __init__(self, target: float) -> None:
        self.target, self.rounds, self.start = target, 0, perf_counter()
        self.reached = False

    def round(self, f: float) -> None:
        self.rounds += 1
        self.seconds = perf_counter() - self.start
        self.reached = f <= self.target
        if self.reached or self.rounds >= MAX_ROUNDS or self.seconds > MAX_SECONDS:
            raise _Reached

    def row(self) -> dict[str, Any]:
        return {"rounds": self.rounds, "seconds": self.seconds, "reached": self.reached}


def _blocks(X: Any, y: Any, shards: int) -> tuple[Any, Any]:
    """Dense Dask arrays (dask-glm does not take CSR chunks), labels 0 and 1, on the cluster."""
    dense = X.toarray() if sparse.issparse(X) else X
    rows = -(-dense.shape[0] // shards)
    arrays = da.from_array(dense, chunks=(rows, -1)), da.from_array((y > 0) * 1.0, chunks=rows)
    blocks = tuple(array.persist() for array in arrays)
    wait(blocks)
    return blocks


def lbfgs(X: Any, y: Any, shards: int, l2: float, target: float) -> dict[str, Any]:
    """Rounds and seconds of dask-glm's L-BFGS."""
    from dask_glm import algorithms

    blocks, m = _blocks(X, y, shards), y.size
    compute = algorithms.compute
    watch = _Watch(target)

    def counted(*args: Any, **kwargs: Any) -> Any:
        loss, gradient = compute(*args, **kwargs)
        watch.round(float(loss) / m)
        return loss, gradient

    options = {"regularizer": "l2", "lamduh": m * l2, "max_iter": 10_000, "tol": 0.0}
    with mock.patch.object(algorithms, "compute", counted), contextlib.suppress(_Reached):
        algorithms.lbfgs(*blocks, **options, normalize=False)
    return watch.row()


def admm(
    X: Any, y: Any, shards: int, l2: float, target: float, f: Any, rho: float
) -> dict[str, Any]:
    """Rounds and seconds of dask-glm's ADMM with the weight rho; `f` judges its iterates."""
    from dask_glm import algorithms, regularizers

    blocks = _blocks(X, y, shards)
    watch = _Watch(target)

    class Watched(regularizers.L2):
        """The ridge, which sees every iterate."""

        def proximal_operator(self, beta: Any, t: float) -> Any:
            z = super().proximal_operator(beta, t)
            watch.round(f(np.asarray(z)))
            return z

    options = {"lamduh": y.size * l2, "rho": rho, "max_iter": 10_000, "abstol": 0.0, "reltol": 0.0}
    with contextlib.suppress(_Reached):
        algorithms.admm(*blocks, regularizer=Watched(), **options, normalize=False)
    return watch.row()
