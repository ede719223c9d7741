r"""AFB: accelerated inexact forward-backward, one gradient of h per iteration.

=========  ============  ==========================================================
symbol     name          meaning
=========  ============  ==========================================================
lambda     ``lam``       (1 - sigma^2)/L_h, length of the forward-backward step
eta        ``eta``       (1 - zeta^2) lambda
y          ``y``         where h is linearised
x          ``x``         inexact forward-backward step from y; the output
G          ``G``         grad h(y) + grad g(x_+)
=========  ============  ==========================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar

from geartrain.methods.base import InnerMethod, State, solve_model
from geartrain.methods.gmco import curvature, total
from geartrain.methods.inner.agm import AGM
from geartrain.methods.sc_sae import weights
from geartrain.oracles.protocols import Vector
from geartrain.problem import Model, Sum


@dataclass(frozen=True, kw_only=True)
class AFBState(State):
    """State of `AFB` after k iterations."""

    k: int
    A: float
    x: Vector  # output
    z: Vector
    y: Vector  # where h was linearised last
    grad_h: Vector  # gradient of h at y
    grad_g: Vector  # gradient of g at x
    L: float  # 1/lambda
    L_h: float  # in use; raised when h shows more curvature
    grad_bound: float = math.nan  # |G| + L_h |x - y| >= |grad f(x)|
    inner_steps: int = 0
    since: int = 0  # iterations since the last restart
    uphill: float = -math.inf  # <G, x_k - x_{k-1}>
    sound: bool = True  # h has shown no more curvature than L_h
    stalled: bool = False
    rounding: bool = False
    grad_psi: Vector | None = None  # the element of dpsi(x) in G
    gap_rests_on: tuple[str, ...] = ("L_h",)
    note: str = ""

    @property
    def gap_weight(self) -> float:  # type: ignore[override]
        """A, as long as L_h held, every inner run met its rule and there was no restart."""
        valid = self.sound and not self.stalled and self.since == self.k
        return self.A if valid else math.nan

    @property
    def point(self) -> Vector:
        """The output x."""
        return self.x

    @property
    def grad(self) -> Vector | None:
        """Known at the start only."""
        return total(self.grad_h + self.grad_g, self.grad_psi) if self.y is self.x else None


@dataclass(frozen=True)
class AFB:
    r"""Accelerated inexact forward-backward method with a relative error rule.

    h convex and L_h-smooth; strong convexity is used where the terms state it (``h.mu``,
    ``g.mu``). A non-smooth term psi is part of phi, and w in dpsi(x_+) is part of G.

    Algorithm, from x_0 = z_0, A_0 = 0, with lambda = (1 - sigma^2)/L_h, eta = (1 - zeta^2) lambda:

    1. A_+, theta from `geartrain.methods.sc_sae.weights`; y = x + theta (z - x)
    2. x_+ ~ argmin phi(v) = <grad h(y), v> + g(v) + \|v - y\|^2/(2 lambda) until
       lambda^2 \|grad phi(x_+)\|^2 <= zeta^2 lambda^2 \|G\|^2 + sigma^2 \|x_+ - y\|^2,
       G = grad h(y) + grad g(x_+) (+ w)
    3. z_+ = [(1 + mu A) z + a mu x_+ - a G]/(1 + mu A_+)

    Guarantee: f(x_N) - f* <= R^2/(2 A_N) and A_{k+1} >= A_k/(1 - s), s =
    sqrt(mu eta/(1 + mu eta)). One gradient of h per iteration.

    Parameters
    ----------
    zeta, sigma : float
        Of the error rule, both in [0, 1).
    inner : inner method

    Notes
    -----
    With mu = 0 and sigma = 0 this is the method of [1]_. Strong convexity of h is moved to the
    side of g: grad h(y) - mu_h y, L_h - mu_h, and mu_h/2 \|v\|^2 in phi. Strong convexity of the
    sum alone cannot be used; restart by `geartrain.methods.restart.GradientTest` instead. Inner
    runs start at y plus the previous displacement.

    References
    ----------
    .. [1] M. Barre, A. Taylor, F. Bach, A note on approximate accelerated forward-backward
       methods with absolute and relative errors, arXiv:2106.15536 (2021).
    """

    zeta: float = 0.5
    sigma: float = 0.0
    inner: InnerMethod = field(default_factory=AGM)

    needs: ClassVar[tuple[str, ...]] = ("grad",)
    any_geometry: ClassVar[bool] = True
    takes_psi: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("zeta", "sigma"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ValueError(f"{name} must be in [0, 1), got {getattr(self, name):g}")

    def init(self, problem: Sum, x0: Vector) -> AFBState:
        """x_0 = z_0, both gradients there."""
        L_h = problem.L_h.need("L_h", "AFB")
        if not problem.h_is_convex:
            raise ValueError(
                f"AFB needs a convex h, but {problem.h.term!r}; use method='sc-sae' or 'aeg'"
            )
        grad_h, grad_g = problem.h.grad(x0), problem.g.grad(x0)
        return AFBState(
            k=0,
            A=0.0,
            x=x0,
            z=x0,
            y=x0,
            grad_h=grad_h,
            grad_g=grad_g,
            L=L_h,
            L_h=L_h,
            grad_psi=problem.grad_psi(x0, grad_h + grad_g),
        )

    def restart(self, state: AFBState) -> AFBState:
        """Start again from x."""
        return replace(state, A=0.0, since=0, z=state.x)

    def step(self, problem: Sum, state: AFBState) -> AFBState:
        """One iteration."""
        mu_h = problem.mu_h
        mu = mu_h + problem.mu_g
        x, z, L_h = state.x, state.z, state.L_h
        dot, norm = problem.geometry.dot, problem.geometry.norm
        smooth = max(L_h - mu_h, 1e-3 * L_h)  # of h - mu_h/2 |.|^2
        lam = (1.0 - self.sigma**2) / smooth
        eta = (1.0 - self.zeta**2) * lam
        # 1.
        w = weights(state.A, eta, mu)
        y = x if state.A == 0.0 else x + w.theta * (z - x)
        known = y is state.y  # at the start only
        grad_h = state.grad_h if known else problem.h.grad(y)
        # 2.
        shifted = grad_h - mu_h * y
        phi = Model(
            problem.g,
            beta=shifted - y / lam,
            alpha=mu_h + 1.0 / lam,
            L_g=problem.L_g.value,
            mu_g=problem.mu_g,
            key=(problem.seed, state.k),
            geometry=problem.geometry,
            psi=problem.psi,
        )

        def accept(v: Vector, grad_g: Vector, grad_phi: Vector) -> bool:
            G = shifted + grad_g + mu_h * v
            if phi.psi is not None:  # the w in the subgradient of phi
                G = G + (grad_phi - phi.grad(v, grad_g))
            allowed = math.hypot(self.zeta * lam * norm(G), self.sigma * norm(v - y))
            return lam * norm(grad_phi) <= allowed

        v0 = y if known else y + (x - state.y)
        grad_g0 = state.grad_g if known else None
        run = solve_model(self.inner, phi, v0, accept, grad_g0=grad_g0)
        x_next = run.v
        G = total(shifted + run.grad_g + mu_h * x_next, run.grad_psi)
        # Two gradients of h that are known anyway tell whether L_h is right.
        size = norm(grad_h) + L_h * norm(y)
        seen = curvature(y - state.y, grad_h - state.grad_h, size, problem.geometry)
        wrong = seen > 1.01 * L_h
        return AFBState(
            k=state.k + 1,
            A=w.A,
            x=x_next,
            # 3.
            z=w.keep * z + w.pull * x_next - w.push * G,
            y=y,
            grad_h=grad_h,
            grad_g=run.grad_g,
            L=1.0 / lam,
            L_h=1.5 * seen if wrong else L_h,
            grad_bound=norm(G) + smooth * norm(x_next - y),
            inner_steps=run.steps,
            since=state.since + 1,
            uphill=float(dot(G, x_next - x)),
            sound=state.sound and not wrong,
            stalled=not run.accepted,
            rounding=run.floor,
            grad_psi=run.grad_psi,
            gap_rests_on=("L_h", "mu") if mu else ("L_h",),
            note=f"h shows curvature {seen:.3g} > L_h = {L_h:.3g}: raised" if wrong else "",
        )
