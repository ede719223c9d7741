"""The diagonal that the learned method takes from its pairs, for a separable psi."""

from __future__ import annotations

import math

import numpy as np
import pytest

import geartrain as gt
from geartrain.geometry import EUCLIDEAN
from geartrain.methods.quasi_newton import prox_step
from geartrain.methods.quasi_newton.certificate import CutCertificate
from geartrain.methods.quasi_newton.composite_scaling import Models, base, learned_diagonal
from geartrain.methods.quasi_newton.composite_trial import LearnedModel
from geartrain.methods.quasi_newton.memory import Memory, Pair
from geartrain.methods.quasi_newton.models import Shelf
from geartrain.oracles.ledger import Ledger
from geartrain.oracles.splitting import Psi

SIZES = np.geomspace(1e-2, 1e2, 30)
CANDIDATES = [("mixed", 60), ("correction", 20), ("plain", 50)]


def pairs_of(H_h, H_g, count, seed=0):
    """Pairs of two quadratics."""
    rng = np.random.default_rng(seed)
    S = rng.standard_normal((count, len(H_h)))
    S /= np.linalg.norm(S, axis=1)[:, None]
    return Memory.of([Pair(s, H_h @ s, H_g @ s) for s in S], EUCLIDEAN)


def models_on(D, memory, lam=0.7):
    return Models.of(memory, memory, Shelf(memory, memory, lam, 2.0, EUCLIDEAN), D, 1.0)


def test_the_diagonal_of_a_quadratic_is_learned_from_few_pairs():
    """Up to a factor, which lam has; and one pair alone is not enough."""
    H = np.diag(SIZES)
    assert learned_diagonal(pairs_of(H, H, 1)) is None
    memory = pairs_of(H, 0.5 * H, 12)
    D = learned_diagonal(memory)
    S = np.array([p.s for p in memory.pairs])
    Y = np.array([p.y_h + p.y_g for p in memory.pairs])
    age = np.sqrt(0.6 ** np.arange(12.0))[::-1, None]  # the newest pairs count most
    S, Y = age * S, age * Y
    weight = 0.05 * np.mean(np.sum(S**2, axis=0))
    want = np.sum(Y**2, axis=0) + weight * np.sum(Y**2) / np.sum(S**2)
    want = np.sqrt(want / (np.sum(S**2, axis=0) + weight))
    np.testing.assert_allclose(D / D[-1], want / want[-1], rtol=1e-12)
    # what all variables have in common is 0.05 of the weight, so the largest entries are right
    assert np.std(np.log(D / SIZES)[-8:]) < 0.1 * np.std(np.log(SIZES[-8:]))


def test_steps_are_on_average_as_long_in_the_metric_as_they_are():
    memory = pairs_of(np.diag(SIZES), np.eye(30), 7)
    D = learned_diagonal(memory)
    weights = 0.6 ** np.arange(7.0)[::-1]
    squares = [pair.s**2 @ D for pair in memory.pairs]
    assert weights @ squares == pytest.approx(weights.sum(), rel=1e-12)


@pytest.mark.parametrize("candidate", CANDIDATES)
def test_models_on_a_diagonal_are_the_models_in_scaled_variables(candidate):
    """B = T B_T T, with B_T made of T s and T^{-1} y; recomputed from dense matrices."""
    rng = np.random.default_rng(1)
    Q = rng.standard_normal((30, 30))
    memory, D = pairs_of(np.diag(SIZES) + 0.01 * Q @ Q.T, np.diag(SIZES[::-1]), 5), SIZES[::-1]
    models, T = models_on(D, memory), np.sqrt(D)
    B = models[candidate]
    scaled = Memory.of(
        [Pair(T * p.s, p.y_h / T, p.y_g / T) for p in memory.pairs],
        EUCLIDEAN,
    )
    inside = Shelf(scaled, scaled, 0.7, 2.0, EUCLIDEAN)[candidate]
    want = T[:, None] * np.column_stack([inside(e) for e in np.eye(30)]) * T
    got = np.column_stack([B(e) for e in np.eye(30)])
    np.testing.assert_allclose(got, want, atol=1e-10 * np.abs(want).max())
    s = memory.pairs[-1].s
    if candidate[0] != "correction":  # the newest secant equation
        y = memory.pairs[-1].y_h + (memory.pairs[-1].y_g if candidate[0] == "plain" else 0.0)
        np.testing.assert_allclose(B(s), y, atol=1e-9 * np.abs(want).max())
    np.testing.assert_allclose(B(s, 0.3), B(s) + 0.3 * s, atol=1e-12 * np.abs(want).max())
    np.testing.assert_allclose(B.all([s], 0.3)[0], B(s, 0.3))
    assert prox_step.largest(B) >= np.linalg.eigvalsh(want)[-1] * (1.0 - 1e-9)
    assert (
        np.linalg.eigvalsh(np.column_stack([B.positive()(e) for e in np.eye(30)])).min()
        > -1e-8 * np.abs(want).max()
    )


@pytest.mark.parametrize("term", [gt.L1(0.3), gt.L1(np.linspace(0, 1, 30)), gt.Box(-0.1, 0.2)])
def test_the_newton_method_solves_models_on_a_diagonal(monkeypatch, term):
    rng = np.random.default_rng(3)
    B = models_on(SIZES, pairs_of(np.diag(SIZES**0.5), np.eye(30), 6))[("mixed", 60)]
    dense = np.column_stack([B(e, 0.1) for e in np.eye(30)])
    v, d, ledger = term.prox(rng.standard_normal(30), 1.0), 3.0 * rng.standard_normal(30), Ledger()
    psi = Psi(term, 2.0, "g", ledger, 30)
    to = prox_step.minimised(B, 0.1, d, psi, v, 1e-8, 1)
    assert ledger.calls["g.prox"] <= 20 and to.residual <= 1e-8
    assert np.linalg.norm(psi.residual(to.w, d + dense @ (to.w - v))) <= 1e-7
    assert np.linalg.norm(psi.prox(to.w + to.grad_psi, 1.0) - to.w) <= 1e-6
    monkeypatch.setattr(prox_step, "root", lambda *args: None)
    by_gradients = prox_step.minimised(B, 0.1, d, psi, v, 1e-8, 100_000)
    np.testing.assert_allclose(to.w, by_gradients.w, atol=1e-6)


def test_a_diagonal_is_used_only_where_it_has_made_cosines_larger():
    H = np.diag(SIZES)
    memory = pairs_of(H, 0.0 * H, 10)
    D = learned_diagonal(memory)
    shelf = Shelf(memory, memory, 0.7, 2.0, EUCLIDEAN)
    assert Models.of(memory, memory, shelf, D, 0.0).D is None
    models = Models.of(memory, memory, shelf, D, 0.0)
    s = np.random.default_rng(5).standard_normal(30)
    assert models.gain(0.0, s, H @ s) > 0.1 > models.gain(0.0, s, s)
    assert Models.of(memory, memory, shelf, D, models.gain(0.2, s, H @ s)).D is D
    assert Models.of(memory, memory, shelf, None, 1.0).gain(0.2, s, s) == 0.2  # no pairs, no news
    assert models.gain(0.2, s, 0.0 * s) == 0.2  # a flat step tells nothing
    assert isinstance(base(shelf[("plain", 50)], 0.0), float)


def test_products_of_a_model_with_known_steps_are_kept():
    """Each step is multiplied once per model, and the products are those of the matrix."""
    memory = pairs_of(np.diag(SIZES), np.eye(30), 4)
    B, asked = models_on(SIZES, memory)[("mixed", 60)], []

    class Watched(type(B.small)):
        def all(self, vectors):
            asked.append(len(vectors))
            return super().all(vectors)

    small = Watched(
        **{name: getattr(B.small, name) for name in ("rows", "C", "G", "M", "geometry")}
    )
    diagonal = base(B, 0.1)
    alpha = float(diagonal.min())
    phi = LearnedModel(
        None, np.zeros(30), alpha, small=small, uneven=diagonal - alpha, p=np.zeros(30)
    )
    steps = [pair.s for pair in memory.pairs]
    phi.quadratic(steps[:2])
    products = phi.quadratic(steps)
    assert asked == [2, 2] and phi.quadratic(steps[::-1])[0] is products[-1] and len(asked) == 2
    for s, product in zip(steps, products, strict=True):
        np.testing.assert_allclose(product, B(s, 0.1), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(phi.grad(s, np.zeros(30)), B(s, 0.1), rtol=1e-9, atol=1e-9)


def test_a_drop_that_is_not_a_number_ends_a_certificate_and_not_the_run():
    """Values and slopes of a term that overflows may both be lost."""
    ones = np.ones(3)
    certificate = CutCertificate(0.0 * ones, 0.0 * ones).with_cut(ones, -ones, 0.0, EUCLIDEAN)
    assert certificate.A > 0.0
    for drop in (math.nan, -math.inf):
        after = certificate.lowered(drop, EUCLIDEAN)
        assert after.A == after.c == 0.0 and not after.G.any()
    assert CutCertificate(ones, 0.0 * ones).lowered(math.nan, EUCLIDEAN).A == 0.0
