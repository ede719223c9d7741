"""The bills of ``geartrain bench frontier``: recomputed, cut off, compared."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pandas as pd
import pytest

import geartrain as gt
from geartrain.methods.registry import INNER, METHODS
from geartrain_lab import frontier_report, harness
from geartrain_lab import frontier_rivals as rivals
from geartrain_lab.benches import frontier
from geartrain_lab.benches.frontier import SuiteProblem, bills
from geartrain_lab.frontier_rivals import FIRST, LEFT_OUT, OTHERS, RHOS, Budget
from geartrain_lab.harness import CALLS, Task
from geartrain_lab.problems import (
    graph_laplacian,
    kernel_svm_minimum,
    random_kernel_svm,
    random_shards,
    similarity_constants,
)

pytestmark = [
    pytest.mark.outside,  # a bench in a small form
    pytest.mark.same_everywhere,  # bills are computed again from the calls
]

GRID = SuiteProblem("grid", lambda: graph_laplacian(side=4, rows=10))
SHARDS = SuiteProblem(
    "shards", lambda: random_shards(m=40, n=4, shards=4), constants=similarity_constants
)
SVM = SuiteProblem("svm", lambda: random_kernel_svm(m=12), f_star=kernel_svm_minimum)
BY_NAME = {r.name: r for r in (*FIRST, *OTHERS)}
PLAIN = Task("plain", gt.Quadratic(np.eye(2)), gt.Quadratic(np.eye(2)))


class Unguarded:
    """A budget that ends nothing."""

    def guard(self, inner):
        return inner


@pytest.fixture(scope="module", autouse=True)
def no_clock():
    """Runs are cut off by their bills alone, on a busy machine too."""
    with pytest.MonkeyPatch.context() as patch:
        for limit in ("SECONDS", "SECONDS_OTHERS"):
            patch.setattr(rivals, limit, 1e6)
        yield


@pytest.fixture(scope="module")
def measured():
    """The task of each problem, and its bills."""
    tasks = {p.name: p.task() for p in (GRID, SHARDS, SVM)}
    return {name: (task, bills(task)) for name, task in tasks.items()}


def test_every_method_of_the_library_competes_or_has_a_reason(measured):
    ran = {name for _, found in measured.values() for name in found.rows.method} - {"auto"}
    assert ran == set(BY_NAME)
    assert {BY_NAME[name].unfit.method for name in ran} == set(METHODS)
    inside = {BY_NAME[name].unfit.inner for name in ran} - {""}
    assert inside.isdisjoint(LEFT_OUT)
    assert inside | set(LEFT_OUT) == set(INNER)
    assert all(LEFT_OUT.values())


def test_every_method_has_rows_or_a_reason_on_every_problem(measured):
    for _, found in measured.values():
        ran = set(found.rows.method) - {"auto"}
        left = dict(zip(found.left_out.method, found.left_out.reason, strict=True))
        assert ran.isdisjoint(left)
        assert ran | left.keys() == set(BY_NAME)
        assert all(left.values())


def test_reasons(measured):
    left = {
        (p, row.method): row.reason
        for p, (_, found) in measured.items()
        for row in found.left_out.itertuples()
    }
    assert left["shards", "afb"] == "afb needs a convex h"
    assert left["shards", "acd"] == "a partial derivative of h costs as much as its gradient"
    assert "summand" in left["grid", "katyusha"]
    assert left["grid", "afb(varag)"].startswith(
        "afb(varag) asks g for the gradient of one summand"
    )


@pytest.mark.parametrize(
    ("problem", "name", "kind"),
    [
        (GRID, "acd", "h.coord"),
        (GRID, "afb(nesterov-stich)", "g.coord"),
        (SHARDS, "sc-sae(katyusha)", "g.component"),
        (SHARDS, "katyusha", "g.component"),
        (SVM, "afb(varag)", "g.component"),
        (GRID, "pqn", "g.prox"),
    ],
)
def test_bill_from_the_ledger(measured, problem, name, kind):
    """The same run by hand, ended at the target: shares 1/n and 1/m, to the last bit."""
    task, found = measured[problem.name]
    h, g = problem.make()
    constants = problem.constants(h, g) if name != "pqn" else {}
    for target in frontier.TARGETS[:2]:
        goal = gt.stop.Value(task.level(target))
        method = BY_NAME[name].make(task, Unguarded())
        calls = gt.minimize(h, g, np.zeros(h.n), method=method, stop=goal, **constants).calls
        assert calls[kind] > 0
        N_h = calls["h.grad"] + calls["h.coord"] / h.n
        N_g = calls["g.grad"] + calls["g.prox"] + calls["g.coord"] / h.n
        N_g += calls["g.component"] / (getattr(g, "n_components", None) or 1)
        rows = found.rows[(found.rows.method == name) & (found.rows.target == target)]
        rows = rows.to_dict("records")
        assert [r["rho"] for r in rows] == list(RHOS)
        for row in rows:
            assert {key: row[key] for key in CALLS} == calls
            assert (row["N_h"], row["N_g"], row["cut"]) == (N_h, N_g, "")
            assert row["bill"] == N_h * row["rho"] + N_g


PRICED = ("grad", "coord", "component", "product", "prox")


def test_only_what_has_a_price_is_asked(measured):
    for _, found in measured.values():
        for row in found.rows.to_dict("records"):
            asked = {key for key in CALLS if 0 < row[key] < math.inf}
            assert asked <= {f"{t}.{k}" for t in "hg" for k in PRICED}


def test_summands_of_h_have_their_share():
    h, g = (gt.LinearModel(np.ones((m, 10)), np.ones(m)) for m in (4, 5))
    calls = dict.fromkeys(CALLS, 0) | {"h.grad": 1, "h.component": 2, "h.coord": 5}
    asked = calls | {"g.component": 1, "g.coord": 3}
    assert rivals.worth(Task("t", h, g), asked) == (2.0, 0.5)


def test_a_run_is_cut_off_when_its_bill_is_too_high_at_every_rho():
    budget = Budget(PLAIN, {1: 10.0, 100: 200.0}, math.inf)
    calls = dict.fromkeys(CALLS, 0)
    assert not budget.over(calls | {"h.grad": 1, "g.grad": 50})  # too high at rho = 1 only
    assert not budget.over(calls | {"h.grad": 3, "g.grad": 1})  # at rho = 100 only
    assert not budget.over(calls | {"h.grad": 2, "g.grad": 0})
    assert budget.why == ""
    assert budget.over(calls | {"h.grad": 3, "g.grad": 8})
    assert budget.why == "bill"


def test_gradients_of_h_are_limited():
    budget = Budget(PLAIN, dict.fromkeys(RHOS, math.inf), math.inf)
    calls = dict.fromkeys(CALLS, 0)
    assert not budget.over(calls | {"h.coord": 2 * rivals.MOST - 1})
    assert budget.over(calls | {"h.coord": 2 * rivals.MOST})
    assert budget.why == "bill"


def cut_by(name, budget):
    return dataclasses.replace(BY_NAME[name], limit=lambda task, rows: budget)


def test_an_inner_run_is_cut_off_at_once():
    """One outer iteration would take hundreds of gradients of g; what was reached is kept."""
    h, g = gt.Quadratic(np.eye(40), np.ones(40)), gt.Quadratic(np.diag(np.logspace(-3, 6, 40)))
    asked = []
    counted = gt.Term(g.value_and_grad, L=g.L, n=40)
    counted.value_and_grad = lambda x: (asked.append(1), g.value_and_grad(x))[1]
    task = Task("t", h, counted, np.zeros(40), -1e9, 0.0, facts={"constants": {}})
    budget = Budget(task, dict.fromkeys(RHOS, 30.0), math.inf)
    table = harness.run([task], [cut_by("sae", budget)], frontier.TARGETS)
    assert budget.why == "bill" and list(table.end) == ["bill"] * 4
    # rho = 1 is the last to go over: 1 gradient of h and 30 of g; the monitor looks twice.
    assert 30 <= len(asked) <= 33


def test_the_budget_is_a_multiple_of_the_first_bills(measured, monkeypatch):
    monkeypatch.setattr(rivals, "TIMES", 1e-3)
    task, before = measured["grid"]
    found = bills(task)
    first = {r.name for r in FIRST} | {"auto"}
    for row in found.rows.itertuples():
        assert row.cut == ("" if row.method in first else "bill")
    kept, again = (
        table[table.method.isin(first)].drop(columns="seconds").reset_index(drop=True)
        for table in (before.rows, found.rows)
    )
    pd.testing.assert_frame_equal(again, kept)  # runs are deterministic, but for their seconds


def test_similarity_is_the_hessian_of_the_difference():
    h, g = random_shards(m=120, n=6, shards=4)
    (_, f), (_, f_1) = h.parts
    difference = f.A.T @ f.A / f.A.shape[0] - f_1.A.T @ f_1.A / f_1.A.shape[0]
    size = np.abs(np.linalg.eigvalsh(difference.toarray() / 4.0)).max()
    known = similarity_constants(h, g)
    assert known["L_h"] == pytest.approx(size, rel=2e-3)
    assert known["L_h"] < 0.5 * h.L
    assert known["mu"] == g.mu == 1e-3


def test_minimum_of_the_kernel_svm():
    h, g = random_kernel_svm(m=30)
    found = gt.minimize(h, g, method="pqn", tol=1e-10).fun
    assert kernel_svm_minimum(h, g) == pytest.approx(found, rel=1e-9)


def made(problem, method, rho, bill, N_h, cut=""):
    """A row; runs that were cut off had a bill of 5 rho + 11."""
    row = {"problem": problem, "method": method, "rho": rho, "bill": bill, "target": 1e-5}
    return {**row, "N_h": N_h, "N_g": bill - N_h * rho, "cut": cut, "end_h": 5.0, "end_g": 11.0}


@pytest.fixture
def table():
    """Two problems: `ms` is the cheapest on one, auto fails on the other at rho = 100."""
    rows = []
    for rho in RHOS:
        far, late = rho == 1000, rho == 100
        rows += [
            made("p", "lbfgs(10)", rho, 40.0, 20.0),
            made("p", "lbfgs(50)", rho, 30.0, 16.0),
            made("p", "pqn", rho, 20.0, 4.0),
            made("p", "ms", rho, 10.0, 2.0),
            made("p", "auto", rho, 25.0 if far else 10.0, 2.0),
            made("q", "lbfgs(10)", rho, 8.0, 4.0),
            made("q", "lbfgs(50)", rho, math.inf, math.inf, "clock"),
            made("q", "pqn", rho, 8.0, 2.0),
            made("q", "auto", rho, math.inf if late else 8.8, 2.0, "bill" if late else ""),
        ]
    return rows, [SuiteProblem("p", graph_laplacian), SuiteProblem("q", graph_laplacian)]


def test_summary_is_over_all_methods(table):
    out = frontier_report.summary(*table)
    assert out["h_gradients_pqn_over_lbfgs"] == {"p": 4.0 / 16.0, "q": 0.5}
    assert out["geometric_mean"] == pytest.approx(math.sqrt(0.125))
    assert out["auto_over_cheapest"] == pytest.approx((2.5 * 1.1**5) ** (1 / 11))
    assert out["auto_over_cheapest_worst"] == (2.5, "p", "1e-05", "1000")
    assert out["auto_over_cheapest_far"] == [(2.5, "p", 1e-5, 1000)]
    assert out["auto_not_reached"] == [("q", 1e-5, 100)]
    assert out["cheapest_cells"] == {"ms": 6, "lbfgs(10)": 6, "pqn": 6}
    ratios = [10.0 / 30.0, 25.0 / 30.0, 8.8 / 8.0]
    assert out["auto_over_lbfgs_rho_100"] == pytest.approx(np.prod(ratios) ** (1 / 3))


def test_tables_show_what_was_cut_off(table, capsys):
    rows, problems = table
    frontier_report.report(rows, problems, frontier_report.summary(*table))
    out = capsys.readouterr().out
    calls, winners, everyone = out.split("\n\n")[:3]
    q = calls.splitlines()[-1].split()
    #   number, name, lbfgs(10), (20), (50), pqn, the four that were not run
    assert q == ["2", "q", "4", "/", "4", ".", "t", "2", "/", "6", ".", ".", ".", "."]
    p, q = (line.split() for line in winners.splitlines()[-2:])
    assert p == ["1", "p", *["ms", "10", "1.00"] * 5, "ms", "10", "2.50"]
    assert q[2::3] == ["lbfgs(10)"] * 6
    assert q[3::3] == ["8"] * 6
    assert q[4::3] == ["1.10"] * 4 + [">", "1.10"]
    cells = {line.split()[0]: line.split()[1:] for line in everyone.splitlines()[4:]}
    assert cells["ms"] == ["1.0", "."]
    assert cells["lbfgs(50)"] == ["3.0", "t2.0"]  # (5 rho + 11) / 8 at rho = 1
    assert cells["pqn"] == ["2.0", "1.0"]
    for name in LEFT_OUT:
        assert f"not run: {name}, " in out
    assert "2.50 at p, 1e-05, rho 1000" in out
    assert "auto was cut off before 1e-05 on q, rho 100" in out


def test_command_writes_everything(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(frontier, "suite", lambda quick: [GRID])
    path = tmp_path / "frontier.json"
    frontier.run(str(path), quick=True)
    data = json.loads(path.read_text())
    assert {row["method"] for row in data["rows"]} >= {"auto", "pqn", "acd"}
    assert {row["method"] for row in data["left_out"]} >= {"katyusha"}
    header, *lines = path.with_suffix(".csv").read_text().splitlines()
    assert len(lines) == len(data["rows"])
    assert set(CALLS) | {"cut", "N_h", "N_g", "bill", "rho"} <= set(header.split(","))
    assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert {row["target"] for row in data["timed"]} == set(frontier.TARGETS)
    out = capsys.readouterr().out
    assert "the cheapest method until 0.001" in out
    assert "seconds until 1e-05" in out


def test_a_missing_constant_is_a_reason():
    h, g = gt.Quadratic(np.diag([1.0, 0.0]), np.array([1.0, 0.0])), gt.Quadratic(np.zeros((2, 2)))
    task = Task("flat", h, g, np.zeros(2), -1.0, 0.0, facts={"constants": {}})
    table = harness.run([task], [BY_NAME["aeg"]], (1e-3,))
    assert np.isinf(table["h.grad"]).all() and "AEG needs mu > 0" in table.end[0]


@pytest.mark.parametrize(("bills", "seconds", "why"), [(0.0, 60.0, "bill"), (1e9, -1.0, "clock")])
def test_what_ended_a_run_is_in_its_rows(measured, bills, seconds, why):
    task, _ = measured["grid"]
    budget = Budget(task, dict.fromkeys(RHOS, bills), seconds)
    table = harness.run([task], [cut_by("fgm", budget)], frontier.TARGETS)
    table = table[table.target > 0.0]
    assert list(table.end) == [why] * 3
    assert np.isinf(table[["h.grad", "g.grad"]]).all(axis=None)


def test_smallest_target_that_was_reached_makes_the_budget():
    def row(target, calls):
        return {**dict.fromkeys(CALLS, 0.0), "target": target, "g.grad": calls}

    rows = [row(1e-3, 5.0), row(1e-5, 9.0), row(1e-5, 8.0), row(1e-7, math.inf), row(0.0, 99.0)]
    assert rivals.best_of_first(PLAIN, rows, 3) == 8.0


def test_seconds_are_those_of_the_best_memory(table, capsys):
    rows, _ = table
    times = {"lbfgs(10)": 3.0, "lbfgs(50)": 2.0, "pqn": 4.0}
    timed = [
        {"problem": name, "target": 1e-5, "seconds": s} for name, s in (("p", 1.0), ("q", 8.0))
    ]
    frontier_report.print_seconds(
        [{**row, "seconds": times.get(row["method"], 0.0)} for row in rows], timed
    )
    *_, p, q, mean = capsys.readouterr().out.splitlines()
    assert p.split() == ["1", "p", "2.000", "4.000", "1.000", "0.50"]
    assert q.split()[-1] == "4.00"
    assert mean.split()[-1] == "1.41"
