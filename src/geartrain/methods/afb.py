r"""AFB: accelerated inexact forward-backward, one gradient of h per iteration.

=========  ============  ==========================================================
symbol     name          meaning
=========  ============  ==========================================================
lambda     ``lam``       (1 - sigma^2)/L_h, length of the forward-backward step
eta        ``eta``       (1 - zeta^2) lambda
y          ``y``         where h is linearised
x          ``x``         inexact forward-backward step from y; the output
s, eps     ``grad_g``,   s is an eps-subgradient of g at x_+; where g is a single
           ``eps``       term, it is the gradient, and eps = 0
G          ``G``         grad h(y) + s + w, w in dpsi(x_+)
e          --            G + (x_+ - y)/lambda, the (sub)gradient of phi at x_+
beta,      ``beta``,     phi(v) = <beta, v> + alpha/2 \|v\|^2 + g(v) + psi(v)
alpha      ``alpha``
=========  ============  ==========================================================

Where g is itself a sum (`geartrain.methods.nested_sum.Rest`), its model is minimised by `Gear`,
which is this method one level further down.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

from geartrain.geometry import Geometry
from geartrain.methods import smoothness
from geartrain.methods.base import InnerMethod, InnerRun, State, ceiling, solve_model
from geartrain.methods.gmco import total
from geartrain.methods.inner.agm import AGM
from geartrain.methods.nested_sum import Rest
from geartrain.methods.sc_sae import weights
from geartrain.oracles.protocols import Vector
from geartrain.problem import Model, Sum


@dataclass(frozen=True)
class Lengths:
    """The numbers of an iteration."""

    mu_h: float
    tilt: float  # strong convexity that is moved to the side of g
    mu: float  # of the sum
    smooth: float  # smoothness of h - mu_h/2 |.|^2
    lam: float
    eta: float
    radius: float  # of the term with |x_+ - y| in the error rule


@dataclass(frozen=True)
class ErrorRule:
    """The rule of line 2: whether v is good enough, for this level or for one above."""

    zeta: float
    use: Lengths
    y: Vector
    own: Vector  # grad h(y) - mu_h y
    geometry: Geometry
    above: Model | None  # whose rule is tested, too
    has_psi: bool

    @cached_property
    def shifted(self) -> Vector:
        """grad h(y) - mu_h y, and beta of the model above."""
        return self.own if self.above is None else self.own + self.above.beta

    @cached_property
    def beta(self) -> Vector:
        """The linear coefficient of the model phi."""
        return self.shifted - self.y / self.use.lam

    @property
    def alpha(self) -> float:
        """The quadratic coefficient of the model phi."""
        return self.use.tilt + 1.0 / self.use.lam

    def __call__(self, v: Vector, s: Vector, grad_phi: Vector, eps: float = 0.0) -> bool:
        """Whether the rule holds at v, where s is an eps-subgradient of g."""
        use, norm = self.use, self.geometry.norm
        G, w = self.shifted + s + use.tilt * v, None
        if self.has_psi:  # w in dpsi(v) is what grad_phi has beyond the smooth part of phi
            w = grad_phi - (self.beta + self.alpha * v + s)
            G = G + w
        length = norm(v - self.y)
        allowed = math.hypot(self.zeta * use.lam * norm(G), use.radius * length)
        weight = 2.0 * use.lam * (1.0 + use.mu * use.eta)  # of eps
        if math.hypot(use.lam * norm(grad_phi), math.sqrt(weight * eps)) <= allowed:
            return True
        if self.above is None or self.above.accept is None:
            return False
        # Where v is good enough for the level above, both are left.
        s = s + self.own + use.mu_h * v
        above = self.above.subgradient(v, s, w)
        return self.above.accept(v, s, above, eps + 0.5 * use.smooth * length**2)


@dataclass(frozen=True, kw_only=True)
class AFBState(State):
    """State of `AFB` after k iterations."""

    k: int
    A: float
    x: Vector  # output
    z: Vector
    y: Vector  # where h was linearised last
    grad_h: Vector  # gradient of h at y
    grad_g: Vector  # gradient of g at x, or an eps-subgradient
    L: float  # 1/lambda
    L_h: float  # in use; raised when h shows more curvature
    eps: float = 0.0  # of grad_g
    slack: float = 0.0  # |grad_g - gradient of g at x| is at most that
    below: GearState | None = None  # of the inner run, where g is a sum
    grad_bound: float = math.nan  # |G| + L_h |x - y| + slack >= |grad f(x)|
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
        return self.x

    @property
    def grad(self) -> Vector | None:
        """Known at the start only."""
        return total(self.grad_h + self.grad_g, self.grad_psi) if self.y is self.x else None


@dataclass(frozen=True)
class GearState:
    """State of `Gear`: that of its level, and the certificate (v, s, eps) for the level above."""

    v: Vector
    grad_g: Vector  # s, an eps-subgradient at v of the sum that the level splits
    eps: float
    slack: float  # |s - gradient of that sum at v| is at most that
    level: AFBState

    guessed: ClassVar[bool] = False

    @property
    def grad_psi(self) -> Vector | None:
        """The element of dpsi(v) that the level knows."""
        return self.level.grad_psi

    @property
    def rounding(self) -> bool:
        """Whether only rounding keeps the level from going on."""
        return self.level.stalled and self.level.rounding


@dataclass(frozen=True)
class AFB:
    r"""Accelerated inexact forward-backward method with a relative error rule.

    h convex and L_h-smooth; strong convexity is used where the terms state it (``h.mu``,
    ``g.mu``). A non-smooth term psi is part of phi, and w in dpsi(x_+) is part of G.

    Algorithm, from x_0 = z_0, A_0 = 0, with lambda = (1 - sigma^2)/L_h, eta = (1 - zeta^2) lambda::

        1. A_+, theta from sc_sae.weights; y = x + theta (z - x)
        2. x_+ ~ argmin phi(v) = <grad h(y), v> + g(v) + |v - y|^2/(2 lambda) until
           lambda^2 |e|^2 + 2 lambda (1 + mu eta) eps <= zeta^2 lambda^2 |G|^2
           + sigma^2 |x_+ - y|^2, G = grad h(y) + s (+ w), e = G + (x_+ - y)/lambda
        3. z_+ = [(1 + mu A) z + a mu x_+ - a G]/(1 + mu A_+)

    Guarantee: A (f(x) - f*) + (1 + mu A) \|z - x*\|^2/2 does not grow, so f(x_N) - f* <=
    R^2/(2 A_N), and A_{k+1} >= A_k/(1 - s), s = sqrt(mu eta/(1 + mu eta)). One gradient of h per
    iteration.

    Parameters
    ----------
    zeta, sigma : float
        Of the error rule, both in [0, 1).
    inner : inner method

    Notes
    -----
    With mu = 0, sigma = 0 and eps = 0 this is the method of [1]_. Strong convexity of h is moved to
    the side of g: grad h(y) - mu_h y, L_h - mu_h, and mu_h/2 \|v\|^2 in phi. Strong convexity of
    the sum alone cannot be used; restart by `geartrain.methods.restart.GradientTest` instead. Inner
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
        """x_0 = z_0, the gradients of all terms there."""
        return self.start(problem, x0)

    def start(
        self, problem: Sum, x0: Vector, before: AFBState | None = None, inside: bool = False
    ) -> AFBState:
        """A state at x_0; constants that an earlier run has raised are kept.

        `inside` a gear, x_0 may be outside of the domain of psi.
        """
        L_h = problem.L_h.need(f"L_{problem.h.name}", "AFB")
        if not problem.h_is_convex:
            raise ValueError(
                f"AFB needs a convex {problem.h.name}, but {problem.h.term!r}; "
                "use method='sc-sae' or 'aeg'"
            )
        grad_h, below = problem.h.grad(x0), None
        if isinstance(problem.g, Rest):
            under = None if before is None or before.below is None else before.below.level
            below = _exact(self.start(problem.g.problem, x0, under, inside=True))
        grad_g = problem.g.grad(x0) if below is None else below.grad_g
        return AFBState(
            k=0,
            A=0.0,
            x=x0,
            z=x0,
            y=x0,
            grad_h=grad_h,
            grad_g=grad_g,
            L=L_h,
            L_h=L_h if before is None else before.L_h,
            below=below,
            grad_psi=None if inside else problem.grad_psi(x0, grad_h + grad_g),
        )

    def restart(self, state: AFBState) -> AFBState:
        return replace(state, A=0.0, since=0, z=state.x)

    def step(self, problem: Sum, state: AFBState) -> AFBState:
        """One iteration: one gradient of h and one inner run."""
        return self.iterate(problem, state, None)

    def iterate(self, problem: Sum, state: AFBState, above: Model | None) -> AFBState:
        r"""One iteration on h + g, or on the model `above` of h + g.

        With a model above, <beta, v> + alpha/2 \|v\|^2 belongs to g, and mu contains alpha.
        """
        use = self._lengths(problem, state.L_h, above)
        # 1.
        w = weights(state.A, use.eta, use.mu)
        y = state.x if state.A == 0.0 else state.x + w.theta * (state.z - state.x)
        known = y is state.y  # at the start only
        grad_h = state.grad_h if known else problem.h.grad(y)
        # 2.
        own, has_psi = grad_h - use.mu_h * y, problem.psi is not None
        rule = ErrorRule(self.zeta, use, y, own, problem.geometry, above, has_psi)
        run = self._backward(problem, state, rule, known)
        # 3.
        x = run.v
        G = total(rule.shifted + run.grad_g + use.tilt * x, run.grad_psi)
        z = w.keep * state.z + w.pull * x - w.push * G
        return _after(problem, state, rule, run, A=w.A, z=z, grad_h=grad_h, G=G)

    def _lengths(self, problem: Sum, L_h: float, above: Model | None) -> Lengths:
        """lambda, eta and the strong convexity that an iteration uses."""
        mu_h, alpha = problem.mu_h, 0.0 if above is None else above.alpha
        tilt = mu_h + alpha
        mu, smooth = tilt + problem.mu_g, _smooth(L_h, mu_h)
        lam = (1.0 - self.sigma**2) / smooth
        eta = (1.0 - self.zeta**2) * lam
        # A model above makes mu large, and its share of the rule is used: mu lam (1 - eta smooth).
        radius = self.sigma
        if above is not None:
            radius = math.sqrt(self.sigma**2 + mu * lam * (1.0 - eta * smooth))
        return Lengths(mu_h, tilt, mu, smooth, lam, eta, radius)

    def _backward(self, problem: Sum, state: AFBState, rule: ErrorRule, known: bool) -> InnerRun:
        """Line 2: phi is minimised by the inner method, or by the next level."""
        y, above = rule.y, rule.above
        phi = Model(
            problem.g,
            beta=rule.beta,
            alpha=rule.alpha,
            L_g=problem.L_g.value,
            mu_g=problem.mu_g,
            key=(*((problem.seed,) if above is None else above.key), state.k),
            geometry=problem.geometry,
            accept=rule,
            psi=problem.psi,
        )
        v0 = y if known else y + (state.x - state.y)
        if isinstance(problem.g, Rest):
            return solve_model(Gear(self), phi, v0, rule, warm=state.below)
        return solve_model(self.inner, phi, v0, rule, grad_g0=state.grad_g if known else None)


def _after(
    problem: Sum,
    state: AFBState,
    rule: ErrorRule,
    run: InnerRun,
    *,
    A: float,
    z: Vector,
    grad_h: Vector,
    G: Vector,
) -> AFBState:
    """The state after an iteration, with L_h raised where h shows more curvature."""
    use, y, x, above = rule.use, rule.y, run.v, rule.above
    dot, norm, L_h, name = problem.geometry.dot, problem.geometry.norm, state.L_h, problem.h.name
    below: GearState | None = run.state if isinstance(problem.g, Rest) else None
    slack = 0.0 if below is None else below.slack
    # Two gradients of h that are known anyway tell whether L_h is right.
    size = norm(grad_h) + L_h * norm(y)
    change = grad_h - state.grad_h
    L_h, note = smoothness.checked(L_h, y - state.y, change, size, problem.geometry, name)
    notes = [note] * bool(note)
    if below is not None:
        notes += [below.level.note] * bool(below.level.note)
    return AFBState(
        k=state.k + 1,
        A=A,
        x=x,
        z=z,
        y=y,
        grad_h=grad_h,
        grad_g=run.grad_g,
        L=1.0 / use.lam,
        L_h=L_h,
        eps=0.0 if below is None else below.eps,
        slack=slack,
        below=below,
        grad_bound=norm(G) + use.smooth * norm(x - y) + slack,
        inner_steps=run.steps,
        since=state.since + 1,
        uphill=float(dot(G, x - state.x)),
        sound=state.sound and not note and (below is None or below.level.sound),
        stalled=not run.accepted,
        rounding=run.floor,
        grad_psi=run.grad_psi,
        gap_rests_on=("L_h", "mu") if use.mu else ("L_h",),
        note="; ".join(notes) or ("" if above is None else state.note),
    )


@dataclass(frozen=True)
class Gear:
    r"""AFB as an inner method: it splits the sum of a model phi once more.

    phi(v) = <beta, v> + alpha/2 \|v\|^2 + h_i(v) + ... + g(v) is minimised by `AFB`, which
    linearises h_i and leaves the rest to the next level; the last level is left to the inner
    method of AFB. Strong convexity is at least alpha, so no level needs restarts.

    Every iterate v comes with an eps-subgradient s of h_i + ... + g at v,
    s = grad h_i(y_i) + ... + grad h_k(y_k) + grad g(v) and eps = sum_j L_j/2 \|v - y_j\|^2, where
    y_j is the point at which level j has linearised h_j. A non-smooth psi adds an element of its
    subdifferential at v to s, which the inner method of the last level gives, and nothing to eps;
    the first iterate is then the one after a step, because v_0 may be outside of the domain. The
    rules of all levels above are tested with it at every iterate of the last level, so several
    levels can be left at once, and no gradient is asked for twice.

    Parameters
    ----------
    method : AFB
        The method of every level, with the inner method of the last one.
    """

    method: AFB

    needs: ClassVar[tuple[str, ...]] = ("grad",)
    any_geometry: ClassVar[bool] = True
    splits: ClassVar[bool] = True
    takes_psi: ClassVar[bool] = True

    def init(
        self, phi: Model, v0: Vector, grad_g0: Vector | None, warm: GearState | None = None
    ) -> GearState:
        """Start at v0; gradients that `warm` knows there are used. With psi, one step from v0."""
        old = None if warm is None else warm.level
        if warm is None or old is None or not (old.x is v0 and old.y is v0):
            warm = _exact(self.method.start(phi.g.problem, v0, old, inside=True))
        return warm if phi.psi is None else self.step(phi, warm)

    def step(self, phi: Model, state: GearState) -> GearState:
        """One iteration of the level."""
        if state.level.stalled:
            return state
        level = self.method.iterate(phi.g.problem, state.level, phi)
        mu_h, d = phi.g.problem.mu_h, level.x - level.y
        smooth, length = _smooth(level.L_h, mu_h), phi.geometry.norm(d)
        return GearState(
            v=level.x,
            grad_g=level.grad_g + level.grad_h + mu_h * d,
            eps=level.eps + 0.5 * smooth * length**2,
            slack=level.slack + smooth * length,
            level=level,
        )

    def limit(self, phi: Model) -> int:
        """Step limit: 100 times the theoretical number."""
        L = phi.g.problem.L_h.value or 0.0
        return 200 + ceiling(100.0 * math.sqrt(1.0 + L / phi.alpha))


def _smooth(L_h: float, mu_h: float) -> float:
    """Smoothness of h - mu_h/2 |.|^2."""
    return max(L_h - mu_h, 1e-3 * L_h)


def _exact(level: AFBState) -> GearState:
    """The certificate at the start, where all gradients are known."""
    return GearState(level.x, level.grad_h + level.grad_g, 0.0, 0.0, level)
