"""Sums of more than two terms with known solution, shared by the tests."""

from dataclasses import dataclass

import numpy as np

import geartrain as gt
from geartrain.methods.nested_sum import arranged
from geartrain.terms import Terms


@dataclass(frozen=True)
class Many:
    """Terms in their order, and the minimiser of their sum."""

    terms: tuple
    x_star: np.ndarray

    @property
    def h(self):
        return list(self.terms[:-1])

    @property
    def g(self):
        return self.terms[-1]

    @property
    def mu(self):
        return sum(t.mu for t in self.terms)

    @property
    def f_star(self):
        return self.f(self.x_star)

    def f(self, x):
        return sum(t.value(x) for t in self.terms)

    def grad(self, x):
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


MANY = {
    "three": train_of_quadratics,
    "four": lambda: train_of_quadratics((1.0, 5.0, 50.0, 300.0), n=32),
    "mu in all": lambda: train_of_quadratics(mu_in_all=True),
    "logistic": logistic_between,
}
