"""``geartrain bench composite``: its rivals do their work, and its ratios are what they say."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pandas as pd
import pytest

import geartrain as gt
from composite import PSIS, Composite
from geartrain.cli import main
from geartrain_lab.benches import composite as bench
from geartrain_lab.benches.composite import CompositeProblem, smooth_curve, text_like
from geartrain_lab.harness import Task
from geartrain_lab.nonsmooth_rivals import OWLQN, PANOC

pytestmark = [
    pytest.mark.outside,  # a bench in a small form
    pytest.mark.same_everywhere,  # bills are computed again from the calls
]


@pytest.mark.parametrize("kind", PSIS)
def test_rivals_end_at_the_solution(kind):
    p = Composite(PSIS[kind], L_g=10.0)
    task = Task("p", p.h, p.g + p.psi, facts={"psi": p.psi, "L": p.h.L + p.g.L})
    made = {s.name: s.make(task, None) for s in bench.SOLVERS if not s.unfit(task)}
    assert {"pqn", "proximal QN", "PANOC", "FISTA"} <= set(made)
    assert ("OWL-QN" in made) == (kind == "l1") and ("L-BFGS-B" in made) == (kind == "box")
    stop = gt.stop.Value(p.f_star + 1e-9)
    for name, method in made.items():
        res = gt.minimize(p.h, p.g + p.psi, p.x0, method=method, stop=stop, max_iter=5000)
        assert res.success, (name, res)
        np.testing.assert_allclose(res.x, p.x_star, atol=1e-3)
        assert p.f(res.x) <= p.f_star + 1e-9


def test_rivals_ask_both_terms_equally_often():
    p = Composite(PSIS["l1"], L_g=10.0)
    stop = gt.stop.Value(p.f_star + 1e-9)
    for method in (OWLQN(), PANOC()):
        calls = gt.minimize(p.h, p.g + p.psi, p.x0, method=method, stop=stop).calls
        assert calls["h.grad"] == calls["g.grad"] and calls["h.value"] == calls["g.value"] == 0
    with pytest.raises(TypeError, match="OWLQN is for an l1 norm"):
        gt.minimize(p.h, p.g + PSIS["ball"], method=OWLQN())


def test_measured_and_reported(tmp_path, monkeypatch, capsys):
    small = [
        CompositeProblem("text", partial(text_like, 8, 3e-3, 1), lambda h, g: h.parts[0][1].L),
        CompositeProblem("curve", partial(smooth_curve, 0.05, 1, 40), lambda h, g: h.L + g.L, True),
    ]
    monkeypatch.setattr(bench, "suite", lambda quick: small)
    file = tmp_path / "composite.json"
    assert main(["bench", "composite", "--quick", "--json", str(file)]) == 0
    figures = json.loads(file.read_text())
    shown = capsys.readouterr().out
    assert "OWL-QN" in shown and "L-BFGS-B" in shown
    table = pd.DataFrame(figures["rows"])
    for _, runs in table.groupby(["problem", "solver"], sort=False):
        assert list(runs.target) == [1e-3, 1e-5, 1e-7] and runs["h.grad"].is_monotonic_increasing
    # a rival is cut off only where another one is better
    last = table[table.target == 1e-7]
    cut = last[np.isinf(last["h.grad"])]
    assert set(cut.solver) <= {"PANOC", "FISTA", "OWL-QN"}
    assert np.isfinite(last.groupby("problem")["h.grad"].min()).all()
    found = bench.ratios(table, 1e-5)
    text = table[(table.problem == "text") & (table.target == 1e-5)]
    of = dict(zip(text.solver, text["h.grad"], strict=True))
    del of["pqn(1)"]  # our own method with equal prices is told apart
    assert found["text"] == of.pop("pqn") / min(of.values())
    assert figures["summary"]["made up 1e-05"]["of"] == 1
    assert found["curve"] == pytest.approx(figures["summary"]["made up 1e-05"]["mean"])


def test_the_memory_pays():
    """With the pairs forgotten, OWL-QN and PANOC are gradient methods and need more calls."""
    p = Composite(PSIS["l1"], L_g=30.0)
    stop = gt.stop.Value(p.f_star + 1e-7)
    for make in (OWLQN, PANOC):
        calls = [
            gt.minimize(p.h, p.g + p.psi, p.x0, method=make(memory), stop=stop).calls["h.grad"]
            for memory in (20, 0)
        ]
        assert calls[0] < 0.7 * calls[1], (make, calls)
