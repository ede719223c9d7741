"""What ``geartrain bench frontier`` prints and draws."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from geartrain_lab.frontier_rivals import FIRST, LEFT_OUT, OTHERS, RHOS
from geartrain_lab.harness import Row, geometric_mean
from geartrain_lab.store import PageTable, page_table

Cell = tuple[str, float, int]  # problem, target, rho
Cells = dict[Cell, dict[str, Row]]

MAIN = ("lbfgs(10)", "lbfgs(20)", "lbfgs(50)", "pqn", "sc-sae", "afb", "ags", "fgm")
MARKS = {"bill": ">", "clock": "t", "stalled": "s"}
NOT_RUN = "."
SHOWN = 1e-5  # the target of the picture and of the table of all methods
FAR = 1.5  # auto should not cost more than so many times the cheapest
LEGEND = (
    "'>' cut off by its bill or by its gradients of h, 't' by the clock, 's' stalled, "
    "'.' cannot take the problem"
)
_COLOURS = {
    "auto": "#0072B2",
    "pqn": "#009E73",
    "lbfgs": "#bbbbbb",
    "lbfgs-whole": "#888888",
    "sc-sae": "#56B4E9",
    "afb": "#CC79A7",
    "fgm": "#E69F00",
    "aeg": "#D55E00",
    "ags": "#8c510a",
}
_REST = ("#F0E442", "#332288", "#882255", "#44AA99", "#661100", "#999933")


def is_scipy(method: str) -> bool:
    """Whether it is SciPy's L-BFGS, with any memory."""
    return method.startswith("lbfgs(")


def by_cell(rows: list[Row]) -> Cells:
    cells: Cells = {}
    for row in rows:
        cells.setdefault((row["problem"], row["target"], row["rho"]), {})[row["method"]] = row
    return cells


def cheapest(by: dict[str, Row]) -> Row:
    """The row with the smallest bill, `auto` apart."""
    return min((r for m, r in by.items() if m != "auto"), key=lambda r: r["bill"])


def summary(rows: list[Row], problems: list[Any]) -> Row:
    cells = by_cell(rows)
    separable = {p.name for p in problems if p.separable}
    ratios, against_best, against_lbfgs = {}, {}, {}
    for (name, target, rho), by in cells.items():
        scipys = [r for m, r in by.items() if is_scipy(m)]
        fewest = min(r["N_h"] for r in scipys)
        mine = by["pqn"]["N_h"]
        if target == SHOWN and rho == 1 and name in separable and math.isfinite(mine + fewest):
            ratios[name] = mine / fewest
        bill, best = by["auto"]["bill"], cheapest(by)["bill"]
        if math.isfinite(bill) and math.isfinite(best):
            against_best[name, target, rho] = bill / best
            lbfgs = min(r["bill"] for r in scipys)
            if rho >= 100 and name in separable and math.isfinite(lbfgs):
                against_lbfgs[name, target, rho] = bill / lbfgs
    missed = sorted(k for k, by in cells.items() if not math.isfinite(by["auto"]["bill"]))
    ranked = sorted(against_best.items(), key=lambda item: -item[1])
    worst, largest = ranked[0]
    return {
        "h_gradients_pqn_over_lbfgs": ratios,
        "geometric_mean": geometric_mean(list(ratios.values())),
        "largest": max(ratios.values()),
        "auto_over_cheapest": geometric_mean(list(against_best.values())),
        "auto_over_cheapest_worst": (largest, *map(str, worst)),
        "auto_over_cheapest_far": [(ratio, *cell) for cell, ratio in ranked if ratio > FAR],
        "auto_over_lbfgs_rho_100": geometric_mean(list(against_lbfgs.values())),
        "auto_not_reached": missed,
        "cheapest_cells": _wins(cells),
    }


def _wins(cells: Cells) -> dict[str, int]:
    """In how many cells each method is the cheapest, or as cheap."""
    wins: dict[str, int] = {}
    for by in cells.values():
        least = cheapest(by)["bill"]
        for name, row in by.items():
            if name != "auto" and row["bill"] == least < math.inf:
                wins[name] = wins.get(name, 0) + 1
    return dict(sorted(wins.items(), key=lambda item: -item[1]))


def report(rows: list[Row], problems: list[Any], figures: Row) -> None:
    cells = by_cell(rows)
    names = [p.name for p in problems]
    for target in dict.fromkeys(row["target"] for row in rows):
        _print_calls(cells, names, target)
        _print_winners(cells, names, target)
    _print_all(cells, names)
    for name, reason in LEFT_OUT.items():
        print(f"not run: {name}, {reason}")
    _print_figures(figures)


def _print_calls(cells: Cells, names: list[str], target: float) -> None:
    print(f"\ncalls of h / of g, in gradients, until f - f* <= {target:g} (f(x0) - f*)")
    print(LEGEND)
    print(f"{'':35}" + "".join(f"{m:>15}" for m in MAIN))
    for k, (name, *texts) in enumerate(_calls(cells, names, target), 1):
        print(f"{k:2} {name:32}" + "".join(f"{text:>15}" for text in texts))


def _calls(cells: Cells, names: list[str], target: float) -> list[list[str]]:

    def text(row: Row | None) -> str:
        if row is None:
            return NOT_RUN
        reached = math.isfinite(row["N_h"])
        return f"{row['N_h']:.0f} / {row['N_g']:.0f}" if reached else _mark(row)

    return [[n, *(text(cells[n, target, RHOS[0]].get(m)) for m in MAIN)] for n in names]


def _print_winners(cells: Cells, names: list[str], target: float) -> None:
    print(f"\nthe cheapest method until {target:g}, its bill, and how many times that auto takes")
    print(f"{'rho':35}" + "".join(f"{rho:<26}" for rho in RHOS).rstrip())
    for k, (name, *texts) in enumerate(_winners(cells, names, target), 1):
        print((f"{k:2} {name:32}" + "".join(f"{text:<26}" for text in texts)).rstrip())


def _winners(cells: Cells, names: list[str], target: float) -> list[list[str]]:
    """The cheapest method by problem and rho, its bill, and how many times that auto takes."""

    def text(by: dict[str, Row]) -> str:
        best, auto = cheapest(by), by["auto"]
        if not math.isfinite(best["bill"]):
            return "-"
        ratio = auto["bill"] / best["bill"]
        times = f"{ratio:.2f}" if math.isfinite(ratio) else _mark(auto)
        return f"{best['method']} {_short(best['bill'])} {times}"

    return [[n, *(text(cells[n, target, rho]) for rho in RHOS)] for n in names]


def page_tables(rows: list[Row], figures: Row) -> dict[str, PageTable]:
    cells, names = by_cell(rows), list(dict.fromkeys(row["problem"] for row in rows))
    ratios = figures["h_gradients_pqn_over_lbfgs"]
    priced = ["problem", *(f"h costs {rho} g" for rho in RHOS)]
    return {
        "cheapest": page_table(priced, _winners(cells, names, SHOWN)),
        "gradients": page_table(["problem", *MAIN], _calls(cells, names, SHOWN)),
        "ratios": page_table(
            ["problem", "pqn / L-BFGS"], [[name, f"{r:.2f}"] for name, r in ratios.items()]
        ),
    }


def _mark(row: Row) -> str:
    """What ended the run, nothing where the target was reached."""
    return MARKS.get(row["cut"], str(row["cut"]))


def _short(bill: float) -> str:
    return f"{bill:.0f}" if bill < 1e4 else f"{bill / 1e3:.0f}k"


def _print_all(cells: Cells, names: list[str]) -> None:
    print(f"\nall methods, until {SHOWN:g}: bill / smallest bill, at the rho where that is least")
    print(
        "1.0 is the cheapest at some rho; '>4' and 't4' were cut off with at least 4 at every rho"
    )
    print(f"columns are the problems; {LEGEND}")
    ran = {method for by in cells.values() for method in by}
    methods = [rival.name for rival in (*FIRST, *OTHERS) if rival.name in ran]
    print(f"{'':22}" + "".join(f"{k:6}" for k in range(1, len(names) + 1)))
    for method in methods:
        print(f"{method:22}" + "".join(f"{_nearest(cells, name, method):>6}" for name in names))


def _nearest(cells: Cells, name: str, method: str) -> str:
    at = {rho: cells[name, SHOWN, rho] for rho in RHOS}
    row = at[RHOS[0]].get(method)
    if row is None:
        return NOT_RUN
    least = min(_at_least(by[method]) / cheapest(by)["bill"] for by in at.values())
    return _mark(row) + (f"{least:.1f}" if least < 9.95 else f"{least:.0f}")


def _at_least(row: Row) -> float:
    """The bill; where the target was not reached, that of the whole run."""
    if math.isfinite(row["bill"]):
        return float(row["bill"])
    return float(row["end_h"] * row["rho"] + row["end_g"])


def _print_figures(figures: Row) -> None:
    print("\ngradients of h, pqn / best of SciPy's L-BFGS, to 1e-5:")
    for name, ratio in figures["h_gradients_pqn_over_lbfgs"].items():
        print(f"  {name:32}{ratio:6.2f}")
    print(f"  geometric mean {figures['geometric_mean']:.3f}")
    print(f"  largest        {figures['largest']:.2f}")
    wins = ", ".join(f"{name} {count}" for name, count in figures["cheapest_cells"].items())
    print(f"cells (problem, target, rho) where a method is the cheapest: {wins}")
    print(f"auto / cheapest method: geometric mean {figures['auto_over_cheapest']:.2f},")
    worst = figures["auto_over_cheapest_worst"]
    print(f"  worst {worst[0]:.2f} at {', '.join(worst[1:])}")
    for ratio, name, target, rho in figures["auto_over_cheapest_far"]:
        print(f"  {ratio:.2f} at {name}, {target:g}, rho {rho}")
    print(f"auto / L-BFGS at rho >= 100: {figures['auto_over_lbfgs_rho_100']:.2f}")
    for name, target, rho in figures["auto_not_reached"]:
        print(f"  auto was cut off before {target:g} on {name}, rho {rho}")


def print_seconds(rows: list[Row], timed: list[Row]) -> None:
    """Seconds until `SHOWN`; `timed` are the rows of `auto` with prices that it measures itself."""
    cells = by_cell(rows)
    print(f"\nseconds until {SHOWN:g}; auto measures the prices, its own arithmetic included")
    print(f"{'':35}{'best L-BFGS':>12}{'pqn':>10}{'auto':>10}{'auto / L-BFGS':>15}")
    ratios = []
    for k, row in enumerate((r for r in timed if r["target"] == SHOWN), 1):
        by = cells[row["problem"], SHOWN, RHOS[0]]
        best = min(r["seconds"] for m, r in by.items() if is_scipy(m))
        ratio = row["seconds"] / best
        if math.isfinite(ratio) and ratio > 0.0:
            ratios.append(ratio)
        times = f"{best:12.3f}{by['pqn']['seconds']:10.3f}{row['seconds']:10.3f}"
        print(f"{k:2} {row['problem']:32}{times}{ratio:15.2f}")
    print(f"   geometric mean of auto / L-BFGS {geometric_mean(ratios):.2f}")


def draw(rows: list[Row], path: Path) -> None:
    """Bills over that of L-BFGS against rho, and the map of who is cheapest where."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    cells = by_cell([r for r in rows if r["target"] == SHOWN])
    names = list(dict.fromkeys(name for name, _, _ in cells))
    # One below the other and no wider than a page, so that the names in the map can be read there.
    lines, fields = 3.6, 0.7 + 0.25 * len(names)
    fig = plt.figure(figsize=(8.4, lines + fields), layout="constrained")
    above, below = fig.subfigures(2, 1, height_ratios=(lines, fields))
    _draw_lines(above.subplots(), cells, names)
    _draw_map(below.subplots(), cells, names)
    fig.suptitle("until $f - f^* \\leq 10^{-5}\\,(f(x_0) - f^*)$", fontsize=10)
    fig.savefig(path, dpi=160)


def family(method: str) -> str:
    """The method without its memory or inner method."""
    return method.split("(")[0]


def _colour(name: str, seen: dict[str, str]) -> str:
    if name not in seen:
        others = sum(known not in _COLOURS for known in seen)
        seen[name] = _COLOURS.get(name, _REST[others % len(_REST)])
    return seen[name]


def _draw_lines(ax: Any, cells: Cells, names: list[str]) -> None:
    """Geometric means over the problems, of the families that solved half of them."""
    colours: dict[str, str] = {}
    members: dict[str, set[str]] = {}
    for method in dict.fromkeys(m for by in cells.values() for m in by if not is_scipy(m)):
        members.setdefault(family(method), set()).add(method)
    for head, group in members.items():
        means = []
        for rho in RHOS:
            ratios = []
            for name in names:
                by = cells[name, SHOWN, rho]
                lbfgs = min(r["bill"] for m, r in by.items() if is_scipy(m))
                bill = min((by[m]["bill"] for m in group if m in by), default=math.inf)
                if math.isfinite(bill + lbfgs):
                    ratios.append(bill / lbfgs)
            means.append(geometric_mean(ratios) if 2 * len(ratios) >= len(names) else math.nan)
        if all(map(math.isnan, means)):
            continue
        label = head if len(group) == 1 else f"{head}, best inner method"
        width = 2.6 if head == "auto" else 1.4
        ax.loglog(RHOS, means, "o-", ms=4, lw=width, color=_colour(head, colours), label=label)
    ax.axhline(1.0, color="0.4", lw=1.0, ls="--", label="SciPy L-BFGS, best memory")
    ax.set_xticks(RHOS, [str(rho) for rho in RHOS])
    ax.minorticks_off()
    ax.set_xlabel("price of a gradient of h / price of a gradient of g")
    ax.set_ylabel("bill / bill of L-BFGS, geometric mean")
    ax.grid(alpha=0.25, lw=0.5)
    ax.legend(fontsize=8.5, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    ax.spines[["top", "right"]].set_visible(False)


def _draw_map(ax: Any, cells: Cells, names: list[str]) -> None:
    """A field for each problem and rho, in the colour of the cheapest and with its name."""
    colours: dict[str, str] = {}
    for i, name in enumerate(names):
        for j, rho in enumerate(RHOS):
            best = cheapest(cells[name, SHOWN, rho])
            if not math.isfinite(best["bill"]):
                continue
            text = "lbfgs" if is_scipy(best["method"]) else best["method"]
            face = _colour(family(best["method"]), colours)
            ax.barh(i, 1.0, left=j - 0.5, height=1.0, color=face, alpha=0.55, ec="white", lw=1.0)
            ax.text(j, i, text, ha="center", va="center", fontsize=8)
    ax.set_xticks(range(len(RHOS)), [str(rho) for rho in RHOS])
    ax.set_yticks(range(len(names)), names, fontsize=8.5)
    ax.set_xlim(-0.5, len(RHOS) - 0.5)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlabel("price of a gradient of h / price of a gradient of g: the cheapest method")
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
