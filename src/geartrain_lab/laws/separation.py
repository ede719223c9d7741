"""The separation law: how often each term is asked when one constant grows.

Random quadratics f = h + g with mu > 0 whose h and g are badly conditioned in different directions
are solved to f - f* <= 1e-8. The exponents of the calls of h and of g in L_g (at fixed L_h) and in
L_h (at fixed L_g) are printed beside the stated ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from geartrain.oracles.protocols import Vector
from geartrain_lab.chart import Chart, Curve
from geartrain_lab.laws.common import Row, arguments, calls_to, exponent, geometric_means, write_csv
from geartrain_lab.problems import opposed_quadratics
from geartrain_lab.static import sheet

MU = 1e-3
EPS = 1e-8
N = 120
SEEDS = (0, 1, 2)
# method -> (stated exponent in L_g of the calls of h and of g, in L_h of the calls of h)
STATED = {
    "r-sae": ("<= 0.1", "0.5 +- 0.1", "0.5 +- 0.12"),
    "sc-sae": ("<= 0.1", "0.5 +- 0.1", "0.5 +- 0.12"),
    "afb": ("<= 0.1", "0.5 +- 0.1", "0.5 +- 0.12"),
    "ags": ("", "", ""),
    "fgm": ("both grow", "together", ""),
}
COLOURS = dict(zip(STATED, ("#1b6ca8", "#2a9d8f", "#6a4c93", "#b08968", "#d1495b"), strict=True))
WHOLE = ("ags", "fgm")  # they have no inner method


def measure(method: str, L_h: float, L_g: float) -> Vector:
    """Geometric means over the seeds of the calls of h and of g."""
    rows, inner = [], "auto" if method in WHOLE else "agm"
    for seed in SEEDS:
        problem = opposed_quadratics(N, L_h=L_h, L_g=L_g, mu=MU, seed=seed)
        constants = {"L_h": L_h, "L_g": L_g, "mu": MU}
        calls = calls_to(problem, EPS, method, inner=inner, max_iter=10**7, **constants)
        rows.append((calls["h.grad"], calls["g.grad"]))
    return geometric_means(rows)


def sweep(quick: bool) -> list[Row]:
    """Rows: method, which constant varies, L_h, L_g, calls of h, calls of g."""
    in_L_g = [(1.0, L_g) for L_g in (np.logspace(1, 4, 4) if quick else np.logspace(1, 5, 5))]
    top = 1e2 if quick else 1e4
    in_L_h = [(L_h, 10 * top) for L_h in np.logspace(-1, np.log10(top), 4)]
    rows: list[Row] = []
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


def pick(rows: list[Row], method: str, varied: str) -> tuple[Vector, Vector, Vector]:
    """The varied constant, and the calls of h and of g."""
    chosen = [r for r in rows if r[0] == method and r[1] == varied]
    constant, n_h, n_g = (
        np.array([r[j] for r in chosen]) for j in (3 if varied == "L_g" else 2, 4, 5)
    )
    return constant, n_h, n_g


def report(rows: list[Row]) -> None:
    """Print the exponents beside the stated ones."""
    print("\nexponents           measured (stated)")
    print(f"{'method':8}{'h in L_g':>22}{'g in L_g':>22}{'h in L_h':>22}{'g in L_h':>12}")
    for method, (h_g, g_g, h_h) in STATED.items():
        L_g, n_h, n_g = pick(rows, method, "L_g")
        L_h, m_h, m_g = pick(rows, method, "L_h")
        cells = [
            f"{_shown(L_g, n_h)} ({h_g})",
            f"{_shown(L_g, n_g)} ({g_g})",
            f"{_shown(L_h, m_h)} ({h_h})",
        ]
        cells = [c.replace(" ()", "") for c in cells]
        print(f"{method:8}" + "".join(f"{c:>22}" for c in cells) + f"{_shown(L_h, m_g):>12}")


def _shown(constants: Vector, calls: Vector) -> str:
    return f"{round(exponent(constants, calls), 2) + 0.0:.2f}"  # no -0.00


def draw(rows: list[Row], path: Path) -> None:
    """Calls against L_g, separated methods beside AGS and FGM."""
    charts = []
    for column, term in ((1, "h, the expensive term"), (2, "g, the cheap one")):
        curves = []
        for method, paint in COLOURS.items():
            data = pick(rows, method, "L_g")
            slope = _shown(data[0], data[column])
            name = f"{method.upper()}, {term[0]}  ~ $L_g^{{{slope}}}$"
            curves.append(Curve(name, data[0], data[column], colour=paint, mark="marked"))
        y = "calls until $f - f^* \\leq 10^{-8}$"
        charts.append(Chart(f"gradients of {term}", "$L_g$ (with $L_h = 1$)", y, curves))
    (picture,) = sheet(path.parent, path.stem, "The separation law", charts, 2, ["png"])
    print(f"picture: {picture}")


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, and write the table and the picture."""
    args = arguments(__doc__, argv, "fewer and easier points", "separation")
    rows = sweep(args.quick)
    header = ("method", "varied", "L_h", "L_g", "h.grad", "g.grad")
    write_csv(args.out / "separation_law.csv", header, rows)
    report(rows)
    draw(rows, args.out / "separation_law.png")
