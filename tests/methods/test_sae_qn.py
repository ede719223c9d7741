"""SAE-QN: what the pairs say, the guarantee, the calls, and that a bad model only costs time."""

import itertools
import zlib
from dataclasses import dataclass, replace

import numpy as np
import pytest

import geartrain as gt
from geartrain.core.status import Status
from geartrain.lab.problems import log_density
from geartrain.methods.quasi_newton.secant import Pairs, bfgs_correction, clipped_sr1
from geartrain.methods.quasi_newton.trials import Difference, Known, Proximal, Trial
from geartrain.problem import Envelope, norm
from problems import PROBLEMS, logistic, quadratics, states


def make_pairs(H, G, k, seed=0, memory=30):
    """k pairs of quadratics with Hessians H and G."""
    rng = np.random.default_rng(seed)
    pairs = Pairs.none(len(H), memory)
    for _ in range(k):
        s = rng.standard_normal(len(H)) * 10.0 ** rng.uniform(-4, 2)
        pairs = pairs.add(s, H @ s, G @ s)
    return pairs


def dense(C):
    """The matrix itself."""
    return (C.U.T * C.w) @ C.U


def difference():
    """h = f - f_1 with f_1 a quarter of the data; g = f_1 and a ridge."""
    rng = np.random.default_rng(5)
    A = rng.standard_normal((2000, 40)) * np.geomspace(0.1, 3.0, 40)
    y = np.where(A @ rng.standard_normal(40) + 3.0 * rng.standard_normal(2000) > 0, 1.0, -1.0)
    f, f_1 = gt.LinearModel(A, y), gt.LinearModel(A[:500], y[:500])
    return f - f_1, gt.LinearModel(A[:500], y[:500], l2=1e-3)


class TestSecant:
    def test_sr1_satisfies_all_secant_equations_of_a_convex_quadratic(self):
        known = quadratics()
        pairs = make_pairs(known.h.Q, known.g.Q, 6)
        B = clipped_sr1(pairs)
        for s, y in zip(pairs.S, pairs.Y_h, strict=True):
            np.testing.assert_allclose(B @ s, y, atol=1e-9)
        assert (B.w > 0).all()

    def test_sr1_learns_the_whole_hessian(self):
        H = np.diag(np.geomspace(0.1, 1.0, 8))
        B = clipped_sr1(make_pairs(H, H, 8))
        np.testing.assert_allclose(B @ np.eye(8)[2], H[2], atol=1e-8)

    def test_sr1_of_an_indefinite_h_is_clipped(self):
        H = np.diag([-1.0, 2.0, 0.5, -0.3])
        B = clipped_sr1(make_pairs(H, np.eye(4), 4))
        dense = np.column_stack([B @ e for e in np.eye(4)])
        np.testing.assert_allclose(dense, np.diag([0.0, 2.0, 0.5, 0.0]), atol=1e-8)

    def test_pairs_that_repeat_are_dropped_oldest_first(self):
        H = np.diag([1.0, 2.0, 3.0])
        pairs = Pairs.none(3, 30)
        for s in (np.eye(3)[0], np.eye(3)[0] + 1e-14, np.eye(3)[1]):
            pairs = pairs.add(s, H @ s, s)
        B = clipped_sr1(pairs)
        np.testing.assert_allclose(B @ np.eye(3)[1], [0.0, 2.0, 0.0], atol=1e-6)

    def test_memory(self):
        pairs = make_pairs(np.eye(5), np.eye(5), 9, memory=4)
        assert pairs.S.shape == pairs.Y_h.shape == pairs.Y_g.shape == (4, 5)
        assert pairs.add(np.zeros(5), np.zeros(5), np.zeros(5)) is pairs


class TestCorrection:
    """The BFGS correction, on quadratics, where all that is estimated is exact."""

    def setup_method(self):
        self.known = quadratics(n=8)
        self.pairs = make_pairs(self.known.h.Q, self.known.g.Q, 4)

    def test_orthonormal_pairs_carry_the_hessians(self):
        same = self.pairs.orthonormal()
        np.testing.assert_allclose(same.S @ same.S.T, np.eye(4), atol=1e-12)
        np.testing.assert_allclose(same.Y_h, same.S @ self.known.h.Q, atol=1e-9)
        np.testing.assert_allclose(same.Y_g, same.S @ self.known.g.Q, atol=1e-9)

    def test_the_older_of_two_steps_alike_is_left_out(self):
        pairs = Pairs.none(3, 30)
        for s in (np.eye(3)[0], np.eye(3)[0] + 1e-3 * np.eye(3)[1]):
            pairs = pairs.add(s, 2.0 * s, s)
        np.testing.assert_allclose(pairs.orthonormal().S, [pairs.S[1]], atol=1e-15)

    @pytest.mark.parametrize("sign", [1.0, -0.3])
    def test_it_is_the_block_bfgs_update(self, sign):
        """Against the inverse form: H_+ = S(S'Y)^{-1}S' + P H P', P = I - S(S'Y)^{-1}Y'."""
        H_g = self.known.g.Q
        H_h = sign * np.linalg.eigvalsh(H_g)[0] * np.eye(8) + 0.1 * (sign > 0) * self.known.h.Q
        pairs = make_pairs(H_h, H_g, 4)
        S = pairs.S.T
        Y = (H_h + H_g) @ S
        inner = np.linalg.inv(S.T @ Y)
        P = np.eye(8) - S @ inner @ Y.T
        inverse = S @ inner @ S.T + P @ np.linalg.inv(H_g) @ P.T
        got = H_g + dense(bfgs_correction(pairs))
        np.testing.assert_allclose(got @ inverse, np.eye(8), atol=1e-7)

    def test_curvature_that_is_not_believed(self):
        """Where f seems to bend down along a step, a tenth of g's curvature is assumed."""
        pairs = make_pairs(-10.0 * np.eye(5), np.diag([1.0, 2.0, 3.0, 4.0, 5.0]), 1)
        s = pairs.S[0]
        C = bfgs_correction(pairs)
        assert s @ (C @ s) == pytest.approx(-0.9 * (s @ pairs.Y_g[0]))
        assert np.linalg.eigvalsh(np.diag([1.0, 2, 3, 4, 5]) + dense(C)).min() > 0.0

    def test_the_positive_part(self):
        C = bfgs_correction(make_pairs(-0.5 * np.eye(8), np.eye(8), 3))
        w, V = np.linalg.eigh(dense(C))
        expected = (V * np.maximum(w, 0.0)) @ V.T
        np.testing.assert_allclose(dense(C.positive_part()), expected, atol=1e-12)

    def test_a_refreshed_pair_follows_the_curvature_of_g(self):
        problem, v = self.known.sum(), np.linspace(-1.0, 1.0, 8)
        grad_g = self.known.g.grad(v)
        again = self.pairs.refreshed(problem.g, v, grad_g)
        np.testing.assert_allclose(again.Y_h, self.pairs.Y_h, rtol=1e-6)
        np.testing.assert_allclose(again.Y_g, self.pairs.Y_g, rtol=1e-6, atol=1e-9)
        old = Pairs(self.pairs.S, self.pairs.Y_h, 2.0 * self.pairs.Y_g, 30)
        halved = old.refreshed(problem.g, v, grad_g)
        np.testing.assert_allclose(halved.Y_h, 0.5 * self.pairs.Y_h, rtol=1e-6)
        assert problem.ledger.calls["g.grad"] == 8

    def test_a_model_that_bends_down_is_not_followed(self):
        """g is flat away from p, where the correction still takes curvature away."""
        g = gt.LinearModel(np.eye(2), np.ones(2), l2=1e-6)
        problem = replace(self.known, g=g, x_star=np.zeros(2)).sum()
        p = np.array([-1.0, 0.5])
        s = np.array([1.0, 0.0])
        w = g.grad(p + 1e-6 * s) - g.grad(p)
        pairs = Pairs.none(2, 30).add(s, -0.85 * 1e6 * w, 1e6 * w)
        at = Known(p, np.array([-10.0, 0.0]), g.grad(p), pairs, None)
        trial = Difference(gt.LBFGS(max_steps=500))(Envelope(problem, 1e-3, p), at)
        C = bfgs_correction(pairs)
        step = trial.v - p
        plain = Difference(gt.LBFGS(max_steps=500))(
            Envelope(problem, 1e-3, p), replace(at, pairs=Pairs.none(2, 30))
        )
        assert step @ (C @ step) < 0.0
        np.testing.assert_allclose(trial.v, plain.v, rtol=1e-2)

    @pytest.mark.parametrize("sign", [1.0, -1.0])
    def test_an_h_of_low_rank_is_learned_in_as_many_steps(self, sign):
        """As preconditioned conjugate gradients end after rank + 1 steps."""
        rng = np.random.default_rng(3)
        U = np.linalg.qr(rng.standard_normal((30, 2)))[0]
        h = gt.Quadratic(sign * 0.4 * U @ U.T, rng.standard_normal(30))
        g = gt.Quadratic(np.diag(np.linspace(1.0, 50.0, 30)))
        method = gt.SAEQN(trial=Difference(gt.LBFGS(max_steps=500), accuracy=1e-3))
        res = gt.minimize(h, g, method=method, tol=1e-6)
        assert res.success and res.calls["h.grad"] <= 7


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("maker", [Proximal, Difference])
def test_guarantee_and_invariants(problem, maker):
    """R^2/(2 A_N) counted from each restart, the test, L a^2 = A_+, z and the gradients."""
    make, x0 = PROBLEMS[problem]
    known = make()
    method = gt.SAEQN(trial=maker(gt.LBFGS(max_steps=500)))
    run = states(method, known.sum(), x0, 15)
    assert method.sigma == 0.9
    for old, new in itertools.pairwise(run):
        if norm(new.grad) <= 1e-11 * norm(run[0].grad):
            break
        np.testing.assert_allclose(new.at.grad_h, known.h.grad(new.y), atol=1e-10)
        np.testing.assert_allclose(new.at.grad_g, known.g.grad(new.y), atol=1e-9)
        if new.A == 0.0:  # a lower point that failed the test
            assert new.ms_ratio > method.sigma
            assert np.array_equal(new.z, new.y) and new.since == 0
            assert known.f(new.y) < known.f(old.y)
            continue
        A, z = (0.0, old.y) if new.since == 1 else (old.A, old.z)
        if new.since == 1:
            R2 = float(np.sum((old.y - known.x_star) ** 2))
        a = new.A - A
        assert new.L * a**2 == pytest.approx(new.A, rel=1e-9)
        np.testing.assert_allclose(new.x, (A * old.y + a * z) / new.A, atol=1e-10)
        np.testing.assert_allclose(new.z, z - a * known.grad(new.y), atol=1e-8 * max(1, new.A))
        distance = norm(new.y - new.x)
        ratio = norm(known.grad(new.y) + new.L * (new.y - new.x)) / (new.L * distance)
        assert ratio == pytest.approx(new.ms_ratio, rel=1e-5, abs=1e-7)
        assert ratio <= method.sigma
        assert known.f(new.y) - known.f_star <= R2 / (2 * new.A) + 1e-12


def test_one_gradient_of_h_a_trial_point():
    known = logistic()
    problem = known.sum()
    run = states(gt.SAEQN(), problem, np.ones(10), 12)
    trials = sum(s.middle_steps for s in run[1:])
    assert problem.ledger.calls["h.grad"] == 1 + trials
    assert problem.ledger.calls["h.value"] == problem.ledger.calls["g.value"] == 0


def test_non_convex_h():
    h, g = difference()
    assert not h.convex
    res = gt.minimize(h, g, method="sae-qn", tol=1e-7)
    rival = gt.minimize(h, g, method="lbfgs", tol=1e-7)
    assert res.success and rival.success
    assert res.fun == pytest.approx(rival.fun, abs=1e-10)
    assert res.calls["h.grad"] < 0.5 * rival.calls["h.grad"]


@dataclass(frozen=True)
class Poisoned:
    """Trial points from a model that is made up."""

    kind: str
    safety: float = 2.0
    first: float = 1.0

    def __call__(self, F, p):
        rng = np.random.default_rng(zlib.crc32(p.v.tobytes()))  # the same in every process
        n = p.v.size
        scale = {"random": 1.0, "huge": 1e6, "zero": 0.0}[self.kind]
        M = rng.standard_normal((n, n))
        B = scale * M @ M.T
        # argmin <grad f(p), v - p> + 1/2 <v - p, B(v - p)> + L/2 |v - x|^2: g linearised, too
        step = np.linalg.solve(B + F.L * np.eye(n), -p.grad - F.L * (p.v - F.x))
        v = p.v + step
        grad_g = F.f.g.grad(v)
        return Trial(v, grad_g, np.zeros(n), ())


@pytest.mark.parametrize("kind", ["random", "huge", "zero"])
def test_a_poisoned_model_only_costs_time(kind):
    """The test decides: the answer is right, or the run says that it is not there yet."""
    known = logistic()
    x0 = np.ones(10)
    stop = gt.stop.any_of(gt.stop.Gradient(rel=1e-6), gt.stop.Calls({"h.grad": 5_000}))
    method = gt.SAEQN(trial=Poisoned(kind))
    res = gt.minimize(known.h, known.g, x0, method=method, stop=stop)
    small = 1e-6 * norm(known.grad(x0))
    assert res.success or res.status == 2
    if res.success:
        assert norm(known.grad(res.x)) <= small * (1 + 1e-9)
    assert known.f(res.x) <= known.f(x0)
    healthy = gt.minimize(known.h, known.g, x0, method="sae-qn", tol=1e-6)
    assert healthy.calls["h.grad"] < res.calls["h.grad"]


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("make", [quadratics, logistic])
def test_needs_no_constants(make, scale):
    """Callables that know nothing, f scaled by 1e-6 .. 1e6."""
    known = make()
    n = known.x_star.size
    h = gt.Term(lambda x: tuple(scale * v for v in known.h.value_and_grad(x)), n=n)
    g = gt.Term(lambda x: tuple(scale * v for v in known.g.value_and_grad(x)), n=n)
    x0 = np.ones(n)
    res = gt.minimize(h, g, x0, method="sae-qn", tol=1e-8)
    assert res.success, res.message
    assert norm(known.grad(res.x)) <= 1e-8 * norm(known.grad(x0)) * (1 + 1e-6)
    assert res.calls["h.grad"] <= 60


@pytest.mark.parametrize("make", [quadratics, logistic, lambda: log_density(n=100, p=1200)])
def test_what_rounding_forbids_is_not_tried_for_ever(make):
    made = make()
    h, g = made if isinstance(made, tuple) else (made.h, made.g)
    res = gt.minimize(h, g, np.ones(h.n), method="sae-qn", tol=1e-16)
    assert res.status == Status.STALLED
    assert res.calls["h.grad"] <= 120
    assert res.grad_norm <= 1e-9 * res.history["grad_norm"][0]


def test_resumed_is_uninterrupted():
    known = logistic()
    whole = gt.minimize(known.h, known.g, np.ones(10), method="sae-qn", max_iter=9, tol=1e-15)
    half = gt.minimize(known.h, known.g, np.ones(10), method="sae-qn", max_iter=4, tol=1e-15)
    rest = gt.minimize(known.h, known.g, state=half.state, max_iter=5, tol=1e-15)
    assert np.array_equal(whole.x, rest.x)
    assert whole.calls == rest.calls
