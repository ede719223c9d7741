r"""SPDC for phi with g the mean loss of a linear model, the quadratic treated exactly.

==========  ================  ===========================================================
symbol      name              meaning
==========  ================  ===========================================================
x^t         ``v``             primal point, where the rule is tested
s_k         ``slopes``        dual variable of loss k
lambda      --                alpha, and the ridge of the model
1/gamma     --                largest curvature of the loss
R           --                largest norm of a row, R^2/gamma = max_k L_k
tau, sigma  1/``eta``,        primal and dual step, sqrt(gamma/(m lambda))/(2 R) and
            1/``dual``        sqrt(m lambda/gamma)/(2 R)
theta       ``extrapolate``   1 - 1/(m + R sqrt(m/(lambda gamma))), rate per step
==========  ================  ===========================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from geartrain.methods.inner.finite_sum import Sampling
from geartrain.methods.inner.primal_dual import (
    Numbers,
    PrimalDualMethod,
    PrimalDualState,
    dual_step,
    need_linear,
)
from geartrain.oracles.linear_model import LinearModel
from geartrain.oracles.protocols import Vector
from geartrain.problem import Model


# Paper: SPDC
@dataclass(frozen=True)
class SPDC(PrimalDualMethod):
    r"""Stochastic primal-dual coordinate method.

    Minimises phi(v) = <beta, v> + alpha/2 \|v\|^2 + (1/m) sum_k loss_k(<a_k, v>).

    Algorithm, from x^0 = x^{-1} = v_0 and s_k = loss_k'(<a_k, v_0>), for t = 1, 2, ...::

        1. draw k uniformly;  x~ = x^{t-1} + theta (x^{t-1} - x^{t-2})
        2. s_k+ = argmax s <a_k, x~> - loss_k^*(s) - (s - s_k)^2/(2 sigma)
        3. x^t = argmin <beta + u + (s_k+ - s_k) a_k, v> + alpha/2 |v|^2 +
           |v - x^{t-1}|^2/(2 tau) with u = (1/m) sum_j s_j a_j

    Guarantee: E[(1/(2 tau) + lambda) \|x^t - v*\|^2 + (1/(4 sigma) + gamma) \|s - s*\|^2] <=
    theta^t [(1/(2 tau) + lambda) \|x^0 - v*\|^2 + (1/(2 sigma) + gamma) \|s^0 - s*\|^2] (Theorem 1
    of [1]_), so tau_g = sqrt(m L) in Assumption 4. One summand per step. A step of this object is a
    chunk of 1/(1 - theta) such steps and one gradient of g at x^t, where the rule is then tested.

    Notes
    -----
    Implements Algorithm 1 of [1]_ with batches of one. Line 2 is a proximal step of one loss, the
    root of a scalar equation, and counts as one summand; it is known for the losses of
    `geartrain.LinearModel` only. `geartrain.inner.RPDG` is the same method with gradients in its
    place.

    References
    ----------
    .. [1] Y. Zhang, L. Xiao, Stochastic primal-dual coordinate method for regularized empirical
       risk minimization, JMLR 18 (2017).
    """

    def init(
        self, phi: Model, v0: Vector, grad_g0: Vector | None, warm: Any = None
    ) -> PrimalDualState:
        need_linear(phi, "SPDC")
        return super().init(phi, v0, grad_g0)

    def plan(self, phi: Model) -> tuple[Sampling, Numbers]:
        terms = need_linear(phi, "SPDC")
        draw, gamma = terms.sampling("uniform"), 1.0 / terms.term.loss.curvature
        return draw, spdc_numbers(phi.alpha + terms.strong, gamma, draw.L, terms.m)

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
        """Line 2, with the weight 1/sigma."""
        return dual_step(term.loss, term.y[k], weight, ahead + weight * slopes[k])


def spdc_numbers(lam: float, gamma: float, L: float, m: int) -> Numbers:
    """Theorem 1 of the source with batches of one; L = R^2/gamma."""
    R = math.sqrt(L * gamma)
    tau = math.sqrt(gamma / (m * lam)) / (2.0 * R)
    sigma = math.sqrt(m * lam / gamma) / (2.0 * R)
    theta = 1.0 - 1.0 / (m + R * math.sqrt(m / (lam * gamma)))
    return Numbers(1.0 / tau, 1.0 / sigma, theta)
