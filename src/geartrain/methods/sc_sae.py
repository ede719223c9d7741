r"""SC-SAE: the accelerated envelope for strongly convex sums, without restarts.

=========  ============  ==========================================================
symbol     name          meaning
=========  ============  ==========================================================
lambda     ``eta``       1/L, length of the proximal step
A, a       ``A``, ``a``  a^2 (1 + mu eta) = eta A_+ (1 + mu A_+)
y          ``y``         centre of the envelope
x          ``x``         passes the Monteiro-Svaiter test; the output
z          ``z``         accumulated gradients
=========  ============  ==========================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar

from geartrain.methods.base import InnerMethod
from geartrain.methods.gmco import GMCO, EnvelopeState, MonteiroSvaiter
from geartrain.methods.inner.agm import AGM
from geartrain.oracles.protocols import Vector
from geartrain.problem import Envelope, Sum

# Beyond this the recursion has reached its limits and A only grows towards overflow.
_SETTLED = 1e8


@dataclass(frozen=True)
class Weights:
    """One step of the recursion that SC-SAE and AFB share."""

    A: float  # A_+
    theta: float  # y = x + theta (z - x)
    keep: float  # z_+ = keep z + pull x_+ - push G
    pull: float
    push: float


def weights(A: float, eta: float, mu: float) -> Weights:
    r"""a^2 (1 + mu eta) = eta A_+ (1 + mu A_+) and what follows from it.

    z_+ = [(1 + mu A) z + a mu x_+ - a G]/(1 + mu A_+), theta = a (1 + mu A)(1 + mu eta) /
    (A_+ (1 + mu A_+)). Once mu A > 1e8 the limits are taken: with s = sqrt(mu eta/(1 + mu eta)),
    theta = s (1 - s)(1 + mu eta), z_+ = (1 - s) z + s x_+ - (s/mu) G, A_+ = A/(1 - s).
    """
    if mu * A > _SETTLED:
        s = math.sqrt(mu * eta / (1.0 + mu * eta))
        # A is a bound that may overflow; an infinite one says no more than a large one.
        return Weights(min(A / (1.0 - s), 1e300), s * (1 - s) * (1 + mu * eta), 1 - s, s, s / mu)
    root = math.sqrt(eta) * math.sqrt(eta + 4.0 * A * (1.0 + mu * eta) * (1.0 + mu * A))
    a = 0.5 * (eta + 2.0 * A * mu * eta + root)
    A_next = A + a
    d = 1.0 + mu * A_next
    theta = a * (1.0 + mu * A) * (1.0 + mu * eta) / (A_next * d)
    return Weights(A_next, theta, (1.0 + mu * A) / d, a * mu / d, a / d)


@dataclass(frozen=True, kw_only=True)
class SCSAEState(EnvelopeState):
    """State of `SCSAE` after k iterations."""

    x: Vector  # output
    y: Vector  # centre of the last envelope
    gap_rests_on: tuple[str, ...] = ()

    @property
    def point(self) -> Vector:
        return self.x


@dataclass(frozen=True)
class SCSAE:
    r"""Accelerated envelope for a sum that is mu-strongly convex, wherever mu sits.

    h may be non-convex as long as f is convex. With a non-smooth term psi, grad f in lines 2 and 3
    is a subgradient of f = h + g + psi.

    Algorithm, from x_0 = z_0, A_0 = 0, eta = 1/L::

        1. A_+, theta from weights; y = x + theta (z - x)
        2. x_+ with |grad F_{L,y}(x_+)| <= sqrt(sigma^2 + mu/L) L |x_+ - y|, by GMCO
        3. G = grad f(x_+); z_+ = [(1 + mu A) z + a mu x_+ - a G]/(1 + mu A_+)

    Guarantee: A (f(x) - f*) + (1 + mu A) \|z - x*\|^2/2 does not grow, so
    f(x_N) - f* <= R^2/(2 A_N) with A_{k+1} >= A_k/(1 - s), s = sqrt(mu eta/(1 + mu eta)). Two
    gradients of h per iteration.

    Parameters
    ----------
    mu : float, optional
        Strong convexity of f; the problem's if not given.
    L : float, optional
        3/4 L_h for convex h, 3/2 L_h otherwise.
    sigma : float
        In (0, 1].
    inner : inner method

    Notes
    -----
    The strongly convex form of the method of [1]_ with the model of GMCO: weight
    L_h/2 \|v - y\|^2/2 for convex h, none otherwise. Then the error of the model is at most
    L_h/2 \|v - y\|, respectively L_h \|v - y\|, and an inner residual of the rest of sigma L
    makes the first middle step pass. Inner runs start at y plus the previous displacement.

    References
    ----------
    .. [1] R. Monteiro, B. Svaiter, An accelerated hybrid proximal extragradient method for convex
       optimization, SIAM J. Optim. 23 (2013).
    """

    mu: float | None = None
    L: float | None = None
    sigma: float = 1.0
    inner: InnerMethod = field(default_factory=AGM)

    needs: ClassVar[tuple[str, ...]] = ("grad",)
    any_geometry: ClassVar[bool] = True
    takes_psi: ClassVar[bool] = True

    def init(self, problem: Sum, x0: Vector) -> SCSAEState:
        L_h = problem.L_h.need("L_h", "SCSAE")
        L = self.L
        if L is None:
            L = (0.75 if problem.h_is_convex else 1.5) * L_h
        grad_h, grad_g = problem.h.grad(x0), problem.g.grad(x0)
        return SCSAEState(
            k=0,
            A=0.0,
            x=x0,
            z=x0,
            y=x0,
            grad_h=grad_h,
            grad_g=grad_g,
            L=L,
            L_h=L_h,
            grad_psi=problem.grad_psi(x0, grad_h + grad_g),
        )

    def restart(self, state: SCSAEState) -> SCSAEState:
        """Start again from x, whose gradients are known."""
        return replace(state, A=0.0, since=0, z=state.x, y=state.x)

    def step(self, problem: Sum, state: SCSAEState) -> SCSAEState:
        mu = (problem.mu.value or 0.0) if self.mu is None else self.mu
        L, x, z = state.L, state.x, state.z
        # 1.
        w = weights(state.A, 1.0 / L, mu)
        first = state.A == 0.0
        y = x if first else x + w.theta * (z - x)
        # 2. The model's error is at most error L_h |v - y|; the inner run may use up the rest.
        weight, error = (0.5, 0.5) if problem.h_is_convex else (0.0, 1.0)
        slack = self.sigma - error * state.L_h / L
        gmco = GMCO(self.inner, weight, 0.95 * slack if slack > 0.1 else 0.1 * self.sigma)
        F = Envelope(problem, L, y, key=(state.k,))
        test = MonteiroSvaiter(math.sqrt(self.sigma**2 + mu / L))
        x_next, G, fields = state.run(gmco, F, test, None if first else y + (x - state.y))
        # 3.
        z = w.keep * z + w.pull * x_next - w.push * G
        rests_on = ("mu",) if mu else ()
        return SCSAEState(A=w.A, x=x_next, z=z, y=y, gap_rests_on=rests_on, **fields)
