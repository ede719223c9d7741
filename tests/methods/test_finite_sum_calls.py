"""Finite-sum inner methods: counts, unbiasedness, seeds, purity, safeguards."""

import numpy as np
import pytest

import geartrain as gt
from finite_sums import by_components, calls, linear, model, problem
from geartrain.methods.inner.finite_sum import Sampling, finite_sum
from geartrain.methods.registry import make_inner

INNER = [gt.Katyusha(), gt.Katyusha(epoch=11), gt.inner.LKatyusha(), gt.inner.Varag()]


def test_a_known_gradient_is_not_asked_for_again():
    """Then each slope of the snapshot is asked for once, when first needed."""
    term = linear("csr")
    v0 = np.ones(term.n)
    phi, other = model(term), model(term)
    method = gt.Katyusha(epoch=20)
    given = method.init(phi, v0, term.grad(v0))
    assert calls(phi) == (0, 0)
    state = method.step(phi, given)
    order = finite_sum(phi.g).sampling("importance").order(np.random.default_rng((0, 3, 0)), 20)
    assert calls(phi) == (20 + len(set(order)), 1)
    asked = method.step(other, method.init(other, v0, None))
    np.testing.assert_allclose(state.v, asked.v, rtol=0, atol=1e-13)
    assert np.isnan(given.memory).all()


def test_calls_of_a_term_of_components():
    term = linear()
    # Only components: a snapshot is m calls, and keeps them.
    phi = model(by_components(term))
    state = gt.Katyusha(epoch=11).init(phi, np.ones(term.n), None)
    assert calls(phi) == (30, 0)
    gt.Katyusha(epoch=11).step(phi, state)
    assert calls(phi) == (30 + 11 + 30, 0)
    # A gradient of its own is used, and components at the snapshot are asked for once.
    phi = model(by_components(term, grad=term.grad))
    state = gt.Katyusha(epoch=11).init(phi, np.ones(term.n), None)
    assert calls(phi) == (0, 1)
    gt.Katyusha(epoch=11).step(phi, state)
    order = finite_sum(phi.g).sampling("importance").order(np.random.default_rng((0, 3, 0)), 11)
    assert calls(phi) == (11 + len(set(order)), 2)


def test_without_memory_two_calls_a_step_and_the_same_iterates(monkeypatch):
    term = linear()
    kept = model(by_components(term))
    first = gt.Katyusha(epoch=11).step(kept, gt.Katyusha().init(kept, np.ones(term.n), None))
    monkeypatch.setattr("geartrain.methods.inner.finite_sum.MEMORY_LIMIT", 10)
    phi = model(by_components(term))
    state = gt.Katyusha(epoch=11).step(phi, gt.Katyusha().init(phi, np.ones(term.n), None))
    assert calls(phi) == (30 + 2 * 11 + 30, 0)
    np.testing.assert_allclose(state.v, first.v, atol=1e-14)


def test_alias_table_has_the_stated_probabilities():
    rng = np.random.default_rng(0)
    for m in (1, 2, 7, 100):
        L_k = rng.exponential(size=m) ** 3
        L_k[rng.random(m) < 0.2] = 0.0
        L_k[0] = 1.0
        draw = Sampling(L_k, "importance")
        if draw._alias is None:
            continue
        keep, other = draw._alias
        p = keep / m
        np.add.at(p, other, (1 - keep) / m)
        np.testing.assert_allclose(p, L_k / L_k.sum(), atol=1e-15)
        drawn = draw.order(np.random.default_rng(1), 1000)
        assert (L_k[drawn] > 0).all()


@pytest.mark.parametrize(
    ("method", "form"), list(zip(INNER, ("csr", "components", "csr", "dense"), strict=True))
)
def test_steps_are_pure_and_follow_the_key(method, form):
    term = linear("dense" if form == "components" else form, intercept=True, l2=0.01)
    wrapped = by_components(term) if form == "components" else term
    phi, other = model(wrapped), model(wrapped, key=(1, 3))
    v0 = np.ones(term.n)
    state = method.init(phi, v0, None)
    for _ in range(5):
        state = method.step(phi, state)
    parts = (state.v, state.y, state.z, state.grad_g, state.memory)
    copies = [np.copy(part) for part in parts]
    once, twice = method.step(phi, state), method.step(phi, state)
    for a, b in zip(copies, parts, strict=True):
        np.testing.assert_array_equal(a, b)
    assert np.array_equal(once.v, twice.v) and np.array_equal(once.z, twice.z)
    assert not np.array_equal(once.z, method.step(other, state).z)
    np.testing.assert_allclose(once.grad_g, term.grad(once.v), atol=1e-12)


@pytest.mark.parametrize(
    ("method", "alpha"), list(zip(INNER, (20.0, 1e-3, 0.05, 1e-3), strict=True))
)
def test_rate_of_the_theorems(method, alpha):
    """|grad phi| to 1e-8 of its start within the calls of the theorem, constant 3."""
    term = linear(m=200)
    phi = model(term, alpha)
    state = method.init(phi, np.zeros(term.n), None)
    first = np.linalg.norm(phi.grad(state.v, state.grad_g))
    while np.linalg.norm(phi.grad(state.v, state.grad_g)) > 1e-8 * first:
        state = method.step(phi, state)
        components, grads = calls(phi)
        kappa = term.L_components.mean() / alpha
        l = getattr(method, "epoch", None) or term.m
        unit = term.m + np.sqrt(term.m * kappa) * max(1.0, term.m / l) ** 0.5
        assert components + term.m * grads <= 3.0 * unit * np.log(1e8) * max(1, kappa**0.05)


def test_an_epoch_that_makes_the_gradient_longer_is_dropped():
    """Constants that are too small, by many factors: what is kept is never worse than before."""
    term = linear(loss="squared")
    kept = []
    for factor in np.geomspace(0.02, 1.0, 30):
        wrong = by_components(term)
        wrong.L_components = term.L_components * factor
        phi = model(wrong, alpha=wrong.L_components.max())
        method = gt.Katyusha(epoch=30)
        state = method.init(phi, np.ones(term.n), None)
        after = method.step(phi, state)
        before, now = (np.linalg.norm(phi.grad(s.v, s.grad_g)) for s in (state, after))
        assert now <= before and (after.v is state.v) == (not after.plain) and after.s == 1
        assert after.plain or after.y is after.z is state.v
        kept.append(after.plain)
    assert kept[-1] and not kept[0]


def test_auto_takes_katyusha_where_only_components_are_known():
    term = linear()
    h = gt.Quadratic(np.eye(term.n))
    assert make_inner("auto", problem(h, by_components(term))) == gt.Katyusha()
    assert make_inner("auto", problem(h, term)) == gt.inner.AGM()
    res = gt.minimize(h, by_components(term), method="sae", tol=1e-7)
    assert res.success and res.calls["g.grad"] == 0 and res.calls["g.component"] > 0
