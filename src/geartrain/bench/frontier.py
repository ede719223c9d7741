"""``geartrain bench frontier``: who is cheapest at which ratio of prices.

Every method runs once per problem; its bill N_h rho + N_g to reach f - f* = r (f(x0) - f*) follows
for every price ratio rho (a gradient of g costs 1). ``auto`` knows the prices and is run once per
rho. f* is from a run to rounding, not from the best of the table.
"""

from __future__ import annotations

import csv
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from geartrain import stop
from geartrain.bench.suite import Problem, suite
from geartrain.methods.afb import AFB
from geartrain.methods.baselines.ags import AGS
from geartrain.methods.baselines.fgm import FGM
from geartrain.methods.baselines.scipy_lbfgs import ScipyLBFGS
from geartrain.methods.restart import GradientTest, Restarted
from geartrain.methods.sae_qn import SAEQN
from geartrain.methods.sc_sae import SCSAE
from geartrain.minimize import minimize

RHOS = (1, 3, 10, 30, 100, 1000)
TARGETS = (1e-3, 1e-5, 1e-7)
SECONDS = 60.0  # per run
MOST = 1000  # gradients of h per run
Row = dict[str, Any]


def methods(h: Any) -> dict[str, Any]:
    """What competes; methods that need constants only where the terms know them."""
    out: dict[str, Any] = {f"lbfgs({k})": ScipyLBFGS(k) for k in (10, 20, 50)}
    out["sae-qn"] = SAEQN()
    if getattr(h, "L", None) is not None:
        out["sc-sae"] = Restarted(SCSAE(mu=0.0), GradientTest())
        if getattr(h, "convex", True):
            out["afb"] = Restarted(AFB(), GradientTest())
            out["ags"] = AGS()
        out["fgm"] = Restarted(FGM(mu=0.0), GradientTest())
    return out


def reference(h: Any, g: Any) -> tuple[float, float]:
    """f* and f(x0): the smaller end of two long runs."""
    x0 = np.zeros(h.n)
    rule = stop.any_of(stop.Gradient(rel=1e-10), stop.Seconds(2.0 * SECONDS))
    ends = [minimize(h, g, x0, method=m, stop=rule) for m in (SAEQN(), ScipyLBFGS(50))]
    start = h.value_and_grad(x0)[0] + g.value_and_grad(x0)[0]
    return min(e.fun for e in ends), start


def trace(h: Any, g: Any, method: Any, f_star: float, f_0: float, **options: Any) -> list[Row]:
    """Calls of h and g when each target is first reached; inf where it is not."""
    goal = stop.Value(f_star + min(TARGETS) * (f_0 - f_star))
    limit = stop.Calls({"h.grad": MOST})
    rule = stop.any_of(goal, limit, stop.Seconds(SECONDS))
    res = minimize(h, g, np.zeros(h.n), method=method, stop=rule, **options)
    gap = (res.history["f"] - f_star) / (f_0 - f_star)
    out = []
    for target in TARGETS:
        hit = np.flatnonzero(gap <= target)
        keys = ("h.grad", "g.grad")
        calls = [float(res.history[key][hit[0]]) if hit.size else math.inf for key in keys]
        out.append({"target": target, "N_h": calls[0], "N_g": calls[1]})
    return out


def measure(problem: Problem) -> list[Row]:
    """All rows of one problem."""
    h, g = problem.make()
    f_star, f_0 = reference(h, g)
    rows = []
    for name, method in methods(h).items():
        for row in trace(h, g, method, f_star, f_0):
            rows += [{**row, "method": name, "rho": rho} for rho in RHOS]
    for rho in RHOS:
        prices = {"h.grad": float(rho), "g.grad": 1.0}
        for row in trace(h, g, "auto", f_star, f_0, prices=prices):
            rows.append({**row, "method": "auto", "rho": rho})
    for row in rows:
        row["problem"] = problem.name
        row["bill"] = row["N_h"] * row["rho"] + row["N_g"]
    return rows


def geometric_mean(values: list[float]) -> float:
    """Exp of the mean logarithm."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def summary(rows: list[Row], problems: list[Problem]) -> Row:
    """The figures: gradients of h against L-BFGS, and auto against the cheapest."""
    cells: dict[tuple[Any, ...], dict[str, Row]] = {}
    for row in rows:
        cells.setdefault((row["problem"], row["target"], row["rho"]), {})[row["method"]] = row
    separable = {p.name for p in problems if p.separable}
    ratios, against_best, against_lbfgs = {}, {}, {}
    for (name, target, rho), by in cells.items():
        lbfgs = min((r for m, r in by.items() if m.startswith("lbfgs")), key=lambda r: r["bill"])
        fewest = min(r["N_h"] for m, r in by.items() if m.startswith("lbfgs"))
        mine = by["sae-qn"]["N_h"]
        if target == 1e-5 and rho == 1 and name in separable and math.isfinite(mine + fewest):
            ratios[name] = mine / fewest
        best = min(r["bill"] for m, r in by.items() if m != "auto")
        if math.isfinite(by["auto"]["bill"]):
            against_best[name, target, rho] = by["auto"]["bill"] / best
            if rho >= 100 and name in separable:
                against_lbfgs[name, target, rho] = by["auto"]["bill"] / lbfgs["bill"]
    missed = sorted({str(k) for k, by in cells.items() if not math.isfinite(by["auto"]["bill"])})
    worst = max(against_best, key=against_best.__getitem__)
    return {
        "h_gradients_sae_qn_over_lbfgs": ratios,
        "geometric_mean": geometric_mean(list(ratios.values())),
        "largest": max(ratios.values()),
        "auto_over_cheapest": geometric_mean(list(against_best.values())),
        "auto_over_cheapest_worst": (against_best[worst], *map(str, worst)),
        "auto_over_lbfgs_rho_100": geometric_mean([v for v in against_lbfgs.values() if v > 0]),
        "auto_not_reached_in_time": missed,
    }


def run(json_file: str | None = None, quick: bool = False) -> None:
    """Measure, print, and write the table and the picture beside the JSON file."""
    problems = suite(quick)
    rows: list[Row] = []
    start = time.perf_counter()
    for k, problem in enumerate(problems, 1):
        print(f"[{k}/{len(problems)}] {problem.name}", file=sys.stderr, flush=True)
        rows += measure(problem)
        spent = time.perf_counter() - start
        left = spent / k * (len(problems) - k)
        print(f"    {spent:.0f} s, about {left:.0f} s left", file=sys.stderr, flush=True)
    report(rows, problems)
    if json_file is not None:
        path = Path(json_file)
        path.write_text(json.dumps({"summary": summary(rows, problems), "rows": rows}, indent=1))
        with path.with_suffix(".csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        draw(rows, path.with_suffix(".png"))
        print(f"wrote {path}, {path.with_suffix('.csv')}, {path.with_suffix('.png')}")


def report(rows: list[Row], problems: list[Problem]) -> None:
    """The table of calls, and the figures."""
    names = list(dict.fromkeys(r["method"] for r in rows if r["method"] != "auto"))
    for target in TARGETS:
        print(f"\ncalls of h / of g until f - f* <= {target:g} (f(x0) - f*)")
        print(f"{'':32}" + "".join(f"{n:>15}" for n in names))
        for problem in problems:
            line = f"{problem.name:32}"
            for name in names:
                cell = [
                    r
                    for r in rows
                    if (r["problem"], r["method"], r["target"], r["rho"])
                    == (problem.name, name, target, 1)
                ]
                text = "-"
                if cell and math.isfinite(cell[0]["N_h"]):
                    text = f"{cell[0]['N_h']:.0f} / {cell[0]['N_g']:.0f}"
                line += f"{text:>15}"
            print(line)
    figures = summary(rows, problems)
    print("\ngradients of h, sae-qn / best of SciPy's L-BFGS, to 1e-5:")
    for name, ratio in figures["h_gradients_sae_qn_over_lbfgs"].items():
        print(f"  {name:32}{ratio:6.2f}")
    print(f"  geometric mean {figures['geometric_mean']:.3f} (goal 0.25)")
    print(f"  largest        {figures['largest']:.2f} (goal 0.75)")
    worst = figures["auto_over_cheapest_worst"]
    print(
        f"auto / cheapest method: geometric mean {figures['auto_over_cheapest']:.2f} (goal 1.10), "
    )
    print(f"  worst {worst[0]:.2f} (goal 1.5) at {', '.join(worst[1:])}")
    print(f"auto / L-BFGS at rho >= 100: {figures['auto_over_lbfgs_rho_100']:.2f} (goal 0.3)")
    for cell in figures["auto_not_reached_in_time"]:
        print(f"  auto did not reach {cell} in {SECONDS:.0f} s")


def draw(rows: list[Row], path: Path) -> None:
    """Bills over that of L-BFGS, geometric mean over the problems, against rho."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    target = 1e-5
    shown = [r for r in rows if r["target"] == target]
    best: dict[tuple[str, int], float] = {}
    for r in shown:
        if r["method"].startswith("lbfgs"):
            key = r["problem"], r["rho"]
            best[key] = min(best.get(key, math.inf), r["bill"])
    fig, ax = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
    for name in dict.fromkeys(r["method"] for r in shown):
        if name.startswith("lbfgs"):
            continue
        means = []
        for rho in RHOS:
            values = [
                r["bill"] / best[r["problem"], rho]
                for r in shown
                if r["method"] == name and r["rho"] == rho
            ]
            finite = [v for v in values if math.isfinite(v) and v > 0]
            means.append(geometric_mean(finite) if len(finite) >= len(values) / 2 else math.nan)
        if all(map(math.isnan, means)):
            continue
        width = 2.4 if name == "auto" else 1.4
        ax.loglog(RHOS, means, marker="o", ms=4, lw=width, label=name)
    ax.axhline(1.0, color="0.4", lw=1.0, ls="--", label="SciPy L-BFGS (best memory)")
    ax.set_xlabel("price of a gradient of h / price of a gradient of g")
    ax.set_ylabel("bill / bill of L-BFGS")
    ax.set_title("to $f - f^* \\leq 10^{-5}\\,(f(x_0) - f^*)$, geometric mean", fontsize=10)
    ax.grid(alpha=0.25, which="both", lw=0.5)
    ax.legend(fontsize=8, frameon=False, loc="center right", bbox_to_anchor=(1.0, 0.66))
    ax.spines[["top", "right"]].set_visible(False)
    fig.savefig(path, dpi=160)
