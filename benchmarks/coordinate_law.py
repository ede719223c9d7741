"""The coordinate law and the values-only law: measured against stated exponents.

Random quadratics f = h + g with mu > 0 whose h and g are badly conditioned in different directions,
solved to f - f* <= 1e-6. With sqrt(L_g-bar) the mean of sqrt(L_i) over the coordinates, gradients
of h should not depend on L_g-bar, and partial derivatives of g should grow as n sqrt(L_g-bar/mu)
(a full gradient of g counts as n of them). Where g gives values only, its values should grow as
n sqrt(L_g/alpha). Coordinate descent on the whole f stands beside: it asks h as often as g.

    python benchmarks/coordinate_law.py [--out DIR] [--quick]
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np

import geartrain as gt

EPS = 1e-6
COORDINATE = (
    ("r-sae", "acd"),
    ("r-sae", "nesterov-stich"),
    ("afb", "acd"),
    ("afb", "nesterov-stich"),
    ("afb", "approx"),
)
VALUES = (("afb", "coordinate-differences"), ("afb", "directional"))


def problem(n, L_g, mu, seed, L_h=1.0):
    """H has its large eigenvalues where g has its small ones, and the other way round."""
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.standard_normal((n, n)))[0]
    half = n // 2
    spectrum_h, spectrum_g = np.full((2, n), mu / 2)
    spectrum_h[:half] = np.geomspace(mu / 2, L_h, half)
    spectrum_g[half:] = np.geomspace(mu / 2, L_g, n - half)
    H, G = (U * spectrum_h) @ U.T, (U * spectrum_g) @ U.T
    H, G = (H + H.T) / 2, (G + G.T) / 2
    x_star = rng.standard_normal(n) / np.sqrt(n)
    h, g = gt.Quadratic(H, b=H @ x_star), gt.Quadratic(G, b=G @ x_star)
    return h, g, h.value(x_star) + g.value(x_star)


def measure(method, inner, n, L_g, mu, seeds):
    """L_g-bar, calls of h, and partial derivatives or values of g: geometric means."""
    rows = []
    for seed in seeds:
        h, g, f_star = problem(n, L_g, mu, seed)
        mean_root = np.mean(np.sqrt(g.L_coord)) ** 2
        if inner in ("coordinate-differences", "directional"):
            # Central differences are exact for a quadratic, so M3 = 0.
            g = gt.Term(value=g.value, n=n, L=g.L, L_coord=g.L_coord, mu=g.mu, M3=0.0)
        stop = gt.stop.Value(f_star + EPS)
        options = {} if inner is None else {"inner": inner}
        res = gt.minimize(h, g, method=method, stop=stop, mu=mu, seed=seed, **options)
        if not res.success:
            raise RuntimeError(f"{method} with {inner}, n = {n}, L_g = {L_g:g}: {res.message}")
        calls = res.calls
        asked_g = calls["g.coord"] + n * calls["g.grad"] + calls["g.value"]
        rows.append((mean_root, calls["h.grad"] + calls["h.coord"] / n, asked_g))
    return np.exp(np.log(rows).mean(axis=0))


def sweep(pairs, points, mu, seeds):
    """Rows: method, inner, n, L_g, L_g-bar, calls of h, calls of g."""
    rows = []
    for method, inner in pairs:
        for n, L_g in points:
            row = (method, inner or "", n, L_g, *measure(method, inner, n, L_g, mu, seeds))
            rows.append(row)
            print(
                f"{method:6} {row[1]:24} n {n:4d}  L_g {L_g:8.3g}  L_g-bar {row[4]:8.3g}  "
                f"h {row[5]:9.1f}  g {row[6]:12.1f}",
                flush=True,
            )
    return rows


def exponent(rows, pair, by, what, fixed):
    """Slope in log-log scale of column `what` in column `by`, where column `fixed` is constant."""
    chosen = [r for r in rows if r[:2] == (pair[0], pair[1] or "")]
    common = chosen[0][fixed]
    points = np.array([(r[by], r[what]) for r in chosen if r[fixed] == common], dtype=float)
    return np.polyfit(*np.log(points).T, 1)[0]


def report(title, rows, pairs, stated):
    """One line a method: exponents beside the stated ones."""
    print(f"\n{title}\n{'':32}{'h in L_g':>16}{'g in L_g':>20}{'g in n':>12}")
    columns = ((4, 5, 2), (4, 6, 2), (2, 6, 3))
    for pair in pairs:
        cells = [
            f"{exponent(rows, pair, *column):.2f} ({text})"
            for column, text in zip(columns, stated, strict=True)
        ]
        print(f"{pair[0]:6} {pair[1] or '':25}" + f"{cells[0]:>16}{cells[1]:>20}{cells[2]:>12}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/coordinate"))
    parser.add_argument("--quick", action="store_true", help="fewer and easier points")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    seeds = (0,) if args.quick else (0, 1, 2)
    # The law holds where L_g-bar exceeds L_h = 1. The sweep in L_g starts with the point that the
    # sweep in n shares with it.
    points = [(64, L_g) for L_g in np.logspace(3, 5 if args.quick else 6, 3 if args.quick else 4)]
    points += [(n, 1e3) for n in (32, 128, 256)]
    coordinate = sweep(COORDINATE, points, 1e-3, seeds)
    whole = sweep((("acd", None),), points, 1e-3, seeds)
    points = [(12, L_g) for L_g in np.logspace(2, 4, 3 if args.quick else 5)]
    points += [(n, 1e2) for n in (6, 24, 48)]
    values = sweep(VALUES, points, 1e-2, seeds)
    with (args.out / "coordinate_law.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("method", "inner", "n", "L_g", "L_g_bar", "h.grad", "g"))
        writer.writerows([*coordinate, *whole, *values])
    stated = ("<= 0.1", "0.5 +- 0.12", "1")
    report("partial derivatives of g: exponents, (stated)", coordinate, COORDINATE, stated)
    report("on the whole f, for comparison", whole, (("acd", None),), ("0.5", "0.5", "1"))
    report("values of g: exponents, (stated)", values, VALUES, ("<= 0.1", "0.5", "1"))


if __name__ == "__main__":
    main()
