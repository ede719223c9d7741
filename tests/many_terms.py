"""Sums of more than two terms with known solution, shared by the tests."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import geartrain as gt
from composite import bare
from geartrain.methods.nested_sum import Rest, arranged
from geartrain.problem import norm
from geartrain.terms import Terms


class Nothing:
    """No psi."""

    def prox(self, u, alpha):
        return u

    def value(self, x):
        return 0.0

    def residual(self, x, d):
        return d


@dataclass(frozen=True)
class Many:
    """Terms in their order, the last one perhaps with a psi, and the minimiser of their sum."""

    terms: tuple
    x_star: np.ndarray
    psi: object = Nothing()
    residuals: bool = True  # whether the library can ask psi for them

    @property
    def h(self):
        return list(self.terms[:-1])

    @property
    def g(self):
        if isinstance(self.psi, Nothing):
            return self.terms[-1]
        return self.terms[-1] + (self.psi if self.residuals else bare(self.psi))

    @property
    def mu(self):
        return sum(t.mu for t in self.terms)

    @property
    def f_star(self):
        return self.f(self.x_star)

    def f(self, x):
        return sum(t.value(x) for t in self.terms) + self.psi.value(x)

    def grad(self, x):
        """Of the smooth terms."""
        return sum(t.grad(x) for t in self.terms)

    def sum(self):
        """The counted problem, as `minimize` makes it."""
        return Terms.of(self.h, self.g).problem(
            gt.geometry.EUCLIDEAN, self.x_star.size, *[None] * 3
        )

    def split(self, *levels):
        """The counted problem, level by level; one level per term if none are given."""
        problem = self.sum()
        names = tuple((oracle.name,) for oracle in problem.oracles)
        return arranged(problem, levels or names)


def train_of_quadratics(L=(1.0, 20.0, 400.0), mu=1e-2, n=30, seed=0, mu_in_all=False):
    """Quadratics that are badly conditioned in different directions of one eigenbasis.

    The strong convexity is that of the last term, or it is spread over all of them.
    """
    rng = np.random.default_rng(seed)
    k, block = len(L), n // len(L)
    U = np.linalg.qr(rng.standard_normal((n, n)))[0]
    x_star = rng.standard_normal(n)
    terms = []
    for i, top in enumerate(L):
        spectrum = np.zeros(n)
        spectrum[i * block : (i + 1) * block] = np.geomspace(mu, top, block)
        spectrum += mu / k if mu_in_all else (mu if i == k - 1 else 0.0)
        Q = (U * spectrum) @ U.T
        Q = 0.5 * (Q + Q.T)
        terms.append(gt.Quadratic(Q, b=Q @ x_star))
    return Many(tuple(terms), x_star)


def logistic_between(n=8, m=40, l2=0.02, seed=0):
    """A quadratic, a logistic and a badly conditioned quadratic term; the minimiser by Newton."""
    rng = np.random.default_rng(seed)
    B = rng.standard_normal((n, n)) / np.sqrt(n)
    A = 2.0 * rng.standard_normal((m, n))
    y = np.where(A @ rng.standard_normal(n) + rng.standard_normal(m) > 0, 1.0, -1.0)
    h1 = gt.Quadratic(0.1 * B @ B.T, b=0.1 * rng.standard_normal(n))
    h2 = gt.LinearModel(A, y, loss="logistic", l2=l2)
    g = gt.Quadratic(np.diag(np.geomspace(l2, 200.0, n)))
    x = np.zeros(n)
    for _ in range(50):
        p = 1 / (1 + np.exp(-(A @ x)))
        hessian = h1.Q + g.Q + (A.T * (p * (1 - p))) @ A / m + l2 * np.eye(n)
        x = x - np.linalg.solve(hessian, h1.grad(x) + h2.grad(x) + g.grad(x))
    return Many((h1, h2, g), x)


def with_psi(known, psi, residuals=True):
    """The same terms with psi; the minimiser by proximal gradient steps with momentum."""
    L = sum(t.L for t in known.terms)
    x = y = np.zeros(known.x_star.size)
    q = np.sqrt(known.mu / L)
    for _ in range(5_000):
        new = psi.prox(y - known.grad(y) / L, L)
        y = new + (1 - q) / (1 + q) * (new - x)
        if norm(new - x) <= 1e-16 * norm(x):
            break
        x = new
    return replace(known, x_star=new, psi=psi, residuals=residuals)


def certificate(problem, state, x):
    """The smooth part of s, and eps, of all levels below the first, from the bare terms."""
    s, eps = 0.0, 0.0
    while isinstance(problem.g, Rest):
        problem, state = problem.g.problem, state.below.level
        h, d = problem.h.term, x - state.y
        s = s + h.grad(state.y) + h.mu * d
        eps += 0.5 * (h.L - h.mu) * norm(d) ** 2
    return s + problem.g.term.grad(x), eps


def check_run(known, steps):
    """Everything that the theorem says about a run of AFB, recomputed from the bare terms."""
    problem, method, psi = known.split(), gt.methods.AFB(), known.psi
    (first, *rest), mu, f_star = known.terms, known.mu, known.f_star
    smooth = isinstance(psi, Nothing)
    x0 = psi.prox(np.linspace(-1.0, 1.0, known.x_star.size), 1.0)

    def potential(state):
        far = 0.5 * (1 + mu * state.A) * norm(state.z - known.x_star) ** 2
        return state.A * (known.f(state.x) - f_star) + far

    old = method.init(problem, x0)
    start = potential(old)
    for _ in range(steps):
        new = method.step(problem, old)
        s, eps = certificate(problem, new, new.x)
        np.testing.assert_allclose(new.grad_g, s, atol=1e-9 * (1 + norm(s)))
        assert new.eps == pytest.approx(eps, rel=1e-9, abs=1e-14)
        # w is a subgradient of psi at x, which is in the domain: prox(x + w, 1) = x.
        w = 0.0 * x0 if smooth else new.grad_psi
        if not smooth:
            assert norm(psi.prox(new.x + w, 1.0) - new.x) <= 1e-9 * (1 + norm(w))
        # (x, s + w, eps) is a true certificate of the levels below.
        mu_rest = sum(t.mu for t in rest)
        for u in (known.x_star, x0, old.x):
            below = (s + w) @ (u - new.x) - eps + 0.5 * mu_rest * norm(u - new.x) ** 2
            gap = sum(t.value(u) - t.value(new.x) for t in rest) + psi.value(u) - psi.value(new.x)
            assert gap >= below - (1e-10 if smooth else 1e-9) * (1 + abs(below))
        # The rule of line 2 with eps.
        assert (first.L - first.mu) * (1 - 1e-9) <= new.L
        lam = 1 / new.L
        eta = 0.75 * lam
        G = first.grad(new.y) - first.mu * new.y + s + w + first.mu * new.x
        e = G + (new.x - new.y) / lam
        left = lam**2 * (e @ e) + 2 * lam * (1 + mu * eta) * eps
        assert left <= 0.25 * lam**2 * (G @ G) * (1 + 1e-9) + 1e-18
        # Lines 1 and 3, the bound on the subgradient, and the potential.
        a = new.A - old.A
        assert a**2 * (1 + mu * eta) == pytest.approx(eta * new.A * (1 + mu * new.A), rel=1e-9)
        z = ((1 + mu * old.A) * old.z + a * mu * new.x - a * G) / (1 + mu * new.A)
        np.testing.assert_allclose(new.z, z, atol=1e-9)
        shortest = psi.residual(new.x, known.grad(new.x))
        assert norm(shortest) <= new.grad_bound * (1 + 1e-9) + 1e-12
        # With psi the reference solution is exact up to some 1e-13 of f.
        of_start, of_f = (1e-12, 1e-14) if smooth else (1e-11, 1e-12)
        rounding = of_start * start + of_f * new.A * (1 + abs(f_star))
        assert potential(new) <= potential(old) + rounding
        old = new
    assert known.f(new.x) - f_star < 1e-2 * (known.f(x0) - f_star)


MANY = {
    "three": train_of_quadratics,
    "four": lambda: train_of_quadratics((1.0, 5.0, 50.0, 300.0), n=32),
    "mu in all": lambda: train_of_quadratics(mu_in_all=True),
    "logistic": logistic_between,
}
