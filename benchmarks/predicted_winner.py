"""How often the method with the smallest predicted bill is the one with the smallest measured bill.

The problems and methods of `geartrain_lab.experiments.map`, over a grid of L_h, L_g, mu, m and the
price ratio rho. Three predictions: `theory.compare` with delta = 0.05; the same without its factor
ln(1/delta), since the library tests every inner run and needs no such factor; and the latter with
the measured constants, one for h and one for g per method, which were measured on problems that are
not in the table (--constants measures them again). Regret is the measured bill of the predicted
method over the smallest one.

    python benchmarks/predicted_winner.py [--quick] [--constants]
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np

from geartrain_lab.experiments import map as who

PREDICTIONS = {
    "compare, delta = 0.05": {"delta": 0.05},
    "compare without ln(1/delta)": {},
    "with measured constants": {"factors": who.MEASURED},
}


def constants(seeds):
    """Geometric means of measured/predicted calls of h and g, on problems of their own."""
    ratios = {name: [] for name in who.METHODS}
    for L_g, mu, m in ((5.0, 3e-2, 100), (200.0, 3e-2, 100), (50.0, 3e-3, 300)):
        for seed in seeds:
            known = who.problem(1.0, L_g, mu, m, seed)
            predicted = who.predicted(known, mu)
            for name in who.METHODS:  # one at a time, so that none is cut off
                asked, stated = who.measured(known, mu, seed, [name])[name], predicted[name]
                h, wanted = (who.N * one.h + one.h_partials for one in (asked, stated))
                ratios[name].append((h / wanted, asked.g / stated.g))
    return {name: np.exp(np.log(values).mean(axis=0)) for name, values in ratios.items()}


def tell(rows, what):
    """Agreement and regret of the predictions, by price ratio."""
    partial = who.PARTIAL[what]
    hits = {p: [] for p in PREDICTIONS}
    regrets = {p: [] for p in PREDICTIONS}
    winners = []
    for rho in who.PRICES:
        counts, right, regret = {}, {p: [] for p in PREDICTIONS}, {p: [] for p in PREDICTIONS}
        for row in rows:
            bills = who.median_bills(row["runs"], rho, partial)
            least = min(bills.values())
            (best,) = (name for name in bills if bills[name] == least)
            counts[best] = counts.get(best, 0) + 1
            for p, prediction in row["predictions"].items():
                chosen = who.cheapest(who.bills(prediction, rho, partial))
                # A tie is decided in favour of the better one: the theory does not tell them apart.
                took = min(bills[name] for name in chosen)
                right[p].append(took == least)
                regret[p].append(np.log(min(took / least, who.HOPELESS)))
        for p in PREDICTIONS:
            hits[p].append(right[p])
            regrets[p].append(regret[p])
        found = sorted(counts.items(), key=lambda pair: -pair[1])
        winners.append(f"  rho = {rho:<8g}" + ", ".join(f"{name} {count}" for name, count in found))
    print(f"\n{what}")
    print(f"agreement (regret: geometric mean, cut off at {who.HOPELESS:g})")
    print(f"{'rho':>30}" + "".join(f"{rho:>15g}" for rho in who.PRICES) + f"{'all':>15}")
    for p in PREDICTIONS:
        lists = [*zip(hits[p], regrets[p], strict=True), (np.ravel(hits[p]), np.ravel(regrets[p]))]
        cells = [f"{sum(h)}/{len(h)} ({np.exp(np.mean(r)):.2f})" for h, r in lists]
        print(f"{p:>30}" + "".join(f"{c:>15}" for c in cells))
    print("measured winners")
    print("\n".join(winners))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a part of the grid, two seeds")
    parser.add_argument("--constants", action="store_true", help="measure the constants again")
    args = parser.parse_args()
    seeds = range(2 if args.quick else 5)
    if args.constants:
        for name, (c_h, c_g) in constants([100 + seed for seed in seeds]).items():
            print(f"{name:16}{c_h:8.3g}{c_g:8.3g}")
        return
    cells = [
        cell
        for cell in itertools.product(
            (1.0,) if args.quick else (0.1, 1.0),
            (1.0, 100.0) if args.quick else (1.0, 30.0, 1000.0),
            (1e-2,) if args.quick else (1e-1, 1e-3),
            (50,) if args.quick else (50, 500),
        )
        if cell[2] < cell[0]
    ]
    rows = who.sweep(cells, seeds)
    for row in rows:
        L_h, L_g, mu, m = row["cell"]
        known = who.problem(L_h, L_g, mu, m, 0)
        row["predictions"] = {p: who.predicted(known, mu, **o) for p, o in PREDICTIONS.items()}
    print("median N_h / N_g in gradients, measured; - where a run was cut off as hopeless")
    print(f"{'L_h':>6}{'L_g':>6}{'mu':>7}{'m':>5}" + "".join(f"{n:>16}" for n in who.METHODS))
    for row in rows:
        L_h, L_g, mu, m = row["cell"]
        cells = []
        for name in who.METHODS:
            runs = [run[name] for run in row["runs"] if name in run]
            text = "-"
            if len(runs) > len(row["runs"]) / 2:
                h, partials, g = np.median(runs, axis=0)
                text = f"{h + partials / who.N:.0f} / {g:.0f}"
            cells.append(f"{text:>16}")
        print(f"{L_h:>6g}{L_g:>6g}{mu:>7g}{m:>5}" + "".join(cells))
    for what in who.PARTIAL:
        tell(rows, what)


if __name__ == "__main__":
    main()
