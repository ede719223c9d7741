"""Katyusha, loopless Katyusha and Varag on models with a non-smooth psi."""

from __future__ import annotations

import math

import numpy as np
import pytest

import geartrain as gt
from geartrain.methods.inner.finite_sum import finite_sum
from models_with_psi import ALPHA, M, N, data, minimum, model, value
from reference import finite_sum as boxes

PSIS = {"l1": gt.L1(0.02), "box": gt.Box(-0.3, 0.7), "groups": gt.GroupL1(2, 0.03)}


def logistic(l2=0.0):
    return gt.LinearModel(*data(), l2=l2)


def component_only(term):
    return gt.Term(
        component=term.component, n_components=M, L_components=term.L_components, n=N, L=term.L
    )


BOXES = {
    gt.inner.Katyusha: boxes.katyusha,
    gt.inner.LKatyusha: boxes.l_katyusha,
    gt.inner.Varag: boxes.varag,
}


@pytest.mark.parametrize(
    ("make", "kind", "form", "l2"),
    [
        (gt.inner.Katyusha, "l1", "linear", 0.0),
        (gt.inner.Katyusha, "box", "linear", 0.05),
        (gt.inner.Katyusha, "groups", "components", 0.05),
        (gt.inner.LKatyusha, "groups", "linear", 0.0),
        (gt.inner.Varag, "l1", "linear", 0.05),
        (gt.inner.Varag, "groups", "components", 0.0),
    ],
)
def test_epochs_against_their_boxes(make, kind, form, l2):
    """The literal transcription with the same draws: the same points, and exact counts."""
    term, psi = logistic(l2), PSIS[kind]
    phi, ledger = model(term if form == "linear" else component_only(term), psi, key=(7,))
    method = make(sampling="uniform")
    draw = finite_sum(phi.g).sampling("uniform", max(finite_sum(phi.g).ridges))
    L = float(term.L_components.max())
    assert pytest.approx(L) == draw.L
    orders = []
    for s in range(9):
        rng, steps = np.random.default_rng((7, s)), M
        if make is gt.inner.LKatyusha:
            steps = int(rng.geometric(1 / M))
        elif make is gt.inner.Varag:
            steps = 2 ** min(s, int(math.log2(M)))
        orders.append(draw.order(rng, steps))
    more = {"prob": 1 / M} if make is gt.inner.LKatyusha else {}
    expected = BOXES[make](
        term.component, M, draw.p, L, orders, phi.beta, ALPHA, np.zeros(N), prox=psi.prox, **more
    )
    state = method.init(phi, np.zeros(N), None)
    for order, (xt, _, z) in zip(orders, expected, strict=True):
        calls = dict(ledger.calls)
        state = method.step(phi, state)
        np.testing.assert_allclose(state.z, z, atol=1e-10)
        np.testing.assert_allclose(state.point, xt, atol=1e-10)
        made = {key: ledger.calls[key] - calls[key] for key in calls}
        assert made["g.prox"] == order.size + 1
        if form == "linear":
            assert made["g.component"] == order.size and made["g.grad"] == 1
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
            run.append(value(phi, term, psi, state.point) - best)
        runs.append(run)
    return np.mean(runs, axis=0), 2 * gap + 1.5 * L * v_star @ v_star


@pytest.mark.parametrize("kind", PSIS)
def test_the_theorem_of_varag(kind):
    """D_0/2^{s+1} up to s_0, then 16 D_0/(m (s - s_0 + 4)^2), where alpha is not used."""
    means, D_0 = varag_gaps(kind, epochs=14, seeds=8)
    s_0 = int(math.log2(M)) + 1
    for s, mean in enumerate(means, 1):
        bound = D_0 / 2 ** (s + 1) if s <= s_0 else 16 * D_0 / (M * (s - s_0 + 4) ** 2)
        assert mean <= bound
