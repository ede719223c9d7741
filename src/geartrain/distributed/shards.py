"""Shards: the sources of rows, and the models that workers make from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from geartrain.core.resume_check import of_term
from geartrain.distributed.softmax import Softmax, SoftmaxModel
from geartrain.oracles.linear_model import LinearModel
from geartrain.oracles.losses import Loss
from geartrain.oracles.protocols import Vector

# A shard is given as a function that loads it, a file, or a future of rows.
Source = Callable[[], Any] | str | Path | Any


class ShardRows(NamedTuple):
    """Data, labels or targets, and weights of one shard (None: all weights are 1)."""

    A: Any
    y: Any
    weights: Any = None


@dataclass(frozen=True)
class Reading:
    """How a model is made from a source."""

    loss: Loss | Softmax
    intercept: bool
    n_features: int | None  # None until the first shard is read
    label: str  # column or key of y, in Parquet and npz files and in dataframes
    weight: str | None  # column or key of the weights


def read(source: Source, how: Reading) -> ShardRows:
    """The rows of a source."""
    if isinstance(source, (str, Path)):
        return _read_file(Path(source), how)
    found = source() if callable(source) else source
    if hasattr(found, "columns"):
        return _from_frame(found, how)
    if not isinstance(found, (tuple, list)) or len(found) not in (2, 3):
        raise TypeError(
            f"a shard must be (A, y) or (A, y, weights), got {type(found).__name__} from {source!r}"
        )
    return ShardRows(*found)


def _read_file(path: Path, how: Reading) -> ShardRows:
    if path.suffix == ".npz":
        return _read_npz(path, how)
    if path.suffix in (".parquet", ".pq"):
        import pandas as pd

        return _from_frame(pd.read_parquet(path), how)
    from geartrain.datasets import load_libsvm

    if not path.is_file():
        raise FileNotFoundError(f"the worker that reads the shard {path} does not find it")
    table = load_libsvm(path, n_features=how.n_features)
    return ShardRows(table.X, table.y)


def _read_npz(path: Path, how: Reading) -> ShardRows:
    """The rows of an npz file: A, or data, indices, indptr and shape; labels; weights."""
    with np.load(path) as file:
        missing = {how.label, *([how.weight] if how.weight else [])} - set(file.files)
        if missing or not ("A" in file.files or "indptr" in file.files):
            raise ValueError(
                f"{path} must have the keys A (or data, indices, indptr, shape of a CSR matrix) "
                f"and {how.label}; it has {', '.join(file.files)}"
            )
        if "A" in file.files:
            A = file["A"]
        else:
            entries = (file["data"], file["indices"], file["indptr"])
            A = sparse.csr_array(entries, shape=tuple(file["shape"]))
        return ShardRows(A, file[how.label], file[how.weight] if how.weight else None)


def _from_frame(frame: Any, how: Reading) -> ShardRows:
    named = [how.label, *([how.weight] if how.weight else [])]
    for name in named:
        if name not in frame.columns:
            raise ValueError(f"no column {name!r}; there are {', '.join(map(str, frame.columns))}")
    A = frame.drop(columns=named).to_numpy(np.float64)
    weights = frame[how.weight].to_numpy() if how.weight else None
    return ShardRows(A, frame[how.label].to_numpy(), weights)


ShardModel = LinearModel | SoftmaxModel


def make_model(rows: ShardRows, how: Reading, l2: float = 0.0) -> ShardModel:
    """The mean loss of one shard."""
    width = rows.A.shape[1]
    if how.n_features is not None and width != how.n_features:
        raise ValueError(
            f"a shard has {width} features, expected {how.n_features} (those of the first shard, "
            "unless n_features says otherwise)"
        )
    if isinstance(how.loss, Softmax):
        return SoftmaxModel(rows.A, rows.y, how.loss, l2, how.intercept, rows.weights)
    return LinearModel(rows.A, rows.y, how.loss, l2, how.intercept, rows.weights)


class About(NamedTuple):
    """The facts about a shard that the client knows."""

    weight: float
    rows: int
    fingerprint: str


class ShardGroup:
    """The shards of one worker: loaded once, evaluated in every round."""

    def __init__(self, how: Reading, sources: Sequence[Source]) -> None:
        self.models = [make_model(read(source, how), how) for source in sources]
        self.about = [About(m.total, m.m, of_term(m)) for m in self.models]

    def sums(self, x: Vector) -> tuple[float, Vector]:
        """Weighted sums of the losses and of their gradients, in the precision of x.

        If x has several rows, the first one is the point and the others are directions; the answer
        then has the gradient and the Hessian times each direction as its rows.
        """
        rows = np.atleast_2d(x.astype(np.float64, copy=False))
        total, answer = 0.0, np.zeros(rows.shape)
        for model, about in zip(self.models, self.about, strict=True):
            value, grad = model.value_and_grad(rows[0])
            total += about.weight * value
            answer[0] += about.weight * grad
            if len(rows) > 1:
                answer[1:] += about.weight * model.products(rows[0], rows[1:].T).T
        return total, answer.reshape(x.shape).astype(x.dtype, copy=False)
