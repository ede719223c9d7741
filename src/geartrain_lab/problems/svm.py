r"""The kernel SVM with a smoothed hinge loss, problem exp_eq_svm_main_smooth of the paper.

.. math::
    \min_{x, x_0} \frac1m \sum_k \mu \ln\bigl(1 + \exp((1 - b_k (x_0 + K x)_k)/\mu)\bigr)
    + \frac\lambda2 \langle x, K x \rangle

with the RBF kernel K_ij = exp(-gamma |a_i - a_j|^2). h is the quadratic and g the mean loss.
"""

from __future__ import annotations

import numpy as np

from geartrain import datasets
from geartrain.oracles import LinearModel, Quadratic
from geartrain.oracles.protocols import Vector


def rbf_kernel(X: Vector, gamma: float) -> Vector:
    """Matrix exp(-gamma |a_i - a_j|^2) of the rows of X, exactly symmetric."""
    squares = np.einsum("ij,ij->i", X, X)
    distances = np.maximum(squares[:, None] + squares - 2.0 * (X @ X.T), 0.0)
    K = np.exp(-gamma * 0.5 * (distances + distances.T))
    np.fill_diagonal(K, 1.0)
    return K


def kernel_svm(
    K: Vector, y: Vector, *, lam: float, mu: float, intercept: bool = True
) -> tuple[Quadratic, LinearModel]:
    """Terms (h, g) in the coefficients x, followed by the intercept if there is one.

    The weight of the quadratic is `lam`, and `mu` smooths the hinge loss; labels are -1 and 1.
    """
    m = len(y)
    Q = np.zeros((m + intercept, m + intercept))
    Q[:m, :m] = lam * K
    return Quadratic(Q), LinearModel(K, y, loss="smoothed_hinge", mu=mu, intercept=intercept)


def gas_sensors_svm(
    gamma: float = 0.1, lam: float = 1e-2, mu: float = 0.1
) -> tuple[Quadratic, LinearModel]:
    """The gas sensors of the data folder, banana against wine."""
    table = datasets.load_gas_sensors()
    return kernel_svm(rbf_kernel(table.X, gamma), table.y, lam=lam, mu=mu)


def random_kernel_svm(m: int = 60) -> tuple[Quadratic, LinearModel]:
    """Random points in four dimensions, separated by a plane."""
    X = np.random.default_rng(2).uniform(size=(m, 4))
    y = np.where(X @ (1.0, 1.0, -1.0, 0.0) > 0.5, 1.0, -1.0)
    return kernel_svm(rbf_kernel(X, 5.0), y, lam=0.1, mu=0.5)


def rings_kernel_svm(
    m: int, lam: float, mu: float, seed: int | np.random.SeedSequence = 0
) -> tuple[Quadratic, LinearModel]:
    rng = np.random.default_rng(seed)
    angle, y = rng.uniform(0, 2 * np.pi, m), np.where(np.arange(m) % 2, 1.0, -1.0)
    radius = np.where(y > 0, 1.0, 2.0) + 0.3 * rng.standard_normal(m)
    X = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return kernel_svm(rbf_kernel(X, 1.0), y, lam=lam, mu=mu, intercept=False)
