"""The learned method on three levels and more: counts, memory, guard, resume."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

import geartrain as gt
from geartrain.geometry import EUCLIDEAN
from geartrain.methods import learned_train
from geartrain.methods.learned_train import Account, Spent, nested
from geartrain.methods.pqn.inner_method import QuadraticModel, ShiftedOracle
from geartrain.methods.pqn.low_rank import LowRank
from geartrain.methods.pqn.memory import Memory
from geartrain.methods.pqn.state import Learned
from many_terms import logistic_between, train_of_quadratics
from problems import states
from runs import NEVER, same

KNOWN = {
    "quadratic": lambda: train_of_quadratics((1.0, 10.0, 100.0), mu=0.05, n=18),
    "logistic": logistic_between,
    "four terms": lambda: train_of_quadratics((1.0, 10.0, 50.0, 300.0), mu=0.05, n=24),
}


def learned(known):
    """The method with one level per term."""
    return gt.methods.LearnedTrain(tuple((oracle.name,) for oracle in known.sum().oracles))


@pytest.fixture(params=["logistic", "four terms"])
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


def test_nothing_is_asked_twice(known):
    """No term is asked twice at one point, and every call is counted."""
    terms, points = asked_at(known.terms)
    res = gt.minimize(terms[:-1], terms[-1], method=learned(known), max_iter=6, stop=NEVER)
    for name, seen in zip([o.name for o in known.sum().oracles], points, strict=True):
        assert res.calls[f"{name}.grad"] <= len(seen) <= res.calls[f"{name}.grad"] + 2  # res.fun
        runs = seen[: res.calls[f"{name}.grad"]]
        assert len({x.tobytes() for x in runs}) == len(runs)


def test_the_guarantee_of_the_first_level_holds(known):
    """f falls, and R^2/(2 A) bounds the gap."""
    n = known.x_star.size
    run = states(learned(known), known.sum(), np.ones(n), 10)
    values = [known.f(state.point) for state in run]
    R = np.linalg.norm(np.ones(n) - known.x_star)
    for state, f in zip(run, values, strict=True):
        if state.A > 0.0:
            assert f - known.f_star <= R**2 / (2 * state.A) * (1 + 1e-9) + 1e-12
    slack = 1e-12 * (1 + abs(values[0]))
    assert all(b <= a + slack for a, b in itertools.pairwise(values))


def test_a_resumed_run_is_the_uninterrupted_one(known, tmp_path):
    path = tmp_path / "run.gtck"
    options = {"method": learned(known), "stop": NEVER}
    whole = gt.minimize(known.h, known.g, max_iter=5, **options)
    gt.minimize(known.h, known.g, max_iter=2, checkpoint=path, **options)
    again = gt.resume(path, known.h, known.g, max_iter=3)
    same(whole, again)
    assert again.plan == whole.plan


def test_the_guard_tries_both_in_doubt_and_keeps_the_cheaper_one():
    account = Account(nested=Spent().after(100.0, 2.0))
    assert not account.is_plain_next
    account = replace(account, doubtful=True)
    assert account.is_plain_next  # it has not been tried
    account = replace(account, plain=Spent().after(10.0, 2.0))
    assert account.is_plain_next
    spent = account.plain
    for _ in range(5):
        spent = spent.after(500.0, 0.5)
    account = replace(account, plain=spent)
    assert not account.is_plain_next and spent.runs == 6
    assert Spent().after(1.0, 0.0).rate == math.inf


def test_a_level_that_misleads_is_left(monkeypatch):
    """Where the second level makes no progress, the method does without a model of it."""
    known = KNOWN["logistic"]()
    step = gt.methods.ProximalQuasiNewton.step

    def stuck(self, problem, state):
        if isinstance(problem.g, ShiftedOracle):
            return replace(state, stalled=True)
        return step(self, problem, state)

    monkeypatch.setattr(gt.methods.ProximalQuasiNewton, "step", stuck)
    run = states(learned(known), known.sum(), np.zeros(known.x_star.size), 12)
    account = run[-1].accounts[0]
    assert account.nested.runs <= 2 < account.plain.runs
    at_x0 = known.f(np.zeros(known.x_star.size))
    assert known.f(run[-1].point) - known.f_star < 1e-3 * (at_x0 - known.f_star)


def test_a_long_inner_run_raises_doubts(monkeypatch):
    monkeypatch.setattr(learned_train, "_MANY", 0)
    known = KNOWN["quadratic"]()
    run = states(learned(known), known.sum(), np.zeros(18), 3)
    assert [s.accounts[0].doubtful for s in run] == [False, True, True, True]
    assert [s.accounts[0].plain.runs for s in run[:3]] == [0, 0, 1]


def quadratic_bowl(rng, n, geometry=EUCLIDEAN):
    return QuadraticModel(rng.standard_normal(n), LowRank(2.0), rng.standard_normal(n), geometry)


def test_a_term_with_a_quadratic_added():
    """Value and gradient against their formula, and the gradient against differences of values."""
    known = KNOWN["logistic"]()
    rng, n = np.random.default_rng(0), known.x_star.size
    g, bowl = known.sum().g, quadratic_bowl(rng, n)
    raised = ShiftedOracle(ShiftedOracle(g, bowl), quadratic_bowl(rng, n))
    v, d = rng.standard_normal((2, n))
    expected = known.g.value(v) + bowl.c @ v + (v - bowl.p) @ (v - bowl.p)
    assert ShiftedOracle(g, bowl).value_and_grad(v)[0] == pytest.approx(expected, rel=1e-12)
    assert ShiftedOracle(g, bowl).value(v) == pytest.approx(expected, rel=1e-12)
    grad = raised.grad(v)
    np.testing.assert_array_equal(raised.value_and_grad(v)[1], grad)
    change = raised.value_and_grad(v + 1e-6 * d)[0] - raised.value_and_grad(v - 1e-6 * d)[0]
    assert change / 2e-6 == pytest.approx(grad @ d, rel=1e-5, abs=1e-4)


def test_what_a_level_has_learned_is_carried_over():
    """Later runs of the second level begin with pairs; the first one has none to begin with."""
    known, begun = KNOWN["logistic"](), []
    begin = gt.methods.ProximalQuasiNewton.begin

    def recorded(self, terms, at, learned):
        if isinstance(terms.problem.g, ShiftedOracle):
            begun.append(learned)
        return begin(self, terms, at, learned)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gt.methods.ProximalQuasiNewton, "begin", recorded)
        run = states(learned(known), known.sum(), np.zeros(known.x_star.size), 3)
    assert not len(begun[0].memory) and len(begun[-1].memory)
    assert all(below is not None and len(below.memory) for below in run[-1].learned_below)


def test_pairs_are_kept_without_the_quadratic_part():
    """y_g of a carried pair is the change of the gradient of the further levels alone."""
    quadratic = KNOWN["quadratic"]()
    run = states(learned(quadratic), quadratic.sum(), np.zeros(18), 3)
    memory = run[-1].learned_below[0].memory
    Q_h, Q_g = quadratic.terms[1].Q, quadratic.terms[2].Q
    for i in range(len(memory)):
        s, y_h, y_g = memory.pair(i)
        np.testing.assert_allclose(y_g, Q_g @ s, atol=1e-9)
        np.testing.assert_allclose(y_h, Q_h @ s, atol=1e-9)
    for s, y_g in run[-1].learned_below[0].inner_pairs:
        np.testing.assert_allclose(y_g, Q_g @ s, atol=1e-9 * (1.0 + np.linalg.norm(s)))


def test_shifting_there_and_back():
    rng, n = np.random.default_rng(1), 7
    quadratics = [quadratic_bowl(rng, n), quadratic_bowl(rng, n)]
    rows = rng.standard_normal((9, n))
    memory = Memory.of(rows, EUCLIDEAN)
    before = Learned(True, 1.0, 1.0, None, None, memory, ((rows[0], rows[2]),))
    there = learned_train._shifted(before, quadratics, 1.0, EUCLIDEAN)
    for i in range(3):
        np.testing.assert_allclose(there.memory.pair(i)[2], rows[3 * i + 2] + 4.0 * rows[3 * i])
    gram = there.memory.gram.transpose(2, 0, 3, 1).reshape(9, 9)
    np.testing.assert_allclose(gram, there.memory.rows @ there.memory.rows.T)
    back = learned_train._shifted(there, quadratics, -1.0, EUCLIDEAN)
    np.testing.assert_allclose(back.memory.gram, memory.gram, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(back.inner_pairs[0][1], rows[2], rtol=1e-12)


def test_differences_of_tiers():
    """TermEvaluator that are not convex by themselves: three tiers of one data set."""
    rng = np.random.default_rng(1)
    A = rng.standard_normal((400, 10)) * np.geomspace(1.0, 0.1, 10)
    y = np.where(A @ np.ones(10) + rng.standard_normal(400) > 0, 1.0, -1.0)
    f, f_12, f_1 = (gt.LinearModel(A[:m], y[:m], l2=1e-3) for m in (400, 100, 25))
    tiers = {"cluster": f - f_12, "machine": f_12 - f_1}
    prices = {"cluster.grad": 1e4, "machine.grad": 100.0, "g.grad": 1.0}
    res = gt.minimize(tiers, f_1, prices=prices, tol=1e-6)
    assert res.success and res.plan.startswith("cluster > machine > g: pqn on every level")
    assert np.linalg.norm(f.grad(res.x)) <= 1.01e-6 * np.linalg.norm(f.grad(np.zeros(10)))


def test_numbers_of_levels_and_prices_that_do_not_fit():
    with pytest.raises(ValueError, match="two levels or more, got g"):
        gt.methods.LearnedTrain((("g",),))
    with pytest.raises(ValueError, match="nested 1 times, but h1 > h2 > g needs 2"):
        gt.methods.LearnedTrain((("h1",), ("h2",), ("g",)), nested((2.0,)))
    *h, g = KNOWN["quadratic"]().terms
    with pytest.raises(ValueError, match="nested 3 times, but 3 terms have 2 levels"):
        gt.minimize(h, g, method=nested((2.0, 2.0, 2.0)))
    with pytest.raises(TypeError, match="for several terms h"):
        gt.minimize(h[0], g, method=nested((2.0, 2.0)))


def test_curvatures_along_coordinates_of_a_term_beside_nothing():
    """g is a non-smooth term alone: its part of the curvatures is one number."""
    Q = np.diag(4.0 ** np.arange(5))
    h = [gt.Quadratic(Q, np.ones(5)), gt.Quadratic(Q, -2.0 * np.ones(5))]
    res = gt.minimize(h, gt.NonNegative(), np.ones(5), method=gt.methods.ProximalQuasiNewton())
    assert res.success and res.state.state.scale is not None
    np.testing.assert_array_equal(res.x, np.zeros(5))


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_method_inside_itself_is_that_on_levels(depth):
    """As listed; what is left of the terms is the last level."""
    *h, g = KNOWN["four terms"]().terms
    names, rho = [("h1",), ("h2",), ("h3",), ("g",)], (20.0, 5.0, 3.0)[:depth]
    levels = (*names[:depth], sum(names[depth:], ()))
    options = {"stop": NEVER, "max_iter": 4}
    method = gt.methods.ProximalQuasiNewton(rho=rho[-1], memory=7)
    for ratio in reversed(rho[:-1]):
        method = gt.methods.ProximalQuasiNewton(rho=ratio, inner=method)
    one = gt.minimize(h, g, method=method, **options)
    given = (gt.methods.LearnedTrain if depth > 1 else gt.methods.Train)(levels, method)
    same(one, gt.minimize(h, g, method=given, **options))
    assert one.plan.startswith(learned_train.told(levels))
    if depth > 1:
        assert [m.rho for m in given.methods] == list(rho) and given.methods[-1].memory == 7


def test_two_levels_are_the_learned_method_itself():
    """The terms tell no curvature along coordinates, by which the method would scale them."""
    known = KNOWN["logistic"]()
    (*h, g), _ = asked_at(known.terms)
    names = [oracle.name for oracle in known.sum().oracles]
    levels = ((names[0],), tuple(names[1:]))
    options = {"max_iter": 3, "stop": NEVER}  # roundings grow from step to step
    train = gt.minimize(h, g, method=gt.methods.LearnedTrain(levels), **options)
    plain = gt.methods.Train(levels, gt.methods.ProximalQuasiNewton(rho=10.0))
    np.testing.assert_allclose(
        train.x, gt.minimize(h, g, method=plain, **options).x, rtol=1e-7, atol=1e-9
    )
