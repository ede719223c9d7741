"""SimilarNewton against dense linear algebra, its calls, and what it does when a step fails."""

from dataclasses import replace

import numpy as np
import pytest

import geartrain as gt
from composite import counted
from geartrain.methods import similar_newton
from geartrain.methods.similar_newton import SimilarNewton
from geartrain.oracles.protocols import MissingOracle
from shards import N, make_rows, whole


class Difference:
    """f - f_1 in one process."""

    convex, L, mu = False, None, 0.0

    def __init__(self, f, f_1):
        self.f, self.f_1, self.n = f, f_1, f.n
        self.asked = []

    def value_and_grad(self, x):
        (a, u), (b, v) = self.f.value_and_grad(x), self.f_1.value_and_grad(x)
        return a - b, u - v

    def second_order(self, x, D):
        self.asked.append(x.copy())
        return *self.value_and_grad(x), self.f.products(x, D) - self.f_1.products(x, D)


def shards(l2=0.02, loss="logistic"):
    """H = f - f_1 and g = f_1 + l2/2 |x|^2."""
    kinds = {"real": loss == "squared"}
    A, y, _ = whole(**kinds)
    f, f_1 = gt.LinearModel(A, y, loss), gt.LinearModel(*make_rows(0, **kinds), loss)
    return Difference(f, f_1), gt.LinearModel(*make_rows(0, **kinds), loss, l2=l2)


def hessians(h, g, x):
    identity = np.eye(h.n)
    return h.second_order(x, identity)[2], g.products(x, identity)


def literal(h, g, state):
    """Lines 2, 3 and 5 as they are printed, with dense matrices: s, and the span of D_+."""
    H_h, H_g = hessians(h, g, state.x)
    M = H_g + state.alpha * np.eye(h.n)
    parts = [state.D]
    products = [H_h @ state.D]
    if state.k:
        parts += [state.step[:, None], state.kept]
        products += [state.change_h[:, None], state.H_kept]
    S, Y = np.hstack(parts), np.hstack(products)
    W, HW = [], []
    for s, y in zip(S.T, Y.T, strict=True):
        size = s @ M @ s
        for w, hw in zip(W, HW, strict=True):
            c = w @ M @ s
            s, y = s - c * w, y - c * hw
        if s @ M @ s > 0.01 * size:
            HW.append(y / np.sqrt(s @ M @ s))
            W.append(s / np.sqrt(s @ M @ s))
    W, HW = np.array(W).T, np.array(HW).T
    C = W.T @ (H_g @ W + HW)
    w, U = np.linalg.eigh((C + C.T) / 2)
    V, HV = W @ U / np.sqrt(w), (H_g @ W + HW) @ U / np.sqrt(w)
    identity = np.eye(h.n)
    left = identity - V @ HV.T
    inverse = V @ V.T + left @ np.linalg.solve(M, left.T)
    new = np.linalg.solve(M, HW[:, : state.D.shape[1]])
    new -= W @ W.T @ M @ new
    return -inverse @ state.grad, np.linalg.qr(new / np.linalg.norm(new, axis=0))[0]


def test_steps_are_those_printed(monkeypatch):
    monkeypatch.setattr(similar_newton, "_RESIDUAL", 1e-13)
    monkeypatch.setattr(similar_newton, "_ROUGH", 250)
    h, g = shards()
    problem, method = counted(h, g), SimilarNewton(columns=3)
    state = method.init(problem, np.zeros(N))
    # The first point is the minimiser of g.
    assert np.linalg.norm(state.grad_g) <= 2e-3 * np.linalg.norm(g.grad(np.zeros(N)))
    for _ in range(3):
        s, D = literal(h, g, state)
        after = method.step(problem, state)
        moved = after.x - state.x
        np.testing.assert_allclose(moved / np.linalg.norm(moved), s / np.linalg.norm(s), atol=1e-8)
        np.testing.assert_allclose(after.D @ after.D.T, D @ D.T, atol=1e-6)
        np.testing.assert_allclose(after.D.T @ after.D, np.eye(3), atol=1e-12)
        np.testing.assert_allclose(after.HD_h, hessians(h, g, after.x)[0] @ after.D, atol=1e-13)
        # Line 4, to a tenth, or the longest step.
        t = moved @ s / (s @ s)
        promised = s @ hessians(h, g, state.x)[1] @ s
        missing = (g.grad(after.x) - state.grad_g) @ s - promised
        assert after.trials == 1
        assert abs(missing) <= 0.1 * promised or t == pytest.approx(1.3)
        state = after


def test_with_all_columns_it_is_newtons_method(monkeypatch):
    """A quadratic takes one step, whatever g is worth."""
    monkeypatch.setattr(similar_newton, "_RESIDUAL", 1e-13)
    h, g = shards(loss="squared")
    problem, method = counted(h, g), SimilarNewton(columns=100)
    state = method.step(problem, method.init(problem, np.zeros(N)))
    np.testing.assert_allclose(h.f.grad(state.x) + 0.02 * state.x, 0.0, atol=1e-12)
    assert problem.ledger.calls["h.grad"] == 2 and problem.ledger.calls["h.product"] == 2 * N


def test_calls():
    """One gradient and `columns` products of h per point; for tol, one gradient at x0."""
    h, g = shards()
    res = gt.minimize(h, g, method=SimilarNewton(columns=5), tol=1e-11)
    assert res.success
    np.testing.assert_allclose(h.f.grad(res.x) + 0.02 * res.x, 0.0, atol=1e-10)
    assert res.calls["h.grad"] == 1 + len(h.asked) > 1 + res.nit
    absolute = gt.stop.Gradient(abs=res.grad_norm)
    same = gt.minimize(h, g, method=SimilarNewton(columns=5), stop=absolute)
    assert same.calls["h.grad"] == res.calls["h.grad"] - 1  # which needs no gradient at x0
    assert same.calls["g.grad"] == res.calls["g.grad"]  # known at x0 already
    assert res.calls["h.product"] == 5 * same.calls["h.grad"]
    assert res.calls["h.value"] == 0
    assert gt.minimize(*shards(), method="pqn", tol=1e-11).calls["h.product"] == 0


def test_seeds():
    """The same seed gives the same points; another one other directions."""
    runs = []
    for seed in (0, 0, 1):
        h, g = shards()
        gt.minimize(h, g, method=SimilarNewton(columns=2), tol=1e-8, seed=seed)
        runs.append(h.asked)
    np.testing.assert_array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0][1], runs[2][1])


def test_a_point_that_is_given_is_the_first():
    h, g = shards()
    x0 = np.ones(N)
    gt.minimize(h, g, x0=x0, method="similar-newton", tol=1e-8)
    np.testing.assert_array_equal(h.asked[0], x0)


def test_a_step_that_fails_is_cut():
    """G knows nothing of f's curvature: full steps overshoot, and f falls all the same."""
    A, y, _ = whole()
    f, weak = gt.LinearModel(10.0 * A, y, l2=1e-3), gt.LinearModel(0.1 * A[:3], y[:3], l2=1e-3)
    h = Difference(f, weak)
    problem, method = counted(h, weak), SimilarNewton(columns=1)
    state = method.init(problem, np.zeros(N))
    trials, values = [], [f.value(state.x)]
    for _ in range(8):
        state = method.step(problem, state)
        trials.append(state.trials)
        values.append(f.value(state.x))
    assert max(trials) > 1
    assert (np.diff(values) < 0.0).all()
    assert problem.ledger.calls["h.grad"] == 1 + sum(trials)


def test_at_the_minimum_it_stalls():
    """Rounding prevents progress: the run ends where it is."""
    h, g = shards()
    x = gt.minimize(h, g, method="similar-newton", tol=1e-13).x
    res = gt.minimize(h, g, x0=x, method="similar-newton", tol=1e-15, max_iter=200)
    np.testing.assert_allclose(res.x, x, atol=1e-12)
    assert res.nit < 200


def test_directions_do_not_depend_on_rounding():
    """Also where all directions are known, and nothing new would remain of the next ones."""
    h, g = shards()
    problem, method = counted(h, g), SimilarNewton(columns=N - 1)
    state = method.step(problem, method.init(problem, np.zeros(N)))
    noise = 1e-15 * np.random.default_rng(0).standard_normal((N, N - 1))
    one, other = (method.step(problem, replace(state, HD_h=state.HD_h + e)) for e in (0, noise))
    np.testing.assert_allclose(one.D, other.D, atol=1e-9)


@pytest.mark.parametrize("columns", [1, 16])
def test_features_that_g_does_not_know(columns):
    """No ridge, and columns of g's data that are zero: M is singular but for alpha."""
    A, y, _ = whole(real=True)
    A_1 = A[:60] * (np.arange(N) > 2)
    f, g = gt.LinearModel(A, y, "squared"), gt.LinearModel(A_1, y[:60], "squared")
    res = gt.minimize(Difference(f, g), g, method=SimilarNewton(columns=columns), tol=1e-8)
    assert res.success
    np.testing.assert_allclose(res.x, np.linalg.lstsq(A, y)[0], atol=1e-6)
    if columns == 16:  # all directions: Newton's method, which one step takes to rounding
        assert res.calls["h.grad"] <= 5


def test_bad_input():
    with pytest.raises(ValueError, match="columns must be at least 1, got 0"):
        SimilarNewton(columns=0)
    h, g = shards()
    plain = gt.Term(g.value_and_grad, n=N)
    with pytest.raises(MissingOracle, match="its value, gradient and Hessian times vectors"):
        gt.minimize(h, plain, method="similar-newton")
