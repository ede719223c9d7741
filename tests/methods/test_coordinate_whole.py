"""ACD on the whole f: every pair of terms against the transcription, counts, restarts, resume."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import geartrain as gt
from composite import counted
from coordinate_problems import model, quadratic
from problems import logistic
from reference import coordinate as reference

N = 9


def softmax(sparsely=False, p=40):
    rng = np.random.default_rng(4)
    A = rng.uniform(-1.0, 1.0, (p, N)) * 3.0
    if sparsely:
        A = A * (rng.random((p, N)) < 0.1)  # some rows are empty
        assert (np.abs(A).sum(axis=1) == 0).any()
        A = sparse.csr_array(A)
    return gt.LogSumExp(A, c=rng.standard_normal(N) * 0.1)


TERMS = {
    "quadratic": quadratic(),
    "sparse quadratic": quadratic(sparsely=True),
    "model": model(),
    "sparse model": model(loss="smoothed_hinge", sparsely=True),
    "softmax": softmax(),
    "sparse softmax": softmax(sparsely=True),
}
PAIRS = [(name, "quadratic", mu) for name, mu in zip(TERMS, itertools.cycle([0.0, 0.2]))]
PAIRS += [("sparse softmax", "sparse quadratic", 0.0), ("quadratic", "sparse model", 0.2)]


def problem(h, g, mu=0.0):
    return counted(h, g, L_h=h.L, L_g=g.L, mu=mu, seed=7)


def transcription(f, x0, mu, chunks, restart=None):
    h, g = f.h.term, f.g.term
    L = h.L_coord + g.L_coord
    size = 10 * N
    if mu > 0:
        size = min(size, max(N, int(np.ceil(np.sqrt(L / mu).sum()))))
    cumulative = np.cumsum(np.sqrt(L)) / np.sqrt(L).sum()
    index = np.concatenate(
        [
            np.searchsorted(cumulative, np.random.default_rng((f.seed, c)).random(size), "right")
            for c in range(chunks)
        ]
    )
    grad = lambda x: h.grad(x) + g.grad(x)  # noqa: E731
    every = None if restart is None else restart * size
    return reference.nesterov_stich(grad, x0, L, 0.5, mu, index, every), size


# Paper: coordinate descent
@pytest.mark.parametrize(("h", "g", "mu"), PAIRS)
def test_kernel_equals_the_transcription(h, g, mu):
    f = problem(TERMS[h], TERMS[g], mu)
    x0 = np.linspace(-1.0, 1.0, N)
    method = gt.methods.ACDWhole()
    state = method.init(f, x0)
    for _ in range(3):
        state = method.step(f, state)
    (x, v), size = transcription(f, x0, mu, 3)
    np.testing.assert_allclose(state.x, x, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(state.walk.z, v, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(state.grad, f.h.term.grad(x) + f.g.term.grad(x), atol=1e-8)
    calls = f.ledger.calls
    assert calls["h.coord"] == calls["g.coord"] == 3 * size
    assert calls["h.grad"] == calls["g.grad"] == 4
    assert sum(calls.values()) == 6 * size + 8


def test_user_terms_walk_the_same_way():
    h, g = TERMS["sparse softmax"], TERMS["quadratic"]
    own = gt.Term(coord=h.coord, grad=h.grad, n=N, L=h.L, L_coord=h.L_coord)
    ends = []
    for term in (h, own):
        f = problem(term, g)
        method = gt.methods.ACDWhole()
        state = method.step(f, method.init(f, np.ones(N)))
        ends.append((state.x, dict(f.ledger.calls)))
    np.testing.assert_allclose(ends[0][0], ends[1][0], rtol=1e-10)
    assert ends[0][1] == ends[1][1]


def test_large_scores_do_not_overflow():
    """Scores of a few thousands: exp is taken relative to the largest."""
    h = gt.LogSumExp(sparse.csr_array(1e3 * softmax(sparsely=True).A.toarray()))
    f = problem(h, TERMS["quadratic"])
    method = gt.methods.ACDWhole()
    state = method.step(f, method.init(f, np.ones(N)))
    (x, _), _ = transcription(f, np.ones(N), 0.0, 1)
    np.testing.assert_allclose(state.x, x, rtol=1e-8)


def test_restarts():
    f = problem(TERMS["model"], TERMS["quadratic"])
    method = gt.methods.Restarted(gt.methods.ACDWhole(), gt.methods.FixedPeriod(2))
    state = method.init(f, np.ones(N))
    for _ in range(5):
        state = method.step(f, state)
    (x, _), _ = transcription(f, np.ones(N), 0.0, 5, restart=2)
    np.testing.assert_allclose(state.x, x, rtol=1e-9, atol=1e-10)
    again = gt.methods.ACDWhole().restart(state)
    np.testing.assert_allclose(again.walk.products[0][0], f.h.term.predict(state.x), atol=1e-12)
    assert again.A == 0.0 and not again.walk.u.any() and again.walk.x is not state.walk.z


def test_a_coordinate_that_nothing_depends_on():
    Q = np.diag([1.0, 0.0, 4.0])
    res = gt.minimize(gt.Quadratic(Q, b=[1.0, 0.0, 1.0]), gt.Quadratic(Q), [9, 9, 9], method="acd")
    assert res.success
    np.testing.assert_allclose(res.x, [0.5, 9.0, 0.125], atol=1e-4)


def test_minimises_and_restarts_when_mu_is_not_known():
    known = logistic()
    res = gt.minimize(known.h, known.g, method="acd", tol=1e-9, mu=0.0, max_iter=4000)
    assert res.success
    np.testing.assert_allclose(res.x, known.x_star, atol=1e-5)


def test_steps_are_pure():
    f = problem(TERMS["sparse softmax"], TERMS["sparse model"])
    method = gt.methods.ACDWhole(mu=0.1)
    first = method.step(f, method.init(f, np.ones(N)))
    kept = replace(first, walk=first.walk.copy(), x=first.x.copy())
    np.testing.assert_array_equal(method.step(f, first).x, method.step(f, kept).x)
    np.testing.assert_array_equal(first.walk.z, kept.walk.z)
    for (Az, Au), (Bz, Bu) in zip(first.walk.products, kept.walk.products, strict=True):
        np.testing.assert_array_equal(Az, Bz)
        np.testing.assert_array_equal(Au, Bu)


def test_mu_is_checked():
    with pytest.raises(ValueError, match="mu must"):
        gt.methods.ACDWhole(mu=-1.0)
