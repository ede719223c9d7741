"""Calls of h on the semi-dual of entropic optimal transport, against L-BFGS with its best memory.

python benchmarks/transport.py [--method NAME ...] [--level 1e-6]

Twelve cells: three regularisations with a size each, four seeds. h is the semi-dual, a sum of
log-sum-exps whose curvature changes as mass moves; g is a tiny ridge. The methods are told that h
costs 100 times as much as g.
"""

import argparse
import math

import numpy as np

import geartrain as gt
from geartrain_lab.seconds.problem import Problem, ridge
from geartrain_lab.seconds.rivals import lbfgs, run
from geartrain_lab.seconds.smooth import semi_dual

CELLS = ((150, 100, 0.1), (300, 200, 0.02), (400, 300, 0.005))  # points, points, regularisation
MEMORIES = (5, 10, 20, 50)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", nargs="+", default=["auto", "pqn"])
    parser.add_argument("--level", type=float, default=1e-6)
    args = parser.parse_args()
    ratios = {name: [] for name in args.method}
    print(f"{'m':>5}{'n':>5}{'eps':>7}{'seed':>5}{'L-BFGS':>8}", *(f"{m:>9}" for m in args.method))
    for m, n, epsilon in CELLS:
        for seed in range(4):
            h = semi_dual(np.random.default_rng([12, seed]), m, n, epsilon)
            problem = Problem(h, ridge(n, 1e-6))
            start = problem.f(problem.x0)
            f_star = min(run(lbfgs(k), problem, -math.inf, 3.0)[0].best for k in (50, 10))
            target = f_star + args.level * (start - f_star)
            theirs = min(run(lbfgs(k), problem, target, 20.0)[0].calls for k in MEMORIES)
            calls = {}
            for name in args.method:
                res = gt.minimize(
                    problem.h,
                    problem.g,
                    problem.x0,
                    method=name,
                    stop=gt.stop.any_of(gt.stop.Value(target), gt.stop.Calls({"h.grad": 2000})),
                    prices={"h.grad": 100.0, "g.grad": 1.0},
                )
                calls[name] = res.calls["h.grad"] + res.calls["h.value"]
                ratios[name].append(calls[name] / theirs if res.success else math.inf)
            told = (f"{calls[name]:4} {ratios[name][-1]:4.2f}" for name in args.method)
            print(f"{m:5}{n:5}{epsilon:7g}{seed:5}{theirs:8}", *told, flush=True)
    for name, found in ratios.items():
        mean = math.exp(sum(map(math.log, found)) / len(found))
        print(f"{name}: {mean:.3f} in the mean (asked: 1.0), {max(found):.3f} at worst (1.3)")


if __name__ == "__main__":
    main()
