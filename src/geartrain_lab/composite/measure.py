"""``geartrain bench composite``: calls of h to f - f* = r (f(x0) - f*) with a non-smooth term.

`pqn` is compared with the best of the gradient methods that take h + g as one smooth term, each
with its own advantage: FISTA with restart knows the smoothness of the sum, OWL-QN is run where psi
is an l1 norm, SciPy's L-BFGS-B where psi is a box, and PANOC and the proximal quasi-Newton method
everywhere. "pqn(1)" is `pqn` with equal prices: a proximal quasi-Newton method on the sum
that learns the scales of the variables, which the published one does not. It counts as ours; the
ratio with it among the others is told apart. f* is from long runs of the learned methods. A rival
is cut off when it has asked h twice as often, and ten times more, as the best rival before it: it
is then not the best one.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

from geartrain.core import stopping as stop
from geartrain.methods.baselines.fgm import FGM
from geartrain.methods.baselines.scipy_lbfgs import ScipyLBFGS
from geartrain.methods.pqn.method import ProximalQuasiNewton
from geartrain.methods.restart import GradientTest, Restarted
from geartrain.oracles.nonsmooth import L1, Box
from geartrain_lab.composite.rivals import OWLQN, PANOC
from geartrain_lab.composite.suite import CompositeProblem, suite
from geartrain_lab.frontier.report import geometric_mean
from geartrain_lab.interrupts import run_whole

TARGETS = (1e-3, 1e-5, 1e-7)
MAIN = 1e-5
SECONDS = 60.0  # per run
Row = dict[str, Any]


def methods(psi: Any, L: float) -> dict[str, Any]:
    """The methods that are made for psi, by name; L is the smoothness of h + g."""
    out: dict[str, Any] = {
        "pqn": ProximalQuasiNewton(),
        "pqn(1)": ProximalQuasiNewton(rho=1.0),
        "proximal QN": ProximalQuasiNewton(rho=1.0),
    }
    if isinstance(psi, Box):
        out["L-BFGS-B"] = ScipyLBFGS(20)
    if isinstance(psi, L1):
        out["OWL-QN"] = OWLQN()
    return {**out, "PANOC": PANOC(), "FISTA": Restarted(FGM(L=L, mu=0.0), GradientTest())}


def measured(problem: CompositeProblem) -> list[Row]:
    """One row per method: calls of h and g at each target, inf where it is not reached.

    The runs of the learned methods go on to a high accuracy, which gives f*.
    """
    h, g, psi = problem.make()
    x0 = psi.prox(np.zeros(h.n), 1.0)
    start = h.value_and_grad(x0)[0] + g.value_and_grad(x0)[0] + psi.value(x0)
    made = methods(psi, problem.L(h, g))

    def run_to(goal: Any, name: str) -> Any:
        goal = stop.any_of(goal, stop.Seconds(SECONDS))
        return run_whole(h, g + psi, x0, method=made[name], stop=goal, record="f")

    found = {
        name: run_to(stop.Gradient(rel=1e-9), name) for name in ("pqn", "pqn(1)", "proximal QN")
    }
    best = min(res.fun for res in found.values())
    target = stop.Value(best + min(TARGETS) * (start - best))
    rows, most = [], math.inf
    for name in made:
        if name not in found:
            limit = [] if math.isinf(most) else [stop.Calls({"h.grad": int(most)})]
            found[name] = run_to(stop.any_of(target, *limit), name)
        history = found[name].history
        gap = (history["f"] - best) / (start - best)
        row: Row = {"problem": problem.name, "method": name, "made_up": problem.made_up}
        for level in TARGETS:
            hit = np.flatnonzero(gap <= level)
            row[f"h {level:g}"] = int(history["h.grad"][hit[0]]) if hit.size else math.inf
            row[f"g {level:g}"] = int(history["g.grad"][hit[0]]) if hit.size else math.inf
        if not name.startswith("pqn"):
            most = min(most, 2.0 * row[f"h {min(TARGETS):g}"] + 10.0)
        rows.append(row)
    return rows


def ratios(rows: list[Row], target: float, with_own: bool = False) -> dict[str, float]:
    """By problem: calls of h of pqn over those of the best of the others.

    `with_own`: pqn with equal prices is one of the others.
    """
    key, out = f"h {target:g}", {}
    for name in dict.fromkeys(row["problem"] for row in rows):
        of = {row["method"]: row[key] for row in rows if row["problem"] == name}
        own, equal = of.pop("pqn"), of.pop("pqn(1)", math.inf)
        rival = min(*of.values(), equal if with_own else math.inf)
        if math.isfinite(own) or math.isfinite(rival):
            out[name] = own / rival
    return out


def summary(rows: list[Row]) -> dict[str, Any]:
    """Geometric mean and worst of the ratios, for the problems of development and the others."""
    out = {}
    for made_up in (False, True):
        chosen = [row for row in rows if row["made_up"] == made_up]
        for target, with_own in itertools.product(TARGETS, (False, True)):
            found = list(ratios(chosen, target, with_own).values())
            if found:
                kind = "made up" if made_up else "report"
                kind += f"{' with pqn(1)' if with_own else ''} {target:g}"
                # A target that only one side reaches counts as a factor of ten.
                bounded = [min(max(ratio, 0.1), 10.0) for ratio in found]
                finite = min(found) > 0.0 and max(found) < math.inf
                mean = geometric_mean(found if finite else bounded)
                out[kind] = {"mean": mean, "worst": max(found), "of": len(found)}
    return out


def report(rows: list[Row]) -> None:
    """Print the table and the summary."""
    names = list(dict.fromkeys(row["method"] for row in rows))
    print(f"calls of h / of g until f - f* <= {MAIN:g} (f(x0) - f*), and those of h of pqn over")
    print(
        "those of the best of the others; '>' cut off, because another is better, or by the clock"
    )
    print(f"{'problem':38}" + "".join(f"{name:>12}" for name in names) + f"{'ratio':>8}")
    for problem, ratio in ratios(rows, MAIN).items():
        of = {row["method"]: row for row in rows if row["problem"] == problem}
        cells = [f"{_cell(of.get(name)):>12}" for name in names]
        print(f"{problem:38}" + "".join(cells) + f"{ratio:8.2f}")
    for kind, found in summary(rows).items():
        print(f"{kind:30} mean {found['mean']:.3f}  worst {found['worst']:.2f}  of {found['of']}")


def _cell(row: Row | None) -> str:
    """Calls of h and g, '>' where the target is not reached, '.' where psi cannot be taken."""
    if row is None:
        return "."
    h, g = row[f"h {MAIN:g}"], row[f"g {MAIN:g}"]
    return f"{h} / {g}" if math.isfinite(h) else ">"


def run(json_file: str | None = None, quick: bool = False) -> None:
    """Measure, print, and write the figures."""
    rows: list[Row] = []
    chosen = suite(quick)
    for k, problem in enumerate(chosen, 1):
        print(f"[{k}/{len(chosen)}] {problem.name}", file=sys.stderr, flush=True)
        rows += measured(problem)
    report(rows)
    if json_file is not None:
        Path(json_file).write_text(json.dumps({"summary": summary(rows), "rows": rows}, indent=1))
