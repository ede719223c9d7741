"""The bench of equilibria: its problems are monotone, and its figures are what they say."""

from __future__ import annotations

import dataclasses
import functools
import json
import math

import numpy as np
import pandas as pd
import pytest

import geartrain as gt
from geartrain_lab.benches import equilibria as bench
from geartrain_lab.laws import equilibria as law
from geartrain_lab.laws.law import Sweep, exponent
from geartrain_lab.problems import equilibria as problems
from geartrain_lab.problems.equilibria import FAMILIES, NAMED, Equilibrium

pytestmark = [
    pytest.mark.outside,  # a bench in a small form
    pytest.mark.same_everywhere,  # wide margins, and figures that are computed again
]


@pytest.mark.parametrize("name", [*FAMILIES, *NAMED])
def test_problems_are_monotone_and_the_same_for_a_seed(name):
    rng = np.random.default_rng(0)
    for seed in range(3):
        p, again, other = ({**FAMILIES, **NAMED}[name](s) for s in (seed, seed, seed + 1))
        z0 = p.projected(p.start)
        assert np.array_equal(p.R(z0), again.R(z0))
        assert not np.array_equal(p.start, other.start) or not np.array_equal(
            p.R(p.start), other.R(other.start)
        )
        for size in (0.1, 1.0, 10.0):
            u, v = (p.projected(z0 + size * rng.standard_normal(z0.size)) for _ in range(2))
            change, step = p.R(u) - p.R(v), u - v
            rounding = 1e-12 * np.linalg.norm(change) * np.linalg.norm(step)
            assert change @ step >= -rounding


def test_the_residual_knows_the_set_and_takes_no_nan():
    boxed = Equilibrium(lambda z: z - 2.0, np.zeros_like, np.zeros(2), lambda: gt.Box(0, 1))
    assert bench.residual(boxed, np.ones(2)) == 0.0  # pushed outwards
    assert bench.residual(boxed, np.zeros(2)) == pytest.approx(math.sqrt(8.0))
    lost = Equilibrium(lambda z: z * math.nan, np.zeros_like, np.zeros(2))
    assert bench.residual(lost, np.zeros(2)) == math.inf


# Twice the proven step is worth a try where L is too large; here it is not.
USUAL = [solver for solver in bench.SOLVERS if solver.name != "extragradient, L/2"]


@pytest.mark.parametrize("solver", USUAL, ids=lambda solver: solver.name)
@pytest.mark.parametrize("boxed", [False, True])
def test_every_solver_solves_an_easy_problem_and_tells_its_calls(solver, boxed):
    asked = []

    def P(z):
        return np.append(z[3:], -z[:3]) + z - np.arange(6.0)

    def Q(z):
        asked.append(z)
        return z

    C = (lambda: gt.Box(-1.0, 1.0)) if boxed else None
    p = Equilibrium(P, Q, np.zeros(6), C)
    task = bench.task("easy", "random", "easy", lambda seed: p, 0)
    asked.clear()
    row = solver.solve(task, 1e-6, [])
    assert row["end"] == "" and row["calls"] >= 2
    judged = row["of Q"] if solver.name in bench._MAPS else 1  # at no cost; and R(x0)
    assert len(asked) == row["of Q"] + judged + 1


def test_a_rival_is_cut_off_by_a_better_one():
    rows = [
        {"solver": "auto", "calls": 3, "end": ""},
        {"solver": "extragradient", "calls": 7, "end": "stalled"},
        {"solver": "SciPy hybr", "calls": 20, "end": ""},
    ]
    assert bench._most(rows[:2]) == bench.RIVAL_CALLS and bench._most(rows) == 40


def table_of(calls, ends=()):
    """A table of one problem."""
    rows = [
        {"problem": "p", "solver": s, "calls": c, "end": "lost" * (s in ends)}
        for s, c in calls.items()
    ]
    return pd.DataFrame(rows)


def test_ratios_are_to_the_best_rival_that_succeeds():
    calls = {"auto": 10, "hpe": 40, "SciPy hybr": 5, "anderson": 20}
    assert bench.ratios(table_of(calls), "auto")["p"] == 2.0
    assert bench.ratios(table_of(calls, ["SciPy hybr"]), "auto")["p"] == 0.5
    assert bench.ratios(table_of(calls, ["auto"]), "auto")["p"] == math.inf
    nobody = table_of(calls, ["SciPy hybr", "anderson"])
    assert bench.ratios(nobody, "hpe")["p"] == 40 / bench.RIVAL_CALLS


def test_measured_and_reported(tmp_path, monkeypatch, capsys):
    small = {
        name: lambda seed, make=FAMILIES[name]: make(seed, n=8) for name in ("Cournot", "linear")
    }
    monkeypatch.setattr(bench, "FAMILIES", small)
    monkeypatch.setattr(bench, "NAMED", {"game": lambda seed: problems.bilinear(2 * seed, n=6)})
    file = tmp_path / "equilibria.json"
    bench.run(str(file), quick=True)
    shown = capsys.readouterr().out
    data = json.loads(file.read_text())
    table = pd.DataFrame(data["rows"])
    assert set(table.solver) == {s.name for s in bench.SOLVERS} and table.problem.nunique() == 5
    assert (table[table.solver == "auto"].end == "").all()
    found = {row[0]: row for row in data["tables"]["equilibria"]["rows"]}
    assert set(found) == set(table.problem) and all(name in shown for name in found)
    ratio = bench.ratios(table, "auto")
    assert all(
        float(row[2]) == pytest.approx(ratio[name], abs=0.006) for name, row in found.items()
    )
    listed = [float(row[2]) for row in found.values()]
    assert listed == sorted(listed, reverse=True)  # losses first
    whole = data["tables"]["equilibria_summary"]["rows"][0]
    assert whole[:2] == ["random", "auto"] and whole[-2:] == ["0", "4"]


# Paper: variational inequalities
def test_calls_of_P_do_not_feel_Q():
    few = [law.calls("hpe", L_P=1.0, L_Q=L_Q, mu=0.2, n=16) for L_Q in (3.0, 30.0)]
    assert exponent((3.0, 30.0), [P for P, _ in few]) <= 0.1
    both = [law.calls("extragradient", L_P=1.0, L_Q=L_Q, mu=0.2, n=16) for L_Q in (3.0, 30.0)]
    assert exponent((3.0, 30.0), [P for P, _ in both]) >= 0.5


def test_calls_of_P_grow_as_its_own_constants_say():
    of_L = [law.calls("hpe", L_P=L_P, L_Q=10.0, mu=0.3, n=16)[0] for L_P in (1.0, 10.0)]
    of_mu = [law.calls("hpe", L_P=1.0, L_Q=10.0, mu=mu, n=16)[0] for mu in (0.3, 0.03)]
    assert exponent((1.0, 10.0), of_L) <= 1.1
    assert exponent((1.0, 10.0), of_mu) <= 1.1


def test_the_law_is_drawn(tmp_path, capsys):
    one = Sweep("L_Q", (3.0, 10.0), {"L_P": 1.0, "mu": 0.3})
    measure = functools.partial(law.calls, n=8)
    small = dataclasses.replace(law.EQUILIBRIA, sweeps=[one], measure=measure)
    small.run("equilibria", tmp_path, quick=True)
    assert "L_Q: 3, 10 (L_P = 1, mu = 0.3)" in capsys.readouterr().out
    assert (tmp_path / "equilibria_law.png").stat().st_size > 10_000
    rows = pd.read_csv(tmp_path / "equilibria_law.csv")
    at = rows[(rows.method == "hpe") & (rows.level == 10.0)].iloc[0]
    P, Q = law.calls("hpe", L_P=1.0, L_Q=10.0, mu=0.3, n=8)
    assert pytest.approx([P, Q]) == [at.P, at.Q]
