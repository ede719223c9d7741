"""What each part of the learned method is worth, on development problems of the profile.

Gradients of h over those of SciPy's L-BFGS with its better memory (geometric mean, 95th percentile,
worst), problems that were not solved, and gradients and proximal steps of g per gradient of h. The
problems are those with n <= 200 from number 20,000 on: nobody uses them to choose a constant, and
the report's problems are others. The last column is the geometric mean on logistic regressions with
scikit-learn's data in shards, where h = f - f_1 is not convex: some parts are for these.

    python benchmarks/ablation.py [--quick]
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits

import geartrain as gt
from geartrain.methods.pqn import method, scaling
from geartrain.methods.pqn.model_selection import Selection
from geartrain.methods.pqn.models import KEEP, PLAIN, SHRUNK
from geartrain.methods.pqn.tuning import DEFAULT
from geartrain_lab.problems.random_convex import RandomProblem, problems
from geartrain_lab.store import page_table

UNUSED = 20_000  # number of the first problem


def among(*names):
    """The models that compete, at any price, are some of these."""

    def of(rho, convex, exact, tuning):
        kept = [n for n in (KEEP, SHRUNK, PLAIN) if n in names and not (convex and n == SHRUNK)]
        return Selection(tuple(kept), (0.0,) * len(kept))

    return patch.object(Selection, "of", staticmethod(of))


def forgetful(self, terms, state, step, trial, products):
    """A rejected step that teaches nothing but a larger mu."""
    after = REJECTED(self, terms, state, step, trial, products)
    return replace(after, memory=state.memory, lam=2.0 * state.lam)


REJECTED = method.ProximalQuasiNewton._rejected
# By name: the numbers, and what is patched.
VARIANTS = {
    "all parts": (DEFAULT, None),
    "pairs one by one": (replace(DEFAULT, agree=-1.0), None),
    "20 pairs": (replace(DEFAULT, memory=20), None),
    "mean curvature, not that at the end": (replace(DEFAULT, local=1.0), None),
    "nothing learned from rejected steps": (
        DEFAULT,
        patch.object(method.ProximalQuasiNewton, "_rejected", forgetful),
    ),
    "without the shrunk model": (DEFAULT, among(KEEP, PLAIN)),
    "without the plain model": (DEFAULT, among(KEEP, SHRUNK)),
    "without refreshed pairs": (
        DEFAULT,
        patch.object(
            method.ProximalQuasiNewton, "_refreshed", lambda self, terms, state: state.memory
        ),
    ),
    "coarse inner runs": (replace(DEFAULT, eta=0.3, eta_other=0.3), None),
    "one inner pair": (replace(DEFAULT, inner_memory=1), None),
    "without known scales": (
        DEFAULT,
        patch.object(method, "diagonal_scale", lambda problem: None),
    ),
    "without learned scales": (DEFAULT, patch.object(scaling, "_USEFUL", math.inf)),
    "without the safeguard": (
        DEFAULT,
        patch.object(method.Safeguard, "is_due", lambda self, A, rho: False),
    ),
}


def in_shards():
    """g is the loss of the first of 4 or 16 shards with a ridge, h that of all minus it."""
    digits, tumours = load_digits(), load_breast_cancer()
    scaled = (tumours.data - tumours.data.mean(axis=0)) / tumours.data.std(axis=0)
    tables = {
        "digits": (digits.data / 16.0, digits.target % 2),
        "tumours": (scaled, tumours.target),
    }
    made = []
    for (name, (A, label)), k, l2 in itertools.product(tables.items(), (4, 16), (1e-3, 1e-5)):
        y, m = np.where(label, 1.0, -1.0), len(A) // k
        h = gt.LinearModel(A, y) - gt.LinearModel(A[:m], y[:m])
        g = gt.LinearModel(A[:m], y[:m], l2=l2)
        made.append(RandomProblem(f"{name} {k} {l2}", "shards", h, g, np.zeros(A.shape[1])))
    return made


def with_rivals(chosen):
    """Problems that L-BFGS solves, each with its gradients at the better memory."""
    best = [min(ends(p, gt.ScipyLBFGS(m))[0] for m in (10, 50)) for p in chosen]
    return [(p, b) for p, b in zip(chosen, best, strict=True) if math.isfinite(b)]


def ends(problem, method):
    """Gradients of h and calls of g until 1e-6; infinity where that is not reached."""
    limit = gt.stop.Calls({"h.grad": 3000, "g.grad": 50_000})
    stop = gt.stop.any_of(gt.stop.Gradient(rel=1e-6), limit)
    res = gt.minimize(problem.h, problem.g, problem.x0, method=method, stop=stop)
    of_g = sum(res.calls[f"g.{kind}"] for kind in ("grad", "value", "prox"))
    return (res.calls["h.grad"] if res.success else math.inf), of_g


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one problem of each family")
    parser.add_argument("--json", metavar="FILE", help="write the table to FILE as well")
    args = parser.parse_args()
    count = 22 if args.quick else 66
    chosen = [p for p in problems("development", count, start=UNUSED) if p.n <= 200]
    known, shards = with_rivals(chosen), with_rivals(in_shards())
    print(f"{len(known)} development problems from number {UNUSED:,} on, with n <= 200, and shards")
    print(f"{'':38}{'mean':>8}{'95 %':>8}{'worst':>8}{'unsolved':>10}{'g per h':>9}{'shards':>9}")
    rows = []
    for name, (tuning, patched) in VARIANTS.items():
        pqn = gt.methods.ProximalQuasiNewton(tuning=tuning)
        with patched or contextlib.nullcontext():
            runs = [ends(p, pqn) for p, _ in known]
            real = [ends(p, pqn)[0] / b for p, b in shards]
        ratios = np.array([h / b for (h, _), (_, b) in zip(runs, known, strict=True)])
        solved = np.isfinite(ratios)
        per_h = np.median([g / h for h, g in runs if math.isfinite(h)])
        mean = math.exp(np.mean(np.log(ratios[solved])))
        high = np.quantile(ratios, 0.95, method="inverted_cdf")
        row = [f"{mean:.3f}", f"{high:.2f}", f"{ratios.max():.2f}", f"{(~solved).sum()}"]
        row += [f"{per_h:.1f}", f"{math.exp(np.mean(np.log(real))):.3f}"]
        rows.append([name, *row])
        print("{:38}{:>8}{:>8}{:>8}{:>10}{:>9}{:>9}".format(*rows[-1]), flush=True)
    if args.json:
        head = [
            "method",
            "mean",
            "95 %",
            "worst",
            "unsolved",
            "calls of g per gradient of h",
            "shards",
        ]
        tables = {"ablation": page_table(head, rows)}
        Path(args.json).write_text(json.dumps({"tables": tables}, indent=1))


if __name__ == "__main__":
    main()
