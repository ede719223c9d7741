"""The rule of the paper for inner runs: N_M basic calls of g for every inner method."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

import geartrain as gt
from geartrain import theory
from geartrain.core.loop import basic_calls, solve_model
from geartrain.problem import Constant, Model
from problems import logistic, quadratics, states

# Inner method, and the most basic calls between two points at which it may stop.
INNER = {
    "agm": (gt.inner.AGM, lambda g, alpha: 1),
    "acd": (gt.inner.ACD, lambda g, alpha: chunk(g, alpha) + g.n),
    "nesterov-stich": (gt.inner.NesterovStich, lambda g, alpha: chunk(g, alpha) + g.n),
    "katyusha": (gt.Katyusha, lambda g, alpha: 3 * g.m),
    "varag": (gt.inner.Varag, lambda g, alpha: 3 * g.m),
    "coordinate-differences": (
        gt.inner.CoordinateSearch,
        lambda g, alpha: 2 * chunk(g, alpha) + 4 * g.n + 2,
    ),
}


def chunk(g, alpha):
    return max(g.n, int(np.ceil(np.sqrt(g.L_coord + alpha).sum() / np.sqrt(alpha + g.mu))))


# Paper: equation (6)
@pytest.mark.parametrize(("name", "N_M"), list(zip(INNER, itertools.cycle([300, 1, 2461]))))
def test_a_run_of_the_papers_rule_makes_N_M_basic_calls(name, N_M):
    """At least N_M, unless it ends at rounding, and at most one chunk or epoch more."""
    known = logistic()
    problem = known.sum()
    make, longest = INNER[name]
    inner, alpha = make(), 0.3
    phi = Model(problem.g, np.ones(10), alpha, L_g=known.g.L, mu_g=known.g.mu, key=(0,))
    run = solve_model(inner, phi, np.ones(10), lambda *_: pytest.fail("not asked"), calls=N_M)
    made = basic_calls(problem.g, inner.needs)
    assert run.floor or made >= N_M
    assert made < N_M + longest(known.g, alpha)
    assert not run.accepted


# Paper: Assumption 3
def test_basic_calls_by_what_the_method_needs():
    known = logistic()
    g = known.sum().g
    x = np.ones(10)
    g.grad(x)
    g.coord(x, 3)
    g.component(x, 5)
    g.component(x, 6)
    g.value(x)
    assert basic_calls(g, ("coord",)) == 10 + 1
    assert basic_calls(g, ("component",)) == 60 + 2
    assert basic_calls(g, ("value",)) == 1
    assert basic_calls(g, ("grad",)) == 2  # a gradient, a tenth of one and two sixtieths


@pytest.mark.parametrize("make", [gt.inner.AGM, gt.inner.ACD, gt.Katyusha])
def test_N_M_is_that_of_equation_6(make):
    known = logistic()
    problem, L = known.sum(), known.h.L
    rule = gt.methods.PaperRule(eps=1e-4, R=3.0, delta=0.1)
    setting, size, constant = {
        gt.inner.AGM: ("full", 1, known.g.L),
        gt.inner.ACD: ("coordinate", 10, float(np.mean(np.sqrt(known.g.L_coord)) ** 2)),
        gt.Katyusha: ("finite-sum", 60, float(known.g.L_components.max())),
    }[make]
    assumed = theory.assumption_4(setting, alpha=2 * L, L_g=constant, size=size)
    by_hand = theory.inner_calls(
        assumed.tau_g,
        L=L,
        L_h=L,
        L_g=known.g.L,
        mu=known.mu,
        eps=1e-4,
        R=3.0,
        delta=0.1,
        C=assumed.C,
        C_0=assumed.C_0,
    )
    assert rule.basic_calls(problem, make(), L, L) == by_hand
    assert gt.methods.PaperRule(calls=7).basic_calls(problem, make(), L, L) == 7


@pytest.mark.parametrize(
    ("make", "method"),
    [(gt.inner.AGM, gt.methods.RSAE), (gt.inner.ACD, gt.SAE), (gt.Katyusha, gt.SAE)],
)
def test_the_papers_rule_passes_the_test_at_once(make, method):
    """N_M calls are enough for the Monteiro-Svaiter test after as few steps as exact solutions."""
    known = logistic()
    run = states(method(inner=make(), rule="paper"), known.sum(), np.ones(10), 12)
    exact = states(method(inner=gt.inner.AGM(), accuracy=1e-6), known.sum(), np.ones(10), 12)
    for one, other in zip(run[1:], exact[1:], strict=True):
        assert one.ms_ratio <= 0.5
        assert one.middle_steps <= other.middle_steps
        np.testing.assert_allclose(one.y, other.y, atol=1e-5)


def test_the_papers_rule_has_the_strong_convexity_of_r_sae():
    """mu given to the method or to the problem: the same N_M, which depends on it."""
    known, inner, found = quadratics(L_g=300.0), gt.inner.AGM(), []
    for given, own in ((None, 0.5), (0.5, None), (None, None)):
        problem = replace(known.sum(), mu=Constant(given, "given"))
        rule = gt.methods.RSAE(mu=own, rule="paper")._sae().rule
        found.append(rule.basic_calls(problem, inner, known.h.L, known.h.L))
    assert found[0] == found[1] != found[2]
    assert gt.methods.RSAE(mu=0.5, rule=gt.methods.PaperRule(mu=2.0))._sae().rule.mu == 2.0


def test_calls_of_sae_with_the_papers_rule():
    """N_M calls per middle step, one of which is the first gradient where that is not known."""
    known = quadratics(L_g=300.0)
    problem = known.sum()
    run = states(gt.SAE(rule=gt.methods.PaperRule(calls=80)), problem, np.ones(24), 15)
    middle = sum(s.middle_steps for s in run[1:])
    assert problem.ledger.calls["g.grad"] == 1 + 80 * middle


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gt.SAE(rule="papers"), "rule must be 'residual', 'paper' or a PaperRule, got"),
        (
            lambda: gt.methods.RSAE(rule=40),
            "rule must be 'residual', 'paper' or a PaperRule, got 40",
        ),
        (
            lambda: gt.methods.GMCO(rule=None),
            "rule must be 'residual', 'paper' or a PaperRule, got None",
        ),
        (lambda: gt.methods.PaperRule(eps=0.0), "eps must be positive, got 0"),
        (lambda: gt.methods.PaperRule(calls=0), "calls must be at least 1, got 0"),
    ],
)
def test_wrong_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_gmco_alone_has_no_such_rule():
    known = quadratics()
    with pytest.raises(ValueError, match="the paper's rule is for GMCO inside SAE and R-SAE"):
        gt.minimize(known.h, known.g, method=gt.methods.GMCO(rule="paper"), max_iter=2)
