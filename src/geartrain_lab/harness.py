"""The harness of all benchmarks: solvers run on problems, and a table tells what they asked.

`run` hands every problem and solver to `geartrain.compare` and reads from the recorded run when
each target was first reached. A row of the table belongs to a problem, a solver, a seed and a
target. Its columns are those of `Task.facts`, ``end`` (empty where the target was reached,
otherwise what ended the run), ``seconds``, and the calls until then by kind, infinite where the
target was not reached. The row with the target `END` tells of the whole run.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tqdm import tqdm

import geartrain as gt
from geartrain.comparison import ComparedRun
from geartrain.comparison.table import CANNOT_RUN
from geartrain.core.status import Status
from geartrain.core.stopping import Rule
from geartrain.oracles.ledger import in_gradients
from geartrain.oracles.questions import kinds
from geartrain_lab.store import pandas

Row = dict[str, Any]
CALLS = tuple(f"{term}.{kind}" for term in ("h", "g") for kind in kinds())
END = 0.0  # the target of the row that tells of the whole run


class OverBudget(Exception):
    """Raised by an inner method to end a run within an iteration."""


@dataclass(frozen=True, eq=False)
class Task:
    """A problem f = h + g as a benchmark states it; g may hold a non-smooth term."""

    name: str
    h: Any
    g: Any
    x0: Any = None
    f_star: float = math.nan
    f_0: float | None = None  # f(x0); without it accuracies are f - f* and not relative
    # Arguments of `geartrain.minimize` for all solvers, such as constants.
    options: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)  # further columns of the table

    @property
    def fall(self) -> float:
        """What accuracies are divided by."""
        return 1.0 if self.f_0 is None else self.f_0 - self.f_star

    def level(self, target: float) -> float:
        return self.f_star + target * self.fall

    def in_gradients(self, calls: Any) -> tuple[Any, Any]:
        """Calls of h and of g in gradients; `calls` may be a dict or a table."""
        n = self.h.n
        N_h, N_g = (
            in_gradients(calls, name, n, int(getattr(term, "n_components", None) or 1))
            for name, term in (("h", self.h), ("g", self.g))
        )
        return N_h, N_g


class Gaps:
    """Accuracies of the recorded points of a run: f - f*, as `Task` scales it."""

    options: Mapping[str, Any] = {}

    def __init__(self, task: Task) -> None:
        self._task = task

    def marks(self, run: ComparedRun) -> tuple[Any, Mapping[str, Any]]:
        """The accuracy of every look at the run, and seconds and calls until then."""
        if not len(run.rows):
            return np.zeros(0), {}
        columns = {key: run.column(key) for key in ("seconds", *run.calls)}
        return (run.column("f") - self._task.f_star) / self._task.fall, columns

    def facts(self) -> Row:
        return {}


def _nothing(task: Task) -> str:
    return ""


def _no_options(task: Task) -> Mapping[str, Any]:
    return {}


def _no_limit(task: Task, rows: list[Row]) -> Rule | None:
    return None


@dataclass(frozen=True)
class Solver:
    """A method as it takes part, or a solver from elsewhere."""

    name: str
    make: Callable[[Task, Any], Any] | None = None  # the method, by the rule of `limit`
    options: Callable[[Task], Mapping[str, Any]] = _no_options  # of `geartrain.minimize`
    # A further stopping rule, by the rows of other solvers; its ``why`` says what ended the run.
    limit: Callable[[Task, list[Row]], Rule | None] = _no_limit
    unfit: Callable[[Task], str] = _nothing  # why the solver cannot take the task
    seeds: Sequence[int] = (0,)  # one run each
    # Of a solver from elsewhere, instead of `make`: task, target and earlier rows to its columns.
    solve: Callable[[Task, float, list[Row]], Row] | None = None


def run(
    tasks: Iterable[Task],
    solvers: Sequence[Solver],
    targets: Sequence[float],
    *,
    watch: Callable[[Task], Any] = Gaps,
    forgiving: bool = False,
    rows: Sequence[Row] = (),
) -> Any:
    """Run all solvers on all problems; the table that the docstring of the module describes.

    `watch` makes what judges the points of a run (see `Gaps`). A `forgiving` run tells exceptions
    in its rows. `rows` are earlier ones on the same problem, which limits may depend on.
    """
    out: list[Row] = []
    for task in tasks:
        own = list(rows)
        for solver in solvers:
            for seed in solver.seeds:
                own += _rows(task, solver, seed, targets, watch(task), own, forgiving)
        out += own[len(rows) :]
    return pandas().DataFrame(out)


def told(tasks: Sequence[Callable[[], Task]], names: Sequence[str]) -> Iterable[Task]:
    """Make the problems one after the other, under a bar that names them."""
    bar = tqdm(zip(tasks, names, strict=True), total=len(tasks))
    for make, name in bar:
        bar.set_description(name)
        yield make()


def _rows(
    task: Task,
    solver: Solver,
    seed: int,
    targets: Sequence[float],
    watch: Any,
    rows: list[Row],
    forgiving: bool,
) -> list[Row]:
    head = {"problem": task.name, **task.facts, "solver": solver.name, "seed": seed}
    if solver.solve is not None:
        return [{**head, "target": t, **solver.solve(task, t, rows)} for t in targets]
    unknown = dict.fromkeys(("seconds", *CALLS), math.inf)
    reason, found, limit = solver.unfit(task), None, None
    if not reason:
        limit = solver.limit(task, rows)
        found, reason = _attempt(task, solver, seed, limit, min(targets), watch, forgiving)
    if found is None:
        return [{**head, "target": t, "end": reason, **unknown} for t in (*targets, END)]
    ended = getattr(limit, "why", "") or found.status.lower()
    accuracy, columns = watch.marks(found)
    out = []
    for target in targets:
        hit = np.flatnonzero(accuracy <= target)
        reached = {key: column[hit[0]] for key, column in columns.items()} if hit.size else {}
        end = {"target": target, "end": "" if hit.size else ended}
        out.append({**head, **end, **watch.facts(), **unknown, **reached})
    whole = {"seconds": found.seconds, **found.calls}
    return [*out, {**head, "target": END, "end": ended, **watch.facts(), **unknown, **whole}]


def _attempt(
    task: Task,
    solver: Solver,
    seed: int,
    limit: Rule | None,
    target: float,
    watch: Any,
    forgiving: bool,
) -> tuple[ComparedRun | None, str]:
    """The run until the target, or the reason why there is none."""
    assert solver.make is not None
    method = solver.make(task, limit)
    options = {**task.options, **solver.options(task), **watch.options}
    goal = None if math.isnan(task.f_star) else gt.stop.Value(task.level(target))
    rules = [rule for rule in (goal, limit) if rule is not None]
    if rules:
        options["stop"] = rules[0] if len(rules) == 1 else gt.stop.any_of(*rules)
    try:
        (found,) = gt.compare(
            task.h, task.g, task.x0, methods={solver.name: method}, seeds=[seed], **options
        ).trials
    except OverBudget as error:
        res = error.partial_result  # type: ignore[attr-defined]
        found = ComparedRun(
            method=solver.name,
            seed=seed,
            status=Status(res.status).name,
            message=res.message,
            calls=dict(res.calls),
            columns=tuple(res.history),
            rows=np.array(res.history.rows, dtype=float),
        )
    except Exception as error:
        if not forgiving:
            raise
        return None, f"{type(error).__name__}: {error}"
    if found.status == Status.INTERRUPTED.name:  # half a run makes no table
        raise KeyboardInterrupt
    return (None, found.message) if found.status == CANNOT_RUN else (found, "")


def one_thread() -> contextlib.AbstractContextManager[object]:
    """Matrix products on one core, as the compiled loops; unchanged without threadpoolctl."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return contextlib.nullcontext()
    return threadpool_limits(1)


def run_whole(*args: Any, **kwargs: Any) -> Any:
    """`geartrain.minimize`, except that Ctrl-C raises: half a run makes no table."""
    res = gt.minimize(*args, **kwargs)
    if res.status == Status.INTERRUPTED:
        raise KeyboardInterrupt
    return res


def lowest(h: Any, g: Any, x0: Any, methods: Sequence[Any], rule: Rule) -> float:
    """The smallest value at the ends of long runs, which stands for f*."""
    named = dict(zip(map(str, range(len(methods))), methods, strict=True))
    trials = gt.compare(h, g, x0, methods=named, stop=rule).trials
    if any(trial.status == Status.INTERRUPTED.name for trial in trials):
        raise KeyboardInterrupt
    return min(trial.f for trial in trials)


def geometric_mean(values: Any) -> float:
    """Exp of the mean logarithm; nan of nothing."""
    return math.exp(sum(map(math.log, values)) / len(values)) if len(values) else math.nan


def by_solver(table: Any, column: str) -> Any:
    """A row per problem and a column per solver, both in the order of the runs."""
    wide = table.pivot(index="problem", columns="solver", values=column)
    return wide.loc[table.problem.unique(), table.solver.unique()]
