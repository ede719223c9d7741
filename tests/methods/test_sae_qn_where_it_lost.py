"""Problems on which an earlier learned method climbed, stalled or asked ten times as often."""

import os
from pathlib import Path

import numpy as np
import pytest

import geartrain as gt
from geartrain.datasets import load_libsvm

PRICES = {"h.grad": 100.0, "g.grad": 1.0}
DATA = Path(os.environ.get("GEARTRAIN_DATA", "no such folder"))


def descends(h, g, x0, tol=1e-6):
    """SAE-QN and auto neither climb nor fail."""
    for options in ({"method": gt.methods.SAEQN(rho=100.0)}, {"prices": PRICES}):
        res = gt.minimize(h, g, x0, tol=tol, max_iter=5000, **options)
        assert res.success, res.message
        assert res.fun <= h.value_and_grad(x0)[0] + g.value_and_grad(x0)[0]


def test_log_sum_exp_in_three_variables():
    """It climbed above f(x0)."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        h = gt.LogSumExp(20.0 * rng.standard_normal((8, 3)))
        g = gt.Quadratic(np.diag(np.geomspace(1e-4, 1.0, 3)))
        x0 = 5.0 * rng.standard_normal(3)
        descends(h, g, x0)


def breast_cancer():
    datasets = pytest.importorskip("sklearn.datasets")
    A, y = datasets.load_breast_cancer(return_X_y=True)
    return (A - A.mean(axis=0)) / A.std(axis=0), 2.0 * y - 1.0


def from_file(name):
    if not (DATA / name).exists():
        pytest.skip(f"{name} is not in GEARTRAIN_DATA")
    table = load_libsvm(DATA / name)
    return table.X, np.where(table.y == table.y.max(), 1.0, -1.0)


@pytest.mark.parametrize("data", ["breast cancer", "heart"])
def test_logistic_loss_with_a_weak_ridge(data):
    """It asked ten times as often as L-BFGS, and auto never left it."""
    A, y = breast_cancer() if data == "breast cancer" else from_file("heart_scale.libsvm")
    n = A.shape[1]
    h, g = gt.LinearModel(A, y), gt.Quadratic(1e-6 * np.eye(n))
    descends(h, g, np.zeros(n))


@pytest.mark.parametrize("tol", [1e-6, 1e-9])
def test_mushrooms_in_eight_shards(tol):
    """At the second tolerance the difference was said to have stalled."""
    A, y = from_file("mushrooms.libsvm")
    m, l2 = A.shape[0] // 8, 1e-6
    order = np.random.default_rng(0).permutation(A.shape[0])
    A, y = A[order], y[order]
    h = gt.LinearModel(A, y) - gt.LinearModel(A[:m], y[:m])
    g = gt.LinearModel(A[:m], y[:m], l2=l2)
    descends(h, g, np.zeros(A.shape[1]), tol)
