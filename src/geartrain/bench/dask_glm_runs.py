"""dask-glm, stopped at the first round that reaches a target.

A round sends a point or direction out and waits for the answers of all chunks: an evaluation of
value and gradient in L-BFGS, an iteration in ADMM (whose workers solve a problem each in it), a
gradient or a value of the line search in gradient descent.
"""

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


class _WithRidge:
    """The logistic loss of rows with labels 0 and 1, and z^2/2 of rows with label 2."""

    @staticmethod
    def loglike(Xbeta: Any, y: Any) -> Any:
        return da.where(y == 2.0, 0.5 * Xbeta**2, da.logaddexp(0.0, Xbeta) - y * Xbeta).sum()

    @staticmethod
    def gradient(Xbeta: Any, X: Any, y: Any) -> Any:
        return X.T.dot(da.where(y == 2.0, Xbeta, 1.0 / (1.0 + da.exp(-Xbeta)) - y))


def gradient_descent(X: Any, y: Any, shards: int, l2: float, target: float) -> dict[str, Any]:
    """Rounds and seconds of dask-glm's gradient descent.

    It knows no penalty, so the ridge is given to it as n more rows, the last ones.
    """
    from dask_glm import algorithms

    m, n = X.shape
    dense = X.toarray() if sparse.issparse(X) else X
    rows = -(-m // shards)
    chunks = (*(min(rows, m - i) for i in range(0, m, rows)),)
    chunks = (*chunks[:-1], chunks[-1] + n)
    every = np.vstack([dense, np.sqrt(m * l2) * np.eye(n)])
    labels = np.concatenate([(y > 0) * 1.0, np.full(n, 2.0)])
    blocks = (da.from_array(every, chunks=(chunks, n)), da.from_array(labels, chunks=(chunks,)))
    blocks = tuple(array.persist() for array in blocks)
    wait(blocks)
    compute, watch = algorithms.compute, _Watch(target)

    def counted(*args: Any, **kwargs: Any) -> Any:
        answers = compute(*args, **kwargs)
        if len(args) == 1:  # more: what is known already is fetched once more
            watch.round(float(answers[0]) / m if np.ndim(answers[0]) == 0 else np.inf)
        return answers

    with mock.patch.object(algorithms, "compute", counted), contextlib.suppress(_Reached):
        options = {"max_iter": 10_000, "tol": -np.inf, "normalize": False}
        algorithms.gradient_descent(*blocks, family=_WithRidge, **options)
    return watch.row()
