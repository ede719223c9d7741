"""AFB on more than two terms: certificates, potential, counts, and errors that are planted."""

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import geartrain as gt
from geartrain.geometry import EUCLIDEAN
from geartrain.methods import afb
from geartrain.methods.afb import ErrorRule, Lengths
from geartrain.problem import Model, norm
from many_terms import MANY, check_run, train_of_quadratics
from problems import states


@pytest.fixture(params=MANY)
def known(request):
    return MANY[request.param]()


def test_what_the_theorem_says_holds_along_runs(known):
    check_run(known, 25)


def gear(**changes):
    """An error in what a level hands to the one above."""

    def plant(monkeypatch, step=afb.Gear.step):
        def wrong(self, phi, state):
            after = step(self, phi, state)
            return replace(after, **{k: change(after) for k, change in changes.items()})

        monkeypatch.setattr(afb.Gear, "step", wrong)

    return plant


def slack_dropped(monkeypatch, iterate=afb.AFB.iterate):
    def wrong(self, problem, state, above):
        new = iterate(self, problem, state, above)
        return replace(new, grad_bound=1e-3 * new.grad_bound)

    gear(slack=lambda s: 0.0)(monkeypatch)
    monkeypatch.setattr(afb.AFB, "iterate", wrong)


def z_pushed_twice(monkeypatch, weights=afb.weights):
    def twice(A, eta, mu):
        w = weights(A, eta, mu)
        return replace(w, push=2 * w.push)

    monkeypatch.setattr(afb, "weights", twice)


def rule_of_the_level_above_not_tested(monkeypatch, solve=afb.solve_model):
    def loose(inner, phi, v0, accept, **more):
        return solve(inner, phi, v0, lambda *args: True, **more)

    monkeypatch.setattr(afb, "solve_model", loose)


PLANTED = {
    "eps dropped": gear(eps=lambda s: 0.0),
    "eps of half the size": gear(eps=lambda s: 0.5 * s.eps),
    "s without the term of its level": gear(grad_g=lambda s: s.level.grad_g),
    "slack dropped": slack_dropped,
    "z pushed twice": z_pushed_twice,
    "step too long": lambda m: m.setattr(afb, "_smooth", lambda L, mu: 0.5 * (L - mu)),
    "rule of the level above not tested": rule_of_the_level_above_not_tested,
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_error_is_found(name, monkeypatch):
    PLANTED[name](monkeypatch)
    with pytest.raises(AssertionError):
        check_run(train_of_quadratics(), 25)


@pytest.mark.parametrize("size", [0.0, 1e6])
def test_what_a_level_hands_to_the_rule_of_the_level_above(size):
    """s + grad h(y) + mu_h (v - y), the (sub)gradient of the model above with it, and the error."""
    rng = np.random.default_rng(8)
    beta, y, grad_h, s, v, far = rng.standard_normal((6, 6))
    mu_h, smooth, lam, eps, w = 0.7, 2.0, 0.1, 0.03, size * far  # w is in dpsi(v)
    heard = []

    def accept(*args):
        heard.append(args)
        return True

    psi = SimpleNamespace(residual=lambda v, grad, w: grad + w) if size else None
    above = Model(None, beta, 1.5, accept=accept, psi=psi)
    lengths = Lengths(mu_h, mu_h + above.alpha, mu_h, smooth, lam, 0.75 * lam, 0.0)
    rule = ErrorRule(0.5, lengths, y, grad_h - mu_h * y, EUCLIDEAN, above, has_psi=bool(size))
    off = w if size else 1e6 * far  # far from its own rule
    assert rule(v, s, rule.beta + rule.alpha * v + s + off, eps)
    ((at, total, gradient, error),) = heard
    expected = s + grad_h + mu_h * (v - y)
    np.testing.assert_array_equal(at, v)
    np.testing.assert_allclose(total, expected, atol=1e-14)
    np.testing.assert_allclose(gradient, beta + 1.5 * v + expected + w, rtol=1e-12, atol=1e-13)
    assert error == pytest.approx(eps + 0.5 * smooth * norm(v - y) ** 2)


# Counts and the parts of the recursion -------------------------------------------------------


def recorded(monkeypatch):
    """Every inner run as (splits, steps), in the order in which the runs end."""
    runs, solve = [], afb.solve_model

    def solving(inner, *args, **more):
        run = solve(inner, *args, **more)
        runs.append((isinstance(inner, afb.Gear), run.steps))
        return run

    monkeypatch.setattr(afb, "solve_model", solving)
    return runs


def test_nothing_is_asked_twice(monkeypatch):
    """A level asks its term once per step, and once where a run starts at a new point."""
    known = train_of_quadratics()
    runs = recorded(monkeypatch)
    problem = known.split()
    states(gt.methods.AFB(), problem, np.ones(30), 12)
    calls = problem.ledger.calls
    gears = [steps for splits, steps in runs if splits]
    assert len(gears) == 12 and calls["h1.grad"] == 12
    assert calls["h2.grad"] == sum(max(steps, 1) for steps in gears)
    # A run of the last level knows its first gradient if it is the first one of its gear.
    inner = sum(steps for splits, steps in runs if not splits)
    assert calls["g.grad"] == inner + sum(max(steps, 1) for steps in gears)
    assert all(n == 0 for key, n in calls.items() if not key.endswith(".grad"))


def test_merged_terms_are_counted_apart():
    known = train_of_quadratics()
    problem = known.split(("h1", "h2"), ("g",))
    states(gt.methods.AFB(), problem, np.ones(30), 7)
    assert problem.ledger.calls["h1.grad"] == problem.ledger.calls["h2.grad"] == 7
    assert problem.ledger.calls["g.grad"] > 7


def literal(terms, L, mu, x0, steps, zeta=0.5):
    """The recursion, written down plainly: outputs x_k of the first level, and calls per term."""
    calls = [0] * len(terms)
    outputs = []

    def ask(i, v):
        calls[i] += 1
        return terms[i].grad(v)

    def minimise(i, beta, alpha, v0, enough, most=None):
        if i == len(terms) - 1:
            return agm(i, beta, alpha, v0, enough)
        lam = 1 / L[i]
        eta = (1 - zeta**2) * lam
        m = alpha + mu
        x = z = v0
        A, d = 0.0, None
        for _ in itertools.count() if most is None else range(most):
            a = 0.5 * (
                eta + 2 * A * m * eta + np.sqrt(eta**2 + 4 * eta * A * (1 + m * eta) * (1 + m * A))
            )
            theta = a * (1 + m * A) * (1 + m * eta) / ((A + a) * (1 + m * (A + a)))
            y = x + theta * (z - x)
            own = ask(i, y)

            def good(v, s, eps, y=y, own=own):
                G = beta + alpha * v + own + s
                e = G + (v - y) / lam
                spare = 0.0 if i == 0 else m * lam * (1 - eta * L[i])
                left = lam**2 * (e @ e) + 2 * lam * (1 + m * eta) * eps
                if left <= zeta**2 * lam**2 * (G @ G) + spare * (v - y) @ (v - y):
                    return True
                return enough(v, s + own, eps + 0.5 * L[i] * (v - y) @ (v - y))

            start = y if d is None else y + d
            v, s, eps = minimise(i + 1, beta + own - y / lam, alpha + 1 / lam, start, good)
            G = beta + alpha * v + own + s
            z = ((1 + m * A) * z + a * m * v - a * G) / (1 + m * (A + a))
            x, A, d = v, A + a, v - y
            s, eps = s + own, eps + 0.5 * L[i] * (v - y) @ (v - y)
            if i == 0:
                outputs.append(x)
            if enough(v, s, eps):
                break
        return v, s, eps

    def agm(i, beta, alpha, v0, enough):
        x, v, theta = v0, v0, 1.0
        q = (alpha + mu) / (L[i] + alpha)
        while True:
            s = ask(i, v)
            if enough(v, s, 0.0):
                return v, s, 0.0
            after = v - (beta + alpha * v + s) / (L[i] + alpha)
            b = q - theta**2
            following = 0.5 * (b + np.sqrt(b**2 + 4 * theta**2))
            v = after + theta * (1 - theta) / (theta**2 + following) * (after - x)
            x, theta = after, following

    minimise(0, np.zeros_like(x0), 0.0, x0, lambda v, s, eps: False, steps)
    return outputs, calls


@pytest.mark.parametrize("L", [(3.0, 1.0, 50.0), (1.0, 5.0, 50.0, 300.0)])
def test_the_recursion_is_the_literal_one(L):
    known = train_of_quadratics(L, n=32)
    x0 = np.linspace(-1.0, 1.0, 32)
    constants = [t.L for t in known.terms]
    outputs, calls = literal(known.terms, constants, known.mu, x0, 6)
    problem = known.split()
    run = states(gt.methods.AFB(), problem, x0, 6)
    for state, x in zip(run[1:], outputs, strict=True):
        np.testing.assert_allclose(state.x, x, atol=1e-8)
    names = [oracle.name for oracle in known.sum().oracles]
    assert [problem.ledger.calls[f"{name}.grad"] for name in names] == calls


@pytest.mark.parametrize("inner", ["katyusha", "spdc"])
def test_a_finite_sum_on_the_last_level(inner):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((40, 6))
    g = gt.LinearModel(A, np.sign(A[:, 0] + 0.1), l2=0.05)
    h = [gt.Quadratic(0.1 * np.eye(6), np.ones(6)), gt.Quadratic(np.diag(np.geomspace(0.1, 1, 6)))]
    res = gt.minimize(h, g, method="afb", inner=inner, tol=1e-4)
    assert res.success and res.calls["g.component"] > 0
    assert res.calls["h1.grad"] < res.calls["h2.grad"]


def test_unknown_strong_convexity_restarts_the_first_level():
    rng = np.random.default_rng(3)
    terms = []
    for scale in (1.0, 10.0, 100.0):
        A = rng.standard_normal((5, 20)) * np.sqrt(scale / 20)
        terms.append(gt.LinearModel(A, A @ np.ones(20), loss="squared"))
    assert sum(t.mu for t in terms) == 0.0
    res = gt.minimize(terms[:-1], terms[-1], method="afb", tol=1e-7)
    assert res.success and isinstance(res.state.method.method, gt.methods.Restarted)


def test_a_constant_that_is_too_small_is_raised_and_told():
    """The certificate is void then, and the run still gets there."""
    known = train_of_quadratics(mu=0.1)
    res = gt.minimize(known.h, known.g, method="afb", tol=1e-6, L_h=[1.0, 4.0])
    assert res.success and "h2 shows curvature" in str(res.history.notes)
    assert not res.state.state.sound
    right = gt.minimize(known.h, known.g, method="afb", tol=1e-6)
    assert right.state.state.sound and not right.history.notes


def potential(known, state):
    gap = known.f(state.x) - known.f_star
    return state.A * gap + 0.5 * (1 + known.mu * state.A) * norm(state.z - known.x_star) ** 2


class Adversary:
    """In place of the inner run: the point on the boundary of the rule that is worst for z and x.

    It states an error by linearising h2 at a point beside v, as an inner level does.
    """

    def __init__(self, known, rng, honest):
        self.known, self.rng, self.honest = known, rng, honest

    def certificate(self, v, w):
        _, h2, g = self.known.terms
        smooth = h2.L - h2.mu
        y = v + w
        s = h2.grad(y) - h2.mu * w + g.grad(v)
        return s, 0.5 * smooth * (w @ w)

    def __call__(self, inner, phi, v0, accept, **more):
        rng, n = self.rng, v0.size
        _, h2, g = self.known.terms
        exact = np.linalg.solve(h2.Q + g.Q + phi.alpha * np.eye(n), h2.b + g.b - phi.beta)
        found = []
        for _ in range(9):
            u = rng.standard_normal(n) * rng.integers(0, 2, n)
            if rng.random() < 0.4:
                u = rng.choice([-1.0, 1.0]) * (exact - self.known.x_star)
            u = u / (norm(u) + 1e-300)
            w = rng.standard_normal(n) / np.sqrt(n) * rng.choice([0.0, 0.3, 1.0, 3.0])
            if rng.random() < 0.4:
                w = rng.choice([-3.0, 3.0]) * np.linalg.eigh(h2.Q)[1][:, -1]

            def met(r, u=u, w=w):
                v = exact + r * u
                s, eps = self.certificate(v, r * w)
                return accept(v, s, phi.grad(v, s), eps if self.honest else 0.0)

            low, high = 0.0, 1e-9 + 1e-6 * norm(v0)
            while met(high) and high < 1e3:
                low, high = high, 2 * high
            for _ in range(30):
                middle = 0.5 * (low + high)
                low, high = (middle, high) if met(middle) else (low, middle)
            found.append((exact + low * u, *self.certificate(exact + low * u, low * w)))
        return found


def worst_ratio(honest, seed, steps=25):
    """The largest growth of the potential in one iteration, over errors that the rule allows."""
    known = train_of_quadratics((1.0, 10.0, 1.0), mu=0.1, n=12, seed=seed)
    problem, method = known.split(), gt.methods.AFB(zeta=0.9)
    adversary = Adversary(known, np.random.default_rng(seed), honest)
    ratios = []

    def worst(inner, phi, v0, accept, **more):
        best = None
        for v, s, eps in adversary(inner, phi, v0, accept):
            level = replace(state.below.level, note="", sound=True)
            gear = afb.GearState(v, s, eps, 0.0, level)
            run = afb_run(v, s, gear)
            new = replay(run)
            ratio = potential(known, new) / potential(known, state)
            if best is None or ratio > best[0]:
                best = ratio, run
        ratios.append(best[0])
        return best[1]

    def afb_run(v, s, gear):
        from geartrain.core.loop import InnerRun

        return InnerRun(v, s, 0.0, 1, True, False, gear)

    def replay(run):
        return with_inner(lambda *args, **more: run)

    def with_inner(solve):
        original, afb.solve_model = afb.solve_model, solve
        try:
            return method.step(problem, state)
        finally:
            afb.solve_model = original

    state = method.init(problem, np.zeros(12))
    for _ in range(steps):
        state = with_inner(worst)
        if known.f(state.x) - known.f_star < 1e-13:
            break
    return max(ratios)


@pytest.mark.parametrize("seed", range(2))
def test_the_potential_never_grows_whatever_the_rule_allows(seed):
    assert worst_ratio(True, seed) <= 1 + 1e-9


def test_without_eps_in_the_rule_the_potential_grows():
    assert any(worst_ratio(False, seed) > 1.01 for seed in range(3))
