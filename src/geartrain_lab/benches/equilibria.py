"""Calls of P to an equilibrium, against the best of the rivals in hindsight.

A problem is 0 in P + Q, or in P + Q + the normal cone of a set. Runs start at the projection of the
same point and have to reach 1e-8 (with a set 1e-6) of the residual there, which is computed again
at the end: a number that is not finite is no success. The rivals are the extragradient method and
the optimistic gradient, and, on the equation R(z) = 0 or with a set on that of its projected step,
Anderson mixing and SciPy's hybr and krylov, for which a call of P + Q is one of P and one of Q.
They have several settings each, and some are told L, the Lipschitz constant of P + Q. A rival is
cut off when it has asked twice as often as the best of the rivals before it.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from scipy import optimize

import geartrain as gt
from geartrain.methods import Anderson, Extragradient, OptimisticGradient
from geartrain.oracles.protocols import Vector
from geartrain_lab import harness
from geartrain_lab.harness import Row, Solver, Task, by_solver, geometric_mean, told
from geartrain_lab.problems.equilibria import FAMILIES, NAMED, Equilibrium, Map
from geartrain_lab.store import PageTable, page_table, pandas

TARGETS = {"no set": 1e-8, "set": 1e-6}
MOST_CALLS, RIVAL_CALLS = 5000, 2000
MOST_SECONDS = 60.0
SEEDS = range(10)
NAMED_SEEDS = range(100, 103)
OURS = ("auto", "hpe")
Solve = Callable[[Map, Vector, float], Any]  # of an equation F(z) = 0, from x0, knowing L


def residual(p: Equilibrium, z: Vector) -> float:
    """Of a point, by the terms themselves; infinite where it is not finite."""
    R = p.R(z)
    length = float(np.linalg.norm(R if p.set is None else p.set().residual(z, R)))
    return length if math.isfinite(length) else math.inf


def lipschitz(p: Equilibrium, F: Callable[[Vector], Vector], points: int = 3) -> float:
    """The largest norm of the Jacobian of F at some points, by differences."""
    rng = np.random.default_rng(0)
    n, found = p.start.size, []
    for size in range(points):
        z = p.projected(p.start + size * rng.standard_normal(n))
        J = [(F(z + 1e-5 * e) - F(z - 1e-5 * e)) / 2e-5 for e in np.eye(n)]
        found.append(np.linalg.norm(J, 2))
    return float(max(found))


def task(name: str, group: str, family: str, make: Callable[[int], Equilibrium], seed: int) -> Task:
    """The problem with its constants, which some of the rivals are told."""
    p = make(seed)
    x0 = p.projected(p.start)
    facts = {"group": group, "family": family, "n": x0.size, "p": p, "L": lipschitz(p, p.R)}
    return Task(name, p.P, p.Q, x0, facts=facts)


def _most(rows: list[Row]) -> int:
    """Calls that a rival is allowed."""
    rivals = [r["calls"] for r in rows if r["solver"] not in OURS and not r["end"]]
    return min([RIVAL_CALLS, *(2 * int(calls) for calls in rivals)])


def _by_library(
    method: str | Callable[[float], Any], task: Task, target: float, rows: list[Row]
) -> Row:
    """The row of a method with sets: one of ours by name, or what makes a rival from L."""
    p, ours = task.facts["p"], isinstance(method, str)
    most, seconds = (MOST_CALLS, 3600.0) if ours else (_most(rows), MOST_SECONDS)
    made = method(task.facts["L"]) if callable(method) else method
    C = () if p.set is None else (p.set(),)
    P, Q = gt.Operator(p.P, n=task.x0.size), gt.Operator(p.Q, n=task.x0.size)
    limits = gt.stop.Calls({"P.operator": most}), gt.stop.Seconds(seconds)
    rule = gt.stop.any_of(gt.stop.Gradient(rel=target), *limits)
    start = process_time()
    res = gt.equilibrium(P, sum(C, Q), task.x0, method=made, stop=rule, max_iter=10**6)
    # The residual is that of the run up to rounding.
    reached = residual(p, res.x) <= 1.001 * target * residual(p, task.x0)
    return {
        "end": "" if reached else res.message,
        "seconds": process_time() - start,
        "calls": res.calls["P.operator"],
        "of Q": res.calls["Q.operator"],
    }


class _Over(Exception):
    """The target is reached, or a limit is."""


def _by_map(solve: Solve, task: Task, target: float, rows: list[Row]) -> Row:
    """The row of a method for equations, whose answers are judged one by one.

    With a set the equation is z = w with w = prox(z - R(z)/L, L), multiplied by L, and the points w
    are judged, at no cost.
    """
    p, L, most = task.facts["p"], task.facts["L"], _most(rows)
    psi, asked, reached = None if p.set is None else p.set(), 0, False
    level, start = target * residual(p, task.x0), process_time()

    def F(z: Vector) -> Vector:
        nonlocal asked, reached
        asked += 1
        answer = p.R(z)
        if psi is not None and np.isfinite(answer).all():
            z, answer = psi.prox(z - answer / L, L), L * z
            answer -= L * z
        reached = residual(p, z) <= level
        if reached or asked >= most or process_time() - start > MOST_SECONDS:
            raise _Over
        return answer

    with np.errstate(all="ignore"), contextlib.suppress(_Over, ValueError, np.linalg.LinAlgError):
        solve(F, task.x0, L)
    end = "" if reached else "not reached"
    return {"end": end, "seconds": process_time() - start, "calls": asked, "of Q": asked}


def _root(method: str, **options: Any) -> Solve:
    return lambda F, x0, L: optimize.root(F, x0, method=method, options=options)


def _mixed(memory: int = 200, part: float | None = None) -> Solve:
    """Anderson mixing; with a `part` L is that part of the Lipschitz constant."""
    never = gt.stop.Calls({"P.operator": 10**9})

    def solve(F: Map, x0: Vector, L: float) -> Any:
        method = Anderson(memory=memory, L=part and part * L)
        return gt.equilibrium(gt.Operator(F, n=x0.size), None, x0, method=method, stop=never)

    return solve


# A comma in a name starts a setting.
_MAPS: dict[str, Solve] = {
    "SciPy hybr": _root("hybr", xtol=1e-14, maxfev=10**6),
    "SciPy krylov": _root("krylov", fatol=1e-300, maxiter=10**6),
    "anderson": _mixed(),
    "anderson, memory 20": _mixed(20),
    "anderson, memory 5": _mixed(5),
    "anderson, L": _mixed(part=1.0),
    "anderson, L/3": _mixed(part=1.0 / 3.0),
}
_FIRST_ORDER: dict[str, Callable[[float], Any]] = {
    "optimistic": lambda L: OptimisticGradient(adaptive=True),
    "optimistic, L": lambda L: OptimisticGradient(L=L),
    "optimistic, L/1.3": lambda L: OptimisticGradient(L=L / 1.3),
    "extragradient": lambda L: Extragradient(adaptive=True),
    "extragradient, L": lambda L: Extragradient(L=L),
    "extragradient, L/2": lambda L: Extragradient(L=L / 2.0),
}
SOLVERS = (
    *(Solver(name, solve=partial(_by_library, name)) for name in OURS),
    *(Solver(name, solve=partial(_by_map, solve)) for name, solve in _MAPS.items()),
    *(Solver(name, solve=partial(_by_library, make)) for name, make in _FIRST_ORDER.items()),
)


def measured(cells: Sequence[tuple[str, str, int]]) -> Any:
    parts = []
    for kind, target in TARGETS.items():
        made = []
        for group, family, seed in cells:
            make = (FAMILIES if group == "random" else NAMED)[family]
            if (make(seed).set is None) == (kind == "no set"):
                made.append(partial(task, f"{family} {seed}", group, family, make, seed))
        tasks = told(made, [one.args[0] for one in made])
        parts.append(harness.run(tasks, SOLVERS, (target,)))
    table = pandas().concat([part for part in parts if len(part)], ignore_index=True)
    return table.drop(columns=["p", "L"])


def ratios(table: Any, solver: str) -> Any:
    """Calls of P over those of the best rival by problem; infinite where the solver fails.

    Where all rivals fail, they count as if they had reached the target with the last call allowed.
    """
    calls = by_solver(table.assign(calls=table.calls.where(table.end == "", math.inf)), "calls")
    best = calls.drop(columns=list(OURS)).min(axis=1).clip(upper=RIVAL_CALLS)
    return calls[solver] / best


SUMMARY = ["problems", "solver", "mean", "95 %", "worst", "unsolved", "number"]
FAMILY = ["family", *(f"{s}{c}" for s in OURS for c in ("", ", worst", ", unsolved")), "number"]


def _figures(found: Any) -> list[str]:
    solved = found[np.isfinite(found)]
    top = np.quantile(found, 0.95, method="higher") if len(found) else math.nan
    return [f"{geometric_mean(solved):.3f}", f"{top:.2f}", f"{solved.max():.2f}"]


def summary(table: Any) -> list[list[str]]:
    """Geometric mean and worst of the solved problems, quantile of all, and unsolved ones."""
    groups = {
        "random": table[table.group == "random"],
        "random, no set": table[(table.group == "random") & (table.target == TARGETS["no set"])],
        "random, set": table[(table.group == "random") & (table.target == TARGETS["set"])],
        "named": table[table.group == "named"],
    }
    out = []
    for name, part in groups.items():
        for solver in OURS if len(part) else ():
            found = ratios(part, solver)
            numbers = [str(int(np.isinf(found).sum())), str(len(found))]
            out.append([name, solver, *_figures(found), *numbers])
    return out


def by_family(table: Any) -> list[list[str]]:
    """Mean and worst ratio and unsolved problems by family, the worst mean of auto first."""
    out = []
    for family, part in table.groupby("family", sort=False):
        row, number = [str(family)], 0
        for solver in OURS:
            found = ratios(part, solver)
            mean, _, worst = _figures(found)
            row += [mean, worst, str(int(np.isinf(found).sum()))]
            number = len(found)
        out.append([*row, str(number)])
    return sorted(out, key=lambda row: -float(row[1]))


def cells_of(table: Any) -> list[list[str]]:
    """Head and rows: calls of P by problem and solver, the worst ratios of auto first.

    Of the settings of a rival the one that asked least is shown, and those that failed last.
    """
    shown = table.assign(solver=table.solver.str.split(",").str[0], fails=table.end != "")
    shown = shown.sort_values(["fails", "calls"], kind="stable")
    shown = shown.drop_duplicates(["problem", "solver"]).sort_index()
    text = by_solver(shown.assign(text=shown.apply(_text, axis=1)), "text")
    of_Q, sizes = by_solver(table, "of Q"), table.groupby("problem").n.first()
    ratio = ratios(table, "auto")
    head = ["problem", "n", "ratio", *text.columns, "of Q, auto"]
    rows = [
        [name, str(sizes[name]), f"{ratio[name]:.2f}", *text.loc[name], f"{of_Q.auto[name]:.0f}"]
        for name in ratio.sort_values(ascending=False).index
    ]
    return [head, *rows]


def _text(row: Any) -> str:
    return f"{'>' * bool(row.end)}{row.calls:.0f}"


def report(table: Any) -> None:
    print("calls of P over those of the best of the rivals in hindsight, to 1e-8 (1e-6 with a set)")
    print("of the residual at x0; geometric mean and worst are of the solved problems")
    for row in (SUMMARY, *summary(table)):
        print(f"{row[0]:18}{row[1]:8}" + "".join(f"{cell:>10}" for cell in row[2:]))
    print("\nby family, the worst mean of auto first")
    for row in (FAMILY, *by_family(table)):
        print(f"{row[0]:32}" + "".join(f"{cell:>16}" for cell in row[1:]))
    print("\ncalls of P; the ratio is that of auto to the best rival; > not reached, ended by then")
    print("or cut off at twice the calls of a better one")
    for row in cells_of(table):
        print(f"{row[0]:34}" + "".join(f"{cell:>15}" for cell in row[1:]))


def page_tables(table: Any) -> dict[str, PageTable]:
    head, *rows = cells_of(table)
    return {
        "equilibria_summary": page_table(SUMMARY, summary(table)),
        "equilibria_families": page_table(FAMILY, by_family(table)),
        "equilibria": page_table(head, rows),
    }


def run(json_file: str | None = None, quick: bool = False) -> None:
    cells = [
        ("random", family, seed) for family in FAMILIES for seed in SEEDS[: 2 if quick else None]
    ]
    cells += [("named", name, s) for name in NAMED for s in NAMED_SEEDS[: 1 if quick else None]]
    with harness.one_thread():
        table = measured(cells)
    report(table)
    if json_file is not None:
        data = {"rows": table.to_dict("records"), "tables": page_tables(table)}
        Path(json_file).write_text(json.dumps(data, indent=1, default=float))
