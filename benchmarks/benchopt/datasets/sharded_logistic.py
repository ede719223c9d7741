"""Logistic regression on data in shards: h = f - f_1, g = f_1 and the ridge."""

import numpy as np
from benchopt import BaseDataset

import geartrain as gt


class Dataset(BaseDataset):
    """A gradient of h stands for a round of communication, one of g stays on the first shard."""

    name = "Sharded logistic"
    requirements = ["pip::geartrain"]
    parameters = {"shards": [4, 16], "rows": [1000], "n": [100], "l2": [1e-5]}
    test_config = {"shards": 4, "rows": 50, "n": 10}

    def get_data(self):
        """The terms; `rows` are those of one shard."""
        rng = np.random.default_rng(self.get_seed())
        A = rng.standard_normal((self.shards * self.rows, self.n)) * np.geomspace(1, 1e-2, self.n)
        A /= np.linalg.norm(A, axis=1, keepdims=True)
        margins = 5.0 * A @ rng.standard_normal(self.n)
        y = np.where(rng.random(margins.size) < 1.0 / (1.0 + np.exp(-margins)), 1.0, -1.0)
        first = A[: self.rows], y[: self.rows]
        h = gt.LinearModel(A, y) - gt.LinearModel(*first)
        return {"h": h, "g": gt.LinearModel(*first, l2=self.l2)}
