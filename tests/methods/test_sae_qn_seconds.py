"""Measured prices: what happens once does not count, and own arithmetic does."""

import math
from dataclasses import replace

import numpy as np
import pytest

import geartrain as gt
from geartrain.methods.quasi_newton import sae_qn
from geartrain.methods.quasi_newton.seconds import WARM, Usage
from problems import quadratics, states

FIRST = Usage(calls_h=5, seconds_h=9.0, calls_g=20, seconds_g=70.0, inner=30.0, outer=1.0)
# Then 10 calls of h of 2 s with 1 s of own arithmetic each, and 40 of g of 0.1 s with 0.15 s.
NOW = Usage(calls_h=15, seconds_h=29.0, calls_g=60, seconds_g=74.0, inner=36.0, outer=11.0)


def test_the_first_iterations_are_left_out():
    assert NOW.ratio(FIRST) == pytest.approx((2.0 + 1.0) / (0.1 + 0.15))


def test_before_that_the_oracles_alone_count():
    assert FIRST.ratio(Usage()) == pytest.approx((9.0 / 5) / (70.0 / 20))
    assert FIRST.ratio(FIRST) == FIRST.ratio(Usage())
    only_h = replace(FIRST, calls_h=6, seconds_h=12.0)  # g was not asked again
    assert only_h.ratio(FIRST) == pytest.approx((12.0 / 6) / (70.0 / 20))
    assert Usage(calls_h=1, seconds_h=1.0).ratio(Usage()) == math.inf


def test_what_a_run_has_spent():
    """Calls of both kinds by the ledger; the first iterations are remembered as they ended."""
    problem = quadratics().sum()
    run = states(gt.methods.SAEQN(), problem, np.ones(problem.n), WARM + 2)
    calls, last = problem.ledger.calls, Usage.of(problem, run[-1].own)
    assert last.calls_h == calls["h.grad"]
    assert last.calls_g == calls["g.grad"] + calls["g.prox"]
    assert run[WARM - 1].first == Usage()
    assert run[WARM].first.calls_h == 1 + sum(state.trials for state in run[1 : WARM + 1])
    assert run[WARM + 1].first is run[WARM].first
    assert last.inner > 0.0 and last.outer > 0.0


def test_a_factorisation_does_not_make_g_expensive(monkeypatch):
    """A first inner run that takes a minute, as imports may, changes no later price."""

    class Slow(sae_qn.Stopwatch):
        looks = 0

        def own(self):
            Slow.looks += 1
            return 60.0 if Slow.looks == 1 else 1e-6

    monkeypatch.setattr(sae_qn, "Stopwatch", Slow)
    problem = quadratics().sum()
    run = states(gt.methods.SAEQN(), problem, np.ones(problem.n), WARM + 2)
    assert run[-1].own[0] > 59.0
    assert Usage.of(problem, run[-1].own).inner - run[-1].first.inner < 1e-3
