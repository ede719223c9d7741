"""Kernel SVM with the smoothed hinge loss: h the penalty, g the loss."""

import numpy as np
from benchopt import BaseDataset

import geartrain as gt


class Dataset(BaseDataset):
    """Two noisy rings; h(x) = lam/2 x'Kx, g the mean loss of K x."""

    name = "Kernel SVM"
    requirements = ["pip::geartrain"]
    parameters = {"m": [500], "lam": [1e-2], "smoothing": [0.1]}
    test_config = {"m": 40}

    def get_data(self):
        """The terms."""
        rng = np.random.default_rng(self.get_seed())
        angle, y = rng.uniform(0, 2 * np.pi, self.m), np.where(np.arange(self.m) % 2, 1.0, -1.0)
        radius = np.where(y > 0, 1.0, 2.0) + 0.3 * rng.standard_normal(self.m)
        X = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
        K = np.exp(-np.square(X[:, None] - X).sum(axis=2))
        g = gt.LinearModel(K, y, loss="smoothed_hinge", mu=self.smoothing)
        return {"h": gt.Quadratic(self.lam * K), "g": g}
