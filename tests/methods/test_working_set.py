"""WorkingSet against plain NumPy and other methods, its calls, and what it refuses."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import sparse

import geartrain as gt
from composite import counted, proximal_minimiser, states
from geartrain.compiled.records import Separable
from geartrain.methods.working_set import WorkingSet, WorkingSetTuning, _QuadraticModel
from geartrain.oracles.protocols import MissingOracle
from geartrain.oracles.splitting import Zero
from runs import same

SMALL = WorkingSet(WorkingSetTuning(smallest=5))
LOSSES = ["logistic", "squared", "smoothed_hinge", "huber", "squared_hinge"]


def data(m=60, n=30, density=0.3, seed=0):
    """Columns of different lengths, and labels that three of them explain."""
    rng = np.random.default_rng(seed)
    A = sparse.random_array((m, n), density=density, rng=rng, data_sampler=rng.standard_normal)
    A = sparse.csr_array(A)
    A.sort_indices()
    y = np.where(A[:, [0, 1, 2]].sum(axis=1) + 0.3 * rng.standard_normal(m) > 0, 1.0, -1.0)
    return A, y


PSIS = {
    "l1": gt.L1(0.02),
    "weights": gt.L1(np.append(np.full(29, 0.03), 0.0)),
    "box": gt.Box(-0.1, 0.2),
    "half": gt.Box(np.where(np.arange(30) % 2, 0.0, -np.inf), np.inf),
}


@pytest.mark.parametrize(
    ("psi", "kind"),
    list(zip(PSIS.values(), ("float32", "sparse", "dense", "sparse"), strict=True)),
)
def test_solutions_and_fields(psi, kind):
    """Along a run: f falls, and all fields of the state are what they are called."""
    A, y = data()
    A = {"sparse": A, "dense": A.toarray(), "float32": A.astype(np.float32)}[kind]
    h = gt.LinearModel(A, y, l2=1e-3)
    run = states(SMALL, counted(h, Zero(30), psi), psi.prox(0.1 * np.ones(30), 1.0), 40)
    for old, new in itertools.pairwise(run):
        assert new.value <= old.value + 1e-12
    for state in run:
        d = h.grad(state.x)
        assert state.value == pytest.approx(h.value(state.x) + psi.value(state.x), rel=1e-13)
        np.testing.assert_allclose(state.smooth, d, atol=1e-14)
        np.testing.assert_allclose(state.grad, psi.residual(state.x, d), atol=1e-14)
        # the products are carried along; each step adds rounding errors of its size
        np.testing.assert_allclose(state.z, h.predict(state.x), atol=1e-11)
    x = proximal_minimiser(h.grad, psi, h.L, psi.prox(np.zeros(30), 1.0))
    np.testing.assert_allclose(run[-1].point, x, atol=1e-7)
    assert np.array_equal(run[-1].point == 0.0, x == 0.0)


@pytest.mark.parametrize(("loss", "intercept"), list(zip(LOSSES, itertools.cycle((True, False)))))
def test_losses_intercept_and_ridge(loss, intercept):
    A, y = data(seed=1)
    h = gt.LinearModel(A, y, loss=loss, intercept=intercept)
    g = gt.Quadratic(0.05 * np.eye(h.n), 0.01 * np.arange(h.n))
    psi = gt.L1(0.01)
    res = gt.minimize(h, g + psi, method=SMALL, tol=1e-9)
    assert res.success
    x = proximal_minimiser(lambda x: h.grad(x) + g.grad(x), psi, h.L + g.L, np.zeros(h.n))
    np.testing.assert_allclose(res.x, x, atol=1e-7)


def transcribed(h, psi, x, size, t, curvature):
    """One step of the docstring in plain NumPy, with the whole Hessian; v."""
    d = h.grad(x)
    r = psi.residual(x, d)
    free = np.flatnonzero(x != 0.0)
    room = max(t.smallest, int(t.growth * free.size)) - free.size
    others = [i for i in np.argsort(-np.abs(r)) if x[i] == 0.0 and r[i] != 0.0][:room]
    W = sorted([*free, *others])
    A = h.A.toarray()
    omega = np.maximum(h.loss.second(h.y, A @ x), 1e-4 * curvature) / h.m
    H = A.T @ (omega[:, None] * A) + h.l2 * np.eye(h.n)
    v = x.copy()
    for _ in range(t.passes):
        total = 0.0
        for i in W:
            slope = d[i] + H[i] @ (v - x)
            u = v[i] - slope / H[i, i]
            new = np.sign(u) * max(abs(u) - psi.lam / H[i, i], 0.0)
            total += (H[i, i] * (new - v[i])) ** 2
            v[i] = new
        if np.sqrt(total) <= t.eta * size:
            break
    return v


def test_first_steps_are_those_of_the_transcription():
    """With the Hessian, whose passes are all through the whole working set."""
    A, y = data(m=200, density=0.9)
    h, psi = gt.LinearModel(A, y, l2=1e-3), gt.L1(0.01)
    run = states(SMALL, counted(h, Zero(30), psi), np.zeros(30), 4)
    assert np.count_nonzero(run[1].x) <= 5 < np.count_nonzero(run[-1].x)
    for old, new in itertools.pairwise(run):
        size = np.linalg.norm(old.grad)
        v = transcribed(h, psi, old.x, size, SMALL.tuning, h.loss.curvature)
        np.testing.assert_allclose(new.x, v, atol=1e-12)


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_both_forms_minimise_the_same_model(kind):
    A, y = data(m=25, n=40, density=0.2)
    h, psi = gt.LinearModel(A if kind == "sparse" else A.toarray(), y, l2=1e-2), gt.L1(0.005)
    problem = counted(h, Zero(h.n), psi)
    state = WorkingSet().init(problem, np.zeros(40))
    parts = problem.h.kept["working set"]
    rng = np.random.default_rng(2)
    W = np.sort(rng.choice(40, 15, replace=False))
    omega = rng.uniform(0.1, 0.25, h.m) / h.m
    x = 0.1 * rng.standard_normal(40)
    model = _QuadraticModel(problem.h, parts, W, omega, state.smooth[W], x[W])
    v, Av, _ = model.by_columns(1e-12, 10_000)
    w, Aw, _ = model.by_hessian(1e-12, 10_000)
    np.testing.assert_allclose(v, w, atol=1e-9)
    moved = np.zeros(40)
    moved[W] = v - x[W]
    np.testing.assert_allclose(Av, h.predict(moved), atol=1e-11)
    np.testing.assert_allclose(Aw, Av, atol=1e-8)
    # the optimality condition in W, from the dense Hessian
    M = A.toarray()[:, W]
    d = state.smooth[W] + M.T @ (omega * (M @ moved[W])) + h.l2 * moved[W]
    assert np.linalg.norm(psi.residual(v, d)) <= 1e-9


def test_calls():
    """One gradient of h per trial point; every pass over a column, and every product, counts."""
    A, y = data(m=40, n=200, density=0.05)
    h, psi = gt.LinearModel(A, y), gt.L1(1e-3)
    problem = counted(h, Zero(h.n), psi)
    calls = problem.ledger.calls
    state = SMALL.init(problem, np.zeros(200))
    assert calls["h.grad"] == 1 and calls["h.coord"] == calls["g.prox"] == 0
    before = dict(calls)
    new = SMALL.step(problem, state)
    assert calls["h.grad"] - before["h.grad"] == 1
    W = SMALL._working_set(state.x, state.grad, problem.h.kept["working set"].psi)
    assert W.size == 5
    assert set(np.flatnonzero(new.x)) <= set(W.tolist())
    if calls["h.product"]:  # the Hessian, and A times the step
        assert calls["h.product"] == 5
        assert calls["h.coord"] == np.count_nonzero(new.x)
    else:  # the diagonal, and the passes: one proximal step each
        assert calls["h.coord"] == 5 + calls["g.prox"]


def test_the_working_set_holds_the_worst_coordinates():
    x, r = np.zeros(50), np.linspace(-1.0, 0.5, 50)
    x[[7, 30]] = 1.0
    psi = Separable(np.full(50, 0.1), np.full(50, -np.inf), np.full(50, np.inf))
    W = WorkingSet(WorkingSetTuning(smallest=6))._working_set(x, r, psi)
    assert W.tolist() == [0, 1, 2, 3, 7, 30]
    twice = WorkingSet(WorkingSetTuning(smallest=1, growth=2.0))._working_set(x, r, psi)
    assert twice.tolist() == [0, 1, 7, 30]


def test_a_step_that_is_too_long_is_halved():
    """From far away Newton steps of the logistic loss overshoot; f falls all the same."""
    A, y = data(m=50, n=5, density=0.9, seed=3)
    h, psi = gt.LinearModel(A, y), gt.L1(1e-4)
    problem = counted(h, Zero(h.n), psi)
    run = states(WorkingSet(), problem, 40.0 * np.ones(5), 60)
    assert problem.ledger.calls["h.grad"] > len(run)
    for old, new in itertools.pairwise(run):
        assert new.value <= old.value + 1e-13
    assert np.linalg.norm(run[-1].grad) <= 1e-8


def test_budgets_and_resumed_runs(tmp_path):
    A, y = data(m=40, n=300, density=0.05)
    h, psi = gt.LinearModel(A, y), gt.L1(1e-3)
    whole = gt.minimize(h, psi, method=SMALL, tol=1e-9)
    part = gt.minimize(h, psi, method=SMALL, tol=1e-9, max_iter=2, checkpoint=tmp_path / "c")
    assert not part.success
    same(gt.resume(tmp_path / "c", h, psi, max_iter=1000), whole)
    # by columns, and with less than two passes over the working set too many
    narrow = WorkingSet(WorkingSetTuning(smallest=30, eta=1e-12))
    few = gt.minimize(h, psi, method=narrow, stop=gt.stop.Calls({"h.coord": 400}))
    assert not few.calls["h.product"] and 400 <= few.calls["h.coord"] < 400 + 60


def test_auto_takes_it_where_data_are_large_and_no_prices_are_given():
    A, y = data(m=400, n=2000, density=0.1)
    h, psi = gt.LinearModel(A, y), gt.L1(1e-2)
    res = gt.minimize(h, psi)
    assert res.success and res.plan.startswith("working-set: h is a linear model in memory")
    assert gt.minimize(h, psi, prices={"h.grad": 100.0}).plan.startswith("pqn")
    assert gt.minimize(gt.LinearModel(*data()), psi).plan.startswith("pqn")
    learned = gt.minimize(h, psi, method="pqn", tol=1e-8)
    exact = gt.minimize(h, psi, tol=1e-8)
    assert exact.fun == pytest.approx(learned.fun, rel=1e-12)
    assert np.array_equal(exact.x == 0.0, learned.x == 0.0)


def test_what_is_refused():
    A, y = data()
    h = gt.LinearModel(A, y)
    cases = [
        (h, gt.GroupL1(3, 0.1)),
        (h, gt.Quadratic(np.eye(30))),
        (h, gt.Quadratic(np.diag(np.arange(1.0, 31.0))) + gt.L1(0.1)),
        (gt.Quadratic(np.eye(30)), gt.L1(0.1)),
        (gt.LinearModel(sparse.linalg.aslinearoperator(A), y), gt.L1(0.1)),
    ]
    for term, g in cases:
        with pytest.raises(MissingOracle, match=r"WorkingSet needs a gt\.LinearModel"):
            gt.minimize(term, g, method="working-set")
    with pytest.raises(TypeError, match="'working-set'"):  # named where it can be used
        gt.minimize(h, gt.L1(0.1), method="catalyst")
