r"""Accelerated gradient method for phi, the quadratic taken as composite term.

======  ============  ==================================================
symbol  name          meaning
======  ============  ==================================================
x       ``x``         main sequence
v       ``v``         extrapolated point; the gradient is known here
q       ``q``         (alpha + mu_g)/(L_g + alpha), inverse condition number
======  ============  ==================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from geartrain.methods.base import ceiling
from geartrain.methods.momentum import next_theta
from geartrain.oracles.protocols import Vector
from geartrain.problem import MissingConstant, Model


@dataclass(frozen=True)
class AGMState:
    """State of `AGM`."""

    x: Vector  # main sequence: the gradient step from the last v
    v: Vector  # extrapolated point
    grad_g: Vector  # gradient of g at v
    theta: float


# Paper: AGM
@dataclass(frozen=True)
class AGM:
    r"""Accelerated gradient method on phi(v) = <beta, v> + alpha/2 \|v\|^2 + g(v).

    Algorithm, from x_0 = v_0, theta_0 = 1:

    1. x_{k+1} = (L_g v_k - grad g(v_k) - beta)/(L_g + alpha)
    2. theta_{k+1} and the momentum m_k from `geartrain.methods.momentum.next_theta`
    3. v_{k+1} = x_{k+1} + m_k (x_{k+1} - x_k)

    Guarantee: phi falls by the factor 1 - sqrt(q) per step, so tau_g = sqrt(L_g + alpha) in
    Assumption 4. One gradient of g per step and one at the start, unless that is handed in.

    Notes
    -----
    The step with the quadratic as composite term, argmin of the linearised g plus
    L_g/2 \|. - v\|^2 plus the quadratic, and the plain gradient step of length 1/(L_g + alpha)
    on the whole of phi are the same map: both options of Section 4.1 of [2]_ are this one method.
    The rule is tested at v, where the gradient is known anyway.

    References
    ----------
    .. [1] Yu. Nesterov, Gradient methods for minimizing composite functions, Math. Program.
       140 (2013).
    .. [2] A. Ivanova et al., Oracle complexity separation in convex optimization, JOTA (2022).
    """

    needs: ClassVar[tuple[str, ...]] = ("grad",)
    any_geometry: ClassVar[bool] = True

    def init(
        self, phi: Model, v0: Vector, grad_g0: Vector | None, warm: AGMState | None = None
    ) -> AGMState:
        """Start at v0 without momentum."""
        return AGMState(v0, v0, phi.g.grad(v0) if grad_g0 is None else grad_g0, 1.0)

    def step(self, phi: Model, state: AGMState) -> AGMState:
        """One gradient step and the extrapolation."""
        L_g = _need_L(phi)
        # x+ = (L_g v - grad g(v) - beta)/(L_g + alpha), written as a gradient step
        x = state.v - phi.grad(state.v, state.grad_g) / (L_g + phi.alpha)
        q = (phi.alpha + phi.mu_g) / (L_g + phi.alpha)
        theta, momentum = next_theta(state.theta, q)
        v = x + momentum * (x - state.x)
        return AGMState(x, v, phi.g.grad(v), theta)

    def limit(self, phi: Model) -> int:
        """A hundred times the natural number of steps: rounding has won by then."""
        return 200 + ceiling(100.0 * math.sqrt(1.0 + _need_L(phi) / phi.alpha))


def _need_L(phi: Model) -> float:
    if phi.L_g is None:
        raise MissingConstant(
            "AGM needs L_g, which neither the term nor the call gives; pass L_g=..., give the "
            "term its L, or choose inner='lbfgs', which needs no constants"
        )
    return phi.L_g
