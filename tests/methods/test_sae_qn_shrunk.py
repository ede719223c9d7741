"""A non-convex h: the model that keeps a part of g, and with which model a run starts."""

import numpy as np
import pytest

import geartrain as gt
from geartrain.geometry import EUCLIDEAN
from geartrain.methods import SAEQN
from geartrain.methods.quasi_newton.inner_pairs import InnerPairs
from geartrain.methods.quasi_newton.low_rank import LowRank
from geartrain.methods.quasi_newton.products import StepProducts
from geartrain.methods.quasi_newton.shrinkage import Base
from geartrain.methods.quasi_newton.step import Known as At
from geartrain.methods.quasi_newton.step import Step
from geartrain.methods.quasi_newton.terms import CountedTerms
from geartrain.methods.quasi_newton.trial import Proposer, Trial
from geartrain.methods.quasi_newton.tuning import DEFAULT
from problems import Known

N, SHRUNK = 8, ("shrunk", 60)


def shards(first, m=3000, n=N):
    """Logistic loss; g is the mean over the first rows, and few rows are unlike the others."""
    rng = np.random.default_rng(4)
    A = rng.standard_normal((m, n))
    y = np.where(A @ rng.standard_normal(n) + rng.standard_normal(m) > 0.0, 1.0, -1.0)
    f, f_1 = (gt.LinearModel(A[:k], y[:k], loss="logistic") for k in (m, first))
    return f - f_1, gt.LinearModel(A[:first], y[:first], loss="logistic", l2=1e-4)


@pytest.mark.parametrize("part", [1.0, 0.4])
def test_trial_point_minimises_the_model_with_a_part_of_g(part):
    """<grad f(p) - a grad g(p), v> + 1/2 <v - p, B (v - p)> + a g(v)."""
    h, g = shards(60)
    terms = CountedTerms(Known(h, g, np.zeros(N), 0.0).sum(L_h=None, L_g=None))
    p = terms.both(0.1 * np.ones(N))
    B = LowRank(0.02)
    proposer = Proposer(
        terms, p, np.inf, InnerPairs(), None, False, np.inf, None, DEFAULT, error=1e-3
    )
    trial = proposer.keeping_part(SHRUNK, B, part)
    change = part * (g.value_and_grad(trial.v)[1] - p.grad_g)
    grad_phi = p.grad + change + B(trial.v - p.v)
    assert trial.residual == pytest.approx(np.linalg.norm(grad_phi), rel=1e-6)
    assert trial.residual <= 1e-4 * np.linalg.norm(p.grad)
    assert trial.B.lam == pytest.approx(B.lam) and trial.part == part


@pytest.mark.parametrize("part", [1.0, 0.4])
def test_promise_of_a_model_that_keeps_a_part_of_g(part):
    """The ratio is one where the model is right about the rest of f."""
    rng = np.random.default_rng(2)
    p, v, lam, c = rng.standard_normal(N), rng.standard_normal(N), 0.7, rng.standard_normal(N)

    def at(x):
        """g is a fourth power, and h = lam/2 |x|^2 + <c, x> without a part of g."""
        g, grad_g = 0.25 * float(np.sum(x**4)), x**3
        h = 0.5 * lam * float(x @ x) + float(c @ x) - (1.0 - part) * g
        return At(x, h, g, lam * x + c - (1.0 - part) * grad_g, grad_g)

    step = Step.between(at(p), at(v), EUCLIDEAN)
    if step.f.change > 0.0:
        step = Step.between(at(v), at(p), EUCLIDEAN)
    trial = Trial(step.v.v, SHRUNK, LowRank(lam), InnerPairs(), None, part=part)
    assert trial.ratio(step, StepProducts(step, EUCLIDEAN)) == pytest.approx(1.0)


def test_shares_follow_from_the_inner_products_of_a_step():
    rng = np.random.default_rng(1)
    s, y_h, y_g = rng.standard_normal((3, N))
    own = np.array([s, y_h, y_g]) @ np.array([s, y_h, y_g]).T
    by_vectors, by_products = Base().after(y_g, s, y_h + y_g), Base().after_step(own)
    np.testing.assert_allclose(by_products.A, by_vectors.A)
    np.testing.assert_allclose(by_products.c, by_vectors.c)


def test_a_shard_with_few_rows_is_shrunk():
    """It bends too much along its own rows; one with half of them does not."""
    a = {}
    for first in (12, 1500):
        problem = Known(*shards(first), np.zeros(N), 0.0).sum(L_h=None, L_g=None)
        method = SAEQN()
        state = method.init(problem, np.zeros(N))
        for _ in range(4):
            state = method.step(problem, state)
        a[first] = state.base.shares[0]
    assert a[12] < 0.7 < a[1500]


@pytest.mark.parametrize(
    ("rho", "first", "plain"),
    [(3.0, 1500, False), (3.0, 60, True), (10.0, 1500, False), (10.0, 12, True), (1e4, 12, False)],
)
def test_a_run_starts_as_l_bfgs_where_g_is_dear_or_not_like_f(rho, first, plain):
    """|grad h|/|grad g| at x_0 tells for nothing what a step that keeps g is worth."""
    problem = Known(*shards(first), np.zeros(N), 0.0).sum(L_h=None, L_g=None)
    method = SAEQN(rho=rho)
    state = method.init(problem, np.zeros(N))
    assert state.contest.unlike < 0.2 if first == 1500 else state.contest.unlike > 0.3
    method.step(problem, state)
    calls = problem.ledger.calls
    assert (calls["g.grad"] == calls["h.grad"]) == plain
    assert DEFAULT.starts_plain(rho, False, False, state.contest.unlike) == plain
    assert not DEFAULT.starts_plain(rho, True, False, 1.0)  # nor does a convex h
    assert not DEFAULT.starts_plain(np.inf, False, False, 1.0)
