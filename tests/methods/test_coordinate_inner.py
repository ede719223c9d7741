"""ACD, NesterovStich and APPROX on phi: kernels against transcriptions, invariants, counts."""

import functools
import itertools
import subprocess
import sys

import numpy as np
import pytest
from numba import njit
from scipy import sparse

import geartrain as gt
from coordinate_problems import indices, model, quadratic, run
from geartrain.compiled import coordinate as kernels
from geartrain.methods.coordinate import Sampler, StepLengths, chunk_length, start_walk, walk_model
from geartrain.methods.inner.acd import nu_acdm_weights
from geartrain.oracles.ledger import Ledger, Oracle
from geartrain.problem import Model
from reference import coordinate as reference

LOSSES = ("logistic", "squared", "smoothed_hinge", "huber", "squared_hinge")


TERMS = {
    "quadratic": quadratic(),
    "sparse quadratic": quadratic(sparsely=True),
    **{loss: model(loss) for loss in LOSSES},
    **{f"sparse {loss}": model(loss, sparsely=True) for loss in LOSSES},
    "no intercept": model(intercept=False, n=9),
}
INNER = (
    gt.inner.ACD(),
    gt.inner.NesterovStich(),
    gt.inner.NesterovStich(beta=0.25),
    gt.inner.NesterovStich(restart=17),
    gt.inner.APPROX(),
    gt.inner.APPROX(restart=13),
)


def model_of(term, alpha=0.3, seed=0):
    n = term.n
    beta = np.random.default_rng(3).standard_normal(n)
    oracle = Oracle(term, "g", Ledger(), n)
    return Model(oracle, beta, alpha, L_g=term.L, mu_g=0.0, key=(seed, 5))


def transcription(inner, phi, v0, chunks):
    """(x, z) of the literal method after so many chunks."""
    term, alpha, n = phi.g.term, phi.alpha, phi.n
    b = np.broadcast_to(term.L if term.L_coord is None else term.L_coord, (n,))
    L = b + alpha
    grad = lambda x: phi.beta + alpha * x + term.grad(x)  # noqa: E731
    if isinstance(inner, gt.inner.ACD):
        K = np.sqrt(L).sum() / np.sqrt(alpha)
        return reference.nu_acdm(grad, v0, L, alpha, indices(phi, np.sqrt(L), K, chunks))
    if isinstance(inner, gt.inner.NesterovStich):
        weights = L**inner.beta
        sigma = alpha / (L ** (1 - 2 * inner.beta)).max()
        index = indices(phi, weights, weights.sum() / np.sqrt(sigma), chunks)
        strong = sigma if inner.restart is None else 0.0
        return reference.nesterov_stich(grad, v0, L, inner.beta, strong, index, inner.restart)
    unit = n * np.sqrt((b.max() + alpha) / alpha)
    restart = int(np.ceil(3 * unit)) if inner.restart is None else inner.restart
    index = indices(phi, np.ones(n), unit, chunks)
    return reference.approx(term.grad, v0, b, phi.beta, alpha, index, restart)


# Paper: APPROX
# Paper: NU_ACDM
# Paper: Nesterov-Stich
@pytest.mark.parametrize(("name", "inner"), list(zip(TERMS, itertools.cycle(INNER))))
def test_kernel_equals_the_transcription(inner, name):
    phi = model_of(TERMS[name])
    v0 = np.linspace(-1.0, 1.0, phi.n)
    last = run(inner, phi, 3, v0)[-1]
    x, z = transcription(inner, phi, v0, 3)
    np.testing.assert_allclose(last.v, x, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(last.walk.z, z, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(last.grad_g, TERMS[name].grad(last.v), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("inner", INNER, ids=repr)
def test_long_runs_do_not_drift(inner):
    """Many folds: the iterates stay those of the transcription."""
    phi = model_of(TERMS["sparse logistic"], alpha=1e-2)
    v0 = np.ones(phi.n)
    last = run(inner, phi, 12, v0)[-1]
    x, _ = transcription(inner, phi, v0, 12)
    np.testing.assert_allclose(last.v, x, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(
    ("inner", "name"), list(zip(INNER, itertools.cycle(["quadratic", "sparse logistic"])))
)
def test_exact_calls(inner, name):
    """A chunk: one partial derivative a step and one gradient; a known gradient is not asked."""
    phi = model_of(TERMS[name])
    run(inner, phi, 3)
    calls = phi.g.ledger.calls
    L = TERMS[name].L_coord + phi.alpha
    if isinstance(inner, gt.inner.APPROX):
        K = phi.n * np.sqrt(L.max() / phi.alpha)
    else:
        beta = getattr(inner, "beta", 0.5)
        K = (L**beta).sum() / np.sqrt(phi.alpha / (L ** (1 - 2 * beta)).max())
    assert calls["g.coord"] == 3 * max(phi.n, np.ceil(K))
    assert calls["g.grad"] == 4
    inner.init(phi, np.zeros(phi.n), np.zeros(phi.n))
    assert calls["g.grad"] == 4
    assert sum(calls.values()) == calls["g.coord"] + 4


@functools.cache
def coords():
    """A partial derivative of the quadratic, plain and jitted; compiled once for all tests."""
    Q, b = TERMS["quadratic"].Q, TERMS["quadratic"].b

    def coord(x, i):
        total = 0.0
        for j in range(x.size):
            total += Q[i, j] * x[j]
        return total - b[i]

    return coord, njit(coord)


@pytest.mark.parametrize("inner", INNER[1::2], ids=repr)
def test_user_terms_walk_the_same_way(inner):
    """A plain coord and a jitted one give the kernel's iterates and counts."""
    term = TERMS["quadratic"]
    phi = model_of(term)
    expected, asked = run(inner, phi, 3)[-1], phi.g.ledger.calls
    for fn in coords():
        own = gt.Term(coord=fn, n=term.n, L=term.L, L_coord=term.L_coord)
        phi = model_of(own)
        last = run(inner, phi, 3)[-1]
        np.testing.assert_allclose(last.v, expected.v, rtol=1e-10, atol=1e-11)
        # The four gradients are put together from partial derivatives.
        assert phi.g.ledger.calls["g.coord"] == asked["g.coord"] + 4 * term.n
        assert phi.g.ledger.calls["g.grad"] == 0


def test_a_term_without_coordinate_constants_uses_L():
    term = TERMS["quadratic"]
    own = gt.Term(coord=term.coord, grad=term.grad, n=term.n, L=term.L)
    phi = model_of(own)
    v0 = np.ones(phi.n)
    x, _ = transcription(gt.inner.ACD(), phi, v0, 1)
    np.testing.assert_allclose(run(gt.inner.ACD(), phi, 1, v0)[-1].v, x, rtol=1e-9)
    with pytest.raises(ValueError, match="L_coord"):
        gt.inner.ACD().step(
            Model(Oracle(gt.Term(coord=term.coord, n=9), "g", Ledger(), 9), phi.beta, 1.0),
            gt.inner.ACD().init(phi, v0, None),
        )


def test_a_loss_of_the_users_own_is_asked_call_by_call():
    class Own(gt.oracles.losses.Squared):
        pass

    A, y = np.random.default_rng(0).standard_normal((20, 9)), np.linspace(-1, 1, 20)
    ends = []
    for loss in (Own(), "squared"):
        phi = model_of(gt.LinearModel(A, y, loss=loss))
        last = run(gt.inner.NesterovStich(), phi, 2)[-1]
        ends.append((last.v, len(last.walk.products), phi.g.ledger.calls))
    np.testing.assert_allclose(ends[0][0], ends[1][0], rtol=1e-10)
    assert (ends[0][1], ends[1][1]) == (0, 1)
    assert ends[0][2] == ends[1][2]


# One step from a given state, averaged over all coordinates ---------------------------------


@pytest.mark.parametrize(
    "inner", [gt.inner.ACD(), gt.inner.NesterovStich(), gt.inner.APPROX()], ids=repr
)
def test_budget(inner):
    """1e-8 of the gap within the natural number of steps times the logarithm: momentum works."""
    rng = np.random.default_rng(0)
    n = 60
    U = np.linalg.qr(rng.standard_normal((n, n)))[0]
    Q = (U * np.geomspace(1e-3, 1e3, n)) @ U.T
    term = gt.Quadratic((Q + Q.T) / 2)
    phi = model_of(term, alpha=0.1)
    hessian = term.Q + phi.alpha * np.eye(n)
    best = np.linalg.solve(hessian, -phi.beta)
    state = inner.init(phi, np.ones(n), None)
    gap = lambda v: 0.5 * (v - best) @ hessian @ (v - best)  # noqa: E731
    first = gap(state.v)
    while gap(state.v) > 1e-8 * first:
        state = inner.step(phi, state)
        assert state.chunk < 100
    L = term.L_coord + phi.alpha
    unit = np.sqrt(L).sum() if not isinstance(inner, gt.inner.APPROX) else n * np.sqrt(L.max())
    used = phi.g.ledger.calls["g.coord"] / (unit / np.sqrt(phi.alpha) * np.log(1e8))
    assert used < 0.9


def test_no_vector_work_in_a_step(monkeypatch):
    """The loop in plain Python, with vectors that count how often an entry of theirs is used."""
    used = [0]

    class Counting:
        def __init__(self, vector):
            self.vector, self.size = vector, vector.size

        def __getitem__(self, j):
            used[0] += 1
            return self.vector[j]

        def __setitem__(self, j, value):
            used[0] += 1
            self.vector[j] = value

    def advance(tally, T, products, v, *rest):
        counted = (type(pair)(*map(Counting, pair)) for pair in (products, v))
        compiled.py_func(tally, T, *counted, *rest)

    compiled, per_step = kernels.advance, []
    terms = [gt.Quadratic(sparse.diags_array(np.geomspace(1.0, 4.0, n)).tocsr()) for n in (50, 800)]
    # Compiled before its parts are replaced.
    ends = [run(gt.inner.ACD(), model_of(term, alpha=1.0), 1)[-1].v for term in terms]
    monkeypatch.setattr(kernels, "derivative", lambda T, *rest: kernels._PARTIAL[type(T)](T, *rest))
    monkeypatch.setattr(kernels, "move", lambda *_: None)
    monkeypatch.setattr(kernels, "fold_products", kernels.fold.py_func)
    monkeypatch.setattr(kernels, "fold", kernels.fold.py_func)
    monkeypatch.setattr(kernels, "advance", advance)
    for term, expected in zip(terms, ends, strict=True):
        phi, used[0] = model_of(term, alpha=1.0), 0
        np.testing.assert_allclose(
            run(gt.inner.ACD(), phi, 1)[-1].v, expected, rtol=1e-9, atol=1e-12
        )
        per_step.append(used[0] / phi.g.ledger.calls["g.coord"])
    # O(n) in a step would make it sixteen times as much.
    assert 1.0 < per_step[1] < 1.5 * per_step[0] < 60


def test_sampler():
    weights = np.array([0.0, 3.0, 0.0, 1.0, 4.0, 0.0, 0.0])
    index = Sampler(weights).draw((7, 1), 80_000)
    np.testing.assert_allclose(
        np.bincount(index, minlength=7) / 80_000, weights / 8, atol=4 * 0.5 / np.sqrt(80_000)
    )
    assert not np.isin(index, [0, 2, 5, 6]).any()
    plain = np.searchsorted(
        np.cumsum(weights) / 8, np.random.default_rng((7, 1)).random(80_000), side="right"
    )
    np.testing.assert_array_equal(index, plain)
    assert (Sampler(np.ones(1)).draw((0,), 5) == 0).all()


def test_one_coordinate():
    """n = 1, also where g does not depend on it."""
    for q in (3.0, 0.0):
        term = gt.Quadratic([[q]])
        for inner in INNER:
            state = run(inner, model_of(term), 30, np.ones(1))[-1]
            np.testing.assert_allclose(state.v, -model_of(term).beta / (q + 0.3), rtol=1e-6)


def test_auto_chooses_by_what_g_answers():
    h, g = quadratic(), quadratic(sparsely=True)
    only = gt.Term(coord=g.coord, n=g.n, L=g.L, L_coord=g.L_coord)
    res = gt.minimize(h, only, method="afb", tol=1e-2)
    method = res.state.method
    assert isinstance(getattr(method, "method", method).inner, gt.inner.NesterovStich)
    assert res.success
    with pytest.raises(TypeError, match="partial derivative"):
        gt.minimize(h, gt.Term(lambda x: (0.0, 0 * x), n=9, L=1.0), method="afb", inner="acd")


def test_parameters_are_checked():
    for make in (
        lambda: gt.inner.NesterovStich(beta=0.6),
        lambda: gt.inner.NesterovStich(restart=0),
        lambda: gt.inner.APPROX(restart=-1),
        lambda: gt.inner.APPROX(restart=2.5),
    ):
        with pytest.raises(ValueError, match="must be"):
            make()


def test_chunks_are_at_least_a_pass():
    assert chunk_length(2.0, 10) == 10
    assert chunk_length(100.0, 10) == 100


def test_importing_the_library_does_not_import_numba():
    code = "import sys, geartrain; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_vector_exp():
    """Right to three roundings; far below, small enough to vanish in any sum."""
    from geartrain.compiled.vector_exp import exp_of_nonpositive

    x = -np.concatenate([[0.0, 1e-300, 0.5 * np.log(2)], np.geomspace(1e-8, 699.0, 20_000)])
    out = x.copy()
    exp_of_nonpositive(out)
    np.testing.assert_allclose(out, np.exp(x), rtol=3 * np.finfo(float).eps)
    out = np.array([-701.0, -1e9, -np.inf])
    exp_of_nonpositive(out)
    assert (out < 1e-300).all()


def all_outcomes(phi, walk, L, sigma):
    S = np.sqrt(L).sum()
    p = np.sqrt(L) / S
    steps = StepLengths(1.0 / L, 1.0 / p)
    weights = nu_acdm_weights(S, sigma, 1)
    return p, [walk_model(phi, walk, np.array([i]), weights, steps) for i in range(L.size)]


def test_the_step_of_z_is_unbiased_and_the_potential_falls():
    """E z+ = (1 - tau) z + tau x - tau/sigma grad phi(x); E potential <= (1 - tau) potential."""
    term = TERMS["quadratic"]
    phi = model_of(term)
    L, sigma = term.L_coord + phi.alpha, phi.alpha
    S = np.sqrt(L).sum()
    tau = 2 / (1 + np.sqrt(4 * S**2 / sigma + 1))
    hessian = term.Q + phi.alpha * np.eye(phi.n)
    best = np.linalg.solve(hessian, term.b - phi.beta)
    value = lambda v: 0.5 * (v - best) @ hessian @ (v - best)  # noqa: E731
    rng = np.random.default_rng(0)
    for _ in range(50):
        walk = start_walk((term,), rng.standard_normal(phi.n))
        walk = type(walk)(walk.z, rng.standard_normal(phi.n), walk.products)
        p, outcomes = all_outcomes(phi, walk, L, sigma)
        x = tau * walk.z + (1 - tau) * walk.x
        expected = (1 - tau) * walk.z + tau * x - tau / sigma * (hessian @ (x - best))
        mean = sum(q * w.z for q, w in zip(p, outcomes, strict=True))
        np.testing.assert_allclose(mean, expected, rtol=1e-10, atol=1e-10)
        potential = lambda w: value(w.x) + sigma / 2 * np.sum((w.z - best) ** 2)  # noqa: E731
        mean = sum(q * potential(w) for q, w in zip(p, outcomes, strict=True))
        assert mean <= (1 - tau) * potential(walk) * (1 + 1e-12)
