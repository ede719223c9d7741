"""The careful model of a non-convex h, which competes with the other correction."""

import numpy as np

import geartrain as gt
from geartrain.methods import SAEQN
from problems import Known

N = 20


def shards(first=400, scale=1.0):
    """Logistic loss with rows of unequal size; the first shard is g."""
    rng, m = np.random.default_rng(3), 1600
    A = rng.standard_normal((m, N)) * np.logspace(0.0, -1.0, N)
    y = np.where(A @ (3.0 * rng.standard_normal(N)) + rng.standard_normal(m) > 0, 1.0, -1.0)
    f, f_1 = (gt.LinearModel(A[:k], y[:k], loss="logistic") for k in (m, first))
    h, g = f - f_1, gt.LinearModel(A[:first], y[:first], loss="logistic", l2=1e-4)
    return Known(scale * h, scale * g, np.zeros(N), 0.0)


def test_careful_and_bold_corrections_compete():
    """Both are scored in each iteration, and the careful one is the same with a larger lam."""
    known = shards(50)
    problem = known.sum(L_h=None, L_g=None)
    method = SAEQN()
    state = method.init(problem, np.zeros(N))
    for _ in range(4):
        state = method.step(problem, state)
    kinds = [c[0] for c in state.contest.candidates]
    assert kinds == ["correction", "careful", "shrunk", "plain"]
    assert len(set(state.contest.scores)) == 4
