"""SpaRSA: its box, what it proves, its counts."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import geartrain as gt
from geartrain.core.status import Status
from geartrain.methods.sparsa import SpaRSA
from problems import logistic, quadratics
from runs import NEVER, same

PSI = {
    "l1": gt.L1(0.05),
    "groups": gt.GroupL1(np.repeat(np.arange(6), 4), 0.05),
    "simplex": gt.Simplex(2.0),
    "ball": gt.Ball(0.5),
    "none": None,
}


def start(psi, n=24):
    x0 = 0.3 + 0.01 * np.arange(n)
    return x0 if psi is None else psi.prox(x0, 1.0)


def states(problem, x0, steps, method=None):
    method = SpaRSA() if method is None else method
    out = [method.init(problem, x0)]
    for _ in range(steps):
        out.append(method.step(problem, out[-1]))
    return out


@pytest.mark.parametrize("name", PSI)
@pytest.mark.parametrize("memory", [1, 5])
def test_every_step_is_that_of_the_box(name, memory):
    """Transcribed for one step from each state, as long as f falls by more than rounding."""
    psi, known = PSI[name], quadratics(L_h=1.0, L_g=8.0, mu=0.5)
    problem = known.sum(psi)
    run = states(problem, start(psi), 10, SpaRSA(memory))
    calls = problem.ledger.calls
    evaluations = 1
    for k, (old, new) in enumerate(pairwise(run)):
        top, alpha = max(state.value for state in run[max(k - memory + 1, 0) : k + 1]), old.alpha
        while True:
            u = old.x - known.grad(old.x) / alpha
            v = u if psi is None else psi.prox(u, alpha)
            s, f = v - old.x, known.f(v) + (0.0 if psi is None else psi.value(v))
            evaluations += 1
            if f <= top - 0.5e-4 * alpha * float(s @ s) + 10 * np.finfo(float).eps * abs(top):
                break
            alpha *= 4.0
        np.testing.assert_allclose(new.x, v, rtol=1e-12, atol=1e-14)
        assert new.value == pytest.approx(f, rel=1e-12)
        y = known.grad(v) - known.grad(old.x)
        ratio = (s @ y) / (s @ s) if k % 2 == 0 else (y @ y) / (s @ y)
        assert new.alpha == pytest.approx(ratio, rel=1e-6)
        assert len(new.recent) == min(k + 2, memory) and new.recent[-1] == new.value
    assert calls["h.grad"] == calls["g.grad"] == evaluations
    assert calls["g.prox"] == (0 if psi is None else evaluations - 1)
    assert calls["h.value"] == calls["g.value"] == 0


@pytest.mark.parametrize("name", [name for name in PSI if name != "none"])
def test_what_a_step_proves_is_a_subgradient(name):
    """psi(z) >= psi(x) + <w, z - x>, also where steps are so short that they are rounding."""
    psi, rng = PSI[name], np.random.default_rng(0)
    problem = quadratics(L_h=1.0, L_g=8.0, mu=0.5).sum(psi)
    for state in states(problem, start(psi), 120):
        np.testing.assert_array_equal(state.grad, state.grad_f + state.grad_psi)
        size = np.linalg.norm(state.grad_psi) + np.linalg.norm(state.grad_f)
        for _ in range(5):
            z = psi.prox(state.x + rng.standard_normal(24), 1.0)
            cut = psi.value(state.x) + float(state.grad_psi @ (z - state.x))
            assert psi.value(z) >= cut - 1e-9 * size * np.linalg.norm(z - state.x)
    assert np.linalg.norm(state.grad) <= 1e-5 * size


def test_alpha_where_f_does_not_bend_up():
    """A linear function: the length of steps grows tenfold."""
    h, g = gt.Quadratic(np.zeros((2, 2)), [1.0, 2.0]), gt.Quadratic(np.zeros((2, 2)))
    res = gt.minimize(h, g, np.ones(2), method=SpaRSA(), stop=NEVER, max_iter=4)
    assert res.state.state.alpha == pytest.approx(1e-4 * np.sqrt(5.0) / (1e-3 * np.sqrt(2.0)))


def test_a_point_with_an_answer_that_is_not_finite_is_too_far():
    def root(x):  # -sum sqrt(x) on x > 0
        if (x <= 0.0).any():
            return np.nan, np.full(2, np.nan)
        return float(-np.sqrt(x).sum()), -0.5 / np.sqrt(x)

    h, g = gt.Term(root, n=2), gt.Term(lambda x: (2.5 * x @ x, 5.0 * x), n=2)
    res = gt.minimize(h, g, np.array([1e-3, 9.0]), method="sparsa", tol=1e-6)
    assert res.success
    np.testing.assert_allclose(res.x, 0.1 ** (2.0 / 3.0), rtol=1e-4)


@pytest.mark.parametrize("cut", [1, 7])
def test_a_resumed_run_is_the_uninterrupted_one(tmp_path, cut):
    known, path = logistic(), tmp_path / "run.gtck"
    g, x0 = known.g + gt.L1(0.01), np.ones(10)
    whole = gt.minimize(known.h, g, x0, method="sparsa", stop=NEVER, max_iter=12)
    options = {"method": "sparsa", "stop": NEVER, "max_iter": cut, "checkpoint": path}
    gt.minimize(known.h, g, x0, **options)
    same(whole, gt.resume(path, known.h, g, max_iter=12 - cut))


def test_it_stalls_at_a_minimiser_and_where_gradients_are_wrong():
    known = logistic()
    g = known.g + gt.L1(0.01)
    res = gt.minimize(known.h, g, np.ones(10), method="sparsa", stop=NEVER, max_iter=5000)
    assert res.status is Status.STALLED and not res.success
    assert res.grad_norm <= 1e-5 * res.history["grad_norm"][0]
    wrong = gt.Term(lambda x: (float(x @ x), -x), n=3)
    res = gt.minimize(wrong, gt.L1(1e-3), np.ones(3), method="sparsa")
    assert res.status is Status.STALLED and res.nit <= 60


def test_h_is_not_asked_outside_of_the_set():
    """A projection that is rounded to the outside: the steps become shorter, and then it stalls."""

    class Rounded(gt.Box):
        def prox(self, u, alpha):
            return super().prox(u, alpha) * (1.0 + 1e-9)

    h = gt.Quadratic(np.eye(2), [3.0, 0.1])
    res = gt.minimize(h, Rounded(-1.0, 1.0), np.array([0.99, 0.0]), method="sparsa", stop=NEVER)
    assert res.status is Status.STALLED and (np.abs(res.x) <= 1.0).all()
    assert res.calls["g.prox"] > 2 * res.calls["h.grad"]


def test_a_psi_without_values_is_refused():
    class Clipped:
        def prox(self, u, alpha):
            return np.clip(u, -1.0, 1.0)

    h = gt.Quadratic(np.eye(3), np.ones(3))
    with pytest.raises(TypeError, match="SpaRSA compares values"):
        gt.minimize(h, Clipped(), np.ones(3), method="sparsa")
