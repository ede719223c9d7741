"""A guard for figures that no test pins: calls of h by the default method over those of L-BFGS.

python benchmarks/guard.py [SALT ...]

One run is chaotic: every machine draws another count. Twenty machines are drawn by the salts of
``tests/rounding.py`` (printed; given ones are repeated), and the median of each problem is compared
with a limit that was at least four spreads (standard deviations) above the median
when it was set. The script ends with 1 if a median is above its limit.
"""

import secrets
import sys
from pathlib import Path

import numpy as np

import geartrain as gt

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from rounding import Rounding

COUNT = 20
TOL = 1e-5
PRICES = {"h.grad": 100.0, "g.grad": 1.0}


def logistic(m, n, spread, ridge):
    """Logistic loss of m rows in h; in g a ridge, or a quadratic that is stiffer than h."""
    rng = np.random.default_rng(m + n)
    A = rng.standard_normal((m, n)) * np.geomspace(1.0, 1.0 / spread, n)
    y = np.where(A @ rng.standard_normal(n) + 0.3 * rng.standard_normal(m) > 0, 1.0, -1.0)
    return gt.LinearModel(A, y), gt.Quadratic(np.diag(ridge * np.geomspace(1.0, 1e3, n)))


def squares(m, n, stiff):
    """Least squares in h, a chain of springs in g."""
    rng = np.random.default_rng(m * n)
    A = rng.standard_normal((m, n)) / np.sqrt(m)
    D = np.diff(np.eye(n), axis=0)
    h = gt.LinearModel(A, A @ rng.standard_normal(n) + rng.standard_normal(m), loss="squared")
    return h, gt.Quadratic(stiff * D.T @ D + 1e-3 * np.eye(n))


# The problem, and the limit of the median.
PROBLEMS = {
    "logistic, wide": (lambda: logistic(400, 60, 300.0, 1e-6), 0.75),
    "logistic, long": (lambda: logistic(400, 200, 1e3, 1e-9), 2.5),
    "logistic, stiff g": (lambda: logistic(500, 80, 10.0, 1e-1), 0.15),
    "squares, stiff g": (lambda: squares(120, 100, 1e1), 0.05),
    "squares, weak g": (lambda: squares(100, 100, 1e-1), 0.4),
}


def ratio(h, g):
    """Calls of h of the default method over those of L-BFGS."""
    runs = [gt.minimize(h, g, method=m, prices=PRICES, tol=TOL) for m in ("auto", "lbfgs")]
    assert all(run.success for run in runs), [run.message for run in runs]
    own, rival = (run.calls["h.grad"] for run in runs)
    return own / rival


def main(salts):
    salts = salts or [secrets.randbelow(10**6) for _ in range(COUNT)]
    print("salts:", *salts)
    bad = []
    for name, (make, limit) in PROBLEMS.items():
        h, g = make()
        ratios = []
        for salt in salts:
            with Rounding(salt):
                ratios.append(ratio(h, g))
        median = np.median(ratios)
        print(f"{name:20} median {median:.3f}, spread {np.std(ratios):.3f}, limit {limit:g}")
        if median > limit:
            bad.append(name)
    print("above their limits:" if bad else "no median is above its limit", *bad)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main([int(salt) for salt in sys.argv[1:]]))
