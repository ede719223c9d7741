"""Three tiers of shards: the learned method on three levels beside two-term separation.

Logistic regression, f the mean loss over all rows: h1 = f - f_12 is the cluster, h2 = f_12 - f_1
the other shards on this machine, which holds one eighth of the rows, and g = f_1 with the ridge the
own shard. Two-term separation takes h1 as h and f_12 as g, so that every inner gradient is one of
all shards on this machine. Seeds shuffle the rows.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import geartrain as gt
from geartrain.oracles.protocols import Vector
from geartrain_lab.harness import run_whole
from geartrain_lab.laws.law import Row, geometric_means, write_csv
from geartrain_lab.problems.shards import libsvm_rows, logistic_tiers

DATA = ("mushrooms", "a9a")
OWN = (64, 256)  # the own shard is this part of the rows
MACHINE = 8  # and this machine's shards are this part
L2 = (1e-4, 1e-5)
SEEDS = (0, 1, 2)
TOL = 1e-5  # |grad f| over that at 0
PRICES = (1e4, 100.0, 1.0)  # of one gradient of h1, h2 and g
HEADER = ("data", "own", "l2", "seed", "two h1", "two h2", "h1", "h2", "g", "bill")


def measure(name: str, A: Any, y: Vector, own: int, l2: float, seed: int) -> Row:
    """Calls of both methods on one problem, and the bill of ours over that of the other."""
    order = np.random.default_rng(seed).permutation(y.size)
    tiers = logistic_tiers(A[order], y[order], (y.size // MACHINE, y.size // own), l2)
    rho = (PRICES[0] / PRICES[1], PRICES[1] / PRICES[2])
    pqn, second = (gt.methods.ProximalQuasiNewton(rho=ratio) for ratio in rho)
    two = run_whole(tiers.h[0], tiers.machine, method=pqn, tol=TOL)
    ours = run_whole(tiers.h, tiers.g, method=replace(pqn, inner=second), tol=TOL)
    for res in (two, ours):
        if not res.success:
            raise RuntimeError(f"{name} 1/{own}, l2 {l2:g}, seed {seed}: {res.message}")
    theirs = (two.calls["h.grad"], two.calls["g.grad"])
    calls = tuple(ours.calls[f"{term}.grad"] for term in ("h1", "h2", "g"))
    bill = np.dot(calls, PRICES) / np.dot(theirs, PRICES[:2])
    return (name, f"1/{own}", l2, seed, *theirs, *calls, float(bill))


def report(rows: list[Row]) -> None:
    """Print the calls, and the geometric means and the largest of their ratios."""
    print("calls until |grad f| <= 1e-5 of that at 0: two-term separation, and three levels")
    print("data        own    l2     seed    h1   h2     h1   h2     g     h1    h2  bill")
    ratios = []
    for name, own, l2, seed, *calls, bill in rows:
        ratio = (calls[2] / calls[0], calls[3] / calls[1], bill)
        ratios.append(ratio)
        print(
            f"{name:11} {own:6} {l2:.0e} {seed:4}  {calls[0]:4} {calls[1]:4}   {calls[2]:4} "
            f"{calls[3]:4} {calls[4]:5}  " + " ".join(f"{value:5.2f}" for value in ratio)
        )
    mean, top = geometric_means(ratios), np.max(ratios, axis=0)
    print("ratios, geometric mean: h1 {:.2f}, h2 {:.2f}, bill {:.2f}".format(*mean))
    print("ratios, largest:        h1 {:.2f}, h2 {:.2f}, bill {:.2f}".format(*top))


def run(out: Path, quick: bool) -> None:
    """Measure, print, and write the table."""
    rows = []
    for name in DATA:
        A, y = libsvm_rows(name)
        cells = product(OWN[:1] if quick else OWN, L2, SEEDS[:1] if quick else SEEDS)
        rows += [measure(name, A, y, *cell) for cell in cells]
    report(rows)
    write_csv(out / "tiers.csv", HEADER, rows)
