"""Finite-sum methods: counts, seeds, purity, safeguards; on the whole f; what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import geartrain as gt
from finite_sums import by_components, calls, linear, model, problem
from geartrain.methods.baselines.catalyst import SVRG
from geartrain.methods.inner.finite_sum import Sampling, finite_sum
from geartrain.methods.registry import make_inner
from geartrain.oracles.ledger import NonFiniteAnswer
from reference import finite_sum as boxes

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


# Paper: Katyusha on the whole
@pytest.mark.parametrize(
    ("mu", "form"), [(0.0, "dense"), (0.02, "csr"), (0.0, "components"), (0.02, "dense")]
)
def test_katyusha_whole_is_the_printed_one(mu, form):
    term = linear("dense" if form == "components" else form)
    h = gt.Quadratic(np.diag(np.linspace(0.1, 2.0, term.n)))
    f = replace(problem(h, by_components(term) if form == "components" else term, mu), seed=7)
    method = gt.methods.KatyushaWhole(epoch=12)
    state = method.init(f, np.ones(term.n))
    draw = finite_sum(f.g).sampling("importance")
    drawn = [draw.order(np.random.default_rng((7, s)), 12) for s in range(3)]
    expected = boxes.katyusha_whole(
        h.grad, term.component, term.m, draw.p, h.L + draw.L, drawn, mu, np.ones(term.n)
    )
    for s, row in enumerate(expected, start=1):
        state = method.step(f, state)
        for got, want in zip((state.x_tilde, state.y, state.z), row, strict=True):
            np.testing.assert_allclose(got, want, rtol=0, atol=1e-11)
        np.testing.assert_allclose(state.grad, h.grad(state.point) + term.grad(state.point))
        assert f.ledger.calls["h.grad"] == 1 + 13 * s
        if form == "components":
            assert f.ledger.calls["g.component"] == 30 + (12 + 30) * s
        else:
            assert (f.ledger.calls["g.component"], f.ledger.calls["g.grad"]) == (12 * s, s + 1)


# Paper: Catalyst
@pytest.mark.parametrize("mu", [0.0, 0.05])
def test_catalyst_is_the_printed_one(mu):
    term = linear(l2=0.05)
    h = gt.Quadratic(np.diag(np.linspace(0.0, 2.0, term.n)))
    f = problem(h, term, mu)
    method = gt.methods.Catalyst()
    state = method.init(f, np.ones(term.n))
    L = h.L + term.L
    expected = boxes.catalyst(
        lambda x: h.grad(x) + term.grad(x), L, mu, L - 2 * mu, np.ones(term.n), 12
    )
    steps = 0
    for k, (x, y, inner) in enumerate(expected, start=1):
        state = method.step(f, state)
        np.testing.assert_allclose(state.x, x, atol=1e-11)
        np.testing.assert_allclose(state.y, y, atol=1e-11)
        # One gradient of each at a start that is not yet known, one a step.
        steps += inner + 1
        assert f.ledger.calls["h.grad"] == f.ledger.calls["g.grad"] == steps
        assert state.k == k


def test_catalyst_over_svrg_reaches_the_minimum():
    term = linear(l2=0.05, loss="squared")
    h = gt.Quadratic(np.diag(np.linspace(0.0, 2.0, term.n)))
    method = gt.methods.Catalyst(inner=SVRG())
    res = gt.minimize(h, term, method=method, tol=1e-6)
    assert res.success
    assert np.linalg.norm(h.grad(res.x) + term.grad(res.x)) <= 1e-5
    # every component step asks for a gradient of h
    assert res.calls["h.grad"] >= res.calls["g.component"] > 0


def test_duplicate_entries_of_a_sparse_row():
    entries = np.array([1.0, 2.0, 1.5, 0.5])
    where, rows = np.array([0, 0, 1, 0], dtype=np.int32), np.array([0, 2, 4], dtype=np.int32)
    A = sparse.csr_array((entries, where, rows), shape=(2, 2))
    y = np.array([1.0, -1.0])
    ends = []
    for matrix in (A, A.toarray()):
        phi = model(gt.LinearModel(matrix, y))
        method = gt.Katyusha(sampling="uniform", epoch=9)
        ends.append(method.step(phi, method.init(phi, np.ones(2), None)))
    np.testing.assert_allclose(ends[0].z, ends[1].z, atol=1e-13)


def test_empty_rows_and_zero_data():
    A = np.zeros((5, 3))
    A[1, 2] = 1.0
    for matrix in (A, sparse.csr_array(A)):
        phi = model(gt.LinearModel(matrix, [1, -1, 1, 1, -1]), alpha=1e-3)
        state = gt.Katyusha().init(phi, np.ones(3), None)
        for _ in range(100):
            state = gt.Katyusha().step(phi, state)
        assert np.linalg.norm(phi.grad(state.v, state.grad_g)) < 1e-6
    phi = model(gt.LinearModel(np.zeros((4, 2)), [1, -1, 1, 1]), alpha=1.0)
    state = gt.Katyusha().step(phi, gt.Katyusha().init(phi, np.ones(2), None))
    np.testing.assert_allclose(state.v, -phi.beta)


def test_non_finite_components_end_the_run():
    term = linear()

    def component(x, k):
        return np.full(term.n, np.nan) if np.abs(x).sum() > 0 else term.component(x, k)

    phi = model(by_components(term, component))
    state = gt.Katyusha().init(phi, np.zeros(term.n), None)
    with pytest.raises(NonFiniteAnswer, match=r"g\.component"):
        gt.Katyusha().step(phi, state)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: gt.Katyusha(epoch=0), "epoch must be at least 1"),
        (lambda: gt.Katyusha(sampling="even"), "sampling must be"),
        (lambda: gt.Katyusha(quadratic="no"), "quadratic must be one of"),
        (lambda: gt.inner.LKatyusha(p=0.0), "p must be in"),
    ],
)
def test_bad_options(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_missing_answers_and_constants():
    term = linear()
    h = gt.Quadratic(np.eye(term.n))
    bare = gt.Term(component=term.component, n=term.n, n_components=term.m)
    with pytest.raises(ValueError, match="L_components"):
        gt.minimize(h, bare, method="sae")
    full = gt.Term(grad=term.grad, n=term.n, L=1.0)
    for method, inner in (("sae", "katyusha"), ("katyusha", "auto")):
        with pytest.raises(TypeError, match="one summand"):
            gt.minimize(h, full, method=method, inner=inner)
