"""pqn: what each iteration means, the calls, and what is said where it cannot go on."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import geartrain as gt
from geartrain.core.status import Status
from geartrain.geometry import EUCLIDEAN
from geartrain.methods.pqn import inner_quadratic, inner_smooth
from geartrain.methods.pqn.evaluation import Step, TermEvaluator
from geartrain.methods.pqn.inner import Phi
from geartrain.methods.pqn.line_models import ExponentialFit, change, lowest
from geartrain.methods.pqn.low_rank import LowRank, RowBasis
from geartrain.methods.pqn.memory import Memory
from geartrain.methods.pqn.method import ProximalQuasiNewton
from geartrain.methods.pqn.model_selection import Selection
from geartrain.methods.pqn.models import KEEP, PLAIN, SHRUNK, Models, Share
from geartrain.methods.pqn.noise_detection import ProgressMonitor, shows_nonconvexity
from geartrain.methods.pqn.scaling import diagonal_scale
from geartrain.methods.pqn.tuning import DEFAULT
from geartrain.problem import norm
from geartrain_lab.problems import log_density
from problems import PROBLEMS, Known, logistic, quadratics, states
from runs import NEVER, same


def shards(seed=4):
    """h = f - f_1, which is not convex, and g = f_1 with a ridge."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((1000, 20)) * np.geomspace(0.3, 3.0, 20)
    y = np.where(A @ rng.standard_normal(20) + 3.0 * rng.standard_normal(1000) > 0, 1.0, -1.0)
    h = gt.LinearModel(A, y) - gt.LinearModel(A[:250], y[:250])
    return h, gt.LinearModel(A[:250], y[:250], l2=1e-3)


PSI = {
    "none": None,
    "l1": gt.L1(0.05),
    "box": gt.Box(-0.3, 0.4),
    "simplex": gt.Simplex(2.0),
    "groups": gt.GroupL1([[0, 1, 2], [3, 4], [5, 6, 7, 8, 9]], 0.1),
}


# Invariants ------------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", PROBLEMS)
def test_descent_and_certificate_from_x0(problem):
    """Every accepted point is lower, and R^2/(2 A) bounds the gap with R = |x0 - x*|."""
    make, x0 = PROBLEMS[problem]
    known = make()
    run = states(ProximalQuasiNewton(), known.sum(), x0, 10)
    R = norm(x0 - known.x_star)
    for old, new in itertools.pairwise(run):
        if norm(new.grad) <= 1e-9 * norm(run[0].grad):
            break
        np.testing.assert_allclose(new.at.grad_h, known.h.grad(new.point), atol=1e-10)
        np.testing.assert_allclose(new.at.grad_g, known.g.grad(new.point), atol=1e-9)
        assert known.f(new.point) < known.f(old.point)
        assert new.A >= old.A > 0.0 or old.A == 0.0
        assert known.f(new.point) - known.f_star <= R**2 / (2 * new.A) + 1e-12
        cert = new.certificate
        assert cert.c >= 0.5 * norm(cert.G) ** 2 * (1 - 1e-9)


@pytest.mark.parametrize(
    ("psi", "rho"),
    [
        ("none", 1.0),
        ("none", 10.0),
        ("l1", 10.0),
        ("box", 1.0),
        ("simplex", math.inf),
        ("groups", 9),
    ],
)
def test_nothing_is_asked_twice(psi, rho):
    """One gradient of h per trial point, and no term at one point twice in all of a run."""
    known, seen = logistic(), {"h": [], "g": []}

    def recorded(name, term):
        def ask(x):
            seen[name].append(x.tobytes())
            return term.value_and_grad(x)

        return gt.Term(ask, n=10, convex=True, L=1.0)

    terms = Known(recorded("h", known.h), recorded("g", known.g), known.x_star, 0.0)
    x0 = np.ones(10) if PSI[psi] is None else PSI[psi].prox(np.ones(10), 1.0)
    problem = terms.sum(psi=PSI[psi])
    run, calls = states(ProximalQuasiNewton(rho=rho), problem, x0, 6), problem.ledger.calls
    assert calls["h.grad"] == 1 + sum(s.trials for s in run[1:]) == run[-1].safeguard.calls
    assert calls["h.value"] == calls["g.value"] == 0
    for points in seen.values():
        assert len(set(points)) == len(points) > 3


@pytest.mark.parametrize(
    ("psi", "convex"), [("none", True), ("box", True), ("none", False), ("l1", False)]
)
def test_resumed_is_uninterrupted(tmp_path, psi, convex):
    known, path = logistic(), tmp_path / "run.gtck"
    h, g = (known.h, known.g) if convex else shards()
    g = g if PSI[psi] is None else g + PSI[psi]
    method = ProximalQuasiNewton(rho=20.0)
    whole = gt.minimize(h, g, method=method, max_iter=9, stop=NEVER)
    gt.minimize(h, g, method=method, max_iter=4, stop=NEVER, checkpoint=path)
    same(whole, gt.resume(path, h, g, max_iter=5))


@pytest.mark.parametrize(("make", "scale"), [(quadratics, 1e-6), (logistic, 1e6)])
def test_needs_no_constants(make, scale):
    """Callables that know nothing, f scaled by 1e-6 .. 1e6."""
    known = make()
    n = known.x_star.size
    h = gt.Term(lambda x: tuple(scale * v for v in known.h.value_and_grad(x)), n=n)
    g = gt.Term(lambda x: tuple(scale * v for v in known.g.value_and_grad(x)), n=n)
    x0 = np.ones(n)
    res = gt.minimize(h, g, x0, method="pqn", tol=1e-8)
    assert res.success, res.message
    assert norm(known.grad(res.x)) <= 1e-8 * norm(known.grad(x0)) * (1 + 1e-6)


def test_a_psi_without_values_and_residuals():
    """A slab, given by its projection alone: steps along which h falls are accepted."""

    class Slab:
        def prox(self, u, alpha):
            t = u.sum()
            return u - (t - np.clip(t, -1.0, 1.0)) / u.size

    known = logistic()
    problem = known.sum(psi=Slab())
    run = states(ProximalQuasiNewton(), problem, np.zeros(10), 8)
    for old, new in itertools.pairwise(run):
        if norm(new.grad) > 1e-6 * norm(run[0].grad):
            assert known.f(new.point) < known.f(old.point)
        assert abs(new.point.sum()) <= 1.0 + 1e-12
    res = gt.minimize(known.h, known.g + Slab(), method="pqn", tol=1e-7)
    other = gt.minimize(known.h, known.g + Slab(), method="afb", tol=1e-7)
    assert res.success and other.success
    np.testing.assert_allclose(res.x, other.x, atol=1e-4)


def test_terms_without_values():
    known = logistic()
    h, g = (gt.Term(grad=t.grad, n=10, convex=True) for t in (known.h, known.g))
    res = gt.minimize(h, g, np.ones(10), method="pqn", tol=1e-8)
    assert res.success and res.calls["h.value"] == 0
    run = states(
        ProximalQuasiNewton(),
        Known(h, g, known.x_star, 0.0).sum(L_h=None, L_g=None),
        np.ones(10),
        6,
    )
    values = [known.f(state.point) for state in run]
    assert all(b <= a + 1e-12 for a, b in itertools.pairwise(values))


def test_a_domain_is_not_left():
    """-sum ln x in g, and in h: points outside are answered with infinity."""

    def barrier(x):
        if (x <= 0.0).any():
            return math.inf, np.full(x.size, math.inf)
        return -1e-3 * float(np.log(x).sum()), -1e-3 / x

    known = logistic()
    log = gt.Term(barrier, n=10, convex=True)
    for h, g in ((known.h, known.g + log), (known.h + log, known.g)):
        res = gt.minimize(h, g, np.ones(10), method="pqn", tol=1e-6)
        assert res.success and (res.x > 0.0).all()


# Scales ----------------------------------------------------------------------------------------


def badly_scaled(psi=None):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((80, 12)) * np.geomspace(1e-2, 1e3, 12)
    h = gt.LinearModel(A, np.sign(rng.standard_normal(80)))
    return h, gt.Quadratic(1e-3 * np.eye(12)) + psi if psi else gt.Quadratic(1e-3 * np.eye(12))


@pytest.mark.parametrize("psi", [None, gt.L1(1e-3)])
def test_known_curvatures_along_coordinates_are_the_variables(psi):
    """The run is that on the problem in the variables sqrt(D) x, which the terms tell."""
    h, g = badly_scaled(psi)
    res = gt.minimize(h, g, method="pqn", max_iter=1, stop=NEVER)
    D = h.L_coord + 1e-3
    t = res.state.state.scale
    assert (np.abs(np.log2(t) - 0.5 * np.log2(D / D.max())) <= 0.5).all()  # powers of two
    assert res.state.state.scale.max() == 1.0
    assert gt.minimize(h, g, method="pqn", tol=1e-8).success


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array, sparse.csc_array])
def test_a_rare_variable_is_in_the_same_unit(storage):
    """Ones and zeros, some of them rare, are left as they are; other units are not."""
    rng, n = np.random.default_rng(0), 6
    share = np.array([1.0, 0.5, 0.3, 0.1, 0.01, 0.003])
    A = (rng.random((2000, n)) < share) * 1.0
    y, g = np.where(rng.random(2000) < 0.5, 1.0, -1.0), gt.Quadratic(1e-9 * np.eye(n))
    for units, scaled in ((np.ones(n), False), (np.logspace(-2, 2, n), True)):
        h = gt.LinearModel(storage(A * units), y)
        np.testing.assert_allclose(h.L_occurring, 0.25 * units**2)
        assert h.L_coord[-1] < 0.01 * h.L_occurring[-1]
        for term in (h, h - 0.5 * gt.LinearModel(storage(A[:1000] * units), y[:1000])):
            problem = Known(term, g, np.zeros(n), 0.0).sum()
            assert (diagonal_scale(problem) is not None) == scaled


# What is said where it cannot go on --------------------------------------------------------------


def noisy(term, level, values=True, seed=0):
    """The term with noise of the relative size `level` in its gradients."""
    rng = np.random.default_rng(seed)

    def answer(x):
        value, grad = term.value_and_grad(x)
        e = rng.standard_normal(grad.size)
        return value, grad + level * np.linalg.norm(grad) * e / np.linalg.norm(e)

    if values:
        return gt.Term(answer, n=term.n, convex=True)
    return gt.Term(grad=lambda x: answer(x)[1], n=term.n, convex=True)


CASES = {
    "quadratics": lambda: (quadratics().h, quadratics().g),
    "logistic": lambda: (logistic().h, logistic().g),
    "log-density": lambda: log_density(n=15, p=100),
}


@pytest.mark.parametrize(
    ("case", "level", "values"),
    [("quadratics", 1e-4, True), ("logistic", 1e-2, False), ("log-density", 1e-4, True)],
)
def test_noise_is_no_success(case, level, values):
    """Whatever it says, the true gradient is not above a multiple of the noise."""
    h, g = CASES[case]()
    x0, method = np.ones(h.n), ProximalQuasiNewton(rho=10.0)
    start = np.linalg.norm(h.grad(x0) + g.grad(x0))
    for seed in range(3):
        res = gt.minimize(noisy(h, level, values, seed), g, x0, method=method, tol=1e-12)
        assert not res.success
        assert "Rounding" not in res.message
        true = np.linalg.norm(h.grad(res.x) + g.grad(res.x))
        if res.status is Status.NOISE:
            floor = level * np.linalg.norm(h.grad(res.x))
            assert true <= max(30.0 * floor, 30.0 * level * start)


@pytest.mark.parametrize("case", CASES)
def test_exact_answers_are_not_called_noisy(case):
    h, g = CASES[case]()
    for term in (h, gt.Term(grad=h.grad, n=h.n, convex=True)):
        res = gt.minimize(term, g, np.ones(h.n), method="pqn", tol=1e-30, max_iter=40)
        assert res.status is not Status.NOISE and not res.success
        assert res.grad_norm <= 1e-8 * res.history["grad_norm"][0]


def test_f_that_is_unbounded_below_is_told_so():
    """Logistic minus a linear function; an exponential; a linear function on half of a space."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((50, 6))
    h = gt.LinearModel(A, np.sign(A[:, 0]))
    down = gt.Term(lambda x: (-float(x[0]), -np.eye(6)[0]), n=6, L=1e-3, convex=True)
    decay = gt.Term(
        lambda x: (float(np.exp(np.minimum(-x, 700)).sum()), -np.exp(np.minimum(-x, 700))), n=6
    )
    for terms in ((h, down), (decay, down), (down, gt.NonNegative())):
        res = gt.minimize(*terms, method="pqn")
        assert res.status is Status.UNBOUNDED and not res.success, res.message
        assert res.calls["h.grad"] <= 200


@pytest.mark.parametrize(("x0", "unit"), [(1e-12, 1e12), (1e-20, 1.0), (1e-50, 1e12), (0.0, 1.0)])
def test_a_start_in_small_units_is_not_called_unbounded(x0, unit):
    """The minimiser is 1e12 and more times as far away as x0 is long, or as the first step."""
    h = gt.Quadratic(np.eye(4) / unit**2, np.arange(1.0, 5.0) / unit)
    for psi in (gt.L1(0.1 / unit), gt.GroupL1(2, 0.1 / unit)):
        res = gt.minimize(h, psi, np.full(4, x0))
        assert res.success, res.message


@pytest.mark.parametrize("case", CASES)
def test_a_convex_h_is_not_suspected(case):
    h, g = CASES[case]()
    res = gt.minimize(h, g, np.ones(h.n), method="pqn", tol=1e-9)
    assert res.success and res.state.state.convex
    assert not any("convex" in note for _, note in res.history.notes)


@pytest.mark.parametrize("values", [True, False])
def test_gradients_that_disprove_convexity_are_noticed(values):
    """A difference that says it is convex: one note, no certificate, and the solution."""
    h, g = shards()
    answer = {"value_and_grad": h.value_and_grad} if values else {"grad": h.grad}
    lie = gt.Term(**answer, n=h.n, convex=True)
    res = gt.minimize(lie, g, 3.0 * np.ones(20), method="pqn", tol=1e-7)
    assert res.success, res.message
    told = [note for _, note in res.history.notes if "not convex" in note]
    assert len(told) == (not res.state.state.convex) <= 1
    assert norm((h + g).grad(res.x)) <= 1e-6 * norm((h + g).grad(3.0 * np.ones(20)))


def test_what_shows_that_h_is_not_convex():
    h = gt.Term(lambda x: (-0.5 * float(x @ x), -x), n=2, L=1.0)
    g = gt.Quadratic(2.0 * np.eye(2))
    terms = TermEvaluator(Known(h, g, np.zeros(2), 1.0).sum())
    p, v = terms.both(np.array([1.0, 2.0])), terms.both(np.array([0.0, 1.0]))
    assert shows_nonconvexity(Step.between(p, v, terms), terms)
    wrong = replace(v, h=v.h + 1.0)  # values that do not agree with the slopes: noise
    assert not shows_nonconvexity(Step.between(p, wrong, terms), terms)
    convex = TermEvaluator(Known(g, g, np.zeros(2), 1.0).sum())
    p, v = convex.both(np.array([1.0, 2.0])), convex.both(np.array([0.0, 1.0]))
    assert not shows_nonconvexity(Step.between(p, v, convex), convex)


def test_progress_by_hand():
    p = TermEvaluator(logistic().sum()).both(np.ones(10))
    progress = ProgressMonitor(1.0, p.f, p.f + 1.0)
    assert progress.at(p, 0.95) is progress  # neither smaller nor lower
    assert progress.at(p, 0.8).smallest == 0.8
    lower = replace(p, h=p.h - 0.1)
    assert progress.at(lower, 2.0).lowest == lower.f
    for k in range(10):
        assert progress.is_doubtful is (k >= 10)
        progress = progress.after_trial()
    assert progress.is_doubtful and not progress.looked().is_doubtful


# Learning --------------------------------------------------------------------------------------


def test_mu_grows_where_iteration_after_iteration_begins_with_a_step_that_is_too_long(monkeypatch):
    """Along x_1, h is flat near the start and a wall further on: log(1 + exp(50 (x_1 - 3)))."""
    seen = []
    reject = ProximalQuasiNewton._rejected

    def recorded(self, terms, state, step, trial, products):
        after = reject(self, terms, state, step, trial, products)
        seen.append((state, after))
        return after

    monkeypatch.setattr(ProximalQuasiNewton, "_rejected", recorded)

    def wall(x):
        e = 50.0 * (x[0] - 3.0)
        return float(np.logaddexp(0.0, e)), np.array([25.0 * (1.0 + np.tanh(0.5 * e)), 0.0])

    g = gt.Quadratic(np.diag([1e-3, 1.0]), [1.0, 1.0])
    known = Known(gt.Term(wall, n=2), gt.Term(g.value_and_grad, n=2), np.zeros(2), 0.0)
    states(ProximalQuasiNewton(), known.sum(), np.zeros(2), 12)
    first = [(before, after) for before, after in seen if before.tries == 0 and before.convex]
    assert any(before.lost for before, _ in first)
    for before, after in first:
        assert (after.shift > before.shift) is before.lost


def rejections(psi, monkeypatch):
    """The step and the states before and after, of every rejected trial point of some runs."""
    added, method = [], ProximalQuasiNewton()
    reject = ProximalQuasiNewton._rejected

    def recorded(self, terms, state, step, trial, products):
        after = reject(self, terms, state, step, trial, products)
        added.append((step, state, after))
        return after

    monkeypatch.setattr(ProximalQuasiNewton, "_rejected", recorded)
    A = np.array([[20.0, 1.0], [-3.0, 9.0], [-15.0, -11.0]])
    h = gt.Term(gt.LogSumExp(A).value_and_grad, n=2, convex=True, L=1.0)
    known = Known(h, gt.Term(lambda x: (5e-5 * x @ x, 1e-4 * x), n=2, L=1.0), np.zeros(2), 0.0)
    for x0 in np.random.default_rng(1).standard_normal((8, 2)):
        states(method, known.sum(psi=psi), 3.0 * x0, 4)
    assert added
    return [(step, old, new) for step, old, new in added if step.bends(1.0, 0.0)]


@pytest.mark.parametrize("psi", [None, gt.L1(0.01), gt.Box(-50.0, 50.0)])
def test_a_rejected_step_is_learned(psi, monkeypatch):
    """The pair has the direction of the step, and the mean curvature of h up to its minimum."""
    for step, old, new in rejections(psi, monkeypatch):
        memory = new.memory
        assert new.at is old.at and new.tries == old.tries + 1 and new.lam >= old.lam
        assert len(memory) == min(len(old.memory) + 1, DEFAULT.pairs(2))
        s, y_h, y_g = memory.pair(len(memory) - 1)
        np.testing.assert_allclose(s, step.s / step.length, rtol=1e-12)
        np.testing.assert_allclose(y_g, step.y_g / step.length, rtol=1e-12)
        t = min(lowest(step.slope, [step.h.fit, step.g.fit]), DEFAULT.longest)
        mean = step.h.fit.rise(t) / t
        assert float(s @ y_h) == pytest.approx(mean / step.length**2, rel=1e-9)


def test_a_rejected_step_that_is_not_learned_is_noticed(monkeypatch):
    monkeypatch.setattr(ProximalQuasiNewton, "_with_pair", lambda self, memory, *rest: memory)
    _, old, new = rejections(gt.L1(0.01), monkeypatch)[0]
    assert len(new.memory) == len(old.memory)  # the test above fails


@pytest.mark.parametrize("k", [1e-5, 5.0, 680.0])
def test_the_fit_of_an_exponential_is_exact(k):
    """u(t) = e^{kt} - a t: values and slopes at both ends tell k, and with it the minimiser."""
    excess, rise = math.expm1(k) - k, k * math.expm1(k)
    fit = ExponentialFit.of(excess, rise, 0.0)
    assert fit.k == pytest.approx(k, rel=1e-6, abs=2e-3)
    for t in (0.0, 0.1, 0.9, 1.0):
        assert fit.rise(t) == pytest.approx(k * math.expm1(k * t), rel=1e-4)
    assert fit.total * fit.end == pytest.approx(k * k * math.exp(k), rel=2e-3)
    best = 0.3  # where the slope k e^{kt} - a vanishes
    slope = -k * math.expm1(k * best)
    assert lowest(slope, [fit]) == pytest.approx(best, rel=1e-3)


def test_values_that_tell_nothing_leave_a_quadratic():
    assert ExponentialFit.of(0.5, 1.0, 0.0).k == ExponentialFit.of(0.9, 1.0, 1.0).k == 0.0
    assert ExponentialFit.of(math.nan, 1.0, 0.0).k == 0.0
    assert ExponentialFit.of(0.2, -1.0, 0.0).total == 0.0
    assert change(1.0, 1.0 + 1e-13, -2.0, 1.0) == -0.5
    assert change(1.0, 2.0, -2.0, 1.0) == 1.0
    assert change(math.nan, 2.0, -2.0, 1.0) == -0.5


def test_shares_are_those_of_least_squares():
    rng = np.random.default_rng(0)
    share = Share()
    rows, weights = [], []
    for k in range(5):
        s, y_h, y_g = rng.standard_normal((3, 4))
        y_h, y_g = y_h + 0.4 * s, y_g + 2.0 * s
        vectors = np.array([s, y_h, y_g])
        step = type("Step", (), {"own": vectors @ vectors.T})
        share = share.after(step)
        y_f = y_h + y_g
        weight = math.sqrt(0.7 ** (4 - k)) / np.linalg.norm(y_f)
        rows.append(np.column_stack([y_g, s]) * weight)
        weights.append(y_f * weight)
    a, b = np.linalg.lstsq(np.concatenate(rows), np.concatenate(weights), rcond=None)[0]
    if 0.02 <= a <= 1.0 and b > 0.0:
        assert share.parts == pytest.approx((a, b), rel=1e-9)
    assert Share().parts == (1.0, 0.0)


# Selection and prices --------------------------------------------------------------------------


def test_models_that_compete():
    def of(*args):
        return Selection.of(*args, DEFAULT).names

    assert of(math.inf, True, False) == (KEEP, PLAIN)
    assert of(math.inf, False, False) == (KEEP, SHRUNK, PLAIN)
    assert of(1.0, True, False) == of(1.0, False, False) == (PLAIN,)
    assert of(1.0, True, True) == (KEEP, PLAIN)


def test_the_score_is_the_discounted_sum_of_logarithms():
    selection = Selection.of(math.inf, True, False, DEFAULT)
    errors = [{KEEP: 0.1, PLAIN: 0.4}, {KEEP: 0.5, PLAIN: 0.2}, {KEEP: 0.3, PLAIN: 0.3}]
    for e in errors:
        selection = selection.judged(e, 2.0, 0.0, 0.7)
    for j, name in enumerate((KEEP, PLAIN)):
        expected = sum(0.7 ** (2 - k) * math.log(e[name]) for k, e in enumerate(errors))
        assert selection.scores[j] == pytest.approx(expected)
    assert selection.weight == pytest.approx(1 + 0.7 + 0.49)
    assert selection.error == pytest.approx(0.15)
    assert selection.best(math.inf, False, DEFAULT) == KEEP
    assert replace(selection, bill=100.0).best(3.0, False, DEFAULT) == PLAIN  # handicapped


@pytest.mark.parametrize(("error", "pace"), [(0.01, 0.2), (0.3, 0.9)])
def test_inner_runs_are_as_accurate_as_pays(error, pace):
    """No other number of gradients of g reduces log |grad f| more per unit of the bill."""
    coarse = replace(DEFAULT, eta=1e-12)
    selection = replace(Selection.of(9.0, True, False, DEFAULT), error=error, pace=pace)
    before = 1.0
    for rho in (1.0, 3.0, 10.0, 100.0, 1e4):
        eta = selection.accuracy(rho, True, coarse)
        k = round(math.log(eta) / math.log(pace))
        assert eta == pytest.approx(pace**k)
        best = -math.log(error + eta) / (rho + 1.0 + k)
        for other in (k - 1, k + 1):
            assert -math.log(error + pace**other) / (rho + 1.0 + other) <= best
        assert eta <= before  # the dearer h, the more accurate
        before = eta


@pytest.mark.parametrize(("rho", "convex"), [(2.0, True), (10.0, False), (40.0, True)])
def test_what_is_spent_on_g_is_bounded_by_the_price(rho, convex):
    """An inner run takes at most max(10, rho) gradients of g, halved after each rejection."""
    known = logistic()
    h = gt.Term(known.h.value_and_grad, n=10, convex=convex, L=1.0)
    problem = Known(h, gt.Term(known.g.value_and_grad, n=10, L=1.0), known.x_star, 0.0).sum()
    method, calls = ProximalQuasiNewton(rho=rho), problem.ledger.calls
    state = method.init(problem, np.ones(10))
    for _ in range(12):
        before = calls["g.grad"], calls["h.grad"]
        state = method.step(problem, state)
        asked, trials = calls["g.grad"] - before[0], calls["h.grad"] - before[1]
        if state.safeguard.steps == 0:
            assert (
                asked <= (max(10.0, rho) + 1.0) * trials + math.ceil(0.5 * math.sqrt(rho)) * trials
            )
        if state.stalled:
            break


def test_the_first_lam_is_that_of_a_loss_with_this_value_and_gradient():
    """Exact for c/2 |x - a|^2; without a positive value the origin stands for a."""
    a, x0 = np.arange(12.0), np.full(12, 2.0)
    for c in (1e-6, 1.0, 1e6):
        bowl = gt.Term(lambda x, c=c: (0.5 * c * (x - a) @ (x - a), c * (x - a)), n=12, L=c)
        below = gt.Term(lambda x, c=c: (0.5 * c * x @ x - 1e9 * c, c * x), n=12, L=c)
        for h, weight in itertools.product((bowl, below), (1e-9, 1.0, 1e9)):
            g = gt.Term(lambda x, w=weight: (0.5 * w * x @ x, w * x), n=12, L=1.0)
            state = ProximalQuasiNewton().init(Known(h, g, a, 0.0).sum(), x0)
            assert state.lam == pytest.approx(max(c, 1e-3 * weight), rel=1e-6)


def test_from_the_origin_a_value_that_tells_nothing_leaves_a_step_of_length_one():
    slope = np.array([3e4, 4e4])
    h = gt.Term(lambda x: (slope @ x + 0.5 * x @ x - 1e9, slope + x), n=2)
    g = gt.Term(lambda x: (0.5e-6 * x @ x, 1e-6 * x), n=2)
    state = ProximalQuasiNewton().init(Known(h, g, -slope, 0.0).sum(), np.zeros(2))
    assert state.lam == pytest.approx(5e4)


@pytest.mark.parametrize("seed", range(4))
def test_a_g_that_bends_down_does_not_spoil_the_models(seed):
    """h is not convex, and neither is g along some steps: all products are finite."""
    rng = np.random.default_rng(seed)
    n, k = rng.integers(2, 7, 2)
    H, G = np.diag(rng.uniform(0.1, 3.0, n)), np.diag(rng.uniform(-1.0, 0.2, n))
    memory = Memory.empty(n)
    for _ in range(k):
        s = rng.standard_normal(n)
        s /= np.linalg.norm(s)
        pair = np.array([s, H @ s + 1e-4 * rng.standard_normal(n), G @ s])
        cross = memory.products(*pair, EUCLIDEAN)
        memory = memory.add(tuple(pair), cross, pair @ pair.T, 60)
    models = Models(memory, 0.1, 1.0, (0.5, 0.1), False, EUCLIDEAN, DEFAULT)
    for name in (KEEP, SHRUNK, PLAIN):
        assert np.isfinite(models[name](np.ones(n))).all()
        assert np.isfinite(models[name].inverse(0.1)(np.ones(n))).all()


@pytest.mark.parametrize("descend", [inner_smooth.descend, inner_quadratic.solve])
@pytest.mark.parametrize("bottom", [-0.5, -1.5, -3.0])
def test_an_inner_run_ends_where_the_model_bends_down(descend, bottom):
    """phi is not convex along one direction: the run ends, and phi is not higher than at p."""
    n, rng = 8, np.random.default_rng(3)
    g = gt.Quadratic(np.diag(np.linspace(1.0, 2.0, n)))  # the model bends down below -1
    h = gt.Quadratic(np.eye(n), rng.standard_normal(n))
    terms = TermEvaluator(Known(h, g, np.zeros(n), 1.0).sum())
    e = np.eye(n)[:1]
    B = LowRank(0.1, RowBasis.of(e, e @ e.T, np.arange(1)), np.array([[bottom - 0.1]]))
    phi = Phi(terms, terms.both(rng.standard_normal(n)), B, 0.0, 1.0)
    p, before = phi.p, terms.problem.ledger.calls["g.grad"]
    smooth, s = descend is inner_smooth.descend, np.ones(n)
    pairs, last = (((s, g.Q @ s),), 5) if smooth else ((), None)  # a curvature of g is known
    run = descend(phi, 1e-6 * norm(p.grad), pairs, lambda v, residual: False, 50, last)
    run = run if smooth else run[0]
    assert terms.problem.ledger.calls["g.grad"] - before <= 50
    s = run.v - p.v
    slope = p.grad + B(s) + g.grad(run.v) - g.grad(p.v)
    assert run.residual == pytest.approx(norm(slope), abs=1e-7 * norm(p.grad))  # a root
    assert p.grad @ s + 0.5 * s @ (B(s) + g.Q @ s) <= 0.0
    assert (run.residual <= 1e-6 * norm(p.grad)) == (bottom > -1.0)


def test_the_memory_grows_where_all_pairs_agree():
    """Those of a quadratic h always do; those of another h do not, far from the solution."""
    rng, n = np.random.default_rng(0), 60
    Q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    A = Q * np.logspace(-3, 0, n) @ Q.T
    few = replace(DEFAULT, memory=4)
    ramp = gt.Term(lambda x: (np.logaddexp(0, x).sum(), 1 / (1 + np.exp(-x))), n=n, L=0.25)
    quadratic = gt.Term(lambda x: (0.5 * x @ (A @ x), A @ x), n=n, L=1.0)
    quartic = gt.Term(lambda x: (0.25 * (x**4).sum(), x**3), n=n)
    for h, most in ((quadratic, 12), (quartic, 4)):
        problem = Known(h, ramp, np.zeros(n), 0.0).sum()
        run = states(ProximalQuasiNewton(tuning=few), problem, rng.standard_normal(n), 20)
        kept = [len(state.memory) for state in run]
        assert max(kept) == most, kept
