"""Seconds of sparse logistic regression in one process: geartrain, scikit-learn and skglm.

The mean logistic loss plus lam |x|_1, without intercept, on a9a and rcv1_small. Each solver is run
with tolerances that fall by tens until f - f* <= 1e-6 (f(0) - f*), and the seconds are those of the
first run that gets there: of the processor, the best of three, after a run that is not counted.
skglm is left out where it is not installed. BLAS and OpenMP have one thread whatever the
environment says: the time of the processor includes that of threads which wait.

    python benchmarks/sparse_speed.py [--quick]
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import warnings
from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

import geartrain as gt

ACCURACY = 1e-6
TOLERANCES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
Solver = Callable[[Any, Any, float, float], Any]  # (A, y, lam, tolerance) -> x


def by_geartrain(A: Any, y: Any, lam: float, tol: float) -> Any:
    """The default method, with the loss as h."""
    return gt.minimize(gt.LinearModel(A, y), gt.L1(lam), tol=tol).x


def by_sklearn(solver: str) -> Solver:
    """A solver of scikit-learn."""

    def solve(A: Any, y: Any, lam: float, tol: float) -> Any:
        model = LogisticRegression(
            l1_ratio=1.0,
            C=1.0 / (lam * y.size),
            solver=solver,
            fit_intercept=False,
            tol=tol,
            max_iter=2000,
            random_state=0,
        )
        return model.fit(A, y).coef_.ravel()

    return solve


def by_skglm(A: Any, y: Any, lam: float, tol: float) -> Any:
    """The working-set solver of skglm."""
    from skglm import SparseLogisticRegression

    model = SparseLogisticRegression(alpha=lam, fit_intercept=False, tol=tol, max_iter=200)
    return model.fit(A.tocsc(), y).coef_.ravel()


def seconds(solve: Solver, A: Any, y: Any, lam: float, f: Any, goal: float) -> float:
    """Of the first tolerance that reaches the goal; inf if none does."""
    for tol in TOLERANCES:
        x = solve(A, y, lam, tol)
        if f(x) <= goal:
            spent = []
            for _ in range(3):
                start = process_time()
                solve(A, y, lam, tol)
                spent.append(process_time() - start)
            return min(spent)
    return math.inf


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a9a with one penalty")
    quick = parser.parse_args().quick
    solvers: dict[str, Solver] = {"geartrain": by_geartrain, "liblinear": by_sklearn("liblinear")}
    if not quick:
        solvers["saga"] = by_sklearn("saga")
        if importlib.util.find_spec("skglm") is not None:
            solvers["skglm"] = by_skglm
    print(f"seconds of the processor until f - f* <= {ACCURACY:g} (f(0) - f*)")
    print(f"{'data':14}{'l1':>8}" + "".join(f"{name:>11}" for name in solvers) + f"{'ratio':>8}")
    warnings.simplefilter("ignore")
    for name in ("a9a",) if quick else ("a9a", "rcv1_small"):
        table = gt.datasets.load_libsvm(f"{name}.libsvm")
        A, y = table.X, np.where(table.y > 0, 1.0, -1.0)
        loss = gt.LinearModel(A, y)
        for lam in (1e-3,) if quick else (1e-3, 1e-4):
            psi = gt.L1(lam)
            f = lambda x, psi=psi: loss.value(x) + psi.value(x)  # noqa: E731
            best = gt.minimize(loss, psi, tol=1e-9).fun
            goal = best + ACCURACY * (f(np.zeros(loss.n)) - best)
            spent = [seconds(solve, A, y, lam, f, goal) for solve in solvers.values()]
            cells = "".join(f"{s:11.2f}" if math.isfinite(s) else f"{'-':>11}" for s in spent)
            print(f"{name:14}{lam:8g}{cells}{spent[0] / min(spent[1:]):8.2f}", flush=True)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
