"""The page of the benchmarks: tables that sort and figures, made of what the commands printed.

``benchmarks/*.txt`` hold the output of the commands. The numbers on the page are read from there.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from pathlib import Path

Table = tuple[list[str], list[list[str]]]  # the head and the rows

# Colours of the methods: ours in blue and green, rivals in grey and orange.
_COLOURS = {
    "similar-newton": "#0072b2",
    "pqn": "#009e73",
    "L-BFGS": "#7f7f7f",
    "dask-glm lbfgs": "#d55e00",
}


def gradients(text: str, target: str = "1e-05") -> Table:
    """Gradients of h and g per method until `target`, from the output of ``bench frontier``."""
    lines = _block(text, f"calls of h / of g, in gradients, until f - f* <= {target} ")
    methods = lines[1].split()
    rows = []
    for line in lines[2:]:
        number, *cells = re.split(r" {2,}", line.strip())
        if len(cells) != len(methods):
            raise ValueError(f"{len(cells)} numbers for {len(methods)} methods: {line}")
        problem = number.split(" ", 1)[1]
        rows.append([problem, *cells])
    return ["problem", *methods], rows


def cheapest(text: str, target: str = "1e-05") -> Table:
    """The cheapest method per problem and price, and what ``auto`` takes in multiples of it."""
    lines = _block(text, f"the cheapest method until {target}, ")
    rhos = lines[0].split()[1:]
    starts = [0, *(m.start() for m in re.finditer(r"\d+", lines[0]))]
    ends = [*starts[1:], None]
    rows = []
    for line in lines[1:]:
        first, *cells = (line[a:b].strip() for a, b in zip(starts, ends, strict=True))
        rows.append([first.split(" ", 1)[1], *cells])
    return ["problem", *(f"h costs {rho} g" for rho in rhos)], rows


def ratios(text: str) -> Table:
    """Gradients of h of the learned method over those of L-BFGS, per problem."""
    mine = re.search(r"^gradients of h, (\S+) / best of SciPy's L-BFGS", text, re.MULTILINE)
    assert mine is not None
    lines = _block(text, mine[0])
    found = (re.fullmatch(r"  (.+?) {2,}([\d.]+)", line) for line in lines)
    return ["problem", f"{mine[1]} / L-BFGS"], [[m[1], m[2]] for m in found if m]


def estimators(text: str) -> Table:
    """Seconds of KernelSVC and SVC."""
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("data  "))
    head = ["data", "rows", "gamma", "C", "SVC, s", "intelex, s", "KernelSVC, s", "ratio to SVC"]
    head += ["ratio to intelex", "tol", "objective", "gap", "agreement"]
    rows = []
    for line in lines[first + 1 :]:
        parts = line.rsplit(maxsplit=len(head) - 1)
        if len(parts) != len(head) or not parts[-1].endswith("%"):
            break
        rows.append(parts)
    return head, rows


def cluster(text: str) -> Table:
    """Rounds and seconds of the distributed methods."""
    lines = _block(text, "rounds and seconds to f - f*")
    rows = [re.split(r" {2,}", line.strip()) for line in lines[1:]]
    head = ["data", "l2", "shards", "method", "rounds", "kB", "0 ms", "5 ms", "50 ms"]
    if any(len(row) != len(head) for row in rows):
        raise ValueError("a row of the distributed benchmark has another number of cells")
    return head, rows


def composite(text: str) -> Table:
    """Calls of h and g with a non-smooth term, from the output of ``bench composite``."""
    lines = _block(text, "those of the best of the others;")
    methods = re.findall(r"proximal QN|\S+", lines[0])[1:-1]
    cell = r"(?:\d+ / \d+|[>.t])"
    row = re.compile(rf"(.+?) +({cell}(?: +{cell}){{{len(methods) - 1}}}) +([\d.]+|[>.-])")
    found = [row.fullmatch(line) for line in lines[1:]]
    rows = [[m[1].strip(), *re.findall(cell, m[2]), m[3]] for m in found if m]
    return ["problem", *methods, "ratio of calls of h"], rows


def composite_summary(text: str) -> Table:
    """The ratios of the problems with a non-smooth term, by accuracy."""
    line = r"^((?:report|made up)(?: with pqn\(1\))?) (\S+) +mean (\S+) +worst (\S+) +of (\d+)$"
    found = re.findall(line, text, re.M)
    return ["problems", "accuracy", "geometric mean", "largest", "number"], list(map(list, found))


def ablation(text: str) -> Table:
    """What the learned method needs without one of its parts."""
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.split()[:2] == ["mean", "95"])
    head = ["method", "mean", "95 %", "worst", "unsolved", "calls of g per gradient of h"]
    return head, [line.rsplit(maxsplit=len(head) - 1) for line in lines[first + 1 :] if line]


def loops(text: str) -> Table:
    """What compiled loops take."""
    lines = _block(text, "measured on one thread")
    found = (re.fullmatch(r"(.+?) {2,}([\d.]+)", line) for line in lines)
    return ["measured on one thread", "figure"], [[m[1], m[2]] for m in found if m]


def _block(text: str, begins: str) -> list[str]:
    """The lines after the one that begins so, up to an empty one."""
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith(begins)) + 1
    rest = (i for i in range(first, len(lines)) if not lines[i].strip())
    return lines[first : next(rest, len(lines))]


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
    plt = _pyplot()
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
    plt = _pyplot()
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


def _finish(figure: object, ax: object, entries: int, path: Path) -> None:
    ax.grid(axis="x", alpha=0.3, linewidth=0.6)  # type: ignore[attr-defined]
    ax.spines[["top", "right"]].set_visible(False)  # type: ignore[attr-defined]
    figure.legend(  # type: ignore[attr-defined]
        *ax.get_legend_handles_labels(),  # type: ignore[attr-defined]
        loc="outside upper center",
        ncols=entries,
        frameon=False,
    )
    figure.savefig(path, dpi=130)  # type: ignore[attr-defined]
    _pyplot().close(figure)


def _pyplot():  # type: ignore[no-untyped-def]
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    return plt


TABLES: dict[str, Sequence[object]] = {
    "cheapest": (
        "frontier",
        cheapest,
        "The cheapest method until f - f* is 1e-5 of its start, its bill, and the bill of auto in "
        "multiples of it",
    ),
    "gradients": (
        "frontier",
        gradients,
        "Gradients of h / of g until f - f* is 1e-5 of its start; > and t: cut off by the bill or "
        "by the clock, a dot: the method cannot take the problem",
    ),
    "ratios": ("frontier", ratios, "Gradients of h, in multiples of the best L-BFGS"),
    "estimators": ("estimators", estimators, "Seconds to fit on one core"),
    "cluster": ("distributed", cluster, "Rounds, and seconds if a round takes so much longer"),
    "composite": (
        "composite",
        composite,
        "Calls of h / of g until f - f* is 1e-5 of its start, and the ratio of pqn to the best "
        "of the others; >: cut off, because another is better or by the clock, a dot: the method "
        "cannot take the problem",
    ),
    "composite_summary": (
        "composite",
        composite_summary,
        "Calls of h of pqn over those of the best of the others",
    ),
    "ablation": ("ablation", ablation, "Gradients of h in multiples of L-BFGS"),
    "loops": ("kernels", loops, "Compiled loops in multiples of the work that cannot be avoided"),
}


def write(source: Path, target: Path) -> None:
    """Write the tables and figures; `source` holds the output of the commands."""
    target.mkdir(parents=True, exist_ok=True)
    for name, (file, parse, caption) in TABLES.items():
        table = parse((source / f"{file}.txt").read_text())  # type: ignore[operator]
        (target / f"{name}.html").write_text(page_table(table, str(caption)))
    draw_rounds(cluster((source / "distributed.txt").read_text()), target / "rounds.png")
    draw_time_ratios(estimators((source / "estimators.txt").read_text()), target / "times.png")
