"""The map of who is cheapest: problems as stated, bills, winners, the picture."""

from __future__ import annotations

import numpy as np
import pytest

import geartrain as gt
from geartrain.core.status import Status
from geartrain_lab.experiments import map as who

pytestmark = [
    pytest.mark.outside,  # a bench in a small form
    pytest.mark.same_everywhere,  # bills with wide margins
]


@pytest.mark.parametrize(("L_h", "L_g", "mu", "m"), [(1.0, 1.0, 0.1, 50), (0.1, 30.0, 1e-3, 200)])
def test_the_problem_has_the_stated_constants(L_h, L_g, mu, m):
    known = who.problem(L_h, L_g, mu, m, 0)
    G = known.g.A.T @ known.g.A / m + known.g.l2 * np.eye(who.N)
    assert np.linalg.eigvalsh(known.h.Q)[-1] == pytest.approx(L_h)
    assert np.linalg.eigvalsh(G)[-1] == pytest.approx(L_g)
    assert np.linalg.eigvalsh(known.h.Q + G)[0] == pytest.approx(mu)
    assert known.g.m == m
    slope = known.h.grad(known.x_star) + known.g.grad(known.x_star)
    assert np.linalg.norm(slope) <= 1e-12 * (1 + L_g)


def test_bills():
    asked = who.CallsAsked(h=3.0, h_partials=80.0, g=5.0)
    assert asked.bill(10.0, 1 / 40) == 10 * (3 + 2) + 5
    assert asked.bill(10.0, 1.0) == 10 * 83 + 5
    runs = [{"FGM": who.CallsAsked(k, 0, 1)} for k in (1.0, 2.0, 9.0)]
    bills = who.median_bills(runs, 10.0, 1.0)
    assert bills["FGM"] == 21.0
    assert bills["AGS"] == np.inf  # cut off
    assert who.cheapest({"a": 2.0, "b": 1.0, "c": 1.0}) == ["b", "c"]


def test_predictions_are_those_of_compare_in_gradients():
    known = who.problem(1.0, 10.0, 0.1, 50, 0)
    plain = who.predicted(known, 0.1)
    rows = gt.theory.compare(
        L_h=known.h.L,
        L_g=known.g.L,
        mu=0.1,
        eps=who.EPS,
        R=float(np.linalg.norm(known.x_star)),
        delta=np.exp(-1),
        n=who.N,
        m=50,
        L_g_bar=float(np.sqrt(known.g.L_coord).mean() ** 2),
        L_h_bar=float(np.sqrt(known.h.L_coord).mean() ** 2),
        L_g_mean=float(known.g.L_components.mean()),
    )
    assert plain["FGM"] == pytest.approx((rows["FGM"]["h"], 0.0, rows["FGM"]["g"]))
    assert plain["ACD"] == pytest.approx((0.0, rows["ACD"]["h"], rows["ACD"]["g"] / who.N))
    assert plain["AFB finite-sum"] == plain["SAE finite-sum"]
    assert plain["SAE finite-sum"].g == pytest.approx(rows["SAE finite-sum"]["g"] / 50)
    scaled = who.predicted(known, 0.1, who.MEASURED)
    for name, (c_h, c_g) in who.MEASURED.items():
        assert scaled[name].h == pytest.approx(c_h * plain[name].h)
        assert scaled[name].g == pytest.approx(c_g * plain[name].g)


def test_measured_runs_reach_the_accuracy_and_hopeless_ones_end():
    known = who.problem(1.0, 10.0, 0.1, 50, 0)
    found = who.measured(known, 0.1, 0)
    assert {"FGM", "AGS", "SAE", "AFB", "ACD"} <= set(found) <= set(who.METHODS)
    assert found["FGM"].h == found["FGM"].g > 0
    assert found["ACD"].h_partials > 0 and found["SAE"].h_partials == 0
    rule = who.Hopeless([who.CallsAsked(1.0, 0.0, 1.0)], 50)

    class Look:
        def __init__(self, grads):
            self.calls = {f"{t}.{k}": 0 for t in "hg" for k in ("grad", "coord", "component")}
            self.calls |= {"h.grad": grads, "g.grad": grads, "h.product": 0, "g.product": 0}

    assert rule.check(Look(10)) is None
    assert rule.check(Look(21)) is Status.STOPPED


def test_the_command_draws_and_tells(tmp_path, monkeypatch, capsys):
    kept = {name: who.METHODS[name] for name in ("FGM", "AFB")}
    monkeypatch.setattr(who, "METHODS", kept)
    monkeypatch.setattr(who, "PRICES", (0.1, 10.0))
    monkeypatch.setattr(who, "SHOWN", (0.1, 10.0))
    who.main(["--quick", "--out", str(tmp_path)])
    out = capsys.readouterr().out
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    assert out.count("the cheapest method in") == 4
    lines = [line.split() for line in out.splitlines() if line.strip().startswith("1000 ")]
    assert [line[:3] for line in lines[:2]] == [["1000", "1", "0.1"], ["1000", "1", "10"]]
    assert all(line[-1] in kept for line in lines)
