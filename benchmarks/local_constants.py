"""Coordinate descent on the whole log-density with constants for all x, and with those at x_0.

R-SAE of the experiment has a constant that is measured at x_0. Here coordinate descent (FCD) gets
one, too: 1.5 times the diagonal of the Hessian of h at x_0. Runs end at f - f* <= 1e-6.

    python benchmarks/local_constants.py [--quick]
"""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np

import geartrain as gt
from geartrain_lab.experiments import log_density
from geartrain_lab.runner import TargetOrTime, warm_up

TARGET, LIMIT, SEEDS = 1e-6, 60.0, (0, 1, 2)


def with_local_constants(A):
    """h with 1.5 times the diagonal of its Hessian at 0, where all rows have the same weight."""
    h = gt.LogSumExp(A)
    square, mean = A.multiply(A).mean(axis=0), A.mean(axis=0)
    vars(h)["L_coord"] = 1.5 * (np.ravel(square) - np.ravel(mean) ** 2)  # a cached property
    return h


def measure(case, h, method, L_h):
    """Calls and seconds of every seed."""
    warm_up(case, method)
    for seed in SEEDS if L_h is not None or "ACD" in repr(method) else SEEDS[:1]:
        rule = TargetOrTime(case.f_star, TARGET, LIMIT)
        options = {"stop": rule, "L_h": L_h, "L_g": case.facts["L_g"], "max_iter": 10**7}
        res = gt.minimize(h, case.g, method=method, seed=seed, **options)
        yield res.calls, float(res.history["seconds"][-1]), res.success


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a small problem")
    quick = parser.parse_args().quick
    case = log_density.build(*((60, 720, 0.01) if quick else ()))
    local = with_local_constants(case.h.A)
    probe = log_density.R_SAE.probe(case)
    restarted = partial(gt.methods.Restarted, rule=gt.methods.GradientTest())
    rows = {
        "FCD": (case.h, gt.methods.ACDWhole(mu=0.0), None),
        "FCD, local": (local, gt.methods.ACDWhole(mu=0.0), None),
        "FCD, restarted": (case.h, restarted(gt.methods.ACDWhole()), None),
        "FCD, restarted, local": (local, restarted(gt.methods.ACDWhole()), None),
        "R-SAE (tuned)": (case.h, log_density.R_SAE.make(case), probe.L_h),
        "L-BFGS": (case.h, gt.ScipyLBFGS(), None),
        "pqn": (case.h, gt.methods.ProximalQuasiNewton(), None),
    }
    print(f"{case.data}; medians, and the range of seconds\n")
    print(f"{'':24}{'h.grad':>8}{'h.coord':>10}{'g.grad':>8}{'g.coord':>10}{'seconds':>18}")
    for name, (h, method, L_h) in rows.items():
        runs = list(measure(case, h, method, L_h))
        keys = ("h.grad", "h.coord", "g.grad", "g.coord")
        calls = [int(np.median([run[0][key] for run in runs])) for key in keys]
        if L_h is not None:
            calls[0] += probe.calls
        seconds = [run[1] for run in runs]
        told = f"{min(seconds):.2f} to {max(seconds):.2f}"
        cut = "" if all(run[2] for run in runs) else "  (cut off)"
        counts = "".join(f"{n:>{w}}" for n, w in zip(calls, (8, 10, 8, 10), strict=True))
        print(f"{name:24}{counts}{told:>18}{cut}", flush=True)


if __name__ == "__main__":
    main()
