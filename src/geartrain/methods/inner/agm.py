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
from typing import ClassVar, TypeAlias

from geartrain.methods.base import ceiling
from geartrain.methods.inner import composite_agm
from geartrain.methods.inner.composite_agm import CompositeAGMState
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


AnyState: TypeAlias = AGMState | CompositeAGMState


# Paper: AGM
@dataclass(frozen=True)
class AGM:
    r"""Accelerated gradient method on phi(v) = <beta, v> + alpha/2 \|v\|^2 + g(v).

    With a non-smooth psi in phi, line 1 is the proximal gradient step
    x_{k+1} = prox((L_g v_k - grad g(v_k) - beta)/(L_g + alpha), L_g + alpha), and the rule is
    tested at x_{k+1}, where the gradient of g is asked for when the rule is likely to be met
    (`geartrain.methods.inner.composite_agm`).

    Algorithm, from x_0 = v_0, theta_0 = 1::

        1. x_{k+1} = (L_g v_k - grad g(v_k) - beta)/(L_g + alpha)
        2. theta_{k+1} and the momentum m_k from momentum.next_theta
        3. v_{k+1} = x_{k+1} + m_k (x_{k+1} - x_k)

    Guarantee: phi falls by the factor 1 - sqrt(q) per step, so tau_g = sqrt(L_g + alpha) in
    Assumption 4. One gradient of g per step and one at the start, unless that is handed in; with
    psi one proximal step per step, and one or a few more gradients of g at the end.

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
    takes_psi: ClassVar[bool] = True

    def init(
        self, phi: Model, v0: Vector, grad_g0: Vector | None, warm: AnyState | None = None
    ) -> AnyState:
        """Start at v0 without momentum."""
        grad_g = phi.g.grad(v0) if grad_g0 is None else grad_g0
        if phi.psi is not None:
            return composite_agm.start(phi, v0, grad_g, _need_L(phi))
        return AGMState(v0, v0, grad_g, 1.0)

    def step(self, phi: Model, state: AnyState) -> AnyState:
        """One gradient step and the extrapolation."""
        L_g = _need_L(phi)
        if isinstance(state, CompositeAGMState):
            return composite_agm.step(phi, state, L_g)
        # x+ = (L_g v - grad g(v) - beta)/(L_g + alpha), written as a gradient step
        x = state.v - phi.grad(state.v, state.grad_g) / (L_g + phi.alpha)
        q = (phi.alpha + phi.mu_g) / (L_g + phi.alpha)
        theta, momentum = next_theta(state.theta, q)
        v = x + momentum * (x - state.x)
        return AGMState(x, v, phi.g.grad(v), theta)

    def settle(self, phi: Model, state: CompositeAGMState) -> CompositeAGMState:
        """The state of a model with psi, with the gradient of g in place of its guess."""
        return composite_agm.settle(phi, state, _need_L(phi))

    def limit(self, phi: Model) -> int:
        """Step limit: 100 times the theoretical number."""
        return 200 + ceiling(100.0 * math.sqrt(1.0 + _need_L(phi) / phi.alpha))


def _need_L(phi: Model) -> float:
    if phi.L_g is None:
        raise MissingConstant(
            "AGM needs L_g, which neither the term nor the call gives; pass L_g=..., give the "
            "term its L, or choose inner='lbfgs', which needs no constants"
        )
    return phi.L_g
