"""Rounds of a cluster for sparse logistic regression: the learned method, OWL-QN and dask-glm.

Logistic regression with an l1 penalty on a9a in 8 shards, to f - f* <= 1e-6 (f(0) - f*). A round
is an evaluation of value and gradient by all workers. "Newton" tells how much could be gained:
proximal Newton steps with the whole Hessian of f in every round, minimised to a high accuracy, with
a line search that costs nothing. OWL-QN runs on the oracle of ours; dask-glm runs
ADMM and proximal gradient steps, each with one round per proximal step or more. The last columns
are the number of coefficients that are 0, and of those that are 0 in this solution or in that of
scikit-learn's saga at a high accuracy, but not in both.

    python benchmarks/sparse_rounds.py [--quick]
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import warnings
from functools import partial
from time import perf_counter
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

import geartrain as gt
from geartrain_lab.nonsmooth_rivals import OWLQN
from geartrain_lab.problems.shards import libsvm_rows

ACCURACY = 1e-6
SHARDS = 8
MOST_ROUNDS = 200
SECONDS = 600.0  # of a run of dask-glm


class Over(Exception):
    """The target is reached, or the budget is used up."""


def shard(A: Any, y: Any, j: int) -> tuple[Any, Any]:
    """The rows of shard j."""
    rows = np.array_split(np.arange(y.size), SHARDS)[j]
    return A[rows], y[rows]


def exact_newton(f: gt.LinearModel, psi: gt.L1, target: float) -> int:
    """Evaluations of f and its whole Hessian until f + psi <= target."""
    x = np.zeros(f.n)
    for k in range(1, MOST_ROUNDS):
        if f.value(x) + psi.value(x) <= target:
            return k
        H = f.products(x, np.eye(f.n))
        model = gt.Quadratic((H + H.T) / 2 + 1e-12 * np.eye(f.n), H @ x - f.grad(x))
        s = gt.minimize(model, psi, x0=x, method="pqn", tol=1e-9).x - x
        parts = np.linspace(0.1, 1.5, 15)
        x = x + min(parts, key=lambda t: f.value(x + t * s) + psi.value(x + t * s)) * s
    return MOST_ROUNDS


def dask_glm(solver: str, A: Any, y: Any, lam: float, f: Any, target: float) -> tuple[int, bool]:
    """Proximal steps, which are rounds or fewer, until f <= target, and whether that is reached."""
    from dask_glm import algorithms, regularizers

    start, seen, reached = perf_counter(), 0, False

    class Watched(regularizers.L1):
        """The l1 norm, which sees every iterate."""

        def proximal_operator(self, beta: Any, t: float) -> Any:
            nonlocal seen, reached
            z = super().proximal_operator(beta, t)
            seen += 1
            reached = f(np.asarray(z)) <= target
            if reached or seen >= MOST_ROUNDS or perf_counter() - start > SECONDS:
                raise Over
            return z

    rows = -(-y.size // SHARDS)
    X = da.from_array(A.toarray(), chunks=(rows, -1))
    labels = da.from_array((y > 0) * 1.0, chunks=rows)
    solve = getattr(algorithms, solver)
    ever = {"max_iter": 10_000, "normalize": False}
    ever |= {"abstol": 0.0, "reltol": 0.0} if solver == "admm" else {"tol": 0.0}
    with (
        dask.config.set(scheduler="sync"),
        warnings.catch_warnings(),
        contextlib.suppress(Over),
    ):
        warnings.simplefilter("ignore")
        solve(X, labels, regularizer=Watched(), lamduh=y.size * lam, **ever)
    return seen, reached


def zeros_of_saga(A: Any, y: Any, lam: float) -> Any:
    """Which coefficients of scikit-learn are 0, at a high accuracy."""
    from sklearn.linear_model import LogisticRegression

    saga = LogisticRegression(
        l1_ratio=1.0,
        C=1.0 / (y.size * lam),
        solver="saga",
        fit_intercept=False,
        tol=1e-8,
        max_iter=5000,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        saga.fit(A, y)
    return saga.coef_.ravel() == 0.0


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one penalty, and no dask-glm")
    quick = parser.parse_args().quick
    A, y = libsvm_rows("a9a")
    f = gt.LinearModel(A, y)
    print(f"a9a, {SHARDS} shards, rounds to f - f* <= {ACCURACY:g} (f(0) - f*)")
    solvers = [] if quick or importlib.util.find_spec("dask_glm") is None else ["admm", "prox"]
    names = ["pqn", "Newton", "OWL-QN", *(f"dask-glm {s}" for s in solvers)]
    print(
        f"{'l1':>8}" + "".join(f"{name:>16}" for name in names) + f"{'zeros':>8}{'not as saga':>17}"
    )
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        h, g = gt.distributed.similarity(client, [partial(shard, A, y, j) for j in range(SHARDS)])
        for lam in (1e-3,) if quick else (1e-3, 1e-4, 1e-5):
            psi = gt.L1(lam)
            fine = gt.minimize(h, g + psi, method="pqn", tol=1e-9)
            goal = gt.stop.Value(fine.fun + ACCURACY * (f.value(np.zeros(f.n)) - fine.fun))
            print(f"{lam:8g}", end="", flush=True)
            for method in ("pqn", OWLQN()):
                res = gt.minimize(h, g + psi, method=method, stop=goal)
                count = f"{'' if res.success else '>'}{res.calls['h.grad']}"
                print(f"{count:>16}", end="", flush=True)
                if method == "pqn":
                    print(f"{exact_newton(f, psi, goal.target):>16}", end="", flush=True)
            for solver in solvers:
                name = {"admm": "admm", "prox": "proximal_grad"}[solver]
                value = lambda x, psi=psi: f.value(x) + psi.value(x)  # noqa: E731
                rounds, reached = dask_glm(name, A, y, lam, value, goal.target)
                count = f"{'' if reached else '>'}{rounds}"
                print(f"{count:>16}", end="", flush=True)
            zero = fine.x == 0.0
            differ = np.count_nonzero(zero != zeros_of_saga(A, y, lam))
            print(f"{zero.sum():8}{differ:17}", flush=True)


if __name__ == "__main__":
    main()
