"""Calls of h under linear constraints, against SLSQP, trust-constr, Clarabel and FISTA.

A problem is h + g on a polyhedron. In its first form g is known and h answers values and gradients
only, as a simulator does; in the second ("black box") nothing but the constraints is known, and
f = h + g is what is asked. SciPy's solvers see f in both. All start at the projection of the same
point. A target is reached at the first point with f - f* <= r (f(x0) - f*) whose violation is at
most 1e-6, f* being the lowest value that any solver has found, at the projection of its point on
the set. Calls of SciPy's solvers are the points at which they ask for f or its gradient; if one of
them ends before the target, the calls until its end stand for it. Own seconds are processor
seconds outside of h. They say how dear a call of h has to be so that it pays: own seconds that
SLSQP takes less, divided by calls that it takes more.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

import geartrain as gt
from geartrain.oracles.protocols import Vector
from geartrain_lab import harness
from geartrain_lab.constrained_rivals import FEASIBLE, RIVALS, Trace, clarabel, has_clarabel
from geartrain_lab.harness import Gaps, Row, Solver, Task, by_solver, geometric_mean, told
from geartrain_lab.problems.constrained import FAMILIES, Constrained
from geartrain_lab.seconds.clock import ShiftedClock
from geartrain_lab.store import PageTable, page_table

TARGETS = (1e-4, 1e-6, 1e-8)
MAIN = 1e-6
PRICES = {"h": 100.0, "g": 1.0}
MOST_CALLS = 3000
MOST_SECONDS = 60.0  # outside of h
ADVERSE = "adverse"
SEEDS = {**dict.fromkeys(FAMILIES, range(4)), "fair a9a, 16 shards": range(3), ADVERSE: range(40)}
CLARABEL = "Clarabel"


@dataclass(eq=False)
class Cell:
    """A problem, its start, its minimum, and what the rivals did on it."""

    name: str
    problem: Constrained
    x0: Vector = field(init=False)
    runs: dict[str, Trace] = field(init=False)
    f_star: float = field(init=False)

    def __post_init__(self) -> None:
        p = self.problem
        self.x0 = p.set.term().prox(p.start, 1.0)
        rivals = {**RIVALS, **({CLARABEL: clarabel} if has_clarabel() else {})}
        self.runs = {name: solve(p, self.x0) for name, solve in rivals.items()}
        rule = gt.stop.any_of(gt.stop.Gradient(rel=1e-11), gt.stop.Seconds(MOST_SECONDS))
        fine = gt.minimize(p.h, p.g + p.set.term(), self.x0, method="pqn", stop=rule)
        ends = [fine.x, *(run.x for run in self.runs.values() if run.x is not None)]
        self.f_star = min(p.f(p.set.term().prox(x, 1.0)) for x in ends)

    def task(self, family: str, clock: ShiftedClock, black_box: bool) -> Task:
        """The problem in one of its two forms, with a clock that stands still within h."""
        p = self.problem
        h = p.h + p.g if black_box else p.h
        psi = p.set.term()
        facts = {"family": family, "black_box": black_box, "cell": self}
        return Task(
            self.name,
            _hidden(h, clock),
            psi if black_box else p.g + psi,
            self.x0,
            self.f_star,
            p.f(self.x0),
            facts=facts,
        )


def _hidden(term: Any, clock: ShiftedClock) -> gt.Term:
    """Nothing but value and gradient of a term; their time is not seen."""

    def value_and_grad(x: Vector) -> tuple[float, Vector]:
        start = process_time()
        value, grad = term.value_and_grad(x)
        clock.added -= process_time() - start
        return value, grad

    return gt.Term(value_and_grad, n=term.n)


class FeasibleGaps(Gaps):
    """Accuracies, which nobody has whose point violates the constraints."""

    def marks(self, run: Any) -> tuple[Any, Any]:
        """The accuracy of every look at the run, and seconds and calls until then."""
        accuracy, columns = super().marks(run)
        violation = self._task.facts["cell"].problem.set.violation(run.x)
        return (accuracy if violation <= FEASIBLE else np.full_like(accuracy, np.inf)), columns


def _limit(task: Task, rows: list[Row]) -> Any:
    calls = gt.stop.Calls({"h.grad": MOST_CALLS})
    return gt.stop.any_of(calls, gt.stop.Seconds(MOST_SECONDS))


def _constants(task: Task) -> dict[str, float]:
    problem = task.facts["cell"].problem
    return {"L_h": problem.h.L, "L_g": problem.g.L}


def _known_g(task: Task) -> str:
    return "not for black boxes" if task.facts["black_box"] else ""


def _fista(task: Task, _: Any) -> Any:
    L = sum(_constants(task).values())
    return gt.methods.Restarted(gt.methods.FGM(L=L, mu=0.0), gt.methods.GradientTest())


def _of_trace(name: str, task: Task, target: float, rows: list[Row]) -> Row:
    """The row of a rival that has run before."""
    trace = task.facts["cell"].runs[name]
    calls, last = trace.reached(task.level(target)), len(trace.f)
    end = "" if calls else trace.end or "inaccurate"
    until = last if calls is None else calls
    seconds = trace.seconds[until - 1] if until else math.inf
    return {"end": end, "seconds": seconds, "h.grad": until, "g.grad": until, "h.value": 0}


SOLVERS = (
    Solver("auto", lambda task, _: "auto", lambda task: {"prices": PRICES}, _limit),
    Solver("pqn", lambda task, _: "pqn", lambda task: {"prices": PRICES}, _limit),
    Solver("AFB", lambda task, _: "afb", _constants, _limit, _known_g),
    Solver("FISTA", _fista, limit=_limit, unfit=_known_g),
)


def measured(cells: Sequence[tuple[str, int]]) -> Any:
    clock = ShiftedClock()
    rivals = [*RIVALS, *([CLARABEL] if has_clarabel() else [])]
    solvers = [*SOLVERS, *(Solver(name, solve=partial(_of_trace, name)) for name in rivals)]

    @lru_cache(maxsize=1)  # its two forms follow each other
    def cell(family: str, seed: int) -> Cell:
        return Cell(f"{family} {seed}", FAMILIES[family](seed))

    def task(family: str, seed: int, black_box: bool) -> Task:
        return cell(family, seed).task(family, clock, black_box)

    forms = [(*c, black_box) for c in cells for black_box in (False, True)]
    forms = [form for form in forms if form[0] != ADVERSE or not form[2]]
    names = [f"{family} {seed}{', black box' * black_box}" for family, seed, black_box in forms]
    with clock.running():
        tasks = told([partial(task, *form) for form in forms], names)
        table = harness.run(tasks, solvers, TARGETS, watch=FeasibleGaps)
    table["calls"] = table["h.grad"] + table["h.value"]
    return table[table.target > 0.0].drop(columns="cell")


def ratios(table: Any, target: float, solver: str = "auto") -> Any:
    """Calls of h over those of SLSQP by problem; infinite where the target is not reached."""
    calls = by_solver(table[table.target == target], "calls")
    return calls[solver] / calls["SLSQP"]


def break_even(table: Any, solver: str = "auto") -> Any:
    """Seconds per call of h from which it pays against SLSQP, by problem; 0: always."""
    main = table[table.target == MAIN]
    calls, seconds = by_solver(main, "calls"), by_solver(main, "seconds")
    later = np.maximum(seconds[solver] - seconds["SLSQP"], 0.0)
    fewer = calls["SLSQP"] - calls[solver]
    return (later / fewer).where(fewer > 0, np.where(later > 0, math.inf, 0.0))


def groups(table: Any) -> dict[str, Any]:
    """The parts of the table that are summed up, by name."""
    adverse = table.family == ADVERSE
    parts = {
        "g known": table[~adverse & ~table.black_box],
        "black box": table[~adverse & table.black_box],
        "adverse": table[adverse],
    }
    return {name: part for name, part in parts.items() if len(part)}


SUMMARY = ["problems", "solver", "accuracy", "mean", "median", "worst", "unsolved", "number"]
FAMILY = ["family", "g known", "worst", "pays from", "black box", "worst", "pays from"]


def summary(table: Any) -> list[list[str]]:
    """Ratios of calls to SLSQP: geometric mean, median, largest, and unsolved problems."""
    out = []
    for name, part in groups(table).items():
        for solver in (s for s in part.solver.unique() if s not in ("SLSQP", CLARABEL)):
            for target in TARGETS:
                found = ratios(part, target, solver)
                rows = part[(part.target == target) & (part.solver == solver)]
                if rows.end.str.startswith("not for").all():
                    continue
                solved = found[(rows.end == "").to_numpy()]
                figures = [f"{geometric_mean(solved):.3f}", f"{solved.median():.3f}"]
                figures = [*figures, f"{solved.max():.2f}"] if len(solved) else ["."] * 3
                numbers = [str(len(found) - len(solved)), str(len(found))]
                out.append([name, solver, f"{target:g}", *figures, *numbers])
    return out


def by_family(table: Any) -> list[list[str]]:
    """Ratios of auto to SLSQP and the milliseconds from which it pays, the worst mean first."""
    out = []
    for family, whole in table.groupby("family", sort=False):
        row = [str(family)]
        for black_box in (False, True):
            part = whole[whole.black_box == black_box]
            if not len(part):
                row += ["."] * 3
                continue
            found, pays = ratios(part, MAIN), 1e3 * break_even(part)
            row += [f"{geometric_mean(found):.3f}", f"{found.max():.2f}", f"{pays.median():.1f}"]
        out.append(row)
    return sorted(out, key=lambda row: -float(row[1]))


def cells_of(table: Any) -> list[list[str]]:
    """Head and rows: calls of h by problem and solver, the worst ratios first."""
    rivals = [s for s in table.solver.unique() if s != CLARABEL]
    has = CLARABEL in set(table.solver)
    own = ["own s", "SLSQP s", *(["Clarabel s"] if has else []), "pays from ms"]
    out = [["problem", *rivals, "ratio", *own]]
    for name, part in groups(table).items():
        main = part[part.target == MAIN]
        text = by_solver(main.assign(text=main.apply(_text, axis=1)), "text")
        seconds, pays, ratio = by_solver(main, "seconds"), break_even(part), ratios(part, MAIN)
        for problem in ratio.sort_values(ascending=False).index:
            of = seconds.loc[problem]
            times = [of["auto"], of["SLSQP"], *([of[CLARABEL]] if has else [])]
            title = f"{problem}, black box" if name == "black box" else problem
            cells = [f"{t:.3f}" for t in times] + [f"{1e3 * pays[problem]:.1f}"]
            out.append([title, *text.loc[problem, rivals], f"{ratio[problem]:.2f}", *cells])
    return out


def _text(row: Any) -> str:
    if row.end.startswith("not for"):
        return "."
    return (">" if row.end else "") + (f"{row.calls:.0f}" if math.isfinite(row.calls) else "")


def report(table: Any) -> None:
    print("calls of h over those of SLSQP, violation <= 1e-6; geometric mean, median and worst are")
    print("of the problems that the solver has solved")
    for row in (SUMMARY, *summary(table)):
        print(f"{row[0]:12}{row[1]:14}" + "".join(f"{cell:>10}" for cell in row[2:]))
    print(
        f"\nauto over SLSQP to {MAIN:g}: mean and worst ratio, and the milliseconds per call of h"
    )
    print("from which it pays (median)")
    for name, *texts in (FAMILY, *by_family(table)):
        print(f"{name:22}" + "".join(f"{text:>11}" for text in texts))
    print(f"\nmilliseconds per call of h from which auto pays against SLSQP, to {MAIN:g}")
    for name, part in groups(table).items():
        pays = 1e3 * break_even(part)
        print(f"{name:12} median {pays.median():.1f}  largest {pays.max():.1f}  of {len(pays)}")
    print(f"\ncalls of h to {MAIN:g}; the ratio is that of auto to SLSQP; > not reached, by then")
    print("ended or cut off; . not for this form; seconds are outside of h, Clarabel's are all")
    if not has_clarabel():
        print("cvxpy or Clarabel is not installed: no such column (pip install cvxpy clarabel)")
    head, *rows = cells_of(table)
    for name, *texts in (head, *rows):
        print(f"{name:34}" + "".join(f"{text:>13}" for text in texts))


def page_tables(table: Any) -> dict[str, PageTable]:
    head, *rows = cells_of(table)
    return {
        "constraints_summary": page_table(SUMMARY, summary(table)),
        "constraints_families": page_table(FAMILY, by_family(table)),
        "constraints": page_table(head, rows),
    }


def run(json_file: str | None = None, quick: bool = False) -> None:
    seeds = {f: SEEDS[f][: 2 if quick else None] for f in FAMILIES}
    if quick:
        seeds.pop("fair a9a, 16 shards", None)
    with harness.one_thread():
        table = measured([(family, seed) for family in seeds for seed in seeds[family]])
    report(table)
    if json_file is not None:
        data = {"rows": table.to_dict("records"), "tables": page_tables(table)}
        Path(json_file).write_text(json.dumps(data, indent=1, default=float))
