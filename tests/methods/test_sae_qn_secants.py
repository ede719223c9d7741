"""BFGS updates: one by one for old pairs, all at once for the newest pairs that agree."""

from dataclasses import replace

import numpy as np
import pytest

from geartrain.geometry import EUCLIDEAN
from geartrain.methods.quasi_newton.along import ExponentialFit
from geartrain.methods.quasi_newton.memory import Memory, Pair
from geartrain.methods.quasi_newton.models import Shelf
from geartrain.methods.quasi_newton.secants import agreeing, disagreement
from geartrain.methods.quasi_newton.step import Known, Step
from geartrain.methods.quasi_newton.tuning import DEFAULT

N, LAM = 12, 0.3
CORRECTION, PLAIN = ("correction", 60), ("plain", 60)


def positive(rng, least=0.0):
    """A random symmetric matrix, positive semi-definite beyond `least` times the identity."""
    A = rng.standard_normal((N, N))
    return A @ A.T / N + least * np.eye(N)


def dense(candidate, steps, changes_h, changes_g, scale=1.0):
    """The matrix B of the model and its base, lam, without H_g."""
    pairs = [
        Pair(s, y_h, y_g, scale=scale)
        for s, y_h, y_g in zip(steps, changes_h, changes_g, strict=True)
    ]
    memory = Memory.of(pairs, EUCLIDEAN)
    B = Shelf(memory, memory, LAM, 1.0, EUCLIDEAN)[candidate]
    return np.array([B(e) for e in np.eye(N)]), B.lam


def unit_steps(rng, k):
    S = rng.standard_normal((k, N))
    return S / np.linalg.norm(S, axis=1)[:, None]


def quadratics(seed):
    """Hessians of f and g, f convex and f - g not."""
    rng = np.random.default_rng(seed)
    H_f, H_g = positive(rng, 0.2), positive(rng, 0.2)
    assert np.linalg.eigvalsh(H_f - H_g)[0] < -0.1
    return rng, H_f, H_g


def block(M, S, Y):
    """M - MS'(SMS')^{-1}SM + Y'(SY')^{-1}Y."""
    MS = S @ M
    return M - MS.T @ np.linalg.solve(MS @ S.T, MS) + Y.T @ np.linalg.solve(Y @ S.T, Y)


def one_by_one(M, S, Y):
    for s, y in zip(S, Y, strict=True):
        Ms = M @ s
        M = M - np.outer(Ms, Ms) / (s @ Ms) + np.outer(y, y) / (s @ y)
    return M


@pytest.mark.parametrize("seed", range(5))
def test_pairs_of_a_quadratic_make_one_block(seed):
    """All secant equations hold, from the base H_g + lam I or, in the plain model, lam I."""
    rng, H_f, H_g = quadratics(seed)
    S, scale = unit_steps(rng, 5), 0.7
    B, lam = dense(CORRECTION, S, S @ (H_f - H_g) / scale, S @ H_g, scale)
    assert lam == LAM
    np.testing.assert_allclose(H_g + B, block(H_g + LAM * np.eye(N), S, S @ H_f), atol=1e-9)
    np.testing.assert_allclose(S @ (H_g + B), S @ H_f, atol=1e-9)
    B, lam = dense(PLAIN, S, S @ (H_f - H_g), S @ H_g)
    np.testing.assert_allclose(B, block(lam * np.eye(N), S, S @ H_f), atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_old_pairs_of_another_curvature_come_first_and_one_by_one(seed):
    """The newest four are of one quadratic, the seven before contradict them and each other."""
    rng, H_f, H_g = quadratics(seed)
    old, new = unit_steps(rng, 7), unit_steps(rng, 4)
    Y_old = np.array([10.0 ** rng.uniform(-1, 1) * positive(rng, 0.1) @ s for s in old])
    Y = np.vstack([Y_old, new @ H_f])
    S = np.vstack([old, new])
    assert agreeing(S @ Y.T, np.zeros(11), disagreement(S @ Y.T)) == 4
    B, _ = dense(CORRECTION, S, Y - S @ H_g, S @ H_g)
    first = one_by_one(H_g + LAM * np.eye(N), old, Y_old)
    np.testing.assert_allclose(H_g + B, block(first, new, new @ H_f), atol=1e-8)
    B, lam = dense(PLAIN, S, Y - S @ H_g, S @ H_g)
    want = block(one_by_one(lam * np.eye(N), old, Y_old), new, new @ H_f)
    np.testing.assert_allclose(B, want, atol=1e-8)


@pytest.mark.parametrize("model", ["mixed", "plain"])
def test_steps_that_differ_by_little_tell_as_much_as_their_pairs_agree(model):
    """All of a quadratic is learned from nearly dependent steps; with errors it would be noise."""
    rng = np.random.default_rng(7)
    H, first = positive(rng, 0.2), unit_steps(rng, 1)[0]
    S = first + 2e-3 * np.vstack([np.zeros(N), rng.standard_normal((4, N))])
    S /= np.linalg.norm(S, axis=1)[:, None]
    none = np.zeros_like(S)
    B, _ = dense((model, 60), S, S @ H, none)
    new = S[-1] - (S[-1] @ first) * first
    new /= np.linalg.norm(new)
    np.testing.assert_allclose(B @ new, H @ new, atol=1e-6)
    errors = 0.02 * rng.standard_normal(S.shape)
    B, _ = dense((model, 60), S, S @ H + errors, none)
    assert np.linalg.norm(B, 2) < 3.0 * np.linalg.norm(H, 2)


@pytest.mark.parametrize(
    ("excess", "error", "quadratic"),
    [
        (0.5 + 5e-4, 0.0, True),
        (0.505, 0.0, False),
        (0.505, 0.01, True),
        (0.1, 1e-3, False),
        (-0.1, 1e-3, True),
        (1.1, 1e-3, True),
        (-0.1, 1e-6, False),
        (1.1, 1e-6, False),
    ],
)
def test_values_change_the_fit_only_where_they_can_be_true(excess, error, quadratic):
    """0 < u(1) - u(0) - u'(0) < u'(1) - u'(0) = 1 for a convex u; half of it for a quadratic.

    A contradiction is rounding where the values can be that wrong; far out it is an explosion.
    """
    assert (ExponentialFit.of(excess, 1.0, error).k == 0.0) == quadratic


def test_a_fit_along_a_short_step_is_a_quadratic():
    """Curvature of 1e-10 on values of 100 is not told by the values, but by the slopes."""
    p = Known(np.zeros(1), 100.0, 1.0, np.array([1e-6]), np.zeros(1))
    v = Known(np.ones(1), 100.0 + 1e-6, 1.3, np.array([1e-6 + 1e-10]), np.array([0.5]))
    step = Step.between(p, v, EUCLIDEAN)
    assert step.h.fit.k == 0.0 and step.h.fit.curvature_at_end == pytest.approx(1e-10, rel=1e-5)
    assert step.g.fit.k < 0.0  # here the values tell that the curvature falls


def test_pairs_that_contradict_each_other():
    """The trace bound of BFGS holds; one block of all pairs would be far beyond it."""
    rng = np.random.default_rng(5)
    H_g, S = positive(rng, 0.2), unit_steps(rng, 30)
    Y = np.array([10.0 ** rng.uniform(-1.5, 1.5) * positive(rng, 0.05) @ s for s in S])
    base = H_g + LAM * np.eye(N)
    bound = np.trace(base) + sum(y @ y / (s @ y) for s, y in zip(S, Y, strict=True))
    matrix = H_g + dense(CORRECTION, S, Y - S @ H_g, S @ H_g)[0]
    assert 0.0 < np.trace(matrix) <= bound
    assert np.linalg.eigvalsh(matrix)[0] > 0.0
    # the newest secant, as far as the pairs of the block agree
    assert np.linalg.norm(matrix @ S[-1] - Y[-1]) <= 0.1 * np.linalg.norm(Y[-1])
    Q = np.linalg.qr(S[: -N - 1 : -1].T)[0]  # the newest N steps span everything
    C = np.linalg.lstsq(S[: -N - 1 : -1].T, Q, rcond=None)[0]
    changes = C.T @ Y[: -N - 1 : -1]
    small = 0.5 * (Q.T @ changes.T + changes @ Q)
    w, U = np.linalg.eigh(small)
    Z = U.T @ changes
    assert np.sum(Z**2 / np.maximum(w, 1.0 / 64.0)[:, None]) > 10.0 * bound


def test_known_flat_directions_stay_flat_whatever_lam_is():
    """lam belongs to what is unknown: along a step the model has H_f, also far below lam."""
    s = unit_steps(np.random.default_rng(3), 1)
    H_g, H_f = 0.01 * np.eye(N), 0.002 * np.eye(N)
    B, _ = dense(CORRECTION, s, s @ (H_f - H_g), s @ H_g)
    assert s[0] @ (H_g + B) @ s[0] == pytest.approx(0.002, rel=1e-9)
    across = np.linalg.svd(s)[2][-1]
    assert across @ (H_g + B) @ across == pytest.approx(0.01 + LAM, rel=1e-9)


@pytest.mark.parametrize("down", [-1.5, -0.999])
def test_f_bends_at_least_a_64th_as_much_as_g(down):
    """A pair along which f seems to be flat or to bend down is not believed."""
    s, H_g = unit_steps(np.random.default_rng(4), 1), np.eye(N)
    B, _ = dense(CORRECTION, s, down * s, s)
    assert s[0] @ (H_g + B) @ s[0] == pytest.approx(1.0 / 64.0, rel=1e-9)
    assert np.linalg.eigvalsh(H_g + B)[0] > 0.0


def test_plain_model_leaves_pairs_out_that_bend_down():
    s = unit_steps(np.random.default_rng(6), 3)
    H = np.diag(np.linspace(1.0, 2.0, N))
    Y = s @ H
    Y[1] = -Y[1]
    B, lam = dense(PLAIN, s, Y, 0.0 * s)
    np.testing.assert_allclose(B, one_by_one(lam * np.eye(N), s[[0, 2]], Y[[0, 2]]), atol=1e-9)


def test_careful_model_is_a_correction_from_a_larger_lam():
    """Where pairs tell nothing it bends three times as much, and along a pair alike."""
    rng, H_f, H_g = quadratics(3)
    S = unit_steps(rng, 4)
    B, lam = dense(("careful", 60), S, S @ (H_f - H_g), S @ H_g)
    assert lam == pytest.approx(3.0 * LAM)
    np.testing.assert_allclose(H_g + B, block(H_g + lam * np.eye(N), S, S @ H_f), atol=1e-9)


@pytest.mark.parametrize(
    ("convex", "size_h", "want"),
    [(True, 0.2, 0.1), (False, 1.0, 0.0625), (False, 5.0, 1.0), (False, 0.0, 0.01)],
)
def test_first_lam_tells_how_much_the_first_shard_differs(convex, size_h, want):
    """The fourth power of |grad h|/|grad g|, within [0.01, 1], times the curvature of g."""
    at = Known(np.zeros(2), 0.0, 0.0, np.array([size_h, 0.0]), np.array([0.0, 2.0]))
    norm = EUCLIDEAN.norm
    lam = DEFAULT.lam_at_start(convex, 7.0, at.unlike(norm), at.as_loss(norm))
    assert lam == pytest.approx(7.0 * want)
    flat = replace(at, grad_h=np.ones(2), grad_g=np.zeros(2))
    assert flat.unlike(norm) == 1.0


@pytest.mark.parametrize("model", ["mixed", "plain"])
@pytest.mark.parametrize("seed", [8, 28, 44, 53, 64])
def test_curvatures_at_the_end_of_the_range_of_numbers(seed, model):
    """Far out on a smoothed hinge h bends by 1e-310, whose reciprocal is infinite."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 14))
    S, H = unit_steps(rng, k), positive(rng, 0.1)
    some = rng.random((k, 1)) < 0.5
    Y = (S @ H) * np.where(some, 1.0, 10.0 ** rng.uniform(-322, -290, (k, 1)))
    with np.errstate(all="ignore"):
        assert np.isfinite(dense((model, 60), S, Y, 0.0 * S)[0]).all()
