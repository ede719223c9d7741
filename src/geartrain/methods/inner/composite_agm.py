r"""Accelerated proximal gradient method for models with a non-smooth psi.

======  ============  ======================================================================
symbol  name          meaning
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

from dataclasses import dataclass, replace

from geartrain.methods.momentum import next_theta
from geartrain.oracles.protocols import Vector
from geartrain.problem import Model


@dataclass(frozen=True)
class CompositeAGMState:
    """State of `geartrain.inner.AGM` on a model with psi."""

    v: Vector
    grad_g: Vector  # gradient of g at v, or a guess of it
    grad_psi: Vector  # w
    y: Vector
    grad_y: Vector  # gradient of g at y
    before: Vector  # the v before this one
    theta: float
    share: float = 0.5
    guessed: bool = True


def start(phi: Model, y: Vector, grad_y: Vector, L_g: float) -> CompositeAGMState:
    """The proximal gradient step from y, without momentum."""
    return _proximal_step(phi, L_g, y, grad_y, y, 1.0, 0.5)


def step(phi: Model, state: CompositeAGMState, L_g: float) -> CompositeAGMState:
    """The extrapolation, and the proximal gradient step from there."""
    q = (phi.alpha + phi.mu_g) / (L_g + phi.alpha)
    theta, momentum = next_theta(state.theta, q)
    if momentum == 0.0 and not state.guessed:  # as after the first step: y is v
        return _proximal_step(phi, L_g, state.v, state.grad_g, state.v, theta, state.share)
    y = state.v + momentum * (state.v - state.before)
    return _proximal_step(phi, L_g, y, phi.g.grad(y), state.v, theta, state.share)


def settle(phi: Model, state: CompositeAGMState, L_g: float) -> CompositeAGMState:
    """The state with the gradient of g at v itself."""
    norm = phi.geometry.norm
    grad_g, back = phi.g.grad(state.v), state.y - state.v
    most, share = L_g * norm(back), state.share
    if most > 0.0:
        share = min(max(norm(grad_g - state.grad_y + L_g * back) / most, 0.1), 1.0)
    return replace(state, grad_g=grad_g, share=share, guessed=False)


def _proximal_step(
    phi: Model, L_g: float, y: Vector, grad_y: Vector, before: Vector, theta: float, share: float
) -> CompositeAGMState:
    assert phi.psi is not None
    M = L_g + phi.alpha
    d = phi.grad(y, grad_y)
    # v = prox((L_g y - grad g(y) - beta)/M, M), written as a gradient step
    v = phi.psi.prox(y - d / M, M)
    w = M * (y - v) - d
    guess = grad_y + (1.0 - share) * L_g * (v - y)
    return CompositeAGMState(v, guess, w, y, grad_y, before, theta, share)
