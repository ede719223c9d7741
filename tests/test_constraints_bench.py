"""The bench of linear constraints: its rivals do their work, and its figures are what they say."""

from __future__ import annotations

import json
import math
from functools import partial

import numpy as np
import pandas as pd
import pytest

import geartrain as gt
from geartrain_lab import constrained_rivals as rivals
from geartrain_lab.benches import constraints as bench
from geartrain_lab.laws import composite as law
from geartrain_lab.laws.law import exponent
from geartrain_lab.problems import constrained
from geartrain_lab.problems.constrained import FAMILIES, Constrained, Constraints

pytestmark = [
    pytest.mark.outside,  # a bench in a small form
    pytest.mark.same_everywhere,  # wide margins, and figures that are computed again
]

SMALL = {
    "portfolio": partial(constrained.portfolio, n=24),
    "adverse": FAMILIES["adverse"],
}


def by_hand():
    """Half the squared distance to (3, 1, 0), on x_1 + x_2 + x_3 = 1, x >= 0: x* = (1, 0, 0)."""
    h = gt.Quadratic(0.5 * np.eye(3), [3.0, 1.0, 0.0])
    C = Constraints(np.ones((1, 3)), 1.0, 1.0, 0.0)
    return Constrained(h, gt.Quadratic(0.5 * np.eye(3)), C, np.full(3, 1 / 3))


@pytest.mark.parametrize("name", [f for f in FAMILIES if "a9a" not in f])
def test_problems_are_feasible_and_the_same_for_a_seed(name):
    p, again, other = (FAMILIES[name](seed) for seed in (1, 1, 2))
    x0 = p.set.term().prox(p.start, 1.0)
    assert p.set.violation(x0) <= 1e-9
    assert p.f(x0) == again.f(x0) and np.array_equal(p.set.A, again.set.A)
    assert not np.array_equal(p.set.A, other.set.A) or p.f(p.start) != other.f(other.start)
    assert gt.check_term(p.h, n=p.h.n, calls=20).ok


@pytest.mark.parametrize(
    "solve", [*rivals.RIVALS.values(), *([rivals.clarabel] if rivals.has_clarabel() else [])]
)
def test_rivals_end_at_the_solution(solve):
    p = by_hand()
    trace = solve(p, p.start)
    np.testing.assert_allclose(trace.x, [1.0, 0.0, 0.0], atol=1e-4)
    assert p.set.violation(trace.x) <= rivals.FEASIBLE
    # the terms in the words of cvxpy are the terms
    small = SMALL["portfolio"](0)
    x0 = small.set.term().prox(small.start, 1.0)
    fine = gt.minimize(small.h, small.g + small.set.term(), x0, method="pqn", tol=1e-9)
    found = solve(small, x0)
    assert small.f(found.x) == pytest.approx(fine.fun, rel=1e-4)


def test_a_call_is_a_point_that_was_not_asked_before():
    p, seen = by_hand(), []

    def value_and_grad(x):
        seen.append(x.tobytes())
        return gt.Quadratic(0.5 * np.eye(3), [3.0, 1.0, 0.0]).value_and_grad(x)

    watched = Constrained(gt.Term(value_and_grad, n=3), p.g, p.set, p.start)
    for solve in rivals.RIVALS.values():
        seen.clear()
        trace = solve(watched, p.start)
        assert len(trace.f) == len(set(seen)) == len(seen)
        assert trace.seconds == sorted(trace.seconds)


def test_points_outside_do_not_count():
    trace = rivals.Trace(f=[5.0, 0.0, 1.0, 0.5], violation=[0.0, 1e-3, 0.0, 1e-7])
    assert trace.reached(5.0) == 1 and trace.reached(1.0) == 3
    assert trace.reached(0.7) == 4 and trace.reached(0.1) is None


def test_measured_and_reported(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bench, "FAMILIES", SMALL)
    monkeypatch.setattr(bench, "SEEDS", dict.fromkeys(SMALL, range(1)))
    file = tmp_path / "constraints.json"
    bench.run(str(file))
    shown = capsys.readouterr().out
    data = json.loads(file.read_text())
    table = pd.DataFrame(data["rows"])
    assert set(table.solver) >= {"auto", "pqn", "AFB", "FISTA", "SLSQP", "trust-constr"}
    assert ("Clarabel s" in shown) == rivals.has_clarabel()
    ours = table[table.solver == "auto"]
    assert (ours.end == "").all() and len(ours) == 3 * len(bench.TARGETS)
    for _, runs in ours.groupby(["problem", "black_box"]):
        assert runs.calls.is_monotonic_increasing
    known = table[~table.black_box & (table.target == bench.MAIN)]
    calls = {(r.problem, r.solver): r.calls for r in known.itertuples()}
    found = bench.ratios(table[~table.black_box], bench.MAIN)
    for problem, ratio in found.items():
        assert ratio == calls[problem, "auto"] / calls[problem, "SLSQP"]
    (whole,) = (
        r
        for r in data["tables"]["constraints_summary"]["rows"]
        if r[:3] == ["adverse", "auto", "1e-06"]
    )
    assert float(whole[3]) == pytest.approx(found["adverse 0"], abs=1e-3)


def test_own_seconds_do_not_contain_those_of_h():
    clock = bench.ShiftedClock()
    h = gt.Quadratic(np.eye(400), np.ones(400))
    hidden = bench._hidden(h, clock)
    before = clock.added
    hidden.value_and_grad(np.zeros(400))
    assert clock.added < before
    assert not hasattr(hidden, "Q") and hidden.L is None


@pytest.mark.parametrize("kind", law.CONSTRAINTS)
def test_calls_do_not_feel_the_condition_of_the_constraints(kind):
    levels = (1.0, 30.0, 1000.0)
    calls = [
        law.calls_under_constraints("afb", kappa=kappa, set=kind, seed=0, n=32) for kappa in levels
    ]
    of_h, of_g = (exponent(levels, of) for of in zip(*calls, strict=True))
    assert abs(of_h) <= 0.05 and abs(of_g) <= 0.05


@pytest.mark.parametrize("kind", law.CONSTRAINTS)
@pytest.mark.parametrize("kappa", [1.0, 1000.0])
def test_the_planted_point_is_the_solution(kind, kappa):
    p = law.constrained(kind, kappa, n=32)
    d = p.h.grad(p.x_star) + p.smooth.grad(p.x_star)
    assert np.linalg.norm(p.psi.residual(p.x_star, d)) <= 1e-9 * np.linalg.norm(d)
    assert np.linalg.norm(d) > 0.5  # the constraints hold the point
    assert np.linalg.cond(p.psi.A) == pytest.approx(kappa, rel=1e-6)


@pytest.mark.parametrize(
    ("calls", "seconds", "price"),
    [((10, 60), (0.6, 0.1), 0.01), ((10, 60), (0.1, 0.2), 0.0), ((60, 60), (0.6, 0.1), math.inf)],
)
def test_where_it_pays(calls, seconds, price):
    rows = [
        {"problem": "p", "target": bench.MAIN, "solver": s, "calls": c, "seconds": t}
        for s, c, t in zip(("auto", "SLSQP"), calls, seconds, strict=True)
    ]
    (found,) = bench.break_even(pd.DataFrame(rows))
    assert found == pytest.approx(price)
