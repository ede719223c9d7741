"""Katyusha, loopless Katyusha and Varag on models with a non-smooth psi."""

from __future__ import annotations

import math

import numpy as np
import pytest

import geartrain as gt
from geartrain.methods.inner.finite_sum import finite_sum
from geartrain.oracles.splitting import Psi
from models_with_psi import ALPHA, M, N, data, minimum, model, value

PSIS = {"l1": gt.L1(0.02), "box": gt.Box(-0.3, 0.7), "groups": gt.GroupL1(2, 0.03)}


FORMS = [("l1", "linear", 0.0), ("box", "linear", 0.05), ("groups", "components", 0.05)]


def logistic(l2=0.0):
    return gt.LinearModel(*data(), l2=l2)


def component_only(term):
    return gt.Term(
        component=term.component, n_components=M, L_components=term.L_components, n=N, L=term.L
    )


@pytest.mark.parametrize(("kind", "form", "l2"), FORMS)
def test_an_epoch_against_its_box(kind, form, l2):
    """A literal transcription with the same draws: the same points, and exact counts."""
    term, psi = logistic(l2), PSIS[kind]
    asked = term if form == "linear" else component_only(term)
    phi, ledger = model(asked, psi, key=(7,))
    katyusha = gt.inner.Katyusha(sampling="uniform")
    state = katyusha.init(phi, np.zeros(N), None)
    draw = finite_sum(phi.g).sampling("uniform", max(finite_sum(phi.g).ridges))
    L = float(term.L_components.max())
    assert pytest.approx(L) == draw.L
    tau = min(math.sqrt(M * ALPHA / (3 * L)), 0.5)
    a = 1 / (3 * tau * L)
    xt = y = z = np.zeros(N)
    for s in range(3):
        order = draw.order(np.random.default_rng((7, s)), M)
        before, total, weights = term.grad(xt), np.zeros(N), 0.0
        for j, k in enumerate(order):
            x = tau * z + 0.5 * xt + (0.5 - tau) * y
            G = before + term.component(x, k) - term.component(xt, k) + phi.beta
            new = psi.prox((z / a - G) / (1 / a + ALPHA), 1 / a + ALPHA)
            y, z = x + tau * (new - z), new
            total, weights = total + (1 + a * ALPHA) ** j * y, weights + (1 + a * ALPHA) ** j
        xt = total / weights
        calls = dict(ledger.calls)
        state = katyusha.step(phi, state)
        np.testing.assert_allclose(state.z, z, atol=1e-10)
        np.testing.assert_allclose(state.xt, xt, atol=1e-10)
        made = {key: ledger.calls[key] - calls[key] for key in calls}
        assert made["g.prox"] == M + 1
        if form == "linear":
            assert made["g.component"] == M and made["g.grad"] == 1
        # the output is a proximal gradient step from the snapshot
        big = term.L + ALPHA
        v = psi.prox(xt - (phi.beta + ALPHA * xt + term.grad(xt)) / big, big)
        np.testing.assert_allclose(state.v, v, atol=1e-10)


def test_the_rate_of_the_theorem():
    """The mean over seeds of phi(xt_s) - phi* falls by (1 + a alpha)^l per epoch, up to 4."""
    term, psi = logistic(), PSIS["box"]
    phi, _ = model(term, psi)
    best = value(phi, term, psi, minimum(phi, term, psi))
    L = float(term.L_components.mean())
    tau = min(math.sqrt(M * ALPHA / (3 * L)), 0.5)
    rate = (1 + ALPHA / (3 * tau * L)) ** (-M)
    gaps = []
    for seed in range(8):
        phi, _ = model(term, psi, key=(seed,))
        katyusha = gt.inner.Katyusha()
        state = katyusha.init(phi, np.zeros(N), None)
        run = [value(phi, term, psi, state.xt) - best]
        for _ in range(12):
            state = katyusha.step(phi, state)
            run.append(value(phi, term, psi, state.xt) - best)
        gaps.append(run)
    mean = np.mean(gaps, axis=0)
    for s in range(1, 13):
        assert mean[s] <= 4 * rate**s * mean[0] + 1e-13


@pytest.mark.parametrize("kind", ["l1", "groups"])
def test_steps_of_the_loopless_method_against_its_box(kind):
    term, psi = logistic(), PSIS[kind]
    phi, ledger = model(term, psi, key=(3,))
    method = gt.inner.LKatyusha(sampling="uniform")
    state = method.init(phi, np.zeros(N), None)
    draw = finite_sum(phi.g).sampling("uniform", 0.0)
    L = float(term.L_components.max())
    sigma, p = ALPHA / L, 1 / M
    theta = min(math.sqrt(2 * sigma / (3 * p)), 0.5)
    eta = 1 / (3 * theta)
    w = y = z = np.zeros(N)
    for s in range(4):
        rng = np.random.default_rng((3, s))
        order = draw.order(rng, int(rng.geometric(p)))
        snapshot = w
        for k in order:
            x = theta * z + 0.5 * snapshot + (0.5 - theta) * y
            G = term.grad(snapshot) + term.component(x, k) - term.component(snapshot, k) + phi.beta
            new = psi.prox((L / eta * z - G) / (L / eta + ALPHA), L / eta + ALPHA)
            w, y, z = y, x + theta * (new - z), new
        calls = dict(ledger.calls)
        state = method.step(phi, state)
        np.testing.assert_allclose(state.z, z, atol=1e-10)
        np.testing.assert_allclose(state.xt, w, atol=1e-10)
        assert ledger.calls["g.component"] - calls["g.component"] == order.size
        assert ledger.calls["g.grad"] - calls["g.grad"] == 1


def varag_numbers(s, L, alpha):
    """T_s, alpha_s, gamma_s and the weights theta_t of epoch s, as printed."""
    s_0 = int(math.log2(M)) + 1
    T = 2 ** (min(s, s_0) - 1)
    a = 0.5
    if s > s_0:
        a = max(2 / (s - s_0 + 4), min(math.sqrt(M * alpha / (3 * L)), 0.5))
    gamma = 1 / (3 * L * a)
    late = s_0 + math.sqrt(12 * L / (M * alpha)) - 4
    if s <= s_0 or (3 * L / (4 * alpha) > M and s <= late):
        theta = [gamma / a * (a + 0.5)] * (T - 1) + [gamma / a]
    else:
        Gamma = [(1 + alpha * gamma) ** t for t in range(T + 1)]
        theta = [Gamma[t - 1] - (0.5 - a) * Gamma[t] for t in range(1, T)] + [Gamma[T - 1]]
    return T, a, gamma, theta


@pytest.mark.parametrize(("kind", "form", "l2"), FORMS)
def test_epochs_of_varag_against_its_box(kind, form, l2):
    """A literal transcription with the same draws: the same points, and exact counts."""
    term, psi = logistic(l2), PSIS[kind]
    phi, ledger = model(term if form == "linear" else component_only(term), psi, key=(7,))
    varag = gt.inner.Varag(sampling="uniform")
    state = varag.init(phi, np.zeros(N), None)
    draw = finite_sum(phi.g).sampling("uniform", max(finite_sum(phi.g).ridges))
    L = float(term.L_components.max())
    xt = x = np.zeros(N)
    for s in range(1, 10):
        T, a, gamma, theta = varag_numbers(s, L, ALPHA)
        before, bar, points = term.grad(xt), xt, []
        for k in draw.order(np.random.default_rng((7, s - 1)), T):
            under = (1 - a - 0.5) * bar + a * x + 0.5 * xt
            G = before + term.component(under, k) - term.component(xt, k) + phi.beta
            x = psi.prox((x / gamma - G) / (1 / gamma + ALPHA), 1 / gamma + ALPHA)
            bar = (1 - a - 0.5) * bar + a * x + 0.5 * xt
            points.append(bar)
        xt = np.average(points, axis=0, weights=theta)
        calls = dict(ledger.calls)
        state = varag.step(phi, state)
        np.testing.assert_allclose(state.z, x, atol=1e-10)
        np.testing.assert_allclose(state.xt, xt, atol=1e-10)
        made = {key: ledger.calls[key] - calls[key] for key in calls}
        assert made["g.prox"] == T + 1
        if form == "linear":
            assert made["g.component"] == T and made["g.grad"] == 1
        # the output is a proximal gradient step from the snapshot, with a subgradient of psi
        big = term.L + ALPHA
        v = psi.prox(xt - (phi.beta + ALPHA * xt + term.grad(xt)) / big, big)
        np.testing.assert_allclose(state.v, v, atol=1e-10)
        assert np.linalg.norm(psi.prox(v + state.grad_psi, 1.0) - v) <= 1e-8


def varag_gaps(kind, epochs, seeds):
    """The mean of phi(xt_s) - phi*, and D_0 and s_0 of the theorem."""
    term, psi = logistic(), PSIS[kind]
    phi, _ = model(term, psi)
    v_star = minimum(phi, term, psi)
    best, L = value(phi, term, psi, v_star), float(term.L_components.mean())
    gap = value(phi, term, psi, np.zeros(N)) - best
    runs = []
    for seed in range(seeds):
        phi, _ = model(term, psi, key=(seed,))
        state, run = gt.inner.Varag().init(phi, np.zeros(N), None), []
        for _ in range(epochs):
            state = gt.inner.Varag().step(phi, state)
            run.append(value(phi, term, psi, state.xt) - best)
        runs.append(run)
    return np.mean(runs, axis=0), 2 * gap + 1.5 * L * v_star @ v_star


def test_the_theorem_of_varag():
    """D_0/2^{s+1} up to s_0, then 16 D_0/(m (s - s_0 + 4)^2), where alpha is not used."""
    means, D_0 = varag_gaps("l1", epochs=14, seeds=8)
    s_0 = int(math.log2(M)) + 1
    for s, mean in enumerate(means, 1):
        bound = D_0 / 2 ** (s + 1) if s <= s_0 else 16 * D_0 / (M * (s - s_0 + 4) ** 2)
        assert mean <= bound


def test_planted_errors_of_varag_are_caught(monkeypatch):
    """psi left out of the steps, and twice its weight: the gap does not fall below them."""
    prox = Psi.prox
    right = varag_gaps("l1", epochs=60, seeds=1)[0][-1]
    for wrong in (lambda self, u, alpha: u, lambda self, u, alpha: prox(self, u, 0.5 * alpha)):
        monkeypatch.setattr(Psi, "prox", wrong)
        assert varag_gaps("l1", epochs=60, seeds=1)[0][-1] > 1e-4 > 100 * right


@pytest.mark.parametrize(
    ("method", "inner", "kind"),
    [("sae", "katyusha", "l1"), ("afb", "l-katyusha", "box"), ("afb", "varag", "groups")],
)
def test_inside_of_outer_methods(kind, method, inner):
    term, psi = logistic(), PSIS[kind]
    h = gt.Quadratic(0.1 * np.eye(N), 0.05 * np.ones(N))
    res = gt.minimize(h, term + psi, method=method, inner=inner, tol=1e-6)
    want = gt.minimize(h, term + psi, method="fgm", tol=1e-9)
    assert res.success and res.calls["g.component"] > 0 < res.calls["g.prox"]
    np.testing.assert_allclose(res.x, want.x, atol=1e-4)


def test_a_planted_error_is_caught(monkeypatch):
    """The proximal step with the weight 1/a alone, without alpha."""
    prox = Psi.prox
    term, psi = logistic(), PSIS["l1"]
    phi, _ = model(term, psi)
    best = value(phi, term, psi, minimum(phi, term, psi))
    monkeypatch.setattr(Psi, "prox", lambda self, u, alpha: prox(self, u, 0.5 * alpha))
    katyusha = gt.inner.Katyusha()
    state = katyusha.init(phi, np.zeros(N), None)
    for _ in range(40):
        state = katyusha.step(phi, state)
    assert value(phi, term, psi, state.xt) > best + 1e-6
