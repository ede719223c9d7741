"""The page of the benchmarks: tables that sort and figures, made of what the commands measured.

``benchmarks/*.json`` hold the tables of the commands, cell by cell as they were printed.
"""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

Table = tuple[list[str], list[list[str]]]  # the head and the rows

# Colours of the methods: ours in blue and green, rivals in grey and orange.
_COLOURS = {
    "similar-newton": "#0072b2",
    "pqn": "#009e73",
    "L-BFGS": "#7f7f7f",
    "dask-glm lbfgs": "#d55e00",
}


def read(source: Path, name: str) -> Table:
    """A table by name, from the JSON file of the command that has measured it."""
    table = json.loads((source / f"{TABLES[name][0]}.json").read_text())[name]
    return table["head"], table["rows"]


def page_table(table: Table, caption: str) -> str:
    """A table in HTML that sorts by a click on a name (static/sort.js)."""
    head, rows = table
    names = "".join(f"<th><button>{html.escape(name)}</button></th>" for name in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f'<div class="scroll"><table class="table sortable"><caption>{html.escape(caption)}'
        f"</caption><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table></div>\n"
    )


# Figures -------------------------------------------------------------------------------------


def draw_rounds(table: Table, path: Path) -> None:
    """Rounds per problem, a dot per method."""
    _, rows = table
    problems = list(dict.fromkeys(f"{r[0]}, l2 {r[1]}, {r[2]} shards" for r in rows))
    figure, ax = plt.subplots(figsize=(8.6, 4.4), layout="constrained")
    for method, colour in _COLOURS.items():
        mine = [r for r in rows if r[3] == method and not r[4].startswith(">")]
        places = [problems.index(f"{r[0]}, l2 {r[1]}, {r[2]} shards") for r in mine]
        ax.scatter([float(r[4]) for r in mine], places, c=colour, s=42, label=method, zorder=3)
    ax.set_yticks(range(len(problems)), problems)
    ax.invert_yaxis()
    ax.set_xscale("log")
    ax.set_xlabel("rounds of the cluster until $f - f^* \\leq 10^{-6}\\,(f(0) - f^*)$")
    _finish(figure, ax, len(_COLOURS), path)


def draw_time_ratios(table: Table, path: Path) -> None:
    """The time of KernelSVC over that of SVC, a dot per cell."""
    head, rows = table
    ratio = head.index("ratio to SVC")
    data = list(dict.fromkeys(row[0] for row in rows))
    figure, ax = plt.subplots(figsize=(8.6, 0.45 * len(data) + 1.5), layout="constrained")
    weights = sorted({float(row[3]) for row in rows})
    for k, C in enumerate(weights):
        mine = [row for row in rows if float(row[3]) == C]
        places = [data.index(row[0]) + 0.5 * (k / max(len(weights) - 1, 1) - 0.5) for row in mine]
        ax.scatter([float(row[ratio]) for row in mine], places, s=36, label=f"C = {C:g}", zorder=3)
    ax.axvline(1.0, color="black", linewidth=1.0, linestyle="--")
    ax.text(1.0, -0.45, " as fast as SVC", fontsize=9, va="bottom", ha="right")
    ax.set_yticks(range(len(data)), data)
    ax.set_ylim(len(data) - 0.4, -0.75)
    ax.set_xscale("log")
    marks = (0.05, 0.1, 0.2, 0.5, 1.0)
    ax.set_xticks(marks, [f"{mark:g}" for mark in marks])
    ax.xaxis.minorticks_off()
    ax.set_xlabel("seconds of KernelSVC / seconds of SVC")
    _finish(figure, ax, len(weights), path)


def _finish(figure: Any, ax: Any, entries: int, path: Path) -> None:
    ax.grid(axis="x", alpha=0.3, linewidth=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    names = ax.get_legend_handles_labels()
    figure.legend(*names, loc="outside upper center", ncols=entries, frameon=False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


# By name: the command that measures the table, and its caption.
TABLES: dict[str, tuple[str, str]] = {
    "cheapest": (
        "frontier",
        "The cheapest method until f - f* is 1e-5 of its start, its bill, and the bill of auto in "
        "multiples of it",
    ),
    "gradients": (
        "frontier",
        "Gradients of h / of g until f - f* is 1e-5 of its start; > and t: cut off by the bill or "
        "by the clock, a dot: the method cannot take the problem",
    ),
    "ratios": ("frontier", "Gradients of h, in multiples of the best L-BFGS"),
    "estimators": ("estimators", "Seconds to fit on one core"),
    "cluster": ("distributed", "Rounds, and seconds if a round takes so much longer"),
    "composite": (
        "composite",
        "Calls of h / of g until f - f* is 1e-5 of its start, and the ratio of pqn to the best "
        "of the others; >: cut off, because another is better or by the clock, a dot: the method "
        "cannot take the problem",
    ),
    "composite_summary": (
        "composite",
        "Calls of h of pqn over those of the best of the others",
    ),
    "constraints_families": (
        "constraints",
        "Calls of h of auto over those of SLSQP until f - f* is 1e-6 of its start, geometric mean "
        "and worst, and the milliseconds per call of h from which it pays; g known, and everything "
        "a black box",
    ),
    "constraints_summary": (
        "constraints",
        "Calls of h over those of SLSQP: geometric mean, median and worst of the solved problems",
    ),
    "constraints": (
        "constraints",
        "Calls of h until f - f* is 1e-6 of its start; >: not reached, a dot: not for this form; "
        "seconds outside of h, and the milliseconds per call of h from which auto pays",
    ),
    "equilibria_families": (
        "equilibria",
        "Calls of P over those of the best rival in hindsight: geometric mean and worst of the "
        "solved problems by family",
    ),
    "equilibria_summary": (
        "equilibria",
        "Calls of P over those of the best rival in hindsight: geometric mean and worst of the "
        "solved problems, and the ratio that 95 % of all problems do not exceed",
    ),
    "equilibria": (
        "equilibria",
        "Calls of P until the residual is 1e-8 (with a set 1e-6) of its start; each kind of rival "
        "with the best of its settings; >: not reached",
    ),
    "ablation": ("ablation", "Gradients of h in multiples of L-BFGS"),
    "loops": ("kernels", "Compiled loops in multiples of the work that cannot be avoided"),
}


def write(source: Path, target: Path) -> None:
    """Write the tables and figures; `source` holds what the commands have measured."""
    target.mkdir(parents=True, exist_ok=True)
    for name, (_, caption) in TABLES.items():
        (target / f"{name}.html").write_text(page_table(read(source, name), caption))
    draw_rounds(read(source, "cluster"), target / "rounds.png")
    draw_time_ratios(read(source, "estimators"), target / "times.png")
