"""The separation law: who is asked how often when one constant grows.

Random quadratics f = h + g with mu > 0 whose h and g are badly conditioned in different
directions, solved to f - f* <= 1e-8. Prints the exponents of the calls of h and of g in L_g (at
fixed L_h) and in L_h (at fixed L_g) beside the stated ones, writes a table and draws the picture of
the README.

    python benchmarks/separation_law.py [--out DIR] [--quick]
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np

import geartrain as gt

MU = 1e-3
EPS = 1e-8
SEEDS = (0, 1, 2)
# method -> (stated exponent in L_g of the calls of h and of g, in L_h of the calls of h)
STATED = {
    "r-sae": ("<= 0.1", "0.5 +- 0.1", "0.5 +- 0.12"),
    "sc-sae": ("<= 0.1", "0.5 +- 0.1", "0.5 +- 0.12"),
    "afb": ("<= 0.1", "0.5 +- 0.1", "0.5 +- 0.12"),
    "ags": ("", "", ""),
    "fgm": ("both grow", "together", ""),
}


def problem(L_h, L_g, seed, n=120):
    """H has its large eigenvalues where g has its small ones, and the other way round."""
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.standard_normal((n, n)))[0]
    half = n // 2
    spectrum_h = np.full(n, MU / 2)
    spectrum_g = np.full(n, MU / 2)
    spectrum_h[:half] = np.geomspace(MU / 2, L_h, half)
    spectrum_g[half:] = np.geomspace(MU / 2, L_g, half)
    H, G = (U * spectrum_h) @ U.T, (U * spectrum_g) @ U.T
    H, G = (H + H.T) / 2, (G + G.T) / 2
    x_star = rng.standard_normal(n)
    h, g = gt.Quadratic(H, b=H @ x_star), gt.Quadratic(G, b=G @ x_star)
    return h, g, h.value(x_star) + g.value(x_star)


def measure(method, L_h, L_g):
    """Mean calls of h and g over the seeds."""
    calls = []
    for seed in SEEDS:
        h, g, f_star = problem(L_h, L_g, seed)
        stop = gt.stop.Value(f_star + EPS)
        constants = {"L_h": L_h, "L_g": L_g, "mu": MU}
        res = gt.minimize(h, g, method=method, inner="agm", stop=stop, max_iter=10**7, **constants)
        if not res.success:
            raise RuntimeError(f"{method} at L_h = {L_h:g}, L_g = {L_g:g}: {res.message}")
        calls.append((res.calls["h.grad"], res.calls["g.grad"]))
    return np.exp(np.log(calls).mean(axis=0))


def exponent(constants, calls):
    """Slope of the line through the points in log-log scale."""
    slope = np.polyfit(np.log(constants), np.log(calls), 1)[0]
    return round(slope, 2) + 0.0  # no -0.00


def sweep(quick):
    """All rows: method, which constant varies, L_h, L_g, calls of h, calls of g."""
    in_L_g = [(1.0, L_g) for L_g in (np.logspace(1, 4, 4) if quick else np.logspace(1, 5, 5))]
    top = 1e2 if quick else 1e4
    in_L_h = [(L_h, 10 * top) for L_h in np.logspace(-1, np.log10(top), 4)]
    rows = []
    for method in STATED:
        for varied, points in (("L_g", in_L_g), ("L_h", in_L_h)):
            for L_h, L_g in points:
                n_h, n_g = measure(method, L_h, L_g)
                rows.append((method, varied, L_h, L_g, n_h, n_g))
                print(
                    f"{method:8} L_h {L_h:8.3g}  L_g {L_g:8.3g}  "
                    f"calls of h {n_h:9.1f}  of g {n_g:11.1f}",
                    flush=True,
                )
    return rows


def pick(rows, method, varied):
    """The varied constant and the calls of h and g."""
    chosen = [r for r in rows if r[0] == method and r[1] == varied]
    column = 3 if varied == "L_g" else 2
    return tuple(np.array([r[j] for r in chosen]) for j in (column, 4, 5))


def report(rows):
    """The exponents beside the stated ones."""
    print("\nexponents           measured (stated)")
    print(f"{'method':8}{'h in L_g':>22}{'g in L_g':>22}{'h in L_h':>22}{'g in L_h':>12}")
    for method, (h_g, g_g, h_h) in STATED.items():
        L_g, n_h, n_g = pick(rows, method, "L_g")
        L_h, m_h, m_g = pick(rows, method, "L_h")
        cells = [
            f"{exponent(L_g, n_h):.2f} ({h_g})",
            f"{exponent(L_g, n_g):.2f} ({g_g})",
            f"{exponent(L_h, m_h):.2f} ({h_h})",
        ]
        cells = [c.replace(" ()", "") for c in cells]
        print(f"{method:8}" + "".join(f"{c:>22}" for c in cells) + f"{exponent(L_h, m_g):12.2f}")


def draw(rows, path):
    """Calls against L_g, separated methods beside FGM."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = {"r-sae": "R-SAE", "sc-sae": "SC-SAE", "afb": "AFB", "ags": "AGS", "fgm": "FGM"}
    colours = dict(zip(names, ("#1b6ca8", "#2a9d8f", "#6a4c93", "#b08968", "#d1495b"), strict=True))
    fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, layout="constrained")
    for ax, column, term in (
        (axes[0], 1, "h, the expensive term"),
        (axes[1], 2, "g, the cheap one"),
    ):
        for method, label in names.items():
            data = pick(rows, method, "L_g")
            slope = exponent(data[0], data[column])
            style = "--" if method in ("fgm", "ags") else "-"
            ax.loglog(
                data[0],
                data[column],
                style,
                marker="o",
                ms=4,
                color=colours[method],
                label=f"{label}  ~ $L_g^{{{slope:.2f}}}$",
            )
        ax.set_title(f"gradients of {term}", fontsize=11)
        ax.set_xlabel("$L_g$ (with $L_h = 1$)")
        ax.grid(alpha=0.25, which="both", lw=0.5)
        ax.legend(fontsize=8, frameon=False)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("calls until $f - f^* \\leq 10^{-8}$")
    fig.savefig(path, dpi=160)
    print(f"picture: {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/separation"))
    parser.add_argument("--quick", action="store_true", help="fewer and easier points")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    rows = sweep(args.quick)
    with (args.out / "separation_law.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("method", "varied", "L_h", "L_g", "h.grad", "g.grad"))
        writer.writerows(rows)
    report(rows)
    draw(rows, args.out / "separation_law.png")


if __name__ == "__main__":
    main()
