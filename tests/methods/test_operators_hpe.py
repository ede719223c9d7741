"""The hybrid proximal extragradient method: its potential, its error rule, its counts."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import geartrain as gt
from geartrain.core.status import Status
from geartrain.geometry import EUCLIDEAN
from geartrain.methods.operators import resolvent
from geartrain.terms import Operators
from monotone import known, without_constants

norm = np.linalg.norm


def problem_of(case, L_P=None, mu=None):
    operators = Operators.of(case.P, case.Q)
    return operators.problem(EUCLIDEAN, case.z.size, L_P, None, mu)


def states(case, method, k=40, **constants):
    """The problem, and the states of a run from a point away from the solution."""
    problem = problem_of(case, **constants)
    x0 = case.z + np.linspace(-1.0, 1.0, case.z.size)
    if problem.psi is not None:
        x0 = problem.psi.prox(x0, 1.0)
    state = method.init(problem, x0)
    yield problem, None, state
    for _ in range(k):
        new = method.step(problem, state)
        yield problem, state, new
        if new.stalled:
            return
        state = new


CASES = [
    pytest.param({"seed": s, "mu": mu, "psi": psi}, id=f"{s}-{mu}-{psi}")
    for s, (mu, psi) in enumerate(
        [(0.0, None), (0.3, None), (0.0, "box"), (0.3, "box"), (0.3, "simplex")]
    )
]


@pytest.mark.parametrize("wanted", CASES)
@pytest.mark.parametrize(("sigma", "is_known"), [(0.3, True), (0.9, False)])
def test_the_potential_falls(wanted, sigma, is_known):
    """(L + mu)|z_+ - z*|^2 <= L |z - z*|^2 - (1 - sigma^2) L^2/(L + mu) |v - z|^2."""
    case = known(**wanted)
    if not is_known:
        case = case._replace(P=without_constants(case.P, case.z.size))
    mu = case.mu
    passed = 0
    for _, old, new in states(case, gt.methods.HPE(sigma=sigma), mu=mu):
        if old is None or new.z is old.z:
            continue
        L, passed = old.L, passed + 1
        before, after = norm(old.z - case.z), norm(new.z - case.z)
        fall = (1.0 - sigma**2) * L**2 / (L + mu) * norm(new.v - old.z) ** 2
        slack = 1e-9 * (L + mu) * (1.0 + before**2)
        assert (L + mu) * after**2 <= L * before**2 - fall + slack
    assert passed >= 10


@pytest.mark.parametrize("wanted", CASES)
def test_states_are_what_they_say(wanted):
    """v solves line 1 to its rule, z_+ is that of line 3, and the residual is that at v."""
    case, sigma = known(**wanted), 0.9
    for problem, old, new in states(case, gt.methods.HPE(), k=15, mu=case.mu):
        P, Q = case.P.operator, problem.g.term.operator
        R = P(new.v) + Q(new.v)
        shortest = R if problem.psi is None else problem.psi.residual(new.v, R)
        np.testing.assert_allclose(new.grad, shortest, rtol=1e-9, atol=1e-11)
        if old is None:
            continue
        L, mu, away = old.L, case.mu, new.v - old.z
        inner = P(old.z) + Q(new.v) + L * away
        error = inner if problem.psi is None else problem.psi.residual(new.v, inner)
        assert norm(error) <= 0.5 * sigma * L * norm(away) * (1 + 1e-9) + 1e-12
        e = R + L * away if problem.psi is None else problem.psi.residual(new.v, R + L * away)
        assert new.ms_ratio == pytest.approx(norm(e) / (L * norm(away)), rel=1e-6, abs=1e-9)
        z = (L * old.z + mu * new.v - (e - L * away)) / (L + mu)
        z = z if problem.psi is None else problem.psi.prox(z, 1e100)
        np.testing.assert_allclose(new.z, z, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(new.P_z, P(new.z), rtol=1e-12, atol=1e-12)


def test_with_the_constant_every_test_passes_and_P_is_asked_twice():
    case = known(seed=3, mu=0.3)
    res = gt.equilibrium(case.P, case.Q, method="hpe", max_iter=25, tol=1e-300)
    assert res.calls["P.operator"] == 1 + 2 * res.nit
    assert np.all(res.history["ms_ratio"][1:] <= math.sqrt(0.9**2 + 0.3 / res.state.state.L))


def test_the_number_of_steps_is_the_proven_one_whatever_Q_is():
    """|z_k - z*|^2 falls by L/(L + mu) per step, so that P is asked O(L_P/mu) times."""
    for stiff in (1.0, 30.0, 1000.0):
        case = known(seed=4, mu=0.5, stiff=stiff)
        L = 2.0 * case.L_P / 0.9
        for k, (_, _, state) in enumerate(states(case, gt.methods.HPE(), mu=case.mu, k=60)):
            bound = math.sqrt((L / (L + case.mu)) ** k) * norm(np.linspace(-1.0, 1.0, 12))
            assert norm(state.z - case.z) <= bound * (1 + 1e-9) + 1e-10


def test_a_wrong_constant_ends_as_stalled_not_in_a_lie():
    case = known(seed=6, mu=0.3)
    res = gt.equilibrium(case.P, case.Q, L_P=1e-3, method="hpe", max_iter=3000)
    assert res.success or res.status in (Status.STALLED, Status.MAX_ITER)
    if res.success:
        assert norm(res.x - case.z) <= 1e-3


def test_a_field_that_is_not_monotone_is_told():
    P = gt.Operator(lambda z: -z + 0.1, n=3)
    res = gt.equilibrium(P, gt.Box(-1.0, 1.0), x0=np.full(3, 0.5), method="hpe", max_iter=50)
    assert any("not monotone" in note for _, note in res.history.notes)


def test_domains_are_left_and_entered_again():
    """P answers with NaN beyond 1.5: steps are shortened."""

    def P(z):
        return np.where(np.abs(z) < 1.5, z - 1.0, np.nan)

    res = gt.equilibrium(gt.Operator(P, n=2), None, method="hpe", x0=[0.1, 0.2])
    assert res.success
    np.testing.assert_allclose(res.x, 1.0, atol=1e-5)


def test_sigma_is_checked():
    with pytest.raises(ValueError, match="sigma must be between 0 and 1"):
        gt.methods.HPE(sigma=1.0)
    assert replace(gt.methods.HPE(), sigma=0.5).sigma == 0.5


@pytest.mark.parametrize("psi", [None, "box", "simplex"])
def test_the_error_rule_is_needed_and_is_enough(psi, monkeypatch):
    """Inner points whose error lies on the boundary of the rule keep the potential falling."""
    honest = resolvent.solve
    rng = np.random.default_rng(5)

    def sloppy(g, psi, c, L, b, v0, enough, Q0=None, lipschitz=0.0, unit=0.0):
        run = honest(g, psi, c, L, b, v0, lambda v, error: error <= 1e-12 * norm(c), Q0, lipschitz)
        d, best = rng.standard_normal(b.size), run
        for t in np.geomspace(1e-8, 1.0, 40) * norm(run.v - b) / norm(d):
            v = run.v + t * d if psi is None else psi.prox(run.v + t * d, 1.0)
            Q = g.operator(v)
            G = c + Q + L * (v - b)
            e = G if psi is None else psi.residual(v, G)
            if enough(v, norm(e)):
                best = run._replace(v=v, Q=Q, e=e, w=e - G)
        return best

    monkeypatch.setattr(resolvent, "solve", sloppy)
    case, sigma, worst = known(seed=7, mu=0.2, psi=psi), 0.9, 0.0
    for _, old, new in states(case, gt.methods.HPE(sigma=sigma), mu=case.mu):
        if old is None or new.z is old.z:
            continue
        worst = max(worst, new.ms_ratio)
        L, before, after = old.L, norm(old.z - case.z), norm(new.z - case.z)
        fall = (1.0 - sigma**2) * L**2 / (L + case.mu) * norm(new.v - old.z) ** 2
        assert (L + case.mu) * after**2 <= L * before**2 - fall + 1e-9 * (1.0 + L)
    assert worst > 0.2  # the errors were there
