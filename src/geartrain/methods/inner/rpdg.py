r"""RPDG for phi with g = (1/m) sum_k g_k, the quadratic treated exactly.

==========  =================  ===========================================================
symbol      name               meaning
==========  =================  ===========================================================
x^t         ``v``              primal point, where the rule is tested
y_k         ``slopes``         kept gradient of summand k, a dual variable
x_k         ``points``         where it was taken
p_k         --                 1/(2 m) + L_k/(2 sum L), probability of summand k
mu          --                 alpha, and the ridge of a linear model
C           ``C``              8 L/mu with L = mean_k L_k
a           ``extrapolate``    1 - 1/(m + 1 + sqrt((m - 1)^2 + 4 m C)), rate per step
tau, eta    ``dual``, ``eta``  weights of the dual and the primal proximal term
==========  =================  ===========================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from geartrain.methods.inner.finite_sum import Sampling, finite_sum
from geartrain.methods.inner.primal_dual import Numbers, PrimalDualMethod
from geartrain.oracles.linear_model import LinearModel
from geartrain.oracles.protocols import Vector
from geartrain.problem import Model


# Paper: RPDG
@dataclass(frozen=True)
class RPDG(PrimalDualMethod):
    r"""Randomised primal-dual gradient method.

    Minimises phi(v) = <beta, v> + alpha/2 \|v\|^2 + (1/m) sum_k g_k(v).

    Algorithm, from x^0 = x^{-1} = x_k = v_0 and y_k = grad g_k(v_0), for t = 1, 2, ...::

        1. draw k with probability p_k;  x~ = x^{t-1} + a (x^{t-1} - x^{t-2})
        2. x_k+ = (x~ + tau x_k)/(1 + tau),  y_k+ = grad g_k(x_k+)
        3. x^t = argmin <beta + G~, v> + alpha/2 |v|^2 + eta/2 |v - x^{t-1}|^2 with
           G~ = (1/m) sum_j y_j + (y_k+ - y_k)/(m p_k)

    with tau = (sqrt((m - 1)^2 + 4 m C) - (m - 1))/(2 m), eta = mu (sqrt((m - 1)^2 + 4 m C) +
    m - 1)/2.

    Guarantee: E \|x^t - v*\|^2 <= (1 + 3 L_g/mu) a^t \|v_0 - v*\|^2 ([1]_, Corollary 1), so
    tau_g = sqrt(m L) in Assumption 4. One summand per step. A step of this object is a chunk of
    1/(1 - a) such steps and one gradient of g at x^t, where the rule is then tested.

    Notes
    -----
    Implements Algorithm 4 of [1]_, whose sum of f_k is the mean of g_k here. For a
    `geartrain.LinearModel` two numbers per summand are kept, for other terms two vectors.

    References
    ----------
    .. [1] G. Lan, Y. Zhou, An optimal randomized incremental gradient method, Math. Program. 171
       (2018), arXiv:1507.02000.
    """

    def plan(self, phi: Model) -> tuple[Sampling, Numbers]:
        terms = finite_sum(phi.g)
        mean = float(terms.L_k.mean())
        numbers = rpdg_numbers(phi.alpha + terms.strong, max(mean, 1e-100), terms.m)
        # Sampling by L_k + mean L gives p_k = 1/(2 m) + L_k/(2 sum L).
        return terms.sampling("importance", mean), numbers

    @staticmethod
    def dual_step(
        term: LinearModel,
        k: int,
        slopes: Vector,
        points: Vector,
        ahead: float,
        at_start: float,
        weight: float,
    ) -> float:
        """Line 2, where x_k matters by <a_k, x_k> only."""
        if np.isnan(points[k]):
            points[k] = at_start
        points[k] = (ahead + weight * points[k]) / (1.0 + weight)
        return float(term.loss.derivative(term.y[k], points[k]))


def rpdg_numbers(mu: float, L: float, m: int) -> Numbers:
    """Corollary 1 of the source: eta, tau and a."""
    C = 8.0 * L / mu
    root = math.sqrt((m - 1.0) ** 2 + 4.0 * m * C)
    # tau = (root - (m - 1))/(2 m), written without the difference
    tau = 2.0 * C / (root + m - 1.0)
    return Numbers(0.5 * mu * (root + m - 1.0), tau, 1.0 - 1.0 / (m + 1.0 + root))
