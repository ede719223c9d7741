"""Shards made by functions that any process can call again."""

from functools import partial

import numpy as np
from scipy import sparse

SIZES = (40, 25, 60, 31, 17, 52, 8)
N = 12


def make_rows(j, *, csr=False, weighted=False, real=False):
    """The rows of shard j: uneven sizes, labels -1/+1 or real targets."""
    rng = np.random.default_rng((7, j))
    A = rng.standard_normal((SIZES[j], N)) * (rng.random((SIZES[j], N)) < 0.7)
    z = A @ np.linspace(-1.0, 1.0, N) + 0.5 * rng.standard_normal(SIZES[j])
    y = z if real else np.where(z > 0, 1.0, -1.0)
    weights = rng.uniform(0.1, 3.0, SIZES[j])
    A = sparse.csr_array(A) if csr else A
    return (A, y, weights) if weighted else (A, y)


def loaders(**kinds):
    return [partial(make_rows, j, **kinds) for j in range(len(SIZES))]


def whole(**kinds):
    """All rows in one process: A, y, weights."""
    parts = [make_rows(j, **{**kinds, "weighted": True}) for j in range(len(SIZES))]
    A = (sparse.vstack if kinds.get("csr") else np.vstack)([p[0] for p in parts])
    weights = np.concatenate([p[2] for p in parts])
    y = np.concatenate([p[1] for p in parts])
    return A, y, weights if kinds.get("weighted") else np.ones(y.size)
