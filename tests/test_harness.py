"""The harness of the benchmarks: what a row says, what ends a run, and how a problem is added."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

import geartrain as gt
from geartrain_lab import harness
from geartrain_lab.benches import composite, frontier
from geartrain_lab.harness import CALLS, END, OverBudget, Solver, Task

pytestmark = pytest.mark.same_everywhere  # rows, computed again by hand

TARGETS = (1e-1, 1e-3, 1e-6)


def quadratic_task(**more):
    h, g = gt.Quadratic(np.diag([1.0, 2.0]), [1.0, 1.0]), gt.Quadratic(np.diag([30.0, 0.1]))
    x = np.array([1 / 31, 1 / 2.1])
    f_star = h.value(x) + g.value(x)
    return Task("q", h, g, np.array([3.0, -2.0]), f_star, **more)


def solver(name="fgm", **more):
    return Solver(name, lambda task, limit: name, **more)


def test_rows_are_those_of_runs_that_end_at_each_target():
    task = quadratic_task()
    table = harness.run([task], [solver(), solver("pqn")], TARGETS)
    assert list(table.target) == 2 * [*TARGETS, END]
    for row in table[table.target != END].to_dict("records"):
        stop = gt.stop.Value(task.level(row["target"]))
        calls = gt.minimize(task.h, task.g, task.x0, method=row["solver"], stop=stop).calls
        assert {key: row[key] for key in CALLS} == calls and row["end"] == ""
    whole = table[table.target == END]
    last = table[table.target == TARGETS[-1]]
    assert list(whole["h.grad"]) == list(last["h.grad"])


def test_accuracies_are_relative_where_the_start_is_known():
    plain = quadratic_task()
    start = plain.h.value(plain.x0) + plain.g.value(plain.x0)
    scaled = quadratic_task(f_0=start)
    assert scaled.level(1e-2) == pytest.approx(plain.f_star + 1e-2 * (start - plain.f_star))
    few, many = (harness.run([t], [solver()], (1e-6,))["h.grad"][0] for t in (scaled, plain))
    assert few < many


def test_a_limit_sees_the_rows_before_it_and_tells_what_ended_the_run():
    class Cut(gt.stop.Calls):
        why = "dear"

    def limit(task, rows):
        (first,) = (r for r in rows if r["target"] == TARGETS[-1])
        return Cut({"h.grad": int(first["h.grad"])})

    table = harness.run([quadratic_task()], [solver("pqn"), solver(limit=limit)], TARGETS)
    pqn, fgm = (table[table.solver == name] for name in ("pqn", "fgm"))
    most = pqn["h.grad"].iloc[-1]
    assert fgm["h.grad"].iloc[-1] == most  # the row of the whole run
    assert math.isinf(fgm["h.grad"].iloc[-2]) and fgm.end.iloc[-2] == "dear"


def test_solvers_that_cannot_run_have_a_reason():
    nothing = gt.Term(lambda x: (0.0, 0.0 * x), n=2)
    task = Task("t", nothing, nothing, np.ones(2), -1.0)
    unfit = solver("pqn", unfit=lambda task: "not today")
    table = harness.run([task], [unfit, solver("fgm")], (1e-3,))
    assert np.isinf(table[list(CALLS)]).all(axis=None)
    assert list(table.end[:2]) == ["not today"] * 2 and "L_h" in table.end[2]


def test_an_error_is_told_or_raised_and_an_interrupt_is_raised():
    class Broken(gt.methods.FGM):
        def step(self, problem, state):
            raise error

    broken = Solver("broken", lambda task, limit: Broken())
    error = ZeroDivisionError("oh")
    with pytest.raises(ZeroDivisionError):
        harness.run([quadratic_task()], [broken], (1e-3,))
    table = harness.run([quadratic_task()], [broken], (1e-3,), forgiving=True)
    assert set(table.end) == {"ZeroDivisionError: oh"}
    error = OverBudget()
    table = harness.run([quadratic_task()], [broken], (1e-3,))
    assert table["h.grad"].iloc[0] == math.inf and table["h.grad"].iloc[1] < math.inf
    error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        harness.run([quadratic_task()], [broken], (1e-3,), forgiving=True)


def test_a_solver_from_elsewhere_is_given_the_target_and_the_rows():
    def solve(task, target, rows):
        return {"seconds": 1.0 + len(rows), "calls": task.level(target)}

    pair = [Solver("a", solve=solve), Solver("b", solve=solve)]
    task = quadratic_task()
    table = harness.run([task], pair, (1e-3,))
    assert list(table.seconds) == [1.0, 2.0] and table.calls[0] == task.f_star + 1e-3


def new_terms():
    """A problem that no bench has."""
    return gt.Quadratic(np.diag([1.0, 0.1]), [1.0, 2.0]), gt.Quadratic(np.diag([0.5, 50.0]))


@pytest.mark.outside  # two benches in a small form
def test_one_entry_adds_a_problem_to_a_bench(tmp_path, monkeypatch, capsys):
    """Terms and a name in the file of the bench are all: table, print and files follow."""
    entry = frontier.SuiteProblem("new one", new_terms)
    monkeypatch.setattr(frontier, "suite", lambda quick: [entry])
    frontier.run(str(tmp_path / "frontier.json"))
    printed = capsys.readouterr().out
    assert "1 new one" in printed
    assert set(pd.read_csv(tmp_path / "frontier.csv").problem) == {"new one"}
    with_psi = composite.CompositeProblem(
        "another", lambda: (*new_terms(), gt.L1(0.1)), lambda h, g: h.L + g.L
    )
    monkeypatch.setattr(composite, "suite", lambda quick: [with_psi])
    composite.run(str(tmp_path / "composite.json"))
    assert "another" in capsys.readouterr().out
