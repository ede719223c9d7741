"""The coordinate law and the values-only law: measured against stated exponents.

Random quadratics f = h + g with mu > 0 whose h and g are badly conditioned in different directions
are solved to f - f* <= 1e-6. With sqrt(L_g-bar) the mean of sqrt(L_i) over the coordinates, the
gradients of h should not depend on L_g-bar, and the partial derivatives of g should grow as
n sqrt(L_g-bar/mu) (a full gradient of g counts as n of them). Where g gives values only, its values
should grow as n sqrt(L_g/alpha). Coordinate descent on the whole f is shown for comparison: it asks
h as often as g.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import geartrain as gt
from geartrain.datasets import KnownProblem
from geartrain.oracles.protocols import Vector
from geartrain_lab.laws.common import Row, arguments, calls_to, exponent, geometric_means, write_csv
from geartrain_lab.problems import opposed_quadratics

EPS = 1e-6
L_H = 1.0
Pair = tuple[str, str]  # method, inner method
COORDINATE: tuple[Pair, ...] = (
    ("r-sae", "acd"),
    ("r-sae", "nesterov-stich"),
    ("afb", "acd"),
    ("afb", "nesterov-stich"),
    ("afb", "approx"),
)
WHOLE: tuple[Pair, ...] = (("acd", ""),)
VALUES: tuple[Pair, ...] = (("afb", "coordinate-differences"), ("afb", "directional"))


def measure(pair: Pair, n: int, L_g: float, mu: float, seeds: Sequence[int]) -> Vector:
    """Geometric means of L_g-bar, calls of h, and partial derivatives or values of g."""
    method, inner = pair
    rows = []
    for seed in seeds:
        problem = opposed_quadratics(
            n, L_h=L_H, L_g=L_g, mu=mu, seed=seed, x_star_scale=1 / np.sqrt(n)
        )
        g = problem.g
        mean_root = np.mean(np.sqrt(g.L_coord)) ** 2
        if pair in VALUES:
            # Central differences are exact for a quadratic, so M3 = 0.
            values = gt.Term(value=g.value, n=n, L=g.L, L_coord=g.L_coord, mu=g.mu, M3=0.0)
            problem = KnownProblem(problem.h, values, problem.x_star, problem.f_star)
        options = {"inner": inner} if inner else {}
        calls = calls_to(problem, EPS, method, mu=mu, seed=seed, **options)
        asked_g = calls["g.coord"] + n * calls["g.grad"] + calls["g.value"]
        rows.append((mean_root, calls["h.grad"] + calls["h.coord"] / n, asked_g))
    return geometric_means(rows)


def sweep(
    pairs: Sequence[Pair], points: Sequence[tuple[int, float]], mu: float, seeds: Sequence[int]
) -> list[Row]:
    """Rows: method, inner method, n, L_g, L_g-bar, calls of h, calls of g."""
    rows: list[Row] = []
    for pair in pairs:
        for n, L_g in points:
            row = (*pair, n, L_g, *measure(pair, n, L_g, mu, seeds))
            rows.append(row)
            print(
                f"{row[0]:6} {row[1]:24} n {n:4d}  L_g {L_g:8.3g}  L_g-bar {row[4]:8.3g}  "
                f"h {row[5]:9.1f}  g {row[6]:12.1f}",
                flush=True,
            )
    return rows


def _exponent(rows: list[Row], pair: Pair, by: int, what: int, fixed: int) -> float:
    """Exponent of column `what` in column `by`, over the rows with the first value of `fixed`."""
    chosen = [r for r in rows if r[:2] == pair]
    chosen = [r for r in chosen if r[fixed] == chosen[0][fixed]]
    return exponent([r[by] for r in chosen], [r[what] for r in chosen])


def report(
    title: str, rows: list[Row], pairs: Sequence[Pair], stated: tuple[str, str, str]
) -> None:
    """Print one line per method: the exponents beside the stated ones."""
    print(f"\n{title}\n{'':32}{'h in L_g':>16}{'g in L_g':>20}{'g in n':>12}")
    columns = ((4, 5, 2), (4, 6, 2), (2, 6, 3))
    for pair in pairs:
        cells = [
            f"{_exponent(rows, pair, *column):.2f} ({text})"
            for column, text in zip(columns, stated, strict=True)
        ]
        print(f"{pair[0]:6} {pair[1]:25}" + f"{cells[0]:>16}{cells[1]:>20}{cells[2]:>12}")


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, and write the table."""
    args = arguments(__doc__, argv, "fewer and easier points", "coordinate")
    seeds = (0,) if args.quick else (0, 1, 2)
    # The law holds where L_g-bar exceeds L_h = 1. The sweep in L_g starts with the point that the
    # sweep in n shares with it.
    points = [(64, L_g) for L_g in np.logspace(3, 5 if args.quick else 6, 3 if args.quick else 4)]
    points += [(n, 1e3) for n in (32, 128, 256)]
    coordinate = sweep(COORDINATE, points, 1e-3, seeds)
    whole = sweep(WHOLE, points, 1e-3, seeds)
    points = [(12, L_g) for L_g in np.logspace(2, 4, 3 if args.quick else 5)]
    points += [(n, 1e2) for n in (6, 24, 48)]
    values = sweep(VALUES, points, 1e-2, seeds)
    header = ("method", "inner", "n", "L_g", "L_g_bar", "h.grad", "g")
    write_csv(args.out / "coordinate_law.csv", header, [*coordinate, *whole, *values])
    stated = ("<= 0.1", "0.5 +- 0.12", "1")
    report("partial derivatives of g: exponents (stated)", coordinate, COORDINATE, stated)
    report("on the whole f, for comparison", whole, WHOLE, ("0.5", "0.5", "1"))
    report("values of g: exponents (stated)", values, VALUES, ("<= 0.1", "0.5", "1"))
