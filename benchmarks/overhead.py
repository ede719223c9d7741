"""What the library itself costs, apart from the oracles: seconds and memory.

The first table has the microseconds per outer iteration on quadratics with n = 100, the second one,
for n = 10^3 to 10^6, the microseconds per inner step, that is per gradient of g, and the peak
memory in vectors of length n. Time inside the oracles is taken off, and so is their own memory.
L-BFGS is SciPy's, on the sum; one of its steps is one evaluation.

    python benchmarks/overhead.py
"""

from __future__ import annotations

import sys
import tracemalloc
from time import perf_counter

import numpy as np

import geartrain as gt

OUTER = {
    "sae": gt.SAE(inner=gt.inner.Exact()),
    "r-sae": gt.methods.RSAE(inner=gt.inner.Exact()),
    "sc-sae": gt.methods.SCSAE(inner=gt.inner.Exact()),
    "afb": gt.methods.AFB(inner=gt.inner.Exact()),
    "fgm": gt.methods.FGM(),
    "sae-qn": gt.methods.SAEQN(),
}
OVER_N = {
    "sae-qn": lambda: gt.methods.SAEQN(),
    "afb": lambda: gt.methods.AFB(inner=gt.inner.AGM()),
    "lbfgs": lambda: gt.ScipyLBFGS(),
}


def per_iteration():
    """Microseconds per outer iteration."""
    rng = np.random.default_rng(0)
    n = 100
    U = np.linalg.qr(rng.standard_normal((n, n)))[0]
    h = gt.Quadratic((U * np.geomspace(1e-4, 1.0, n)) @ U.T, b=rng.standard_normal(n))
    g = gt.Quadratic((U * np.geomspace(1e3, 1e-4, n)) @ U.T)
    print(f"{'method':10}{'us per outer iteration':>24}")
    for name, method in OUTER.items():
        best = np.inf
        for _ in range(5):
            start = perf_counter()
            res = gt.minimize(h, g, np.ones(n), method=method, tol=1e-10, max_iter=200)
            spent = perf_counter() - start - sum(res.seconds.values())
            best = min(best, 1e6 * spent / res.nit)
        print(f"{name:10}{best:24.0f}")


def separable(n):
    """Two cheap terms: h = sum sqrt(1 + (x_i - a_i)^2), and g a quadratic given by functions."""
    rng = np.random.default_rng(n)
    a, w = rng.standard_normal(n), np.geomspace(1e-3, 1.0, n)

    def h(x):
        root = np.sqrt(1.0 + (x - a) ** 2)
        return float(root.sum()), (x - a) / root

    def g(x):
        wx = w * x
        return 0.5 * float(wx @ x), wx

    return gt.Term(h, n=n, L=1.0, convex=True), gt.Term(g, n=n, L=1.0, convex=True)


def run(method, n, calls):
    """A run that ends with its budget of gradients of h."""
    h, g = separable(n)
    rule = gt.stop.any_of(gt.stop.Gradient(rel=1e-12), gt.stop.Calls({"h.grad": calls}))
    return gt.minimize(h, g, np.zeros(n), method=method, stop=rule)


def peak(function):
    """Peak memory of a call in bytes, beyond what was there."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        function()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def over_n(sizes=(10**3, 10**4, 10**5, 10**6), calls=40):
    """Own microseconds per inner step, and peak memory in vectors of length n."""
    rows = []
    print(f"\n{'n':>9} {'method':8}{'us per inner step':>20}{'per entry, ns':>16}{'vectors':>10}")
    for n in sizes:
        for name, make in OVER_N.items():
            start = perf_counter()
            res = run(make(), n, calls)
            own = perf_counter() - start - sum(res.seconds.values())
            step = own / max(res.calls["g.grad"], 1)
            h, g = separable(n)
            x = np.zeros(n)
            oracles = peak(lambda h=h, g=g, x=x: (h.value_and_grad(x), g.value_and_grad(x)))
            vectors = (peak(lambda make=make, n=n: run(make(), n, calls)) - oracles) / (8 * n)
            rows.append((n, name, step, vectors))
            print(f"{n:9} {name:8}{1e6 * step:20.0f}{1e9 * step / n:16.2f}{vectors:10.0f}")
    return rows


if __name__ == "__main__":
    per_iteration()
    over_n([int(float(n)) for n in sys.argv[1:]] or (10**3, 10**4, 10**5, 10**6))
