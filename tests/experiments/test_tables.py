"""Ratios and the paper's tables, from rows that are written by hand."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geartrain import theory
from geartrain_lab import tables
from geartrain_lab.experiments import kernel_svm, log_density
from geartrain_lab.report import charts, findings
from geartrain_lab.report.findings import claims, more, verdict
from geartrain_lab.runner import CALLS
from geartrain_lab.spread import Spread, ratio

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


def rows(method, points, facts, case="gamma 0.1", seed=0):
    """Rows (seconds, gap, calls) of a run."""
    return pd.DataFrame(
        [
            {
                "experiment": "test",
                "case": case,
                "data": "made up",
                "method": method,
                "seed": seed,
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
            rows(kernel_svm.SAE_TUNED.label, sae, SVM_FACTS),
            rows(kernel_svm.AGS.label, ags, SVM_FACTS),
            rows(kernel_svm.FGM.label, fgm, SVM_FACTS),
        ]
    )


def test_component_calls_are_components_plus_m_for_a_gradient(svm):
    costs = tables.with_costs(svm)
    assert list(costs.components) == [100, 500, 100, 4000, 100, 7000]
    assert costs["g calls"].iloc[1] == 5.0


def test_the_opening_chart_has_a_dot_for_each_method_that_arrives(svm):
    dots = {c.name: (*c.x, *c.y) for c in charts.asked("title", svm, 1e-3).curves}
    assert dots == {kernel_svm.SAE_TUNED.label: (6.0, 5.0), "AGS": (4.0, 40.0)}  # FGM is late


def amounts(r):
    return r.low[1], r.high[1]


def test_ratios_and_their_bounds(svm):
    costs = tables.with_costs(svm)
    sae, ags, fgm = tables.SAE_SVM, "AGS", "FGM"
    r = tables.ratio(costs, sae, ags, "components", 1e-3)
    assert (amounts(r), str(r), verdict(r)) == ((0.125, 0.125), "0.125", "yes")
    r = tables.ratio(costs, sae, fgm, "seconds", 1e-3)  # FGM is not there after 9 s
    assert (amounts(r), str(r), verdict(r)) == ((0.0, 2.0 / 9.0), "< 0.222", "yes")
    r = tables.ratio(costs, fgm, sae, "seconds", 1e-3)
    assert (amounts(r), str(r), verdict(r)) == ((4.5, math.inf), "> 4.5", "no")
    r = tables.ratio(costs, fgm, sae, "h.grad", 1e-5)  # neither is there
    assert (str(r), verdict(r)) == ("not known", "open")
    assert tables.ratio(costs, "nobody", sae, "seconds", 1e-3) is None
    assert verdict(None) == "open"


def test_a_bound_on_the_wrong_side_proves_nothing(svm):
    assert verdict(tables.ratio(svm, "FGM", "AGS", "seconds", 1.5e-3)) == "no"
    assert verdict(tables.ratio(svm, "AGS", "FGM", "seconds", 1e-3)) == "yes"
    slow = svm.assign(seconds=svm.seconds.where(svm.method != "AGS", 20.0))
    assert verdict(tables.ratio(slow, "AGS", "FGM", "seconds", 1e-3)) == "open"


def test_quartiles_of_five_runs_are_the_second_and_the_fourth():
    s = Spread.of((v, v) for v in (5.0, 1.0, 4.0, 2.0, 3.0))
    assert (s.median, s.quartiles, str(s)) == (3.0, (2.0, 4.0), "3 [2, 4]")
    assert str(Spread.of([(1234.5, 1234.5)])) == "1,234"  # one run has no spread


def test_runs_that_did_not_get_there_are_never_given_a_number():
    inf = math.inf
    late = Spread.of([(1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (9.0, inf), (9.0, inf)])
    assert (late.median, late.quartiles, str(late)) == (3.0, (2.0, inf), "3 [2, ∞]")
    most = Spread.of([(1.0, 1.0), (2.0, 2.0), (9.0, inf), (9.0, inf), (9.0, inf)])
    assert math.isnan(most.median) and str(most) == "> 9"


def test_ratio_of_two_samples_is_over_all_pairs():
    ours, theirs = [(v, v) for v in (1.0, 2.0, 3.0, 4.0, 5.0)], [(2.0, 2.0), (2.0, 2.0), (4.0, 4.0)]
    pairs = sorted(a / b for a, _ in ours for b, _ in theirs)
    r = ratio(ours, theirs)
    assert r.runs == 15 and r.median == np.median(pairs)
    low, high = r.quartiles
    assert low <= np.quantile(pairs, 0.25) <= np.quantile(pairs, 0.75) <= high
    cut = ratio(ours, [(2.0, math.inf)])  # theirs takes more than 2
    assert cut.high[1] == 1.5 and str(cut) == "< 1.5"


@given(
    st.lists(st.floats(0.1, 1e3), min_size=1, max_size=7),
    st.lists(st.floats(0.1, 1e3), min_size=1, max_size=7),
    st.floats(0.1, 1e3),
)
def test_a_budget_only_widens_what_is_known(a, b, budget):
    """Runs cut off at a budget: the quartiles of the whole runs lie within the bounds."""

    def cut(values):
        return [(v, v) if v <= budget else (budget, math.inf) for v in values]

    whole, bounded = (ratio(f(a), f(b)) for f in (lambda v: [(x, x) for x in v], cut))
    for j in range(3):
        assert bounded.low[j] <= whole.low[j] * (1 + 1e-12)
        assert bounded.high[j] >= whole.high[j] * (1 - 1e-12)


def test_curves_are_medians_and_quartiles_of_first_passages():
    runs = [
        rows("SAE (tuned)", [(t, gap, {}) for t, gap in points], SVM_FACTS, seed=seed)
        for seed, points in enumerate(
            [
                [(1.0, 1.0), (2.0, 0.1)],
                [(1.0, 1.0), (3.0, 0.1)],
                [(1.0, 1.0), (4.0, 0.01)],  # past the level at once
                [(1.0, 1.0), (4.5, 0.5), (5.0, 2.0), (6.0, 0.1)],  # f goes up in between
                [(1.0, 1.0), (7.0, 0.6)],  # never there
            ]
        )
    ]
    (curve,) = charts.convergence(pd.concat(runs), "seconds")
    at = np.argmin(abs(np.log(curve.y / 0.1)))
    assert curve.y[at] == pytest.approx(0.1)
    assert (curve.low[at], curve.x[at], curve.high[at]) == (3.0, 4.0, 6.0)
    assert curve.x[0] == 1.0 and (np.diff(curve.x) >= 0.0).all() and (np.diff(curve.y) < 0.0).all()
    assert curve.y[-1] >= 0.1 * (1 - 1e-9)  # the median run goes no further
    (single,) = charts.convergence(runs[0], "seconds")
    assert single.low is None and single.high is None


def test_claims_tell_both_amounts_and_the_verdict(svm):
    found = {c.claim: (c.measured, c.holds) for c in [*claims(svm, None), *more(svm, None)]}
    fewer, _, faster, _ = claims(svm, None)
    assert "“less often” than AGS" in fewer.claim and "“allows SAE to work faster" in faster.claim
    assert (fewer.holds, faster.holds) == ("yes", "yes")
    assert fewer.measured == "500 gradients of summands instead of 4,000"
    assert found["SAE asks for no more gradients of h than AGS"] == (
        "6 gradients of h instead of 4",
        "no",
    )


def test_the_headline_is_the_verdict(svm):
    assert findings.headline(svm, None) == "Section 5.1 of the paper stays open"  # a run is missing
    same = svm[svm.method == kernel_svm.SAE_TUNED.label]
    svm = pd.concat([svm, same.assign(method=kernel_svm.SAE_PAPER.label)])
    assert findings.headline(svm, None) == "Section 5.1 of the paper holds"
    slow = svm.assign(**{"g.component": 100 * svm["g.component"]})
    assert findings.headline(slow, None) == "Section 5.1 of the paper does not hold"


def test_titles_follow_the_figures(svm):
    assert findings.svm_counts(svm).title == "SAE asks for fewer summands of g than AGS"
    slow = svm.assign(**{"g.component": 100 * svm["g.component"]})
    assert findings.svm_counts(slow).title == "SAE asks for more summands of g than AGS"
    equal = svm.assign(**{"g.component": 8 * svm["g.component"]})
    assert findings.svm_counts(equal).title == "SAE asks for about as many summands of g as AGS"
    assert "SAE is faster than AGS" in findings.svm_seconds(svm).title


# Paper: Table 1
def test_table_1_sets_bounds_beside_counts(svm):
    table = tables.table_1(svm).set_index("row")
    bound = theory.calls("finite-sum", L_h=2.0, L_g=60.0, eps=1e-3, R=3.0, m=100)
    assert table.loc["SAE", "∇h predicted"] == f"{bound['h']:,.0f}"
    assert table.loc["SAE", "∇g_k predicted"] == f"{bound['g']:,.0f}"
    assert table.loc["SAE", "∇h measured"] == "6"
    assert table.loc["FGM", "∇g_k measured"] == "> 7,000"
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
    entries = (log_density.R_SAE, log_density.FCD, log_density.FGM)
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
