"""What the library itself costs: microseconds an outer iteration on quadratics with n = 100.

The time of a run less the time inside the oracles, divided by the outer iterations. The inner
problem is solved by one proximal step (for sae-qn by L-BFGS, whose steps are listed), so that
little but the outer and middle loops, the driver, the ledger and the history is left.

    python benchmarks/overhead.py
"""

from __future__ import annotations

from time import perf_counter

import numpy as np

import geartrain as gt

METHODS = {
    "sae": gt.SAE(inner=gt.inner.Exact()),
    "r-sae": gt.methods.RSAE(inner=gt.inner.Exact()),
    "sc-sae": gt.methods.SCSAE(inner=gt.inner.Exact()),
    "afb": gt.methods.AFB(inner=gt.inner.Exact()),
    "fgm": gt.methods.FGM(),
    "sae-qn": gt.methods.SAEQN(),
}


def main():
    rng = np.random.default_rng(0)
    n = 100
    U = np.linalg.qr(rng.standard_normal((n, n)))[0]
    h = gt.Quadratic((U * np.geomspace(1e-4, 1.0, n)) @ U.T, b=rng.standard_normal(n))
    g = gt.Quadratic((U * np.geomspace(1e3, 1e-4, n)) @ U.T)
    print(f"{'method':10}{'us an outer iteration':>24}{'gradients of g an iteration':>30}")
    for name, method in METHODS.items():
        best, per = np.inf, 0.0
        for _ in range(5):
            start = perf_counter()
            res = gt.minimize(h, g, np.ones(n), method=method, tol=1e-10, max_iter=200)
            spent = perf_counter() - start - sum(res.seconds.values())
            if 1e6 * spent / res.nit < best:
                best, per = 1e6 * spent / res.nit, res.calls["g.grad"] / res.nit
        print(f"{name:10}{best:24.0f}{per:30.1f}")
    print("goal: under 200, apart from the inner method's own work")


if __name__ == "__main__":
    main()
