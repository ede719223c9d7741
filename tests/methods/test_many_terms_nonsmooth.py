"""More than two terms with a non-smooth part: certificates, potential, counts, planted errors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
import pytest

import geartrain as gt
from composite import bare
from geartrain.methods import afb, error_rule
from geartrain.methods.inner import composite_agm
from geartrain.methods.nested_sum import Rest, arranged
from geartrain.problem import norm
from geartrain.terms import Terms
from many_terms import Many, train_of_quadratics
from runs import NEVER, same

PRICES = {"h1.grad": 100.0, "h2.grad": 10.0, "g.grad": 1.0}
PSIS = {
    "l1": gt.L1(0.5),
    "box": gt.Box(-0.3, 0.4),
    "groups": gt.GroupL1(np.arange(30) // 3, 0.5),
    "simplex": gt.Simplex(1.0),
    "ball": gt.Ball(0.5),
}


@dataclass(frozen=True)
class ManyWithPsi:
    """Terms whose last one has a non-smooth part."""

    smooth: Many
    psi: object
    residuals: bool = True

    @property
    def g(self):
        return self.smooth.g + (self.psi if self.residuals else bare(self.psi))

    @cached_property
    def x_star(self):
        """By proximal gradient steps with momentum, written out here."""
        terms = self.smooth.terms
        L, mu = sum(t.L for t in terms), self.smooth.mu
        x = y = np.zeros(terms[0].n)
        q = np.sqrt(mu / L)
        for _ in range(5_000):
            new = self.psi.prox(y - self.smooth.grad(y) / L, L)
            y = new + (1 - q) / (1 + q) * (new - x)
            if norm(new - x) <= 1e-16 * norm(x):
                break
            x = new
        return new

    def f(self, x):
        return self.smooth.f(x) + self.psi.value(x)

    def split(self):
        problem = Terms.of(self.smooth.h, self.g).problem(
            gt.geometry.EUCLIDEAN, 30, None, None, None
        )
        return arranged(problem, tuple((oracle.name,) for oracle in problem.oracles))


@cache
def many(name, residuals=True, L=(1.0, 20.0, 400.0)):
    return ManyWithPsi(train_of_quadratics(L, mu=0.05), PSIS[name], residuals)


def certificate(problem, state, x):
    """The smooth part of s, and eps, of all levels below the first, from the bare terms."""
    s, eps = 0.0, 0.0
    while isinstance(problem.g, Rest):
        problem, state = problem.g.problem, state.below.level
        h, d = problem.h.term, x - state.y
        s = s + h.grad(state.y) + h.mu * d
        eps += 0.5 * (h.L - h.mu) * norm(d) ** 2
    return s + problem.g.term.grad(x), eps


def check_run(known, steps=16):
    """Everything that the theorem says about a run, recomputed from the bare terms."""
    problem, method = known.split(), gt.methods.AFB()
    first, *rest = known.smooth.terms
    x0 = known.psi.prox(np.linspace(-1.0, 1.0, 30), 1.0)
    x_star, mu = known.x_star, known.smooth.mu
    f_star = known.f(x_star)

    def potential(state):
        far = 0.5 * (1 + mu * state.A) * norm(state.z - x_star) ** 2
        return state.A * (known.f(state.x) - f_star) + far

    old = method.init(problem, x0)
    start = potential(old)
    for _ in range(steps):
        new = method.step(problem, old)
        s, eps = certificate(problem, new, new.x)
        np.testing.assert_allclose(new.grad_g, s, atol=1e-9 * (1 + norm(s)))
        assert new.eps == pytest.approx(eps, rel=1e-9, abs=1e-14)
        # w is a subgradient of psi at x, which is in the domain: prox(x + w, 1) = x.
        w = new.grad_psi
        assert norm(known.psi.prox(new.x + w, 1.0) - new.x) <= 1e-9 * (1 + norm(w))
        # (x, s + w, eps) is a true certificate of the levels below.
        mu_rest = sum(t.mu for t in rest)
        for u in (x_star, x0, old.x):
            below = (s + w) @ (u - new.x) - eps + 0.5 * mu_rest * norm(u - new.x) ** 2
            gap = sum(t.value(u) - t.value(new.x) for t in rest)
            gap += known.psi.value(u) - known.psi.value(new.x)
            assert gap >= below - 1e-9 * (1 + abs(below))
        # The rule of line 2 with eps, line 3, the bound on the subgradient, and the potential.
        lam = 1 / new.L
        eta = 0.75 * lam
        G = first.grad(new.y) - first.mu * new.y + s + w + first.mu * new.x
        e = G + (new.x - new.y) / lam
        left = lam**2 * (e @ e) + 2 * lam * (1 + mu * eta) * eps
        assert left <= 0.25 * lam**2 * (G @ G) * (1 + 1e-9) + 1e-18
        a = new.A - old.A
        z = ((1 + mu * old.A) * old.z + a * mu * new.x - a * G) / (1 + mu * new.A)
        np.testing.assert_allclose(new.z, z, atol=1e-9)
        shortest = known.psi.residual(new.x, known.smooth.grad(new.x))
        assert norm(shortest) <= new.grad_bound * (1 + 1e-9) + 1e-12
        # The reference solution is exact up to some 1e-13 of f.
        rounding = 1e-11 * start + 1e-12 * new.A * (1 + abs(f_star))
        assert potential(new) <= potential(old) + rounding
        old = new
    return old


@pytest.mark.parametrize(
    ("name", "residuals"), [("l1", True), ("l1", False), ("box", True), ("simplex", False)]
)
def test_what_the_theorem_says_holds_along_runs(name, residuals):
    known = many(name, residuals)
    end = check_run(known)
    x0 = known.psi.prox(np.linspace(-1.0, 1.0, 30), 1.0)
    assert known.f(end.x) - known.f(known.x_star) < 1e-2 * (known.f(x0) - known.f(known.x_star))


def test_it_holds_on_four_levels():
    check_run(many("l1", L=(1.0, 5.0, 50.0, 300.0)), 8)


def planted(name, monkeypatch):
    """An error in the method, by name."""
    step, inner, solve = afb.Gear.step, composite_agm._proximal_step, afb.solve_model
    if name == "eps dropped":
        monkeypatch.setattr(
            afb.Gear, "step", lambda self, phi, state: replace(step(self, phi, state), eps=0.0)
        )
    elif name == "w of the point before":

        def wrong(phi, L_g, y, grad_y, before, theta, share):
            after = inner(phi, L_g, y, grad_y, before, theta, share)
            d, M = phi.grad(y, grad_y), L_g + phi.alpha
            return replace(after, grad_psi=M * (y - before) - d)

        monkeypatch.setattr(composite_agm, "_proximal_step", wrong)
    elif name == "w left out of the step of z":
        monkeypatch.setattr(
            afb, "solve_model", lambda *a, **k: replace(solve(*a, **k), grad_psi=None)
        )
    elif name == "w of twice its size":

        def twice(*args, **more):
            run = solve(*args, **more)
            return replace(run, grad_psi=2.0 * run.grad_psi)

        monkeypatch.setattr(afb, "solve_model", twice)
    elif name == "a level is left without a look at psi":
        call = error_rule.ErrorRule.__call__

        def blind(self, v, s, grad_phi, eps=0.0):
            return call(replace(self, has_psi=False), v, s, self.beta + self.alpha * v + s, eps)

        monkeypatch.setattr(error_rule.ErrorRule, "__call__", blind)


@pytest.mark.parametrize(
    ("name", "psi"),
    [
        ("eps dropped", "box"),
        ("w of the point before", "box"),
        ("w left out of the step of z", "l1"),
        ("w of twice its size", "box"),
        ("a level is left without a look at psi", "l1"),
    ],
)
def test_a_planted_error_is_found(name, psi, monkeypatch):
    known = many(psi, residuals=name != "w of the point before")
    planted(name, monkeypatch)
    with pytest.raises((AssertionError, TypeError)):
        check_run(known)


def recorded(term, seen):
    """`term`, which writes down where its gradient is asked for."""

    def grad(x):
        seen.append(x.tobytes())
        return term.grad(x)

    return gt.Term(grad=grad, value=term.value, n=term.n, L=term.L, mu=term.mu)


def test_nothing_is_asked_twice():
    known, asked = many("box"), ([], [], [])
    h1, h2, g = (recorded(t, seen) for t, seen in zip(known.smooth.terms, asked, strict=True))
    res = gt.minimize([h1, h2], g + known.psi, method="afb", stop=NEVER, max_iter=12)
    assert res.calls["h1.grad"] == 12
    for name, points in zip(("h1", "h2", "g"), asked, strict=True):
        assert res.calls[f"{name}.grad"] == len(points) == len(set(points))
    # Every step of the last level is one proximal step, and not all of them settle their guess.
    assert res.calls["h2.grad"] < res.calls["g.prox"] <= res.calls["g.grad"]


def test_without_a_smooth_g_the_last_level_is_one_proximal_step():
    known = many("l1")
    res = gt.minimize(known.smooth.h, known.psi, method="afb", prices={"h1.grad": 100.0}, tol=1e-6)
    assert res.success and res.plan.startswith("h1 > h2 > g")
    assert res.calls["g.grad"] == 0
    # One step per iteration of the second level; h2 is asked where a run of it starts, too.
    assert res.calls["h1.grad"] < res.calls["g.prox"] <= res.calls["h2.grad"]


@pytest.mark.parametrize(
    ("method", "prices"), [("auto", None), ("auto", PRICES), ("afb", None), ("fgm", None)]
)
def test_the_answer_is_that_of_two_terms(pair, method, prices):
    h, g = [pair[0], gt.Quadratic(np.eye(12), np.ones(12))], pair[1] + gt.L1(0.1)
    res = gt.minimize(h, g, method=method, prices=prices, tol=1e-9)
    want = gt.minimize(h[0] + h[1], g, method="afb", tol=1e-9)
    assert res.success and want.success
    np.testing.assert_allclose(res.x, want.x, atol=1e-7)
    np.testing.assert_array_equal(res.x == 0.0, want.x == 0.0)


@pytest.mark.parametrize("inner", ["proxqn", "approx", "katyusha"])
def test_any_inner_method_for_psi_serves_the_last_level(inner):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((40, 6))
    g = gt.LinearModel(A, np.sign(A[:, 0] + 0.1), l2=0.05) + gt.L1(0.05)
    if inner == "approx":
        g = gt.Quadratic(np.diag(np.geomspace(0.1, 10.0, 6)), np.ones(6)) + gt.L1(0.05)
    h = [gt.Quadratic(0.1 * np.eye(6), np.ones(6)), gt.Quadratic(np.diag(np.geomspace(0.1, 1, 6)))]
    res = gt.minimize(h, g, method="afb", inner=inner, tol=1e-4)
    want = gt.minimize(h[0] + h[1], g, method="afb", tol=1e-8)
    assert res.success and res.calls["h1.grad"] <= res.calls["h2.grad"]
    assert norm(res.x - want.x) <= (res.grad_norm + want.grad_norm) / 0.1


def test_auto_has_as_many_levels_as_without_psi():
    known = many("l1")
    res = gt.minimize(known.smooth.h, known.g, prices=PRICES | {"h1.grad": 1e4}, tol=1e-6)
    assert res.success and res.plan == ("h1 > h2 > g: pqn on every level, by prices and constants")


def test_auto_measures(clock):
    known, (h1, h2, _) = many("l1"), many("l1").smooth.terms

    def slow(x):
        clock.pass_(1.0)
        return h1.value(x), h1.grad(x)

    h = {"fast": h2, "slow": gt.Term(value_and_grad=slow, n=30)}
    res = gt.minimize(h, known.g, tol=1e-6)
    assert res.success and res.plan.startswith("slow > fast + g: pqn, fast + g merged")
    # mu |x - x*| is at most the norm of the shortest subgradient.
    assert norm(res.x - known.x_star) <= res.grad_norm / known.smooth.mu * (1 + 1e-6)


@pytest.mark.parametrize("method", ["auto", "afb"])
def test_a_resumed_run_is_the_uninterrupted_one(tmp_path, method):
    known, path = many("box"), tmp_path / "run.gtck"
    options = {"method": method, "prices": PRICES, "stop": NEVER}
    whole = gt.minimize(known.smooth.h, known.g, max_iter=8, **options)
    gt.minimize(known.smooth.h, known.g, max_iter=3, checkpoint=path, **options)
    same(whole, gt.resume(path, known.smooth.h, known.g, max_iter=5))


def test_what_is_not_made_for_it_says_so():
    known = many("l1")
    method = gt.methods.Train((("h1",), ("h2", "g")), gt.methods.AEG())
    with pytest.raises(ValueError, match=r"AEG is not made for a non-smooth .* method='afb'"):
        gt.minimize(known.smooth.h, known.g, method=method)
    with pytest.raises(TypeError, match=r"LBFGS is not made for a non-smooth term.*inner='agm'"):
        gt.minimize(known.smooth.h, known.g, method="afb", inner="lbfgs")
