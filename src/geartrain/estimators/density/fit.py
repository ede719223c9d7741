r"""A log-density on [0, 1] with a Gaussian prior: the problem labelled bayes in the paper.

=======  ==============  ====================================================================
symbol   name            meaning
=======  ==============  ====================================================================
a_i(u)   `cosines`       sqrt(2) cos(pi i u), i = 1, ..., n
A        ``A``           their values at the p midpoints of [0, 1], the support
m        ``m``           number of observations
a        ``mean``        mean of the basis functions over the observations
c(x)     ``c``           ln(1/p sum_k exp(<A_k, x>)), the normalisation
pi       ``pi``          the probability of a point of the support, exp(A x - c(x))/p
P        ``precision``   of the prior, diagonal: strength times i^POWER
H        ``factor``      m (A' diag(pi) A - (A'pi)(A'pi)') + P
=======  ==============  ====================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev
from scipy import linalg, special

from geartrain.compiled.records import Array
from geartrain.minimize import minimize
from geartrain.oracles.log_sum_exp import LogSumExp
from geartrain.oracles.quadratic import Quadratic

POWER = 3  # of i in the precision of the prior
AT_MODE = 1e-3  # posterior standard deviations from the mode at which a stalled fit is good
ROUNDING = 1e-14  # of the largest diagonal entry of H: what a Cholesky factorisation loses
METRICS = 5  # in which a fit is tried at most, each that of the point where the last one ended


def cosines(u: Array, n: int) -> Array:
    """The basis at the points u, (u.size, n)."""
    return np.sqrt(2.0) * np.cos(np.pi * np.multiply.outer(u, np.arange(1, n + 1)))


@dataclass(frozen=True)
class DensityFit:
    """The maximiser x of the posterior, with what follows from it."""

    A: Array
    mean: Array
    m: float
    strength: float
    x: Array
    calls: dict[str, int]
    success: bool = True
    message: str = ""

    @property
    def precision(self) -> Array:
        return self.strength * np.arange(1.0, self.x.size + 1.0) ** POWER

    @cached_property
    def c(self) -> float:
        return float(special.logsumexp(self.A @ self.x) - np.log(len(self.A)))

    @cached_property
    def pi(self) -> Array:
        return np.exp(self.A @ self.x - self.c) / len(self.A)

    @cached_property
    def expected(self) -> Array:
        """A'pi, the gradient of c."""
        return self.A.T @ self.pi

    @cached_property
    def factor(self) -> Array:
        """R with R'R = H/m, upper triangular; the posterior is about N(x, H^{-1})."""
        root = np.sqrt(self.pi)[:, None] * (self.A - self.expected)
        H = root.T @ root
        H.flat[:: self.x.size + 1] += self.precision / self.m + ROUNDING * H.diagonal().max()
        return linalg.cholesky(H)

    def log_density(self, u: Array) -> Array:
        """ln d(u): cosines are Chebyshev polynomials of cos(pi u)."""
        series = np.concatenate([[0.0], self.x])
        return np.sqrt(2.0) * chebyshev.chebval(np.cos(np.pi * u), series) - self.c

    def variance(self, u: Array) -> Array:
        """Of ln d(u): v'H^{-1}v for v = a(u) - A'pi."""
        parts = np.array_split(u, u.size // 4096 + 1)
        rows = (cosines(part, self.x.size) - self.expected for part in parts)
        half = (linalg.solve_triangular(self.factor, v.T, trans="T") for v in rows)
        return np.concatenate([(part * part).sum(axis=0) for part in half]) / self.m

    def distance(self) -> float:
        """Distance to the mode in standard deviations of the posterior, by one Newton step.

        It is sqrt(r'H^{-1}r) for the gradient r of the negative log-posterior at x.
        """
        r = self.expected - self.mean + self.precision / self.m * self.x
        half = linalg.solve_triangular(self.factor, r, trans="T")
        return float(np.sqrt(self.m) * np.linalg.norm(half))

    @cached_property
    def log_evidence(self) -> float:
        """Logarithm of the likelihood's mean over the prior, by Laplace's method."""
        likelihood = self.m * (self.mean @ self.x - self.c)
        prior = 0.5 * (np.log(self.precision / self.m).sum() - self.precision @ self.x**2)
        return float(likelihood + prior - np.log(self.factor.diagonal()).sum())


def fit_density(
    A: Array, mean: Array, m: float, strength: float, x: Array, tol: float
) -> DensityFit:
    """Minimise ln sum_k exp(<A_k, x>) - <a, x> + 1/(2m) x'Px, from x.

    With R'R = H/m at the start, L-BFGS runs in R x, where the problem is well conditioned near the
    start; where it does not arrive, it goes on in the metric of the point that it has reached.
    """
    fit = DensityFit(A, mean, m, strength, x, {}, success=False)
    for _ in range(METRICS):
        T = linalg.solve_triangular(fit.factor, np.eye(x.size))
        root = np.sqrt(fit.precision / m)[:, None] * T
        h, g = LogSumExp(A @ T, T.T @ mean), Quadratic(root.T @ root)
        # L-BFGS asks for no constants: those given only spare their computation.
        known: Any = {"L_h": 1.0, "L_g": 1.0, "mu": 0.0}
        run = minimize(h, g, fit.factor @ fit.x, method="lbfgs", tol=tol, max_iter=500, **known)
        calls = {kind: fit.calls.get(kind, 0) + int(k) for kind, k in run.calls.items()}
        fit = DensityFit(A, mean, m, strength, T @ run.x, calls, bool(run.success), run.message)
        # The values of f have 16 digits, so that its gradient may stall at 8. That is no failure
        # where the mode is as near as anybody can ask.
        if fit.success or fit.distance() <= AT_MODE:
            return replace(fit, success=True)
    return fit
