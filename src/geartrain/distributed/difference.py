r"""Data in shards: h = f - f_1 on a Dask cluster, g = f_1 on the client; or in three tiers.

======  ==================  =================================================================
symbol  name                meaning
======  ==================  =================================================================
f       --                  mean loss over all rows of all shards (weighted, if weights are given)
f_1     ``first``           mean loss over the rows of the first shard, held by the client
g       ``g``               f_1 + l2/2 \|x\|^2
h       ``h``               f - f_1; one call is one round of the cluster
f_12    ``near``            mean loss over the rows of all shards that the client holds
======  ==================  =================================================================

Where the client holds several shards, h is the sum of f - f_12, one round per call, and
f_12 - f_1, which is computed on the client.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask
import numpy as np
from distributed import Client

from geartrain.distributed.rounds import Rounds, workers_of
from geartrain.distributed.shards import Reading, ShardModel, ShardRows, Source, make_model, read
from geartrain.distributed.softmax import Softmax
from geartrain.oracles.algebra import Algebra, Combination
from geartrain.oracles.answer_cache import AnswerCache, Answered
from geartrain.oracles.losses import Loss, make_loss
from geartrain.oracles.protocols import Vector
from geartrain.oracles.validation import as_whole


class ShardedDifference(Algebra):
    """The term h = f - f_1, or f - f_12, on a cluster; value and gradient come from one round.

    In general h is not convex, and its L is not known: choose a method that needs no constants,
    such as "similar-newton" or "pqn". `similarity` makes these terms.

    Parameters
    ----------
    rounds : Rounds
        The workers' shards.
    held : list of LinearModel or SoftmaxModel
        The mean losses of the shards that the client holds: f_1, or those whose mean is f_12.
    wire : dtype
        Precision in which x and the gradients are sent.

    Attributes
    ----------
    client : Client
        The client of the cluster.
    rounds_done : int
        Number of rounds so far, counted or not. A round that was repeated because a worker was
        lost counts once.
    m : int
        Number of rows of all shards.
    shards : list of str
        Fingerprints of the shards on the cluster, which `geartrain.resume` compares.
    """

    convex = False
    L = None
    mu = 0.0

    def __init__(self, rounds: Rounds, held: Sequence[ShardModel], wire: Any) -> None:
        # Private, because a new cluster may take over the same problem.
        self._rounds, self._rounds_done = rounds, 0
        self._answers = AnswerCache()
        self._wire = np.dtype(wire)
        self.first, self.near, self.n = held[0], _mean(held), held[0].n
        self.shards = [shard.fingerprint for shard in rounds.shards]
        self.weight_1 = sum(model.total for model in held)
        self.weight = self.weight_1 + sum(shard.weight for shard in rounds.shards)
        self.m = sum(model.m for model in held) + sum(shard.rows for shard in rounds.shards)

    @property
    def subtracted(self) -> Any:
        """f_1, or f_12."""
        return self.near

    @property
    def lower_bound_without(self) -> float | None:
        """A number that no value of f is below: that of the loss."""
        return self.first.lower_bound

    @property
    def client(self) -> Client:
        """The client of the cluster."""
        return self._rounds.client

    @property
    def rounds_done(self) -> int:
        """Number of rounds so far."""
        return self._rounds_done

    def value_and_grad(self, x: Vector) -> tuple[float, Vector]:
        """Value and gradient from one round, or from memory if x is the last point."""
        if (known := self._answers.at(x)) is not None:
            return known.value, known.grad.copy()
        value, rows = self._round(np.asarray(x, dtype=np.float64)[None])
        return value, rows[0]

    def second_order(self, x: Vector, D: Vector) -> tuple[float, Vector, Vector]:
        """Value, gradient, and the Hessian times the columns of D, from one round."""
        value, rows = self._round(np.vstack([x, D.T]))
        return value, rows[0], rows[1:].T

    def _round(self, asked: Vector) -> tuple[float, Vector]:
        """The value, the gradient at the first row of `asked`, and the Hessian times the others."""
        pending = self._rounds.start(np.asarray(asked, dtype=self._wire))
        # While the workers compute: h = sum_j (W_j/W) f_j + (W_1/W - 1) f_1, the sum over the
        # shards on the cluster, and f_1 and W_1 of all shards here.
        x, D = asked[0], asked[1:].T
        f_1, grad_1 = self.near.value_and_grad(x)
        own = self.weight_1 / self.weight - 1.0
        rows = own * np.vstack([grad_1, *([self.near.products(x, D).T] if D.size else [])])
        total, sums, _ = self._rounds.finish(pending)
        value, rows = own * f_1 + total / self.weight, rows + sums / self.weight
        self._rounds_done += 1
        self._answers = self._answers.with_recent(Answered(x.copy(), value, rows[0].copy()), 1)
        return value, rows

    def pop_notes(self) -> list[str]:
        """Messages since the last call, for the history."""
        notes, self._rounds.notes = self._rounds.notes, []
        return notes

    def __repr__(self) -> str:
        shape = f"{self.m} x {self.first.n_features} in shards"
        return f"ShardedDifference({self.first.loss.name}, {shape})"


def similarity(
    client: Any,
    shards: Any,
    loss: str | Loss | Softmax = "logistic",
    *,
    l2: float = 0.0,
    intercept: bool = False,
    local: int = 1,
    n_features: int | None = None,
    label: str = "y",
    weight: str | None = None,
    wire: Any = np.float64,
    timeout: str = "60s",
    **loss_params: float,
) -> tuple[Any, ShardModel]:
    r"""The terms h = f - f_1 on a cluster and g = f_1 + l2/2 \|x\|^2 on the client.

    f is the mean loss over the rows of all shards. If the shards are alike, h is much smoother than
    f, and few rounds are needed. The client holds the first shard only, or the first `local` ones;
    then h is in two tiers, by which machine has the rows.

    Parameters
    ----------
    client : Client, cluster, address or None
        None starts a LocalCluster, which ends with the process or with ``h.client.shutdown()``.
    shards : list, Dask dataframe, or tuple of Dask arrays
        A list of files that the workers can read (LIBSVM; .parquet; .npz with A, or data, indices,
        indptr, shape as `scipy.sparse.save_npz` writes them, and the label key), or of functions
        that return (A, y) or (A, y, weights); at least two. Or (X, y) or (X, y, weights) as Dask
        arrays, each block of rows being a shard. Or a Dask dataframe, each partition being a shard.
        In any case the cluster must be able to load the shards again.
    loss : str
        As in `geartrain.LinearModel`.
    l2 : float
        Weight of ``1/2 |x|^2``, all of it in g.
    intercept : bool
        ``x[-1]`` is the intercept.
    local : int
        Number of shards that the client holds.
    n_features : int, optional
        Number of columns of LIBSVM files; by default that of the first shard.
    label, weight : str
        Columns or keys of dataframes, Parquet and npz files.
    wire : dtype
        float32 halves the traffic and limits the accuracy to about 1e-6.
    timeout : str
        How long to wait for a cluster that does not answer or has no workers left, before
        `ClusterLost` is raised. There is no limit on how long workers compute or load.
    **loss_params
        As in `geartrain.LinearModel`.

    Returns
    -------
    h, g : terms
        For ``gt.minimize(h, g, method="pqn")``; ``calls["h.grad"]`` is the number of rounds.
        With `local` > 1, h is ``{"cluster": f - f_12, "machine": f_12 - f_1}`` with f_12 the mean
        loss over the `local` shards, for ``gt.minimize(h, g, prices=...)``; then
        ``calls["cluster.grad"]`` is the number of rounds.
    """
    features = None if n_features is None else as_whole(n_features, "n_features", 1)
    made = loss if isinstance(loss, Softmax) else make_loss(loss, **loss_params)
    how = Reading(made, intercept, features, label, weight)
    connected = connect(client)
    sources = _sources(shards, connected)
    local = as_whole(local, "local", 1)
    if len(sources) < local + 1:
        raise ValueError(
            f"at least {'two' if local == 1 else local + 1} shards are needed, {local} of them "
            f"for the client, got {len(sources)}"
        )
    workers_of(connected)
    rows = [connected.submit(read, s, how, pure=False).result() for s in sources[:local]]
    g = make_model(rows[0], how, l2)
    how = replace(how, n_features=g.n_features)
    held = [make_model(shard, how) for shard in rows]
    far = ShardedDifference(Rounds(connected, how, sources[local:], timeout), held, wire)
    return (far if local == 1 else {"cluster": far, "machine": _mean(held) - held[0]}), g


def _mean(models: Sequence[ShardModel]) -> Any:
    """The mean loss over the rows of several shards."""
    if len(models) == 1:
        return models[0]
    total = sum(model.total for model in models)
    return Combination([(model.total / total, model) for model in models])


def connect(client: Any) -> Client:
    """A client of the cluster; None starts a LocalCluster."""
    if client is None:  # a worker uses one thread
        return Client(threads_per_worker=1, dashboard_address=":0")
    return client if isinstance(client, Client) else Client(client)


def _sources(shards: Any, client: Client) -> list[Source]:
    """Files and functions unchanged, blocks of Dask collections as futures."""
    if hasattr(shards, "to_delayed") and hasattr(shards, "columns"):
        return client.compute(list(shards.to_delayed()))
    if isinstance(shards, tuple) and shards and all(hasattr(a, "chunks") for a in shards):
        return client.compute(_blocks(*shards))
    if isinstance(shards, (list, tuple)):
        for shard in shards:
            if not (callable(shard) or isinstance(shard, (str, Path))):
                raise TypeError(
                    "a shard must be a file or a function that loads it, so that a worker can do "
                    f"so again, got {type(shard).__name__}; wrap data as a Dask array instead"
                )
        return list(shards)
    raise TypeError(
        "shards must be a list of files or functions, a tuple (X, y) of Dask arrays or a Dask "
        f"dataframe, got {type(shards).__name__}"
    )


def _blocks(X: Any, y: Any, weights: Any = None) -> list[Any]:
    """Delayed rows, one for every block of rows of X."""
    if X.ndim != 2:
        raise ValueError(f"X must be two-dimensional, got shape {X.shape}")
    X = X.rechunk({1: -1})
    columns = [X.to_delayed().ravel()]
    for name, array in (("y", y), ("weights", weights)):
        if array is None:
            continue
        known = not np.isnan([*X.chunks[0], *array.chunks[0]]).any()
        blocks = (array.rechunk((X.chunks[0],)) if known else array).to_delayed().ravel()
        if blocks.size != columns[0].size:
            raise ValueError(f"{name} has {blocks.size} blocks, X has {columns[0].size}")
        columns.append(blocks)
    make = dask.delayed(ShardRows)
    return [make(*parts) for parts in zip(*columns, strict=True)]
