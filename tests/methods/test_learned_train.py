"""The learned method on three levels: counts, memory, guard, resume."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

import geartrain as gt
from geartrain.methods.learned_train import Spent, Tilted
from many_terms import logistic_between, train_of_quadratics
from problems import states
from runs import NEVER, same

LEVELS = (("h1",), ("h2",), ("g",))
KNOWN = {
    "quadratic": lambda: train_of_quadratics((1.0, 10.0, 100.0), mu=0.05, n=18),
    "logistic": logistic_between,
}


@pytest.fixture(params=KNOWN)
def known(request):
    return KNOWN[request.param]()


def asked_at(terms):
    """The terms again, and the points at which each of them is asked."""
    points = [[] for _ in terms]

    def wrapped(term, seen):
        def value_and_grad(x):
            seen.append(x.copy())
            return term.value(x), term.grad(x)

        return gt.Term(value_and_grad=value_and_grad, n=term.n, convex=True)

    return [wrapped(*pair) for pair in zip(terms, points, strict=True)], points


def test_it_gets_there_and_asks_the_dear_terms_least(known):
    n = known.x_star.size
    res = gt.minimize(known.h, known.g, method=gt.methods.LearnedTrain(LEVELS), tol=1e-7)
    assert res.success
    size = np.linalg.norm(known.grad(np.zeros(n)))
    assert np.linalg.norm(known.grad(res.x)) <= 1.01e-7 * size
    assert res.calls["h1.grad"] < res.calls["h2.grad"] < res.calls["g.grad"]
    assert res.plan.startswith("h1 > h2 > g: sae-qn on every level")


def test_nothing_is_asked_twice(known):
    """No term is asked twice at one point, and every call is counted."""
    terms, points = asked_at(known.terms)
    res = gt.minimize(
        terms[:-1], terms[-1], method=gt.methods.LearnedTrain(LEVELS), max_iter=6, stop=NEVER
    )
    for name, seen in zip(("h1", "h2", "g"), points, strict=True):
        assert res.calls[f"{name}.grad"] <= len(seen) <= res.calls[f"{name}.grad"] + 2  # res.fun
        runs = seen[: res.calls[f"{name}.grad"]]
        assert len({x.tobytes() for x in runs}) == len(runs)


def test_the_guarantee_of_the_first_level_holds(known):
    """f falls, and R^2/(2 A) bounds the gap."""
    n = known.x_star.size
    run = states(gt.methods.LearnedTrain(LEVELS), known.sum(), np.ones(n), 10)
    values = [known.f(state.point) for state in run]
    R = np.linalg.norm(np.ones(n) - known.x_star)
    for state, f in zip(run, values, strict=True):
        if state.A > 0.0:
            assert f - known.f_star <= R**2 / (2 * state.A) * (1 + 1e-9) + 1e-12
    slack = 1e-12 * (1 + abs(values[0]))
    assert all(b <= a + slack for a, b in itertools.pairwise(values))


@pytest.mark.parametrize("iterations", [1, 3, 5])
def test_a_resumed_run_is_the_uninterrupted_one(known, tmp_path, iterations):
    path = tmp_path / "run.gtck"
    options = {"method": gt.methods.LearnedTrain(LEVELS), "stop": NEVER}
    whole = gt.minimize(known.h, known.g, max_iter=8, **options)
    gt.minimize(known.h, known.g, max_iter=iterations, checkpoint=path, **options)
    again = gt.resume(path, known.h, known.g, max_iter=8 - iterations)
    same(whole, again)
    assert again.plan == whole.plan


def test_the_guard_tries_both_and_keeps_the_cheaper_one(known):
    state = gt.methods.LearnedTrain(LEVELS).init(known.sum(), np.ones(known.x_star.size))
    assert not state.is_plain_next
    state = replace(state, nested=Spent().after(100.0, 2.0))
    assert state.is_plain_next  # it has not been tried
    state = replace(state, plain=Spent().after(10.0, 2.0))
    assert state.is_plain_next
    spent = state.plain
    for _ in range(5):
        spent = spent.after(500.0, 0.5)
    state = replace(state, plain=spent)
    assert not state.is_plain_next and spent.runs == 6
    assert Spent().after(1.0, 0.0).rate == math.inf


def test_a_level_that_misleads_is_left(monkeypatch):
    """Where the second level makes no progress, the method does without a model of it."""
    known = KNOWN["quadratic"]()
    step = gt.methods.SAEQN.step

    def stuck(self, problem, state):
        if isinstance(problem.g, Tilted):
            return replace(state, stalled=True)
        return step(self, problem, state)

    monkeypatch.setattr(gt.methods.SAEQN, "step", stuck)
    run = states(gt.methods.LearnedTrain(LEVELS), known.sum(), np.zeros(18), 12)
    assert run[-1].nested.runs <= 2 < run[-1].plain.runs
    assert known.f(run[-1].point) - known.f_star < 1e-3 * (known.f(np.zeros(18)) - known.f_star)


def test_the_model_of_the_second_level(known):
    """Value and gradient of g with the rest of phi, against differences."""
    problem = known.sum()
    f = gt.methods.LearnedTrain(LEVELS)._split(problem)
    n = known.x_star.size
    rng = np.random.default_rng(0)
    from geartrain.problem import Model

    phi = Model(f.g, rng.standard_normal(n), 2.0)
    tilted = Tilted(f.g.problem.g, phi)
    v, d = rng.standard_normal((2, n))
    value, grad = tilted.value_and_grad(v)
    expected = known.g.value(v) + phi.beta @ v + v @ v
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(grad, known.g.grad(v) + phi.beta + 2.0 * v)
    change = tilted.value_and_grad(v + 1e-6 * d)[0] - tilted.value_and_grad(v - 1e-6 * d)[0]
    assert change / 2e-6 == pytest.approx(grad @ d, rel=1e-5, abs=1e-5)


def test_differences_of_tiers():
    """Terms that are not convex by themselves: three tiers of one data set."""
    rng = np.random.default_rng(1)
    A = rng.standard_normal((400, 10)) * np.geomspace(1.0, 0.1, 10)
    y = np.where(A @ np.ones(10) + rng.standard_normal(400) > 0, 1.0, -1.0)
    f, f_12, f_1 = (gt.LinearModel(A[:m], y[:m], l2=1e-3) for m in (400, 100, 25))
    tiers = {"cluster": f - f_12, "machine": f_12 - f_1}
    prices = {"cluster.grad": 1e4, "machine.grad": 100.0, "g.grad": 1.0}
    res = gt.minimize(tiers, f_1, prices=prices, tol=1e-6)
    assert res.success and res.plan.startswith("cluster > machine > g: sae-qn on every level")
    assert res.calls["cluster.grad"] < res.calls["machine.grad"] < res.calls["g.grad"]
    assert np.linalg.norm(f.grad(res.x)) <= 1.01e-6 * np.linalg.norm(f.grad(np.zeros(10)))


def test_three_levels_and_no_other_number():
    with pytest.raises(ValueError, match="three levels, got h1 > g"):
        gt.methods.LearnedTrain((("h1",), ("g",)))
