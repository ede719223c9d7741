"""Logistic regression on data in shards: h = f - f_1 needs a round, g = f_1 + ridge does not.

f is the mean loss over all rows and f_1 that over the rows of the first shard. A gradient of h
stands for one round of communication with all shards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from geartrain import datasets
from geartrain.oracles import LinearModel
from geartrain.oracles.protocols import Vector
from geartrain.oracles.spectrum import extreme_eigenvalues

_STEP = 1e-4  # of the central differences in `similarity_constants`


def logistic_in_shards(A: Any, y: Vector, first: int, l2: float) -> tuple[Any, LinearModel]:
    """Terms (h, g) where the first shard has the first `first` rows; l2 is the ridge of g."""
    f, f_1 = LinearModel(A, y), LinearModel(A[:first], y[:first])
    return f - f_1, LinearModel(A[:first], y[:first], l2=l2)


def with_unit_rows(X: Any, y: Vector) -> tuple[Any, Vector]:
    """Rows with a constant column appended, scaled to norm 1 and shuffled."""
    m = X.shape[0]
    A = sparse.csr_array(sparse.hstack([sparse.csr_array(X), np.ones((m, 1))]))
    norms = np.sqrt(np.asarray(A.multiply(A).sum(axis=1)).ravel())
    A = sparse.csr_array(sparse.diags_array(1.0 / norms) @ A)
    order = np.random.default_rng(0).permutation(m)
    return A[order], y[order]


def libsvm_rows(name: str) -> tuple[Any, Vector]:
    """A file ``name.libsvm`` of the data folder with two classes, rows prepared as above."""
    table = datasets.load_libsvm(f"{name}.libsvm")
    return with_unit_rows(table.X, np.where(table.y == table.y.max(), 1.0, -1.0))


def libsvm_shards(name: str, shards: int, l2: float) -> tuple[Any, LinearModel]:
    """The same in equal shards."""
    A, y = libsvm_rows(name)
    return logistic_in_shards(A, y, y.size // shards, l2)


@dataclass(frozen=True)
class Tiers:
    """f in three terms by where their rows are: cluster, other shards of this machine, own one."""

    h: tuple[Any, Any]  # f - f_12 and f_12 - f_1
    g: LinearModel  # f_1 with the ridge
    machine: LinearModel  # f_12 with the ridge


def logistic_tiers(A: Any, y: Vector, first: tuple[int, int], l2: float) -> Tiers:
    """Tiers where this machine holds the first rows, and the own shard the first of these."""
    f, f_12, f_1 = (LinearModel(A[:rows], y[:rows]) for rows in (y.size, *first))
    machine, own = (LinearModel(A[:rows], y[:rows], l2=l2) for rows in first)
    return Tiers((f - f_12, f_12 - f_1), own, machine)


def random_shards(m: int = 800, n: int = 30, shards: int = 8) -> tuple[Any, LinearModel]:
    """Random rows whose columns have different sizes, prepared as above."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((m, n)) / np.arange(1, n + 1)
    y = np.where(X.sum(axis=1) + 0.3 * rng.standard_normal(m) > 0.0, 1.0, -1.0)
    A, y = with_unit_rows(X, y)
    return logistic_in_shards(A, y, m // shards, 1e-3)


def synthetic_shards(
    shards: int, rows: int, n: int, l2: float, seed: int = 0
) -> tuple[Any, LinearModel]:
    """Unit rows with columns of size 1 to 0.01 and labels drawn from a logistic model."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((shards * rows, n)) * np.geomspace(1, 1e-2, n)
    A /= np.linalg.norm(A, axis=1, keepdims=True)
    margins = 5.0 * A @ rng.standard_normal(n)
    y = np.where(rng.random(margins.size) < 1.0 / (1.0 + np.exp(-margins)), 1.0, -1.0)
    return logistic_in_shards(A, y, rows, l2)


def similarity_constants(h: Any, g: LinearModel) -> dict[str, float]:
    """L_h and mu as methods for similar shards suppose them to be known.

    L_h is the largest curvature of h at x0 = 0 in modulus; the term itself only knows the far
    larger constant of f. f is as strongly convex as its ridge.
    """

    def hessian(v: Vector) -> Vector:
        t = _STEP / float(np.linalg.norm(v))
        return (h.grad(t * v) - h.grad(-t * v)) / (2.0 * t)

    return {"L_h": max(map(abs, extreme_eigenvalues(hessian, h.n))), "mu": g.mu}
