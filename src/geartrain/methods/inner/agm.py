r"""Accelerated gradient method for phi, the quadratic taken as composite term.

======  ============  ======================================================================
symbol  name          meaning
======  ============  ======================================================================
x       ``x``         main sequence
v       ``v``         extrapolated point; the gradient is known here
q       ``q``         (alpha + mu_g)/(L_g + alpha), inverse condition number
======  ============  ======================================================================

With a non-smooth psi in phi, where these take the place of x and v:

======  ============  ======================================================================
y       ``y``         extrapolated point; the gradient of g is known here
v       ``v``         proximal gradient step from y; the output
w       ``grad_psi``  element of the subdifferential of psi at v, by the proximal step
r       --            grad g(v) - grad g(y) + L_g (y - v), element of that of phi
c       ``share``     \|r\|/(L_g \|y - v\|) <= 1, as far as it has been seen
======  ============  ======================================================================

The gradient of g at v is asked for only where the rule would accept the guess
grad g(y) + (1 - c) L_g (v - y), for which r is c L_g (y - v).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeAlias

from geartrain.methods.base import ceiling
from geartrain.oracles.protocols import Vector
from geartrain.problem import MissingConstant, Model


@dataclass(frozen=True)
class AGMState:
    """State of `AGM`."""

    x: Vector  # main sequence: the gradient step from the last v
    v: Vector  # extrapolated point
    grad_g: Vector  # gradient of g at v
    theta: float


@dataclass(frozen=True)
class CompositeAGMState:
    """State of `AGM` on a model with psi."""

    v: Vector
    grad_g: Vector  # gradient of g at v, or a guess of it
    grad_psi: Vector  # w
    y: Vector
    grad_y: Vector  # gradient of g at y
    before: Vector  # the v before this one
    theta: float
    share: float = 0.5
    guessed: bool = True


AnyState: TypeAlias = AGMState | CompositeAGMState


# Paper: AGM
@dataclass(frozen=True)
class AGM:
    r"""Accelerated gradient method on phi(v) = <beta, v> + alpha/2 \|v\|^2 + g(v).

    With a non-smooth psi in phi, line 1 is the proximal gradient step
    x_{k+1} = prox((L_g v_k - grad g(v_k) - beta)/(L_g + alpha), L_g + alpha), and the rule is
    tested at x_{k+1}, where the gradient of g is asked for when the rule is likely to be met.

    Algorithm, from x_0 = v_0, theta_0 = 1::

        1. x_{k+1} = (L_g v_k - grad g(v_k) - beta)/(L_g + alpha)
        2. theta_{k+1} and the momentum m_k from next_theta
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
        grad_g = phi.g.grad(v0) if grad_g0 is None else grad_g0
        if phi.psi is not None:
            return proximal_step(phi, v0, grad_g, _need_L(phi))
        return AGMState(v0, v0, grad_g, 1.0)

    def step(self, phi: Model, state: AnyState) -> AnyState:
        L_g = _need_L(phi)
        if isinstance(state, CompositeAGMState):
            return _extrapolated(phi, state, L_g)
        # x+ = (L_g v - grad g(v) - beta)/(L_g + alpha), written as a gradient step
        x = state.v - phi.grad(state.v, state.grad_g) / (L_g + phi.alpha)
        q = (phi.alpha + phi.mu_g) / (L_g + phi.alpha)
        theta, momentum = next_theta(state.theta, q)
        v = x + momentum * (x - state.x)
        return AGMState(x, v, phi.g.grad(v), theta)

    def settle(self, phi: Model, state: CompositeAGMState) -> CompositeAGMState:
        return settled(phi, state, _need_L(phi))

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


def next_theta(theta: float, q: float) -> tuple[float, float]:
    r"""Nesterov's variable momentum for the inverse condition number q.

    ``theta_+`` solves theta_+^2 = (1 - theta_+) theta^2 + q theta_+, and the momentum is
    theta (1 - theta) / (theta^2 + theta_+) (Nesterov, Lectures on Convex Optimization, 2018,
    scheme (2.2.19)). With q = 0 it is the sequence of the convex case; with theta = sqrt(q) it
    is the constant (1 - sqrt q)/(1 + sqrt q).

    Returns
    -------
    theta_+, momentum
    """
    b = q - theta * theta
    theta_next = 0.5 * (b + math.sqrt(b * b + 4.0 * theta * theta))
    return theta_next, theta * (1.0 - theta) / (theta * theta + theta_next)


def _extrapolated(phi: Model, state: CompositeAGMState, L_g: float) -> CompositeAGMState:
    """The extrapolation, and the proximal gradient step from there."""
    q = (phi.alpha + phi.mu_g) / (L_g + phi.alpha)
    theta, momentum = next_theta(state.theta, q)
    if momentum == 0.0 and not state.guessed:  # as after the first step: y is v
        return proximal_step(phi, state.v, state.grad_g, L_g, state.v, theta, state.share)
    y = state.v + momentum * (state.v - state.before)
    return proximal_step(phi, y, phi.g.grad(y), L_g, state.v, theta, state.share)


def settled(phi: Model, state: CompositeAGMState, L_g: float) -> CompositeAGMState:
    """The state with the gradient of g at v itself."""
    norm = phi.geometry.norm
    grad_g, back = phi.g.grad(state.v), state.y - state.v
    most, share = L_g * norm(back), state.share
    if most > 0.0:
        share = min(max(norm(grad_g - state.grad_y + L_g * back) / most, 0.1), 1.0)
    return replace(state, grad_g=grad_g, share=share, guessed=False)


def proximal_step(
    phi: Model,
    y: Vector,
    grad_y: Vector,
    L_g: float,
    before: Vector | None = None,
    theta: float = 1.0,
    share: float = 0.5,
) -> CompositeAGMState:
    """The proximal gradient step from y; without the v before it, there is no momentum yet."""
    assert phi.psi is not None
    M = L_g + phi.alpha
    d = phi.grad(y, grad_y)
    # v = prox((L_g y - grad g(y) - beta)/M, M), written as a gradient step
    v = phi.psi.prox(y - d / M, M)
    w = M * (y - v) - d
    guess = grad_y + (1.0 - share) * L_g * (v - y)
    return CompositeAGMState(v, guess, w, y, grad_y, y if before is None else before, theta, share)


@dataclass(frozen=True, kw_only=True)
class OutputState:
    """State of an inner method whose points come with no subgradient of psi.

    With a psi in phi, the output v is one proximal gradient step from the point, whose gradient of
    g is asked for where the rule is likely to be met, as in `AGM`. Without, it is the point.
    """

    point: Vector
    grad_point: Vector  # gradient of g there
    output: CompositeAGMState | None  # with psi: the step

    @classmethod
    def at(cls, phi: Model, point: Vector, grad: Vector, L_g: float, **fields: Any) -> Self:
        output = None if phi.psi is None else proximal_step(phi, point, grad, L_g)
        return cls(point=point, grad_point=grad, output=output, **fields)

    def settled(self, phi: Model, L_g: float) -> Self:
        """The same state with the gradient of g at v in place of its guess."""
        assert self.output is not None
        return replace(self, output=settled(phi, self.output, L_g))

    @property
    def v(self) -> Vector:
        return self.point if self.output is None else self.output.v

    @property
    def grad_g(self) -> Vector:
        return self.grad_point if self.output is None else self.output.grad_g

    @property
    def grad_psi(self) -> Vector | None:
        return None if self.output is None else self.output.grad_psi

    @property
    def guessed(self) -> bool:
        return self.output is not None and self.output.guessed
