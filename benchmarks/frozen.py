"""Oracle calls of every published method on 40 small problems, as JSON: a refactoring keeps them.

python benchmarks/frozen.py [--check] [--file benchmarks/frozen.json]

Without --check the file is written, with it the calls are compared with those in the file, and each
difference is printed. Counts of runs that end by a residual may differ on another machine, so that
the file is made anew there before a change and compared after it.
"""

import argparse
import itertools
import json
import sys
import warnings
from pathlib import Path

import numpy as np

import geartrain as gt

ITERATIONS = 15
OUTER = ("sae", "r-sae", "sc-sae", "afb", "gmco", "aeg")
INNER = (
    gt.inner.ACD(),
    gt.inner.AGM(),
    gt.inner.APCG(),
    gt.inner.APPROX(),
    gt.inner.Exact(),
    gt.inner.Katyusha(),
    gt.inner.LKatyusha(),
    gt.inner.LBFGS(),
    gt.inner.NesterovStich(),
    gt.inner.ProxQN(),
    gt.inner.RPDG(),
    gt.inner.SPDC(),
    gt.inner.Varag(),
    gt.inner.CoordinateSearch(),
    gt.inner.DirectionalSearch(),
)
BASELINES = (
    gt.methods.ACDWhole(),
    gt.methods.AGS(),
    gt.methods.Catalyst(),
    gt.methods.FGM(),
    gt.methods.GradientSliding(M=1.0),
    gt.methods.KatyushaWhole(),
    gt.methods.LBFGSWhole(),
    gt.methods.MonteiroSvaiterWhole(),
    gt.methods.SimilarNewton(),
    gt.methods.WorkingSet(),
)


def problems():
    """Name -> (h, g with psi or without); eight kinds, five seeds each."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        m, n = 30 + 5 * seed, 8 + 2 * seed
        A, B = rng.standard_normal((m, n)), rng.standard_normal((m, n))
        y, b = np.sign(rng.standard_normal(m)), rng.standard_normal(m)
        P = gt.Quadratic(A.T @ A / m + 0.01 * np.eye(n), A.T @ b / m)
        diagonal = gt.Quadratic(np.diag(np.geomspace(0.01, 10.0, n)), np.ones(n))
        loss = gt.LinearModel(A, y, loss="logistic", l2=0.01)
        squares = gt.LinearModel(B, b, loss="squared", l2=0.1)
        yield f"quadratics {seed}", (P, diagonal)
        yield f"quadratic + logistic {seed}", (P, loss)
        yield f"logistic + diagonal {seed}", (loss, diagonal)
        yield f"logistic + squares {seed}", (loss, squares)
        yield f"log-sum-exp + squares {seed}", (gt.LogSumExp(B), squares)
        yield f"squares + l1 {seed}", (squares, gt.L1(0.05))
        yield f"logistic + quadratic + l1 {seed}", (loss, P + gt.L1(0.05))
        yield f"logistic + squares + box {seed}", (loss, squares + gt.Box(-0.2, 0.3))


def methods():
    """Name -> the arguments of minimize."""
    for name in OUTER:
        yield name, {"method": name}
    for inner in INNER:
        yield f"sae({type(inner).__name__})", {"method": gt.SAE(inner=inner)}
    for method in BASELINES:
        yield type(method).__name__, {"method": method}


def calls(h, g, arguments):
    """The calls of one run, its status, or the kind of error that refuses it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            res = gt.minimize(h, g, max_iter=ITERATIONS, seed=0, **arguments)
    except Exception as error:
        return {"refused": type(error).__name__}
    return {"status": str(res.status), **{k: int(v) for k, v in sorted(res.calls.items())}}


def figures():
    """All runs."""
    return {
        f"{name}: {problem}": calls(h, g, arguments)
        for (problem, (h, g)), (name, arguments) in itertools.product(problems(), methods())
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--file", type=Path, default=Path(__file__).with_suffix(".json"))
    args = parser.parse_args()
    now = figures()
    if not args.check:
        args.file.write_text(json.dumps(now, indent=0, sort_keys=True) + "\n")
        sys.exit()
    before = json.loads(args.file.read_text())
    different = [k for k in sorted({*now, *before}) if now.get(k) != before.get(k)]
    for key in different:
        print(f"{key}: {before.get(key)} -> {now.get(key)}")
    sys.exit(f"{len(different)} of {len(now)} differ" if different else 0)
