"""What the library itself costs, apart from the oracles: processor time and memory.

The first table has the microseconds per outer iteration on quadratics with n = 100. The second one
has, for n = 10^3 to 10^6 and cheap terms, the microseconds per inner step, that is per gradient of
g, the same over that of L-BFGS, and the peak memory in vectors of length n. All own time counts,
that of outer iterations included. The third one has whole runs with n = 10^5.

Times are those of the processor, the least of a few runs; what is spent inside the oracles is taken
off, and so is their own memory. L-BFGS is SciPy's, on the sum; one of its steps is one evaluation.

    python benchmarks/overhead.py
"""

from __future__ import annotations

import sys
import tracemalloc
from time import process_time

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
SIZES = (10**3, 10**4, 10**5, 10**6)
REPETITIONS = 4
CALLS = 40  # gradients of h per run


class Timed:
    """A function, and the seconds spent in it."""

    def __init__(self, function):
        self.function, self.seconds = function, 0.0

    def __call__(self, x):
        """Ask it."""
        start = process_time()
        try:
            return self.function(x)
        finally:
            self.seconds += process_time() - start


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
            start = process_time()
            res = gt.minimize(h, g, np.ones(n), method=method, tol=1e-10, max_iter=200)
            spent = process_time() - start - sum(res.seconds.values())
            best = min(best, 1e6 * spent / res.nit)
        print(f"{name:10}{best:24.0f}")


def separable(n):
    """Two cheap functions: h = sum sqrt(1 + (x_i - a_i)^2), and g a quadratic."""
    rng = np.random.default_rng(n)
    a, w = rng.standard_normal(n), np.geomspace(1e-3, 1.0, n)

    def h(x):
        root = np.sqrt(1.0 + (x - a) ** 2)
        return float(root.sum()), (x - a) / root

    def g(x):
        wx = w * x
        return 0.5 * float(wx @ x), wx

    return Timed(h), Timed(g)


def run(method, n, rule):
    """The result, all seconds, and those of the oracles."""
    h, g = separable(n)
    terms = (gt.Term(f, n=n, L=1.0, convex=True) for f in (h, g))
    start = process_time()
    res = gt.minimize(*terms, np.zeros(n), method=method, stop=rule)
    return res, process_time() - start, h.seconds + g.seconds


def short():
    """A run that ends with its budget of gradients of h."""
    return gt.stop.any_of(gt.stop.Gradient(rel=1e-12), gt.stop.Calls({"h.grad": CALLS}))


def peak(function):
    """Peak memory of a call in bytes, beyond what was there."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        function()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def vectors(method, n):
    """Peak memory of a run beyond that of the oracles, in vectors of length n."""
    h, g = separable(n)
    oracles = peak(lambda: (h(np.zeros(n)), g(np.zeros(n))))
    data = 2  # a and w belong to the terms
    return (peak(lambda: run(method, n, short())) - oracles) / (8 * n) - data


def own_times(n):
    """Own seconds per gradient of g of each method, the least of a few runs in turn."""
    best = dict.fromkeys(OVER_N, np.inf)
    for _ in range(REPETITIONS):
        for name, make in OVER_N.items():
            res, spent, oracles = run(make(), n, short())
            best[name] = min(best[name], (spent - oracles) / max(res.calls["g.grad"], 1))
    return best


def over_n(sizes=SIZES):
    """Own microseconds per inner step, and peak memory in vectors of length n."""
    rows = []
    head = f"{'us per inner step':>20}{'per entry, ns':>16}{'over lbfgs':>13}{'vectors':>10}"
    print(f"\n{'n':>9} {'method':8}{head}")
    for n in sizes:
        own = own_times(n)
        for name, make in OVER_N.items():
            step, room = own[name], vectors(make(), n)
            rows.append((n, name, step, room))
            ratio = step / own["lbfgs"]
            print(
                f"{n:9} {name:8}{1e6 * step:20.0f}{1e9 * step / n:16.2f}{ratio:13.2f}{room:10.0f}"
            )
    return rows


def whole_runs(n=10**5):
    """Seconds of whole runs with cheap terms."""
    print(f"\nn = {n}, until |grad f| has fallen by 1e-8")
    print(f"{'method':8}{'seconds':>10}{'in oracles':>12}{'h.grad':>8}{'g.grad':>8}")
    for name in ("sae-qn", "lbfgs"):
        runs = [run(OVER_N[name](), n, gt.stop.Gradient(rel=1e-8)) for _ in range(REPETITIONS)]
        res, spent, oracles = min(runs, key=lambda one: one[1])
        calls = f"{res.calls['h.grad']:8}{res.calls['g.grad']:8}"
        print(f"{name:8}{spent:10.2f}{oracles:12.2f}{calls}")


if __name__ == "__main__":
    per_iteration()
    over_n([int(float(n)) for n in sys.argv[1:]] or SIZES)
    whole_runs()
