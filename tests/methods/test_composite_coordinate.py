"""APPROX and APCG on models with a separable non-smooth psi."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse

import geartrain as gt
from geartrain.methods import coordinate
from geartrain.methods.inner.apcg import apcg_numbers
from geartrain.methods.inner.finite_sum import finite_sum
from models_with_psi import ALPHA, M, N, data, minimum, model, value
from reference import coordinate as reference
from reference import primal_dual as boxes

PSIS = {"l1": gt.L1(0.02), "weights": gt.L1(np.linspace(0, 0.1, N)), "box": gt.Box(-0.3, 0.7)}


def linear(sparsely=False, loss="logistic", l2=0.0, intercept=False):
    A, y = data(intercept)
    if sparsely:
        A = sparse.csr_array(A * (np.random.default_rng(1).random(A.shape) < 0.5))
    return gt.LinearModel(A, y, loss=loss, l2=l2, intercept=intercept)


def asked(psi):
    """The same psi as a term of the user's, which no compiled loop knows."""

    class Own:
        separable = True
        prox, value, residual = psi.prox, psi.value, psi.residual

    return Own()


# APPROX ------------------------------------------------------------------------------------------


def draws(steps, key, chunk):
    uniform = np.random.default_rng((*key, chunk)).random(steps)
    return np.searchsorted(np.arange(1, N + 1) / N, uniform, side="right")


@pytest.mark.parametrize(
    ("kind", "form", "l2"),
    [
        ("l1", "dense", 0.0),
        ("weights", "sparse", 0.05),
        ("box", "dense", 0.05),
        ("l1", "asked", 0.0),
    ],
)
def test_approx_against_its_box(kind, form, l2):
    """A literal transcription with the same draws and a restart: same points, exact counts."""
    term, psi, restart = linear(form == "sparse", l2=l2), PSIS[kind], 150
    phi, ledger = model(term, asked(psi) if form == "asked" else psi, key=(7,))
    approx = gt.inner.APPROX(restart=restart)
    state = approx.init(phi, np.zeros(N), None)
    b = term.L_coord
    steps = math.ceil(N * math.sqrt((b.max() + ALPHA) / ALPHA))
    orders = [draws(steps, (7,), chunk) for chunk in range(4)]
    for chunk in range(4):
        index = np.concatenate(orders[: chunk + 1])
        x, z = reference.approx(
            term.grad, np.zeros(N), b, phi.beta, ALPHA, index, restart, psi.prox
        )
        before = dict(ledger.calls)
        state = approx.step(phi, state)
        np.testing.assert_allclose(state.walk.x, x, atol=1e-9)
        np.testing.assert_allclose(state.walk.z, z, atol=1e-9)
        made = {name: ledger.calls[name] - before[name] for name in before}
        assert made["g.coord"] == steps and made["g.grad"] == 1 and made["g.prox"] == steps + 1
        # the output is a proximal gradient step from x, with a subgradient of psi
        L = term.L + ALPHA
        v = psi.prox(x - (phi.beta + ALPHA * x + term.grad(x)) / L, L)
        np.testing.assert_allclose(state.v, v, atol=1e-9)
        assert np.linalg.norm(psi.prox(v + state.grad_psi, 1.0) - v) <= 1e-8
        assert state.guessed
        settled = approx.settle(phi, state)
        np.testing.assert_allclose(settled.grad_g, term.grad(state.v), atol=1e-12)


# APCG --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "sparsely", "l2", "intercept"),
    [
        ("l1", False, 0.0, False),
        ("weights", True, 0.05, True),
        ("box", True, 0.05, False),
        ("box", False, 0.05, True),
    ],
)
def test_apcg_against_its_box(kind, sparsely, l2, intercept):
    term, psi = linear(sparsely, "squared", l2, intercept), PSIS[kind]
    phi, ledger = model(term, psi, key=(3,))
    A = term.A.toarray() if sparsely else term.A
    D = np.full(N, ALPHA + l2)
    if intercept:
        A, D[-1] = np.hstack([A, np.ones((M, 1))]), ALPHA
    a = apcg_numbers(finite_sum(phi.g), D, 1.0)[1]
    orders = [np.random.default_rng((3, s)).integers(M, size=math.ceil(1 / a)) for s in range(3)]
    apcg = gt.inner.APCG()
    state = apcg.init(phi, psi.prox(np.full(N, 0.2), 1.0), None)
    for x, z, v in boxes.apcg(
        A, term.y, lambda y, zeta: zeta - y, 1.0, orders, phi.beta, D, state.v, psi.prox
    ):
        before = dict(ledger.calls)
        state = apcg.step(phi, state)
        np.testing.assert_allclose(state.z + state.u, x, atol=1e-8)
        np.testing.assert_allclose(state.z, z, atol=1e-8)
        np.testing.assert_allclose(state.v, v, atol=1e-8)
        made = {name: ledger.calls[name] - before[name] for name in before}
        assert made["g.component"] == orders[0].size and made["g.grad"] == 1
        assert made["g.prox"] == orders[0].size + 1
        np.testing.assert_allclose(state.grad_g, term.grad(state.v), atol=1e-11)
        assert np.linalg.norm(psi.prox(state.v + state.grad_psi, 1.0) - state.v) <= 1e-9


# Inside of outer methods, and what is refused ---------------------------------------------------


def test_what_is_refused():
    term, h = linear(), gt.Quadratic(np.eye(N))
    with pytest.raises(TypeError, match=r"APPROX changes one .* separable .*GroupL1.*choose inner"):
        gt.minimize(h, term + gt.GroupL1(2, 0.1), method="sae", inner="approx")
    with pytest.raises(TypeError, match=r"APCG .* L1 and Box, not of .*; choose inner='katyusha'"):
        gt.minimize(h, term + asked(gt.L1(0.1)), method="sae", inner="apcg")
    for inner in ("acd", "nesterov-stich", "rpdg", "spdc"):
        with pytest.raises(TypeError, match=r"not made for a non-smooth .*'approx'.*'apcg'"):
            gt.minimize(h, term + gt.L1(0.1), method="sae", inner=inner)


def next_theta(t):
    return (math.sqrt(t**4 + 4 * t**2) - t**2) / 2


def violations(kind, steps=120):
    """Steps of APPROX whose mean over all coordinates breaks the inequality of its proof.

    With psi^_{k+1} = (1 - th) psi^_k - (n - 1) th psi(z_k) + n th psi(z_{k+1}), which is at least
    psi(x_{k+1}): E [g(x_+) + psi^_+ - phi* + (n th)^2/2 |z_+ - v*|_b^2] <=
    (1 - th)(g(x) + psi^ - phi*) + (n th)^2/2 |z - v*|_b^2. Here the quadratic belongs to psi.
    """
    term, psi = linear(), PSIS[kind]
    phi, _ = model(term, psi)
    star = minimum(phi, term, psi)
    best, b = value(phi, term, psi, star), term.L_coord
    lengths = coordinate.StepLengths(x=1 / b, z=b, composite=True)

    def whole(v):
        return phi.beta @ v + ALPHA / 2 * v @ v + psi.value(v)

    rng, theta = np.random.default_rng(1), 1 / N
    walk = coordinate.start_walk((term,), np.zeros(N))
    hat, found = whole(walk.x), 0
    for _ in range(steps):
        scale = (N * theta) ** 2 / 2
        weights = coordinate.Schedule(*(np.array([t]) for t in (1 - theta, 0.0, N * theta)))
        ends, hats, after = [], [], []
        for i in range(N):
            end = coordinate.walk_model(phi, walk, np.array([i]), weights, lengths)
            new = (1 - theta) * hat - (N - 1) * theta * whole(walk.z) + N * theta * whole(end.z)
            if not np.isfinite(new):
                return steps
            assert new >= whole(end.x) - 1e-12
            distance = np.sum(b * (end.z - star) ** 2)
            after.append(term.value(end.x) + new - best + scale * distance)
            ends.append(end)
            hats.append(new)
        before = (1 - theta) * (term.value(walk.x) + hat - best)
        before += scale * np.sum(b * (walk.z - star) ** 2)
        found += np.mean(after) > before * (1 + 1e-10) + 1e-13
        i = int(rng.integers(N))
        walk, hat, theta = ends[i], hats[i], next_theta(theta)
    return found


@pytest.mark.parametrize("kind", PSIS)
def test_the_inequality_of_the_proof_of_approx(kind):
    assert violations(kind) == 0
