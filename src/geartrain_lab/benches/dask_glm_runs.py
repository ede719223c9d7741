"""dask-glm, stopped at the first round that reaches a target.

A round is a graph that dask-glm has computed and waits for: a call of Dask's scheduler, wherever
its code makes one. What it only starts (``persist``) or sends ahead (``scatter``) is not counted.
That is an evaluation of value and gradient in L-BFGS, an iteration in ADMM (whose workers solve a
problem each in it), and two graphs and one more a trial of the line search in an iteration of
gradient descent.

Rounds are counted with Dask's scheduler in this process, where a graph costs a fraction of what it
costs on a cluster. L-BFGS and gradient descent see sums over all chunks only, so their rounds are
counted in two chunks, once for all numbers of chunks. Seconds are those of the same run on the
cluster, for as long as the caller allows. What a limit cut is a lower bound.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from time import perf_counter, process_time
from typing import Any
from unittest import mock

import dask
import dask.array as da
import numpy as np
from distributed import Client, wait
from scipy import sparse

# Seconds of the processor for the run that counts.
SOLVERS = {"lbfgs": 30.0, "admm": 5.0, "gd": 5.0}
MAX_ROUNDS = 400
_FOREVER = {"max_iter": 10_000, "normalize": False}


class _Over(Exception):
    """The target is reached, or the budget is used up."""


class _Watch:
    """Counts rounds and ends the run."""

    def __init__(self, target: float, max_seconds: float, clock: Callable[[], float]) -> None:
        self.target, self.max_seconds, self.clock = target, max_seconds, clock
        self.rounds, self.seconds, self.reached = 0, 0.0, False
        self.start = clock()

    def counted(self, get: Callable[..., Any]) -> Callable[..., Any]:
        """A scheduler whose answers are counted."""

        def ask(*args: Any, **kwargs: Any) -> Any:
            if self.rounds >= MAX_ROUNDS or self.seconds > self.max_seconds:
                raise _Over
            answer = get(*args, **kwargs)
            self.rounds += 1
            self.seconds = self.clock() - self.start
            return answer

        return ask

    def see(self, f: float) -> None:
        """F where the run is now."""
        self.reached = f <= self.target
        if self.reached:
            raise _Over


@contextlib.contextmanager
def _on_cluster(watch: _Watch) -> Iterator[None]:
    with mock.patch.object(Client, "get", watch.counted(Client.get)):
        yield


@contextlib.contextmanager
def _in_process(watch: _Watch) -> Iterator[None]:
    """Graphs that are only started are computed at once here, and not counted."""
    from dask_glm import algorithms

    persist = algorithms.persist

    def started(*args: Any) -> Any:
        return persist(*args, scheduler="sync")

    with (
        dask.config.set(scheduler=watch.counted(dask.get)),
        mock.patch.object(algorithms, "persist", started),
        mock.patch.object(algorithms, "get_distributed_client", return_value=None),
    ):
        yield


def run(
    solver: str,
    X: Any,
    y: Any,
    shards: int,
    l2: float,
    target: float,
    f: Callable[[Any], float],
    known: dict[str, _Watch],
    max_seconds: float,
) -> dict[str, Any]:
    """Rounds and seconds of a solver; `known` keeps what does not depend on the shards.

    "reached" and "timed" say whether the two are more than bounds.
    """
    here = known.get(solver)
    if here is None:
        chunks = shards if solver == "admm" else 2
        watch = _Watch(target, SOLVERS[solver], process_time)  # whatever else the machine does
        here = _watched(solver, X, y, chunks, l2, f, watch, _in_process)
        if solver != "admm":
            known[solver] = here
    watch = _Watch(target, max_seconds, perf_counter)
    there = _watched(solver, X, y, shards, l2, f, watch, _on_cluster)
    rounds = there.rounds if there.reached else max(here.rounds, there.rounds)
    return {
        "rounds": here.rounds if here.reached else rounds,
        "reached": here.reached or there.reached,
        "seconds": there.seconds,
        "timed": there.reached,
    }


def _watched(
    solver: str,
    X: Any,
    y: Any,
    chunks: int,
    l2: float,
    f: Callable[[Any], float],
    watch: _Watch,
    counting: Callable[[_Watch], contextlib.AbstractContextManager[None]],
) -> _Watch:
    """The watch, after a run."""
    dense = X.toarray() if sparse.issparse(X) else X
    labels = (y > 0) * 1.0
    if solver == "gd":  # it knows no penalty: the ridge is n more rows
        dense = np.vstack([dense, np.sqrt(y.size * l2) * np.eye(dense.shape[1])])
        labels = np.concatenate([labels, np.full(dense.shape[1], _RIDGE)])
    rows = -(-dense.shape[0] // chunks)
    blocks = da.from_array(dense, chunks=(rows, -1)), da.from_array(labels, chunks=rows)
    if counting is _on_cluster:
        blocks = tuple(array.persist() for array in blocks)
        wait(blocks)
    call = {"lbfgs": _lbfgs, "admm": _admm, "gd": _gradient_descent}[solver]
    watch.start = watch.clock()
    with counting(watch), contextlib.suppress(_Over):
        call(watch, *blocks, y.size, l2, f)
    return watch


def _seeing(watch: _Watch, m: int) -> Any:
    """``algorithms.compute`` that shows the first answer, where it is a loss, to the watch."""
    from dask_glm import algorithms

    compute = algorithms.compute

    def shown(*args: Any, **kwargs: Any) -> Any:
        answers = compute(*args, **kwargs)
        if np.ndim(answers[0]) == 0 and len(answers) < 3:
            watch.see(float(answers[0]) / m)
        return answers

    return mock.patch.object(algorithms, "compute", shown)


def _lbfgs(watch: _Watch, X: Any, y: Any, m: int, l2: float, f: Any) -> None:
    from dask_glm import algorithms

    with _seeing(watch, m):
        algorithms.lbfgs(X, y, regularizer="l2", lamduh=m * l2, tol=0.0, **_FOREVER)


def _admm(watch: _Watch, X: Any, y: Any, m: int, l2: float, f: Any) -> None:
    from dask_glm import algorithms, regularizers

    class Watched(regularizers.L2):
        """The ridge, which sees every iterate."""

        def proximal_operator(self, beta: Any, t: float) -> Any:
            z = super().proximal_operator(beta, t)
            watch.see(f(np.asarray(z)))
            return z

    algorithms.admm(X, y, regularizer=Watched(), lamduh=m * l2, abstol=0.0, reltol=0.0, **_FOREVER)


_RIDGE = 2.0


class _WithRidge:
    """The logistic loss of rows with labels 0 and 1, and z^2/2 of rows with label 2."""

    @staticmethod
    def loglike(Xbeta: Any, y: Any) -> Any:
        losses = da.logaddexp(0.0, Xbeta) - y * Xbeta
        return da.where(y == _RIDGE, 0.5 * Xbeta**2, losses).sum()

    @staticmethod
    def gradient(Xbeta: Any, X: Any, y: Any) -> Any:
        return X.T.dot(da.where(y == _RIDGE, Xbeta, 1.0 / (1.0 + da.exp(-Xbeta)) - y))


def _gradient_descent(watch: _Watch, X: Any, y: Any, m: int, l2: float, f: Any) -> None:
    from dask_glm import algorithms

    with _seeing(watch, m):
        algorithms.gradient_descent(X, y, family=_WithRidge, tol=-np.inf, **_FOREVER)
