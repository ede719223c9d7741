"""Linearisations of a convex h spare calls at trial points that cannot be good."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import geartrain as gt
from geartrain.geometry import EUCLIDEAN
from geartrain.lab.profile.families import problem
from geartrain.methods import SAEQN
from geartrain.methods.quasi_newton.cuts import Cuts
from geartrain.methods.quasi_newton.learning import foreseen
from geartrain.methods.quasi_newton.memory import Memory
from geartrain.methods.quasi_newton.products import StepProducts
from geartrain.methods.quasi_newton.step import Known, Step
from geartrain.methods.quasi_newton.tuning import DEFAULT
from geartrain.problem import norm
from problems import logistic, quadratics, states

BLIND = replace(DEFAULT, foresight=0)
PATIENT = replace(DEFAULT, foresight=60)


class Recorded:
    """A term that remembers where it was asked, and what it answered."""

    convex = True

    def __init__(self, term):
        self.term, self.n, self.asked = term, term.n, []

    def value_and_grad(self, v):
        value, grad = self.term.value_and_grad(v)
        self.asked.append((v.copy(), value, grad.copy()))
        return value, grad

    def grad(self, v):
        return self.value_and_grad(v)[1]


def told(h, v):
    value, grad = h.value_and_grad(v)
    return Known(v, value, 0.0, grad, np.zeros_like(v))


def separable(seed):
    """Logistic loss on separable data, and a weak ridge."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 12))
    A = 3.0 * rng.standard_normal((3 * n, n))
    y = np.where(A @ rng.standard_normal(n) >= 0.0, 1.0, -1.0)
    x0 = rng.standard_normal(n)
    return gt.LinearModel(A, y), gt.Quadratic(1e-4 * np.eye(n)), x0


def test_cuts_are_linearisations_below_h():
    rng = np.random.default_rng(0)
    h = gt.LogSumExp(3.0 * rng.standard_normal((20, 5)))
    points = [rng.standard_normal(5) for _ in range(8)]
    cuts = Cuts(points[0])
    for i, v in enumerate(points):
        if i % 3:
            cuts = cuts.moved(v, EUCLIDEAN)
        cuts = cuts.add(told(h, v), 5, EUCLIDEAN)
    assert len(cuts) == 5
    for _ in range(20):
        v = 2.0 * rng.standard_normal(5)
        literal = [h.value(w) + h.grad(w) @ (v - w) for w in points[-5:]]
        heights = cuts.heights(v, EUCLIDEAN)
        np.testing.assert_allclose(heights, literal, rtol=1e-10, atol=1e-10)
        assert heights.max() <= h.value(v) + 1e-10
        answer = cuts.highest(told(h, points[0]), v, EUCLIDEAN)
        best = int(np.argmax(literal))
        linear = h.value(points[0]) + h.grad(points[0]) @ (v - points[0])
        if literal[best] > linear + 1e-6:
            assert answer.h == pytest.approx(literal[best], rel=1e-10)
            np.testing.assert_array_equal(answer.grad_h, h.grad(points[-5:][best]))


def test_one_point_tells_nothing_new():
    h = gt.Quadratic(np.diag([1.0, 1e6]))
    p = told(h, np.array([1e-12, 1e-14]))
    cuts = Cuts(np.array([1e3, 1e3])).add(told(h, np.array([1e3, 1e3])), 5, EUCLIDEAN)
    for t in np.linspace(1.0, 0.0, 7):
        at = (1.0 - t) * p.v + t * np.array([1e3, 1e3])
        cuts = cuts.moved(at, EUCLIDEAN).add(told(h, at), 5, EUCLIDEAN)
    # what is left of cuts from far away is rounding
    assert cuts.highest(p, p.v, EUCLIDEAN) is None
    assert cuts.highest(p, np.array([-1e-12, 0.0]), EUCLIDEAN) is None


def pieces(seed):
    """A smoothed maximum of linear functions, and a badly conditioned quadratic."""
    rng = np.random.default_rng(seed)
    h = gt.LogSumExp(20.0 * rng.standard_normal((8, 3)))
    return h, gt.Quadratic(np.diag(np.geomspace(1e-4, 1.0, 3))), 5.0 * rng.standard_normal(3)


@pytest.mark.parametrize(("crossing", "part"), [(0.02, 0.1), (0.3, 0.3), (0.9, 0.6)])
def test_a_step_is_shortened_to_where_a_cut_crosses_the_linearisation(crossing, part):
    """Not to where a smooth fit has its minimum: 1e-6 of the step for so steep a cut."""
    n, slope, steep = 4, -1e-3, 1e3
    e = np.eye(n)[0]
    p = Known(np.zeros(n), 1.0, 0.0, slope * e, np.zeros(n))
    wall = Known(e, 1.0 + slope + (steep - slope) * (1.0 - crossing), 0.0, steep * e, np.zeros(n))
    known = logistic()
    state = SAEQN().init(known.sum(), np.ones(known.h.n))
    state = replace(state, at=p, memory=Memory(), lam=1e-9)
    step = Step.between(p, wall, EUCLIDEAN)
    new = foreseen(state, step, StepProducts(step, EUCLIDEAN), DEFAULT, 60, EUCLIDEAN)
    assert new.radius == pytest.approx(part, rel=1e-6)
    # the pair that is learned makes f level there
    (pair,) = new.memory.pairs
    assert pair.scale * (pair.s @ pair.y_h) * part == pytest.approx(-slope, rel=1e-6)
    assert new.lam == pytest.approx(-slope / part, rel=1e-6)


def test_a_wall_is_not_approached_in_tiny_steps():
    """Squared hinge and a weak ridge: 853 calls where steps ended at the minimum of a smooth fit.

    SciPy's L-BFGS needs 62.
    """
    p = problem("development", 6372)
    res = gt.minimize(p.h, p.g, p.x0, method="sae-qn", tol=1e-6)
    assert res.success


def test_accuracy_of_inner_runs_follows_the_price():
    """An inner run is more accurate where g costs little, and where the model was right."""
    t = DEFAULT
    assert t.eta_at(np.inf, t.dear, True) == t.eta
    assert t.eta_at(np.inf, 1.0, True) == t.eta
    assert t.eta_at(np.inf, np.inf, True) == pytest.approx(t.eta / t.finer)
    assert t.eta_at(np.inf, 2.0 * t.dear, True) == pytest.approx(t.eta / 2.0)
    assert t.eta_at(0.1, 1.0, True) == pytest.approx(0.1 * t.forcing)
    assert t.eta_at(0.0, 1.0, True) == t.finest
    assert t.eta_at(np.inf, 1e3 * t.dear, False) == t.eta_other
    assert t.eta_at(np.inf, np.inf, False) == pytest.approx(t.eta_other / t.finer)


def test_lam_is_the_curvature_along_an_accepted_step():
    """Not |y|/|s|, which curvature across the step makes larger; but it falls fourfold at most."""
    known = quadratics()
    run = states(SAEQN(), known.sum(), np.ones(known.h.n), 6)
    smaller = 0
    for old, new in itertools.pairwise(run):
        if new.trials != 1 or norm(new.grad) <= 1e-9 * norm(run[0].grad):
            continue
        s = new.point - old.point
        y = known.h.grad(new.point) - known.h.grad(old.point)
        along, size = s @ y / (s @ s), norm(y) / norm(s)
        expected = max(along, min(DEFAULT.lam_fall * old.lam, size))
        assert new.lam == pytest.approx(expected, rel=1e-3)
        smaller += new.lam < 0.9 * size
    assert smaller


def test_cuts_of_the_state_are_those_of_its_run():
    known = logistic()
    x0 = np.ones(known.h.n)
    run = states(SAEQN(), known.sum(), x0, 6)
    for state in run:
        np.testing.assert_array_equal(state.cuts.at, state.point)
        heights = state.cuts.heights(x0, EUCLIDEAN)
        assert 1 <= len(heights) <= DEFAULT.cuts
        assert heights.max() <= known.h.value(x0) + 1e-9
        assert state.cuts.values[-1] <= known.h.value(state.point) + 1e-9
    assert [len(state.cuts) for state in run[:3]] == [
        1,
        1 + run[1].trials,
        1 + sum(s.trials for s in run[1:3]),
    ]


def test_without_values_and_for_a_non_convex_h_there_are_no_cuts():
    h, g, x0 = separable(0)

    class Gradients:
        n, convex = h.n, True

        def grad(self, v):
            return h.grad(v)

    rng = np.random.default_rng(1)
    A, y = rng.standard_normal((60, 4)), np.sign(rng.standard_normal(60))
    whole, part = gt.LinearModel(A, y, l2=1e-2), gt.LinearModel(A[:20], y[:20], l2=1e-2)
    for terms in ((Gradients(), g, x0), (whole - part, part, np.zeros(4))):
        runs = [
            gt.minimize(*terms, method=SAEQN(tuning=t), stop=gt.stop.Gradient(rel=1e-6))
            for t in (DEFAULT, BLIND)
        ]
        assert runs[0].calls["h.grad"] == runs[1].calls["h.grad"]
        np.testing.assert_array_equal(runs[0].x, runs[1].x)


def test_fewer_cuts_for_long_vectors():
    assert DEFAULT.cuts_beside(60) == 10
    assert DEFAULT.cuts_beside(11) == 2
    assert DEFAULT.cuts_beside(1) == 1
