"""``geartrain bench seconds``: process seconds to f - f* = 1e-6 (f(x0) - f*), default settings.

**Ours** is ``gt.minimize(h, g + psi, x0)`` with a rule that ends the run at the target. On its
clock is the whole call: choosing, setting up, own arithmetic, all calls of the terms, recording.
Off its clock is what the rule itself does, namely looking at f once per iteration, which a user
does not ask for; rivals see f anyway, or are looked at in the same way. Compiled loops are compiled
before, by a small problem of the family and by the beginning of a run of the same problem. Runs of
less than `SHORT` seconds, ours and theirs, are made three times, and the median counts; those of
less than `TWICE` are made twice. The library itself, too, sees process seconds in place of those of
the wall (`geartrain_lab.seconds.clock`): on a busy machine it would take its terms for dear.

**With time added to h**, that clock runs ahead, so that ours decides as for a dear term; its
seconds are those of the process and the calls times the added time. Gradient methods do not look at
clocks: theirs follow from the run without it. Solvers that need the data (scikit-learn, skglm,
NNLS) take part only where nothing is added.

f* is the lowest value of all solvers, run until two of them agree to 1e-9 (f(x0) - f*).
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from types import SimpleNamespace
from typing import Any

import geartrain as gt
from geartrain.oracles.work_clock import compiling
from geartrain_lab import harness
from geartrain_lab.harness import Row, Solver, Task, one_thread
from geartrain_lab.seconds import nonsmooth, rivals, smooth
from geartrain_lab.seconds.clock import ShiftedClock
from geartrain_lab.seconds.problem import FAMILIES, Problem, is_report
from geartrain_lab.seconds.report import best_rival, show, summary

LEVEL = 1e-6
ADDED = (0.0, 0.001, 0.01, 0.1)  # seconds
SEEDS = (0, 1)  # even ones to look at, odd ones for the report
SHORT, TWICE = 0.3, 1.5  # seconds: shorter runs are made three times, and twice
LIMIT, LONG = 6.0, 3.0  # process seconds of one run, and of one for f*
PATIENT = 15.0  # of one run where rivals take long by what is added to h
WARM = 0.2  # seconds of a run that is thrown away
TINY = 0.15  # size of a problem to warm up with

assert smooth and nonsmooth  # they enter the families


class Target:
    """Ends a run at f <= target or after so many process seconds, and keeps itself off the clock.

    Calls do not count on the clock while the rule looks.
    """

    def __init__(self, target: float, limit: float, clock: ShiftedClock) -> None:
        self._value, self._limit, self._clock = gt.stop.Value(target), gt.stop.Seconds(limit), clock
        self._start, self._off = process_time(), 0.0

    @property
    def seconds(self) -> float:
        """Process seconds so far without those of this rule."""
        return process_time() - self._start - self._off

    def check(self, look: Any) -> Any:
        """Converged at the target."""
        start, self._clock.watched = process_time(), True
        try:
            status = self._value.check(look)
        finally:
            self._clock.watched = False
        self._off += process_time() - start
        return self.exceeded(look, "") if status is None else status

    def exceeded(self, look: Any, key: str) -> Any:
        """Budget after the limit."""
        return self._limit.check(SimpleNamespace(seconds=self.seconds))


def ours(problem: Problem, target: float, added: float, limit: float, method: Any = "auto") -> Row:
    """One run of `geartrain.minimize`."""
    clock = ShiftedClock()
    h = clock.dear(problem.h, added) if added else problem.h
    with clock.running():
        wall, rule = perf_counter(), Target(target, limit, clock)
        res = gt.minimize(h, problem.rest, problem.x0, stop=rule, method=method)
        own, wall = rule.seconds, perf_counter() - wall
    calls = clock.calls if added else res.calls["h.grad"] + res.calls["h.value"]
    solved = problem.f(res.x) <= target + 1e-12 * abs(target)  # the same sum in another order
    return {
        "seconds": own + added * calls if solved else math.inf,
        "process": own,
        "wall": wall,
        "calls": calls,
        "prox": res.calls.get("g.prox", 0),
        "plan": str(getattr(res, "plan", "")),
        "status": res.status.name,
    }


def repeated(run: Callable[[], Row]) -> Row:
    """The run; the median of three where it is short, the quicker of two where it is not long.

    What is compiled, loaded or imported late is in the first one.
    """
    rows = [run()]
    if rows[0]["seconds"] < SHORT:
        rows += [run(), run()]
    elif rows[0]["seconds"] < TWICE:
        rows.append(run())
    middle = statistics.median_low(row["seconds"] for row in rows)
    return next(row for row in rows if row["seconds"] == middle)


def optimum(problem: Problem, start: float, limit: float = LONG) -> tuple[float, float]:
    """f*, and by how much the two best solvers differ, in parts of f(x0) - f*."""
    found: list[float] = []
    if "solution" in problem.known:
        return problem.f(problem.known["solution"]), 0.0

    def lowest() -> Iterable[float]:
        for _, solve in rivals.special_solvers(problem):
            yield rivals.run_special(solve, problem, -math.inf, 0.0, first=9)[1]
        for rival in rivals.gradient_methods(problem).values():
            yield rivals.run(rival, problem, -math.inf, limit)[0].best
        rule = gt.stop.any_of(gt.stop.Gradient(rel=1e-10), gt.stop.Seconds(limit))
        yield problem.f(gt.minimize(problem.h, problem.rest, problem.x0, stop=rule).x)

    for value in lowest():
        found = sorted([*found, value])
        if len(found) > 1 and found[1] - found[0] <= 1e-9 * (start - found[0]):
            break
    return found[0], (found[1] - found[0]) / (start - found[0])


def rival_solvers(problem: Problem, limit: float) -> list[Solver]:
    """Every rival; one that is far behind those before it is cut off."""

    def cut(rows: list[Row]) -> float:
        return min(limit, 4.0 * min((r["seconds"] for r in rows), default=math.inf) + 0.2)

    def asking(rival: rivals.Rival, task: Task, target: float, rows: list[Row]) -> Row:
        def once() -> Row:
            ask, seconds = rivals.run(rival, problem, task.level(target), cut(rows))
            return {"seconds": seconds, "calls": ask.calls}

        return repeated(once)

    def closed(solve: Any, task: Task, target: float, rows: list[Row]) -> Row:
        def once() -> Row:
            seconds, _ = rivals.run_special(solve, problem, task.level(target), cut(rows))
            return {"seconds": seconds, "calls": None}

        return repeated(once)

    asked = rivals.gradient_methods(problem).items()
    made = [Solver(name, solve=partial(asking, rival)) for name, rival in asked]
    special = rivals.special_solvers(problem)
    return [*made, *(Solver(name, solve=partial(closed, solve)) for name, solve in special)]


def our_solver(name: str, problem: Problem, added: float, method: Any, limit: float) -> Solver:
    """`geartrain.minimize` with so many seconds added to every call of h."""
    label = f"{1e3 * added:g}"

    def solve(task: Task, target: float, rows: list[Row]) -> Row:
        level = task.level(target)
        _warm_up(name, problem, level, added, method)
        known = {"rivals": {r["solver"]: r for r in rows if "calls" in r and "plan" not in r}}
        most = limit if not added else min(PATIENT, limit + 0.1 * best_rival(known, label)[1])
        return repeated(lambda: ours(problem, level, added, most, method))

    return Solver(label, solve=solve)


def measured(
    name: str,
    seed: int,
    size: float = 1.0,
    added: Iterable[float] = ADDED,
    method: Any = "auto",
    limit: float = LIMIT,
    before: Row | None = None,
) -> Row:
    """All runs on one problem; rivals and f* are taken over from an earlier row `before`."""
    problem = FAMILIES[name](seed, size)
    start = problem.f(problem.x0)
    row: Row = {"family": name, "seed": seed, "report": is_report(seed), "n": problem.x0.size}
    row |= {
        "size": size,
        "psi": problem.psi is not None,
        "about": FAMILIES[name].__doc__,
        "start": start,
    }
    if before and math.isclose(before["start"], start, rel_tol=1e-9) and before["size"] == size:
        row |= {key: before[key] for key in ("f_star", "apart", "rivals")}
    else:
        row["f_star"], row["apart"] = optimum(problem, start, min(LONG, limit))
    task = Task(name, problem.h, problem.rest, problem.x0, row["f_star"], start)
    row["target"] = task.level(LEVEL)
    if "rivals" not in row:
        row["rivals"] = _columns(task, rival_solvers(problem, limit))
    known = [{"solver": rival, **found} for rival, found in row["rivals"].items()]
    solvers = [our_solver(name, problem, more, method, limit) for more in added]
    row["ours"] = _columns(task, solvers, known)
    return row


def _columns(task: Task, solvers: Sequence[Solver], rows: Sequence[Row] = ()) -> dict[str, Row]:
    """What each solver took to the target, by its name."""
    table = harness.run([task], solvers, (LEVEL,), rows=rows).astype({"calls": "Int64"})
    table = table.astype(object).where(table.notna(), None).set_index("solver")
    return table.drop(columns=["problem", "seed", "target"]).to_dict("index")


def _warm_up(name: str, problem: Problem, target: float, added: float, method: Any) -> None:
    """Compile what the run will use: a run that compiles ends early, and is made again."""
    tiny = FAMILIES[name](0, TINY)
    before = math.nan
    while compiling.seconds != before:
        before = compiling.seconds
        if added in (0.0, max(ADDED)):
            ours(tiny, -1e300, added, WARM, method)
        if added == 0.0:
            ours(problem, target, added, WARM, method)


def run(
    json_file: str | None = None,
    quick: bool = False,
    families: Iterable[str] = (),
    seeds: Iterable[int] = SEEDS,
    added: Iterable[float] = ADDED,
    method: Any = "auto",
    reuse: str | None = None,
) -> list[Row]:
    """Measure, print the table, and write the figures.

    The quick form has small problems, one seed, and nothing or 10 ms added. Otherwise `families`
    are parts of names, all if empty, `added` are seconds, and the f* and rivals of `reuse`, a file
    of figures from the same machine, are taken over.
    """
    size, limit = (0.3, 2.0) if quick else (1.0, LIMIT)
    seeds, added = ((0,), (0.0, 0.01)) if quick else (tuple(seeds), tuple(added))
    old = json.loads(Path(reuse).read_text())["rows"] if reuse else []
    earlier = {(row["family"], row["seed"]): row for row in old}
    names = [n for n in FAMILIES if not families or any(part in n for part in families)]
    rows = []
    for name in names:
        for seed in seeds:
            before = earlier.get((name, seed))
            with one_thread():  # process seconds are those of all threads together
                rows.append(measured(name, seed, size, added, method, limit, before))
            _tell(rows[-1])
            if json_file:
                figures = {"level": LEVEL, "rows": rows, "summary": summary(rows)}
                Path(json_file).write_text(json.dumps(figures, indent=1))
    show(rows)
    return rows


def _tell(row: Row) -> None:
    """A line on stderr about a problem that is done."""
    own = ", ".join(f"{key} ms {r['seconds']:.3f} s" for key, r in row["ours"].items())
    best = min((r["seconds"], name) for name, r in row["rivals"].items())
    print(f"{row['family']} {row['seed']}: {own}; {best[1]} {best[0]:.3f} s", file=sys.stderr)
