"""Small problems with known solution, shared by the tests."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

import geartrain as gt
from geartrain.oracles.ledger import Ledger, Oracle
from geartrain.oracles.protocols import Asked
from geartrain.oracles.splitting import Psi
from geartrain.problem import Constant, Sum


@dataclass(frozen=True)
class Known:
    """h, g, the minimiser of h + g, and constants of the sum."""

    h: object
    g: object
    x_star: np.ndarray
    mu: float

    @cached_property
    def f_star(self):
        return self.f(self.x_star)

    def f(self, x):
        return Asked(self.h).value(x) + Asked(self.g).value(x)

    def grad(self, x):
        return Asked(self.h).grad(x) + Asked(self.g).grad(x)

    def sum(self, psi=None, **constants):
        """A counted problem with a ledger of its own."""
        ledger = Ledger()
        n = self.x_star.size
        L_h = constants.get("L_h", self.h.L)
        L_g = constants.get("L_g", self.g.L)
        return Sum(
            Oracle(self.h, "h", ledger, n),
            Oracle(self.g, "g", ledger, n),
            Constant(L_h, "given"),
            Constant(L_g, "given"),
            Constant(constants.get("mu", self.mu), "given"),
            seed=constants.get("seed", 0),
            psi=None if psi is None else Psi(psi, 1.0, "g", ledger, n),
        )


def quadratics(L_h=1.0, L_g=100.0, mu=1e-2, n=24, seed=0):
    """Quadratics that are badly conditioned in different directions."""
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.standard_normal((n, n)))[0]
    half = n // 2
    spectrum_h = np.full(n, mu / 2)
    spectrum_g = np.full(n, mu / 2)
    spectrum_h[:half] = np.geomspace(mu / 2, L_h, half)
    spectrum_g[half:] = np.geomspace(mu / 2, L_g, n - half)
    H, G = (U * spectrum_h) @ U.T, (U * spectrum_g) @ U.T
    H, G = (H + H.T) / 2, (G + G.T) / 2
    x_star = rng.standard_normal(n)
    total = H @ x_star + G @ x_star
    split = rng.standard_normal(n)
    return Known(gt.Quadratic(H, b=total + split), gt.Quadratic(G, b=-split), x_star, mu)


def logistic(n=10, m=60, l2=1e-2, seed=0):
    """Quadratic h, logistic g; the minimiser by Newton's method to rounding."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((m, n)) * np.geomspace(0.3, 3.0, n)
    y = np.where(A @ rng.standard_normal(n) + rng.standard_normal(m) > 0, 1.0, -1.0)
    B = rng.standard_normal((n, n)) / np.sqrt(n)
    h = gt.Quadratic(0.2 * B @ B.T, b=0.1 * rng.standard_normal(n))
    g = gt.LinearModel(A, y, loss="logistic", l2=l2)
    x = np.zeros(n)
    for _ in range(50):
        p = 1 / (1 + np.exp(-(A @ x)))
        hessian = h.Q + (A.T * (p * (1 - p))) @ A / m + l2 * np.eye(n)
        x = x - np.linalg.solve(hessian, h.grad(x) + g.grad(x))
    return Known(h, g, x, l2)


PROBLEMS = {
    "quadratic": (quadratics, np.linspace(-1.0, 1.0, 24)),
    "logistic": (logistic, np.linspace(-1.0, 1.0, 10)),
}


def states(method, problem, x0, steps=30):
    """The states of a run, the first one included."""
    out = [method.init(problem, x0)]
    for _ in range(steps):
        out.append(method.step(problem, out[-1]))
    return out
