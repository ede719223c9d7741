"""``geartrain bench frontier``: who is cheapest at which ratio of prices.

Every method runs once per problem; its bill N_h rho + N_g to reach f - f* = r (f(x0) - f*) follows
for every price ratio rho. A gradient of g costs 1, a partial derivative 1/n and a summand 1/m of a
gradient of its term. ``auto`` knows the prices and is run once per rho. f* is from runs to
rounding, not from the best of the table. Seconds are compared, too: ``auto`` runs once more and
measures the prices itself.

SciPy's L-BFGS and pqn run first. Any other run is cut off when its bill is over `TIMES` that of
the better of the two at every rho: it can then be the cheapest nowhere.
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

from geartrain.core import stopping as stop
from geartrain.core.status import Status
from geartrain.methods.baselines.scipy_lbfgs import ScipyLBFGS
from geartrain.methods.pqn.method import ProximalQuasiNewton
from geartrain.oracles.protocols import MissingOracle
from geartrain.oracles.questions import kinds
from geartrain.problem import MissingConstant
from geartrain_lab.frontier import report as frontier_report
from geartrain_lab.frontier.rivals import FIRST, OTHERS, RHOS, Budget, OverBudget, Rival, free
from geartrain_lab.frontier.suite import SuiteProblem, suite
from geartrain_lab.interrupts import run_whole

TARGETS = (1e-3, 1e-5, 1e-7)
TIMES = 20.0
SECONDS = 60.0  # per run of L-BFGS, pqn and auto
SECONDS_OTHERS = 15.0
SEED = 0
CALLS = tuple(f"{name}.{kind}" for name in ("h", "g") for kind in kinds())
Row = dict[str, Any]


def reference(problem: SuiteProblem, h: Any, g: Any) -> tuple[float, float]:
    """f* and f(x0); f* is the smaller end of two long runs if the problem does not know it."""
    x0 = np.zeros(h.n)
    start = h.value_and_grad(x0)[0] + g.value_and_grad(x0)[0]
    if problem.f_star is not None:
        return problem.f_star(h, g), start
    rule = stop.any_of(stop.Gradient(rel=1e-10), stop.Seconds(2.0 * SECONDS))
    ends = [
        run_whole(h, g, x0, method=m, stop=rule) for m in (ProximalQuasiNewton(), ScipyLBFGS(50))
    ]
    return min(e.fun for e in ends), start


def trace(
    h: Any, g: Any, method: Any, f_star: float, f_0: float, budget: Budget, **options: Any
) -> list[Row]:
    """Calls when each target is first reached; inf, and what ended the run, where it is not.

    The calls of the whole run, ``end_h`` and ``end_g`` in gradients, are a lower bound then.
    """
    goal = stop.Value(f_star + min(TARGETS) * (f_0 - f_star))
    rule = stop.any_of(goal, budget)
    x0 = np.zeros(h.n)
    try:
        res = run_whole(h, g, x0, method=method, stop=rule, seed=SEED, **options)
    except OverBudget as error:
        res = error.partial_result  # type: ignore[attr-defined]
    seen = res.history
    gap = (seen["f"] - f_star) / (f_0 - f_star)
    end_h, end_g = budget.worth(res.calls)
    out: list[Row] = []
    for target in TARGETS:
        hit = np.flatnonzero(gap <= target)
        calls: dict[str, float] = dict.fromkeys(CALLS, math.inf)
        if hit.size:
            calls = {key: int(seen[key][hit[0]]) for key in CALLS}
        N_h, N_g = budget.worth(calls)
        seconds = float(seen["seconds"][hit[0]]) if hit.size else math.inf
        cut = "" if hit.size else budget.why or Status(res.status).name.lower()
        row = {"target": target, "N_h": N_h, "N_g": N_g, "cut": cut, "seconds": seconds, **calls}
        out.append({**row, "end_h": end_h, "end_g": end_g})
    return out


class Measured:
    """The rows of one problem, and why methods have none."""

    def __init__(self, problem: SuiteProblem) -> None:
        self.problem = problem
        self.h, self.g = problem.make()
        self.f_star, self.f_0 = reference(problem, self.h, self.g)
        self.rows: list[Row] = []
        self.left_out: list[Row] = []
        self.timed: list[Row] = []  # of `auto` with prices that it measures
        self.allowed = free()

    def all(self) -> Measured:
        """Run everything."""
        for rival in FIRST:
            self.add(rival, SECONDS)
        self.allowed = {rho: TIMES * self.best_of_first(rho) for rho in RHOS}
        constants = self.problem.constants(self.h, self.g)
        for rival in OTHERS:
            self.add(rival, SECONDS_OTHERS, **constants)
        self.allowed = free()
        for rho in RHOS:
            prices = {"h.grad": float(rho), "g.grad": 1.0}
            self.enter("auto", (rho,), self.trace("auto", self.budget(SECONDS), prices=prices))
        for row in self.trace("auto", self.budget(SECONDS)):
            self.timed.append({"problem": self.problem.name, **row})
        return self

    def add(self, rival: Rival, seconds: float, **constants: float) -> None:
        """Run a method, or note why not."""
        reason = rival.unfit(self.h, self.g)
        if not reason:
            budget = self.budget(seconds)
            try:
                rows = self.trace(rival.make(budget.guard), budget, **constants)
                return self.enter(rival.name, RHOS, rows)
            except (MissingConstant, MissingOracle) as error:
                reason = str(error)
        self.left_out.append({"problem": self.problem.name, "method": rival.name, "reason": reason})

    def trace(self, method: Any, budget: Budget, **options: Any) -> list[Row]:
        """One run."""
        return trace(self.h, self.g, method, self.f_star, self.f_0, budget, **options)

    def budget(self, seconds: float) -> Budget:
        """For one run."""
        m_h, m_g = (int(getattr(t, "n_components", None) or 1) for t in (self.h, self.g))
        return Budget(self.h.n, (m_h, m_g), self.allowed, seconds)

    def enter(self, name: str, rhos: tuple[int, ...], rows: list[Row]) -> None:
        """Rows with their bills."""
        for row in rows:
            for rho in rhos:
                bill = row["N_h"] * rho + row["N_g"]
                head = {"problem": self.problem.name, "method": name, "rho": rho}
                self.rows.append({**head, "bill": bill, **row})

    def best_of_first(self, rho: int) -> float:
        """The smallest bill so far, for the smallest target that was reached at all."""
        for target in sorted(TARGETS):
            bills = [r["bill"] for r in self.rows if (r["rho"], r["target"]) == (rho, target)]
            if math.isfinite(min(bills)):
                return min(bills)
        return math.inf


def run(json_file: str | None = None, quick: bool = False) -> None:
    """Measure, print, and write the table and the picture beside the JSON file."""
    problems = suite(quick)
    rows: list[Row] = []
    left_out: list[Row] = []
    timed: list[Row] = []
    start = time.perf_counter()
    for k, problem in enumerate(problems, 1):
        print(f"[{k}/{len(problems)}] {problem.name}", file=sys.stderr, flush=True)
        measured = Measured(problem).all()
        rows += measured.rows
        left_out += measured.left_out
        timed += measured.timed
        spent = time.perf_counter() - start
        left = spent / k * (len(problems) - k)
        print(f"    {spent:.0f} s, about {left:.0f} s left", file=sys.stderr, flush=True)
    figures = frontier_report.summary(rows, problems)
    frontier_report.report(rows, problems, figures)
    frontier_report.print_seconds(rows, timed)
    if json_file is not None:
        path = Path(json_file)
        data = {"summary": figures, "rows": rows, "left_out": left_out, "timed": timed}
        path.write_text(json.dumps(data, indent=1))
        with path.with_suffix(".csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        frontier_report.draw(rows, path.with_suffix(".png"))
        print(f"wrote {path}, {path.with_suffix('.csv')}, {path.with_suffix('.png')}")
