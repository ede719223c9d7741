"""What the library itself costs, apart from the oracles: processor time and memory.

The first table has the microseconds per outer iteration on quadratics with n = 100.

The second one has own microseconds for n = 10^3 to 10^6 and cheap terms, until the gradient has
fallen by 1e-8; near the floor of rounding errors SciPy's line search fails, and starting it again
would be counted against it. An inner step is a gradient of g in an inner run, or an evaluation of
L-BFGS. A trial point is a call of h with all that is done outside inner runs: models, their scores,
certificate, history. The column "all" has all own time per gradient of g. "scipy" is
``scipy.optimize.minimize(method="L-BFGS-B")`` on the sum with nothing around it, and "lbfgs" the
same inside the library, which counts calls and records iterations. Memory is the peak in vectors of
length n. The third one has whole runs with n = 10^5.

Times are those of the processor, the least of a few runs; what is spent inside the oracles is taken
off, and so is their own memory. BLAS has one thread whatever the environment says: the time of the
processor includes that of threads which wait.

    python benchmarks/overhead.py
"""

from __future__ import annotations

import sys
import tracemalloc
from dataclasses import dataclass
from time import process_time

import numpy as np
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

import geartrain as gt
from geartrain.methods.pqn import inner_smooth
from geartrain.oracles import ledger

OUTER = {
    "sae": gt.SAE(inner=gt.inner.Exact()),
    "r-sae": gt.methods.RSAE(inner=gt.inner.Exact()),
    "sc-sae": gt.methods.SCSAE(inner=gt.inner.Exact()),
    "afb": gt.methods.AFB(inner=gt.inner.Exact()),
    "fgm": gt.methods.FGM(),
    "pqn": gt.methods.ProximalQuasiNewton(),
}
OVER_N = {
    "pqn": lambda: gt.methods.ProximalQuasiNewton(),
    "afb": lambda: gt.methods.AFB(inner=gt.inner.AGM()),
    "lbfgs": lambda: gt.ScipyLBFGS(),
}
SIZES = (10**3, 10**4, 10**5, 10**6)
RULE = gt.stop.Gradient(rel=1e-8)


class Timed:
    """A function, and the seconds spent in it."""

    def __init__(self, function):
        self.function, self.seconds, self.calls = function, 0.0, 0

    def __call__(self, x):
        """Ask it."""
        start = process_time()
        self.calls += 1
        try:
            return self.function(x)
        finally:
            self.seconds += process_time() - start


def per_iteration():
    """Microseconds per outer iteration."""
    ledger.perf_counter = process_time  # the seconds of the oracles by the same clock
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


class InnerRuns:
    """Own seconds and gradients of g of the inner runs of pqn, while it is entered."""

    def __init__(self, *oracles):
        self.oracles, self.seconds, self.calls = oracles, 0.0, 0

    def asked(self):
        """Seconds inside the oracles."""
        return sum(oracle.seconds for oracle in self.oracles)

    def __call__(self, *args, **kwargs):
        """An inner run."""
        start, asked, calls = process_time(), self.asked(), self.oracles[-1].calls
        run = self.descend(*args, **kwargs)
        self.seconds += process_time() - start - (self.asked() - asked)
        self.calls += self.oracles[-1].calls - calls
        return run

    def __enter__(self):
        self.descend, inner_smooth.descend = inner_smooth.descend, self
        return self

    def __exit__(self, *error):
        inner_smooth.descend = self.descend


@dataclass(frozen=True)
class Own:
    """Own seconds of a run."""

    step: float  # per inner step
    point: float  # per call of h, outside inner runs
    all: float  # per gradient of g


def run(method, n):
    """The result, own seconds, all seconds, and those of the oracles."""
    h, g = separable(n)
    terms = (gt.Term(f, n=n, L=1.0, convex=True) for f in (h, g))
    with InnerRuns(h, g) as inner:
        start = process_time()
        res = gt.minimize(*terms, np.zeros(n), method=method, stop=RULE)
        spent = process_time() - start
    own, calls = spent - inner.asked(), res.calls["g.grad"]
    step = inner.seconds / inner.calls if inner.calls else own / calls
    point = (own - inner.seconds) / res.calls["h.grad"] if inner.calls else np.nan
    return res, Own(step, point, own / calls), spent, inner.asked()


def scipy_alone(n, iterations):
    """Own seconds of SciPy's L-BFGS per evaluation."""
    h, g = separable(n)

    def f(x):
        (h_x, grad_h), (g_x, grad_g) = h(x), g(x)
        return h_x + g_x, grad_h + grad_g

    options = {"maxiter": iterations, "ftol": 0.0, "gtol": 0.0}
    start = process_time()
    res = minimize(f, np.zeros(n), jac=True, method="L-BFGS-B", options=options)
    own = (process_time() - start - h.seconds - g.seconds) / res.nfev
    return Own(own, np.nan, own)


def peak(function):
    """Peak memory of a call in bytes, beyond what was there."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        function()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def vectors(function, n):
    """Peak memory of a run beyond that of the oracles, in vectors of length n."""
    h, g = separable(n)
    oracles = peak(lambda: (h(np.zeros(n)), g(np.zeros(n))))
    data = 2  # a and w belong to the terms
    return (peak(function) - oracles) / (8 * n) - data


def repetitions(n):
    """More of them where they are short, because a busy machine disturbs them more."""
    return 4 if n >= 10**5 else 20


def own_times(n):
    """Own seconds of each method, the least of a few runs in turn."""
    runs = {name: [] for name in [*OVER_N, "scipy"]}
    for _ in range(repetitions(n)):
        for name, make in OVER_N.items():
            res, own, _, _ = run(make(), n)
            runs[name].append(own)
        runs["scipy"].append(scipy_alone(n, res.nit))
    parts = ("step", "point", "all")
    return {
        name: Own(*(min(getattr(own, part) for own in found) for part in parts))
        for name, found in runs.items()
    }, res.nit


def over_n(sizes=SIZES):
    """Own microseconds per inner step, and peak memory in vectors of length n."""
    head = f"{'inner step':>12}{'over scipy':>12}{'trial point':>13}{'all':>9}{'over lbfgs':>12}"
    print(f"\n{'n':>9} {'method':8}{head}{'vectors':>9}")
    for n in sizes:
        own, nit = own_times(n)
        for name, found in own.items():
            if name == "scipy":
                room = vectors(lambda n=n, nit=nit: scipy_alone(n, nit), n)
            else:
                room = vectors(lambda make=OVER_N[name], n=n: run(make(), n), n)
            point = "" if np.isnan(found.point) else f"{1e6 * found.point:.0f}"
            print(
                f"{n:9} {name:8}{1e6 * found.step:12.0f}{found.step / own['scipy'].step:12.2f}"
                f"{point:>13}{1e6 * found.all:9.0f}{found.all / own['lbfgs'].all:12.2f}{room:9.0f}"
            )


def whole_runs(n=10**5):
    """Seconds of whole runs with cheap terms."""
    print(f"\nn = {n}, until |grad f| has fallen by 1e-8")
    print(f"{'method':8}{'seconds':>10}{'in oracles':>12}{'h.grad':>8}{'g.grad':>8}")
    for name in ("pqn", "lbfgs"):
        runs = [run(OVER_N[name](), n) for _ in range(repetitions(n))]
        res, _, spent, oracles = min(runs, key=lambda one: one[2])
        calls = f"{res.calls['h.grad']:8}{res.calls['g.grad']:8}"
        print(f"{name:8}{spent:10.2f}{oracles:12.2f}{calls}")


if __name__ == "__main__":
    with threadpool_limits(1):
        per_iteration()
        over_n([int(float(n)) for n in sys.argv[1:]] or SIZES)
        whole_runs()
