"""Random problems: the two splits, determinism, and what the families promise."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import geartrain as gt
from geartrain_lab.benches import profile
from geartrain_lab.benches.profile import SOLVERS, auto_at, outcomes
from geartrain_lab.problems.random_convex import (
    FAMILIES,
    LARGEST,
    RandomProblem,
    problem,
    problems,
    seed,
)

BY_NAME = {solver.name: solver for solver in SOLVERS}

pytestmark = pytest.mark.same_everywhere  # numbers that are made by hand

ONE_ROUND = len(FAMILIES)


def test_the_splits_share_no_seed():
    development = {seed("development", k) for k in range(1000)}
    report = {seed("report", k) for k in range(1000)}
    assert len(development) == len(report) == 1000
    assert not development & report


def test_the_split_has_to_be_said():
    with pytest.raises(TypeError):
        problem(k=0)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="development"):
        problem("all", 0)  # type: ignore[arg-type]


def test_the_same_problem_at_every_call():
    for k in range(ONE_ROUND):
        one, two = problem("development", k), problem("development", k)
        assert one.name == two.name
        assert np.array_equal(one.x0, two.x0)
        for a, b in ((one.h, two.h), (one.g, two.g)):
            assert np.array_equal(a.grad(one.x0), b.grad(one.x0))
            assert a.value(one.x0) == b.value(one.x0)


def test_what_is_drawn():
    drawn = list(problems("development", 6 * ONE_ROUND))
    assert all(2 <= p.n <= LARGEST for p in drawn)
    assert min(p.n for p in drawn) <= 3 and max(p.n for p in drawn) > 400
    assert np.median([p.n for p in drawn]) < 60
    assert {p.name.split(", ")[-1].split(" (")[0] for p in drawn} == {
        "from zero",
        "from far",
        "from near",
    }
    for p in drawn:
        if p.n <= 60:
            assert p.g.convex
            assert p.h.convex or "shards" in p.family
        assert np.linalg.norm(p.h.grad(p.x0) + p.g.grad(p.x0)) > 0.0
    sizes = [np.linalg.norm(p.h.grad(p.x0) + p.g.grad(p.x0)) for p in drawn]
    assert min(sizes) < 1e-4 and max(sizes) > 1e4


@pytest.mark.parametrize("family", FAMILIES)
def test_the_terms_hold_what_they_say(family):
    k = list(FAMILIES).index(family)
    candidates = (problem("development", k + i * ONE_ROUND) for i in range(20))
    p = next(c for c in candidates if c.n <= 60 and c.x0.any())
    rng = np.random.default_rng(1)
    size = np.linalg.norm(p.x0) / np.sqrt(p.n)
    x, y = p.x0, p.x0 + 0.1 * size * rng.standard_normal(p.n)
    grad = [p.h.grad(z) + p.g.grad(z) for z in (x, y)]
    assert (grad[1] - grad[0]) @ (y - x) > 0.0  # f is convex
    for term in (p.h, p.g):
        d = rng.standard_normal(p.n) * size
        slope = (term.value(x + 1e-5 * d) - term.value(x - 1e-5 * d)) / 2e-5
        far = abs(term.value(x)) * 1e-11 / 1e-5
        assert slope == pytest.approx(term.grad(x) @ d, rel=1e-4, abs=far + 1e-12)


def test_the_report_is_used_by_the_profile_alone():
    """Nothing in the library or in the benchmarks draws report problems but the profile itself."""
    root = Path(gt.__file__).parents[2]
    places = [*(root / "src").rglob("*.py"), *(root / "benchmarks").rglob("*.py")]
    for path in places:
        if path.name != "profile.py":
            text = path.read_text()
            assert 'problems("report"' not in text and 'problem("report"' not in text, path


# The measure ------------------------------------------------------------------------------


def small(h=None, g=None, x0=None, name="small") -> RandomProblem:
    h = gt.Quadratic(np.diag([1.0, 2.0]), [1.0, 1.0]) if h is None else h
    g = gt.Quadratic(np.diag([30.0, 0.1])) if g is None else g
    return RandomProblem(name, "family", h, g, np.array([3.0, -2.0]) if x0 is None else x0)


class Counting:
    """A quadratic that counts how often it was really asked."""

    n, L, mu, convex = 2, 2.0, 0.5, True

    def __init__(self):
        self.asked = 0

    def value_and_grad(self, x):
        self.asked += 1
        return 0.25 * float(x @ x) + x[0], 0.5 * x + np.array([1.0, 0.0])


def test_a_run_is_solved_where_the_monitor_says_so():
    p = small()
    goal = profile.TOL * np.linalg.norm(p.h.grad(p.x0) + p.g.grad(p.x0))
    seen = []

    def look(intermediate_result):
        x = intermediate_result.x
        seen.append(
            (np.linalg.norm(p.h.grad(x) + p.g.grad(x)), intermediate_result.calls["h.grad"])
        )

    gt.minimize(p.h, p.g, p.x0, method="pqn", tol=1e-9, callback=look)
    expected = next(calls for size, calls in seen if size <= goal)
    outcome = outcome_of(p, "pqn")
    assert outcome.end == "solved" and outcome.climb == 0.0
    assert outcome.N_h == expected


def outcome_of(p, solver):
    return outcomes(p, [BY_NAME[solver]]).iloc[0]


def test_the_watch_is_not_counted():
    h = Counting()
    outcome = outcome_of(small(h), "lbfgs(10)")
    reports = outcome.end_h  # L-BFGS reports at most once per evaluation
    assert outcome.end_h < h.asked <= outcome.end_h + reports + 3


def test_the_newton_method_counts_products():
    outcome = outcome_of(small(), "trust-krylov")
    assert outcome.end == "solved"
    assert outcome.N_h == outcome.N_g > 2
    refused = outcome_of(small(Counting()), "trust-krylov")
    assert "products" in refused.end and refused.end_h == 0.0


def test_values_and_proximal_steps_are_not_free():
    calls = {"h.grad": 3, "h.product": 2, "h.coord": 4, "h.component": 0, "h.value": 5, "h.prox": 1}
    assert profile.worth({**calls, "n": 2, "m_h": 1}, "h") == 3 + 2 + 2 + 5 + 1


def test_runs_far_behind_are_cut_off():
    def most(*taken):
        rows = [
            {"solver": name, "target": profile.TOL, "h.grad": calls}
            for name, calls in zip(profile.LBFGS, taken, strict=True)
        ]
        return profile.limits(None, rows).budget["h.grad"]

    assert most(30.0, 50.0) == profile.TIMES * 30
    assert most(2.0, 50.0) == profile.LEAST
    assert most(INF, INF) == profile.LIMITS["h.grad"]


# The arithmetic ---------------------------------------------------------------------------

INF = np.inf


def test_profiles_of_numbers_made_by_hand():
    costs = {"a": np.array([1.0, 4.0, INF, INF]), "b": np.array([2.0, 2.0, 8.0, INF])}
    assert list(profile.within(costs["a"], np.array([0.5, 1.0, 3.9, 4.0, 1e9]))) == [
        0.0,
        0.25,
        0.25,
        0.5,
        0.5,
    ]
    relative = profile.ratios_to_best(costs)
    assert list(relative["a"]) == [1.0, 2.0, INF, INF]
    assert list(relative["b"]) == [2.0, 1.0, 1.0, INF]
    assert list(profile.best_of(costs, "a", "b")) == [1.0, 2.0, 8.0, INF]


def test_figures_of_numbers_made_by_hand():
    mine = np.array([1.0, 8.0, INF, INF, 5.0])
    other = np.array([2.0, 2.0, 3.0, INF, INF])
    of = profile.figures(mine, other)
    assert (of.problems, of.unsolved, of.alone) == (3, 1, 1)
    assert of.geometric_mean == pytest.approx((0.5 * 4.0 * 1000.0) ** (1 / 3))
    assert of.worst == of.percentile_95 == INF
    many = profile.figures(np.arange(1.0, 101.0), np.ones(100))
    assert many.percentile_95 == 95.0 and many.worst == 100.0


def row(name, solver, N_h, N_g, climb=0.0, end="solved"):
    return {
        "problem": name,
        "family": "family",
        "n": 2,
        "solver": solver,
        "N_h": N_h,
        "N_g": N_g,
        "end": end,
        "climb": climb,
        "end_h": 9.0,
    }


@pytest.fixture
def planted():
    """Two problems; `pqn` fails on the second, and `auto` climbs there at one price ratio."""
    rows = []
    for name, ten, fifty in (("first", 10.0, 20.0), ("second", 40.0, 30.0)):
        rows += [row(name, "lbfgs(10)", ten, ten), row(name, "lbfgs(50)", fifty, fifty)]
        rows += [row(name, other, INF, INF, end="budget") for other in ("trust-krylov", "afb")]
        rows.append(row(name, "fgm", 100.0, 100.0))
        rows += [row(name, auto_at(rho), 10.0, 50.0) for rho in profile.RHOS]
    rows += [row("first", "pqn", 5.0, 20.0), row("second", "pqn", INF, INF, end="stalled")]
    for r in rows:
        if (r["problem"], r["solver"]) == ("second", "auto(30)"):
            r["climb"] = 0.5
    return pd.DataFrame(rows)


def test_unsolved_problems_and_climbs_are_named(planted, capsys):
    found = profile.summary(planted)
    assert found["unsolved"] == [{"problem": "second", "solver": "pqn", "end": "stalled"}]
    assert found["climbs"] == [{"problem": "second", "solver": "auto(30)", "climb": 0.5}]
    assert found["worst"]["pqn"][0] == {"problem": "second", "ratio": INF, "cost": INF}
    assert found["worst"]["auto"][0] == {"problem": "first", "ratio": 1.0, "cost": 10.0}
    profile.show(planted, found)
    printed = capsys.readouterr().out
    assert f"{'pqn':12}second: stalled" in printed
    assert "auto(30)    second: 0.5" in printed


def test_bills_made_by_hand(planted):
    at_one = profile.summary(planted)["bills"][1]
    # first: auto 60, L-BFGS 20, pqn 25; second: auto 60, L-BFGS 60, pqn unsolved.
    assert at_one["auto / L-BFGS"]["worst"] == 3.0
    assert at_one["auto / cheaper"]["geometric_mean"] == pytest.approx(np.sqrt(3.0))
    assert at_one["pqn / L-BFGS"]["unsolved"] == 1
    assert at_one["auto within cap"] == 0.5
    assert at_one["auto beyond"] == ["first"]


@pytest.mark.outside  # pictures
def test_the_bench_writes_figures_and_pictures(tmp_path, monkeypatch, planted, capsys):
    monkeypatch.setattr(profile, "measure", lambda split, count, start: planted)
    profile.run(str(tmp_path / "profile.json"), quick=True)
    data = json.loads((tmp_path / "profile.json").read_text())
    assert data["split"] == "report" and len(data["rows"]) == len(planted)
    assert "Infinity" not in (tmp_path / "profile.json").read_text()
    for name in ("profile.png", "profile_bills.png"):
        assert (tmp_path / name).stat().st_size > 10_000
    assert "price ratio 1000" in capsys.readouterr().out


@pytest.mark.outside  # processes
def test_the_rows_do_not_depend_on_the_number_of_processes():
    one, two = (profile.measure("development", 2, 129, processes=k) for k in (1, 2))
    pd.testing.assert_frame_equal(one, two)


# Sensitivity ------------------------------------------------------------------------------


def test_every_tuning_can_be_changed_and_put_back():
    path = Path(__file__).parents[1] / "benchmarks" / "sensitivity.py"
    spec = importlib.util.spec_from_file_location("sensitivity", path)
    sensitivity = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sensitivity)
    found = sensitivity.tunings("geartrain.methods")
    tuning = type(gt.methods.ProximalQuasiNewton().tuning)
    assert tuning in found
    name, default = next((f.name, f.default) for f in fields(tuning) if type(f.default) is float)
    with sensitivity.changed(tuning, name, 2.0 * default):
        assert getattr(gt.methods.ProximalQuasiNewton().tuning, name) == 2.0 * default
    assert getattr(gt.methods.ProximalQuasiNewton().tuning, name) == default
    assert sensitivity.scaled((("block", 60), 0.8, True), 2.0) == (("block", 120), 0.9, True)
    assert sensitivity.scaled((3, 0.8), 0.5) == (2, 0.4)


def test_a_solver_that_cannot_take_a_problem_says_why():
    unbounded = problem("development", list(FAMILIES).index("poisson + laplacian"))
    outcome = outcome_of(unbounded, "fgm")
    assert np.isinf(outcome.N_h) and "L_h" in outcome.end


def test_the_best_memory_is_chosen_problem_by_problem(planted):
    rivals = profile.competitors(planted)
    assert list(rivals["L-BFGS, best memory"]) == [10.0, 30.0]


def test_a_file_that_cannot_be_written_is_found_before_the_measurement(tmp_path, monkeypatch):
    monkeypatch.setattr(profile, "measure", lambda *_: pytest.fail("measured"))
    with pytest.raises(OSError, match="no"):
        profile.run(str(tmp_path / "no" / "profile.json"))


def test_rows_of_a_measurement(monkeypatch):
    drawn = [small(name="a"), small(x0=np.array([0.1, 5.0]), name="b")]
    monkeypatch.setattr(profile, "problem", lambda split, k: drawn[k])
    rows = profile.measure("development", 2, processes=1)
    solved = rows[rows.end == "solved"]
    assert list(solved.problem + solved.solver) == [p + s.name for p in "ab" for s in SOLVERS]
    assert profile.summary(rows)["unsolved"] == []
