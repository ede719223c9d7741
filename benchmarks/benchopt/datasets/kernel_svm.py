"""Kernel SVM with the smoothed hinge loss: h is the quadratic, g the mean loss."""

from benchopt import BaseDataset

from geartrain_lab.problems import rings_kernel_svm


class Dataset(BaseDataset):
    """Two noisy rings; h(x) = lam/2 x'Kx, g the mean loss of K x."""

    name = "Kernel SVM"
    requirements = ["pip::geartrain"]
    parameters = {"m": [500], "lam": [1e-2], "smoothing": [0.1]}
    test_config = {"m": 40}

    def get_data(self):
        """The terms."""
        h, g = rings_kernel_svm(self.m, self.lam, self.smoothing, self.get_seed())
        return {"h": h, "g": g}
