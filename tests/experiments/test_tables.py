"""Ratios and the paper's tables, from rows that are written by hand."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from geartrain import theory
from geartrain.lab import tables
from geartrain.lab.experiments import kernel_svm, log_density
from geartrain.lab.report.findings import claims, verdict
from geartrain.lab.runner import CALLS

pytestmark = pytest.mark.same_everywhere  # tables of numbers that are written by hand

SVM_FACTS = {
    "gamma": 0.1,
    "lambda": 0.01,
    "mu": 0.1,
    "m": 100,
    "n": 101,
    "s": 101,
    "L_h": 2.0,
    "L_h used": 2.0,
    "L_g": 50.0,
    "L_g_hat": 60.0,
    "R": 3.0,
}


def rows(method, points, facts, case="gamma 0.1"):
    """Rows (seconds, gap, calls) of a run."""
    return pd.DataFrame(
        [
            {
                "experiment": "test",
                "case": case,
                "data": "made up",
                "method": method,
                "settings": json.dumps({"method": method, **facts}),
                "seconds": seconds,
                "gap": gap,
                **dict.fromkeys(CALLS, 0),
                **calls,
            }
            for seconds, gap, calls in points
        ]
    )


@pytest.fixture
def svm():
    sae = [(1.0, 0.1, {"h.grad": 1, "g.grad": 1}), (2.0, 1e-3, {"h.grad": 6, "g.component": 500})]
    ags = [(1.0, 0.1, {"h.grad": 1, "g.grad": 1}), (8.0, 9e-4, {"h.grad": 4, "g.grad": 40})]
    fgm = [(1.0, 0.1, {"h.grad": 1, "g.grad": 1}), (9.0, 2e-3, {"h.grad": 70, "g.grad": 70})]
    return pd.concat(
        [
            rows(kernel_svm.SAE_OURS.label, sae, SVM_FACTS),
            rows(kernel_svm.AGS.label, ags, SVM_FACTS),
            rows(kernel_svm.FGM.label, fgm, SVM_FACTS),
        ]
    )


def test_component_calls_are_components_plus_m_for_a_gradient(svm):
    costs = tables.with_costs(svm)
    assert list(costs.components) == [100, 500, 100, 4000, 100, 7000]
    assert costs["g calls"].iloc[1] == 5.0


def test_ratios_and_their_bounds(svm):
    costs = tables.with_costs(svm)
    sae, ags, fgm = kernel_svm.SAE_OURS.label, "AGS", "FGM"
    r = tables.ratio(costs, sae, ags, "components", 1e-3)
    assert (r.value, r.sign, verdict(r)) == (0.125, "", "yes")
    r = tables.ratio(costs, sae, fgm, "seconds", 1e-3)  # FGM is not there after 9 s
    assert (r.value, r.sign, verdict(r)) == (2.0 / 9.0, "<", "yes")
    r = tables.ratio(costs, fgm, sae, "seconds", 1e-3)
    assert (r.value, r.sign, verdict(r)) == (4.5, ">", "no")
    r = tables.ratio(costs, fgm, sae, "h.grad", 1e-5)  # neither is there
    assert r.sign == "?" and verdict(r) == "not seen"
    assert tables.ratio(costs, "nobody", sae, "seconds", 1e-3) is None


def test_a_bound_on_the_wrong_side_proves_nothing(svm):
    r = tables.ratio(svm, "FGM", "AGS", "seconds", 1.5e-3)
    assert r.sign == ">" and r.value > 1.0 and verdict(r) == "no"
    r = tables.ratio(svm, "AGS", "FGM", "seconds", 1e-3)
    assert (r.sign, verdict(r)) == ("<", "yes")
    slow = svm.assign(seconds=svm.seconds.where(svm.method != "AGS", 20.0))
    assert verdict(tables.ratio(slow, "AGS", "FGM", "seconds", 1e-3)) == "not seen"


def test_lines_say_the_ratios_that_are_asked_for(svm):
    assert tables.lines(svm, None) == [
        "kernel SVM: SAE / AGS, component gradients to 1e-3: 0.125",
        "kernel SVM: SAE / AGS, h-gradients to 1e-3: 1.5",
        "kernel SVM: SAE / AGS, seconds to 1e-3: 0.25",
    ]
    held = {c.claim: c.holds for c in claims(svm, None)}
    assert held["5.1: SAE takes less time than AGS"] == "yes"
    assert held["Theory: SAE asks h no more often than AGS"] == "no"


# Paper: Table 1
def test_table_1_sets_bounds_beside_counts(svm):
    table = tables.table_1(svm).set_index("row")
    bound = theory.calls("finite-sum", L_h=2.0, L_g=60.0, eps=1e-3, R=3.0, m=100)
    assert table.loc["SAE", "grad h predicted"] == f"{bound['h']:,.0f}"
    assert table.loc["SAE", "grad g_k predicted"] == f"{bound['g']:.1e}"
    assert table.loc["SAE", "grad h measured"] == "6"
    assert table.loc["FGM", "grad g_k measured"] == "> 7,000"
    operations = 6 * 101**2 + 500 * 101
    assert table.loc["SAE", "operations, measured"] == f"{operations:.1e}"


# Paper: Table 2
def test_table_2_counts_partial_derivatives():
    facts = {
        "n": 10,
        "p": 50,
        "s": 2.0,
        "L_h": 1.0,
        "L_h used": 0.1,
        "L_g": 20.0,
        "L_g_bar": 2.0,
        "R": 1.0,
    }
    entries = (log_density.SAE_OURS, log_density.FCD, log_density.FGM)
    calls = (
        {"h.grad": 9, "g.coord": 70, "g.grad": 3},
        {"h.grad": 2, "g.grad": 2, "h.coord": 300, "g.coord": 300},
        {"h.grad": 80, "g.grad": 80},
    )
    density = pd.concat(
        rows(e.label, [(1.0, 1e-7, c)], facts, "synthetic")
        for e, c in zip(entries, calls, strict=True)
    )
    table = tables.table_2(density).set_index("row")
    assert list(table["calls of h measured"]) == ["80", "320", "9"]
    assert list(table["partial derivatives of g measured"]) == ["800", "320", "100"]
    operations = {"FGM": 80 * 100 + 800 * 10, "FCD": 320 * 60, "SAE": 9 * 100 + 100 * 10}
    for name, amount in operations.items():
        assert table.loc[name, "operations, measured"] == f"{amount:.1e}"
