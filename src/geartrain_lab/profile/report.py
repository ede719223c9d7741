"""What ``geartrain bench profile`` prints and draws."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from geartrain.oracles.protocols import Vector
from geartrain_lab.profile.arithmetic import (
    UNSOLVED,
    Figures,
    best_of,
    figures,
    ratios,
    ratios_to_best,
    within,
)
from geartrain_lab.profile.solvers import LBFGS, LIMITS, OTHERS, RHOS, TIMES, TOL, auto_at

Row = dict[str, Any]
Costs = dict[str, Vector]

OURS = "pqn"
BEST = "L-BFGS, best memory"
SHOWN = auto_at(100)  # the run of `auto` that stands for it where no price is involved
CAP, NEVER = 1.25, 2.0  # what `auto` may waste in 95 of 100 problems, and in any
WORST = 10  # how many are named
_COLOURS = {
    "auto": "#0072B2",
    OURS: "#009E73",
    BEST: "#444444",
    "trust-krylov": "#CC79A7",
    "afb": "#56B4E9",
    "fgm": "#E69F00",
}


class Outcomes:
    """The rows of all problems, as costs by solver."""

    def __init__(self, rows: list[Row]) -> None:
        self.names = list(dict.fromkeys(row["problem"] for row in rows))
        self.families = {row["problem"]: row["family"] for row in rows}
        self.by = {(row["problem"], row["solver"]): row for row in rows}

    def costs(self, solver: str, rho: float | None = None) -> Vector:
        """Gradients of h, or the bill at a ratio of prices; infinity where unsolved."""
        rows = [self.by[name, solver] for name in self.names]
        if rho is None:
            return np.array([row["N_h"] for row in rows], dtype=np.float64)
        return np.array([rho * row["N_h"] + row["N_g"] for row in rows], dtype=np.float64)

    def competitors(self, rho: float | None = None) -> Costs:
        """The costs of those who are drawn; L-BFGS has its best memory for each problem."""
        auto = SHOWN if rho is None else auto_at(int(rho))
        out = {"auto": self.costs(auto, rho), OURS: self.costs(OURS, rho)}
        out[BEST] = best_of({name: self.costs(name, rho) for name in LBFGS}, *LBFGS)
        for name in OTHERS:
            out.setdefault(name, self.costs(name, rho))
        return out


def summary(rows: list[Row]) -> Row:
    """All figures."""
    table = Outcomes(rows)
    h_costs = table.competitors()
    out: Row = {
        "problems": len(table.names),
        "gradients_of_h": {
            name: figures(h_costs[name], h_costs[BEST]).as_dict() for name in (OURS, "auto")
        },
        "solved": {name: int(np.isfinite(costs).sum()) for name, costs in h_costs.items()},
        "bills": {},
    }
    for rho in RHOS:
        costs = table.competitors(rho)
        cheaper = best_of(costs, OURS, BEST)
        waste = ratios(costs["auto"], cheaper)
        out["bills"][rho] = {
            "auto / L-BFGS": figures(costs["auto"], costs[BEST]).as_dict(),
            "pqn / L-BFGS": figures(costs[OURS], costs[BEST]).as_dict(),
            "auto / cheaper": figures(costs["auto"], cheaper).as_dict(),
            "auto within cap": float(np.mean(waste <= CAP)),
            "auto beyond": [table.names[i] for i in np.flatnonzero(waste > NEVER)],
        }
    ours = [OURS, *map(auto_at, RHOS)]
    out["unsolved"] = _named(table, ours, lambda row: not math.isfinite(row["N_h"]), "end")
    out["climbs"] = _named(table, ours, lambda row: row["climb"] > 0.0, "climb")
    out["worst"] = {name: worst(table, h_costs[name], h_costs[BEST]) for name in (OURS, "auto")}
    return out


def _named(table: Outcomes, solvers: list[str], which: Any, field: str) -> list[Row]:
    rows = (table.by[name, solver] for solver in solvers for name in table.names)
    return [{k: row[k] for k in ("problem", "solver", field)} for row in rows if which(row)]


def worst(table: Outcomes, costs: Vector, others: Vector) -> list[Row]:
    """The largest ratios, by name."""
    r = ratios(costs, others)
    r[~np.isfinite(costs) & ~np.isfinite(others)] = 0.0  # neither side solved it
    order = np.argsort(-r, kind="stable")[:WORST]
    return [
        {"problem": table.names[i], "ratio": float(r[i]), "cost": float(costs[i])} for i in order
    ]


def show(rows: list[Row], figures_: Row) -> None:
    """Print all tables and figures."""
    table = Outcomes(rows)
    print(f"\n{len(table.names)} random convex problems, until |grad f| <= {TOL:g} |grad f(x0)|")
    print(
        f"a run is cut off at {LIMITS['h.grad']:,} gradients of h, and at {TIMES} times those of "
        "L-BFGS"
    )
    _show_profiles("gradients of h", table.competitors(), (5, 10, 20, 50, 100, 200, 500, 1000))
    for rho in RHOS:
        costs = {name: c / (rho + 1.0) for name, c in table.competitors(rho).items()}
        title = f"bill at price ratio {rho}, in units of one evaluation of f"
        _show_profiles(title, costs, (5, 10, 20, 50, 100, 200, 500, 1000))
    _show_families(table)
    for name in OTHERS:
        refused = sum(table.by[problem, name]["end_h"] == 0.0 for problem in table.names)
        if refused:
            print(f"{name} cannot take {refused} of the problems; they count as unsolved for it")
    _show_ratios(figures_)
    for what in ("unsolved", "climbs"):
        print(f"\n{what} by {OURS} or auto: {len(figures_[what])}")
        for row in figures_[what]:
            *_, last = row.values()
            told = last if isinstance(last, str) else f"{last:.2g}"
            print(f"  {row['solver']:12}{row['problem']}: {told}")
    for name, rows_ in figures_["worst"].items():
        print(f"\nthe {len(rows_)} largest ratios of gradients of h, {name} / {BEST}")
        for row in rows_:
            print(f"  {row['ratio']:8.2f} {row['cost']:8.0f}  {row['problem']}")


def _show_profiles(title: str, costs: Costs, limits: tuple[int, ...]) -> None:
    factors = np.array([1.0, 1.25, 2.0, 5.0, 10.0])
    print(f"\n{title}: share of problems solved, in per cent")
    heads = [f"{x}" for x in limits] + [f"{x:g} best" for x in factors]
    print(f"{'within':20}" + "".join(f"{h:>10}" for h in heads))
    relative = ratios_to_best(costs)
    for name, own in costs.items():
        shares = [*within(own, np.array(limits, float)), *within(relative[name], factors)]
        print(f"{name:20}" + "".join(f"{100 * s:10.1f}" for s in shares))


def _show_families(table: Outcomes) -> None:
    print(f"\nby family: gradients of h, {OURS} / {BEST} (mean, worst), and the same for auto")
    costs = table.competitors()
    for family in dict.fromkeys(table.families.values()):
        chosen = np.array([table.families[name] == family for name in table.names])
        line = f"{family:34}"
        for name in (OURS, "auto"):
            of = figures(costs[name][chosen], costs[BEST][chosen])
            line += f"{of.geometric_mean:9.2f}{of.worst:9.2f}"
        print(line)


def _show_ratios(figures_: Row) -> None:
    head = f"{'geo. mean':>11}{'95 %':>9}{'worst':>9}{'unsolved':>10}{'alone':>7}"
    print(
        f"\nratios, over the problems that the other side solved; an unsolved one counts as "
        f"{UNSOLVED:g} in the mean; alone: solved by us and not by the other side\n{'':36}{head}"
    )
    for name, own in figures_["gradients_of_h"].items():
        print(f"{f'gradients of h, {name} / L-BFGS':36}{_cells(Figures(**own))}")
    for rho, by in figures_["bills"].items():
        for name in ("pqn / L-BFGS", "auto / L-BFGS", "auto / cheaper"):
            print(f"{f'bill at {rho}, {name}':36}{_cells(Figures(**by[name]))}")
        share = 100.0 * by["auto within cap"]
        print(f"    auto within {CAP} of the cheaper: {share:.1f} %", end="")
        print(f"; beyond {NEVER:g}: {len(by['auto beyond'])}")
        for name in by["auto beyond"][:WORST]:
            print(f"        {name}")


def _cells(of: Figures) -> str:
    figures_ = f"{of.geometric_mean:11.3f}{of.percentile_95:9.2f}{of.worst:9.2f}"
    return f"{figures_}{of.unsolved:10d}{of.alone:7d}"


def draw(rows: list[Row], stem: Path) -> list[Path]:
    """Profiles of gradients of h, and of bills at each ratio of prices; the files written."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    table = Outcomes(rows)
    fig, (left, right) = plt.subplots(1, 2, figsize=(10.0, 4.4), layout="constrained", sharey=True)
    costs = table.competitors()
    _draw_steps(left, costs, "gradients of h")
    left.set_title("data profile", fontsize=10)
    _draw_steps(right, ratios_to_best(costs), "gradients of h / fewest of all solvers", TIMES)
    right.set_title("performance profile", fontsize=10)
    left.set_ylabel("share of problems solved")
    first = stem.with_suffix(".png")
    _save(fig, left, first, len(table.names))
    fig, axes = plt.subplots(2, len(RHOS), figsize=(16.0, 6.0), layout="constrained", sharey=True)
    for rho, (top, below) in zip(RHOS, axes.T, strict=True):
        costs = table.competitors(rho)
        units = {name: own / (rho + 1.0) for name, own in costs.items()}
        _draw_steps(top, units, "bill / (ratio + 1)")
        top.set_title(f"price ratio {rho}", fontsize=10)
        _draw_steps(below, ratios_to_best(costs), "bill / least of all solvers", TIMES)
    axes[0, 0].set_ylabel("data profile:\nshare of problems solved")
    axes[1, 0].set_ylabel("performance profile:\nshare of problems solved")
    second = stem.with_name(f"{stem.name}_bills.png")
    _save(fig, axes[0, 0], second, len(table.names))
    return [first, second]


def _save(fig: Any, ax: Any, path: Path, count: int) -> None:
    """Write the figure with a title, and one legend below for all axes."""
    fig.suptitle(
        f"{count} random convex problems, until $|\\nabla f| \\leq 10^{{-6}}\\,|\\nabla f(x_0)|$",
        fontsize=11,
    )
    handles, labels = ax.get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    fig.savefig(path, dpi=130)


def _draw_steps(ax: Any, costs: Costs, label: str, most: float | None = None) -> None:
    """The share of problems at most at each cost, as steps."""
    known = np.concatenate([own[np.isfinite(own)] for own in costs.values()])
    low = 1.0 if most is not None else float(known.min(initial=1e9))
    high = float(most or known.max(initial=10.0))
    for name, own in costs.items():
        at = np.unique(np.concatenate([[low, high], own[np.isfinite(own) & (own <= high)]]))
        share = within(own, at)
        ours = name in ("auto", OURS)
        dashes = (0, (4, 2)) if name == "auto" else "-"  # where the two coincide, both are seen
        style = {"lw": 2.4 if ours else 1.3, "ls": dashes, "zorder": 3 if name == "auto" else 2}
        ax.step(at, share, where="post", color=_COLOURS[name], label=name, **style)
    ax.set_xscale("log")
    ax.set_xlim(low, high)
    ax.set_ylim(0.0, 1.01)
    ax.set_xlabel(label)
    ax.grid(alpha=0.25, lw=0.5)
    ax.spines[["top", "right"]].set_visible(False)
