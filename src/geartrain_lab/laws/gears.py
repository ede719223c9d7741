"""The law of the gears: how often each of many terms is asked when the constant of one grows.

Random quadratics f = h1 + ... + g with mu > 0, each badly conditioned in directions of its own, are
solved to f - f* <= 1e-8 by AFB, one level per term. Printed are the exponents of the calls of every
term (rows) in every constant (columns), the calls beside those of the fast gradient method on each
term alone, and the bill of the order that the planner chooses beside the best one, over a grid of
prices and constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np

import geartrain as gt
from geartrain import theory
from geartrain.datasets import KnownProblem
from geartrain.methods.nested_sum import Levels, told
from geartrain.oracles import Quadratic
from geartrain.oracles.protocols import Vector
from geartrain.theory.gears import arrangements
from geartrain_lab.laws.law import Row, calls_to, exponent, geometric_means, write_csv
from geartrain_lab.problems.opposed import KnownTrain, opposed_train

MU = 1e-3
EPS = 1e-8
N = 120
SEEDS = (0, 1, 2)
# The constants around which each one is varied, by these factors.
CENTRES = {3: (1.0, 100.0, 1e4), 4: (1.0, 20.0, 400.0, 8000.0)}
FACTORS = (1 / 3, 3**-0.5, 3**0.5, 3.0)
QUICK = {3: (1.0, 30.0, 900.0)}
# Of the bills: constants of three terms, and prices of one gradient of each.
CONSTANTS = ((1.0, 40.0, 1600.0), (1.0, 1.0, 500.0), (5.0, 50.0, 50.0), (20.0, 20.0, 20.0))
PRICES = (
    (1e4, 100.0, 1.0),
    (100.0, 10.0, 1.0),
    (3.0, 2.0, 1.0),
    (1.0, 1.0, 1.0),
    (100.0, 100.0, 1.0),
    (100.0, 1.0, 1.0),
    (1.0, 100.0, 1.0),
    (1.0, 10.0, 100.0),
)


def calls_of(problem: KnownTrain, L: Sequence[float], levels: Levels | None = None) -> Vector:
    """Calls per term until f - f* <= EPS: one level per term, or the levels given."""
    split = tuple((name,) for name in problem.names) if levels is None else levels
    whole = len(split) == 1
    method = gt.methods.FGM() if whole else gt.methods.Train(split, gt.methods.AFB())
    *h, g = problem.terms
    options = {"L_h": list(L[:-1]), "L_g": L[-1], "max_iter": 10**7}
    known = KnownProblem(h, g, problem.x_star, problem.f_star)
    calls = calls_to(known, EPS, method, **options)
    return np.array([int(calls[f"{name}.grad"]) for name in problem.names])


def alone(problem: KnownTrain, L: Sequence[float], mu: float) -> Vector:
    """Calls of the fast gradient method on every term alone, made mu-strongly convex."""
    found = []
    x = problem.x_star
    for k, (term, top) in enumerate(zip(problem.terms, L, strict=True)):
        added = 0.0 if k == len(L) - 1 else mu  # g is mu-strongly convex
        short = Quadratic(added * np.eye(x.size), b=added * x)
        known = KnownProblem(term, short, x, term.value(x) + short.value(x))
        calls = calls_to(known, EPS, "fgm", L_h=top, max_iter=10**7)
        found.append(int(calls["h.grad"]))
    return np.array(found)


def exponents(
    centre: Sequence[float], seeds: Sequence[int], n: int = N, mu: float = MU
) -> tuple[Vector, list[Row]]:
    """The matrix of exponents, rows N_i and columns L_j, and what it was made of."""
    rows: list[Row] = []
    matrix = np.zeros((len(centre), len(centre)))
    for j in range(len(centre)):
        points = []
        for factor in FACTORS:
            L = [value * factor if i == j else value for i, value in enumerate(centre)]
            runs = [calls_of(opposed_train(n, L=L, mu=mu, seed=seed), L) for seed in seeds]
            points.append(geometric_means(runs))
            rows.append((j + 1, *L, *points[-1]))
        grown = [centre[j] * factor for factor in FACTORS]
        matrix[:, j] = [exponent(grown, calls) for calls in np.array(points).T]
    return matrix, rows


def bills(
    constants: Sequence[Sequence[float]],
    prices: Sequence[Sequence[float]],
    seeds: Sequence[int],
    n: int = 60,
    mu: float = 1e-2,
) -> list[Row]:
    """Per constants and prices: the chosen levels, its bill, the best of all and of two levels."""
    rows: list[Row] = []
    for L, seed in product(constants, seeds):
        problem = opposed_train(n, L=L, mu=mu, seed=seed)
        names = problem.names
        found = {
            levels: calls_of(problem, L, levels) for levels in arrangements([(k,) for k in names])
        }
        for price in prices:
            of = {levels: float(calls @ np.array(price)) for levels, calls in found.items()}
            smooth = dict(zip(names, L, strict=True))
            chosen = theory.order(smooth, dict(zip(names, price, strict=True)), mu=mu)
            best = min(of, key=lambda levels: of[levels])
            two = min((b for levels, b in of.items() if len(levels) == 2))
            (fgm,) = (b for levels, b in of.items() if len(levels) == 1)
            numbers = (of[chosen], of[best], two, fgm)
            rows.append((seed, told_numbers(L), told_numbers(price), told(chosen), *numbers))
    return rows


def told_numbers(numbers: Sequence[float]) -> str:
    """Numbers in a cell of a table."""
    return ", ".join(f"{number:g}" for number in numbers)


def report_exponents(matrix: Vector, centre: Sequence[float]) -> None:
    """Print a matrix, and how far it is from 1/2 and 0."""
    size = len(centre)
    print(f"\nexponents, {size} terms around L = ({told_numbers(centre)}); rows N_i, columns L_j")
    for row in matrix:
        print("  " + "".join(f"{value + 0.0:7.2f}" for value in np.round(row, 2)))
    off = np.abs(matrix[~np.eye(size, dtype=bool)]).max()
    low, high = np.diag(matrix).min(), np.diag(matrix).max()
    print(f"  on the diagonal {low:.2f} to {high:.2f}, off it at most {off:.2f} in absolute value")


def report_bills(rows: list[Row]) -> None:
    """Print the bills by prices and constants, and the worst ratio."""
    ratios = np.array([row[4] / row[5] for row in rows])
    against_two = np.array([row[4] / min(row[6], row[7]) for row in rows])
    print("\nbill over that of the best of the 13 orders, of the best two levels, and of FGM")
    for _, L, price, levels, bill, best, two, fgm in rows:
        print(
            f"  L ({L:>13})  prices ({price:>13})  {levels:14} {bill / best:6.2f}"
            f" {bill / two:6.2f} {bill / fgm:8.3f}"
        )
    mean = float(np.exp(np.log(ratios).mean()))
    print(f"over the best order: mean {mean:.3f}, largest {ratios.max():.2f}")
    print(f"over the best of two levels and FGM: largest {against_two.max():.2f}")


def run(out: Path, quick: bool) -> None:
    """Measure, print, and write the tables."""
    seeds = SEEDS[:1] if quick else SEEDS
    for size, centre in (QUICK if quick else CENTRES).items():
        matrix, rows = exponents(centre, seeds, mu=1e-2 if quick else MU)
        report_exponents(matrix, centre)
        header = (
            "varied",
            *(f"L_{i + 1}" for i in range(size)),
            *(f"N_{i + 1}" for i in range(size)),
        )
        write_csv(out / f"exponents_{size}.csv", header, rows)
        problem = opposed_train(N, L=centre, mu=MU, seed=0)
        ours, theirs = calls_of(problem, centre), alone(problem, centre, MU)
        print("  calls", *ours, " FGM on each term alone", *theirs, " ratio", end="")
        print(*(f" {a / b:.2f}" for a, b in zip(ours, theirs, strict=True)), flush=True)
    rows = bills(CONSTANTS[:2] if quick else CONSTANTS, PRICES, seeds[:1])
    report_bills(rows)
    header = ("seed", "L", "prices", "levels", "bill", "best", "two levels", "fgm")
    write_csv(out / "bills.csv", header, rows)
