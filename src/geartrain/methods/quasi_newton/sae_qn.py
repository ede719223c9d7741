r"""SAE-QN: SAE with a middle loop that learns the curvature of h.

=========  ============  =========================================================
symbol     name          meaning
=========  ============  =========================================================
A, a       ``A``, ``a``  as in SAE, with an L of its own every iteration
x          ``x``         centre of the envelope F_{L,x}
y, z       same          as in SAE
v          ``at``        the last point where the gradients are known
=========  ============  =========================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar

from geartrain.methods.base import State
from geartrain.methods.gmco import ms_ratio
from geartrain.methods.inner.lbfgs import LBFGS
from geartrain.methods.quasi_newton.secant import Pairs
from geartrain.methods.quasi_newton.trials import Difference, Known, Proximal, TrialMaker
from geartrain.oracles.protocols import Vector
from geartrain.problem import EPS, Envelope, Sum, norm

# L changes by at most these factors from one trial to the next.
_SHRINK, _GROW = 0.03, 16.0
# Multiples of L that are tried for a point which does not pass with the L it was made for.
_RETRY = tuple(2.0 ** (j / 2) for j in range(9))
_TRIALS = 60


@dataclass(frozen=True, kw_only=True)
class SAEQNState(State):
    """State of `SAEQN` after k outer iterations."""

    k: int
    A: float
    at: Known  # y, its gradients, and what was learned
    z: Vector
    x: Vector  # centre of the last envelope
    L: float  # with which the last test was passed
    L_next: float  # to be tried next
    ms_ratio: float = math.nan
    middle_steps: int = 0  # trial points of the last iteration
    since: int = 0  # iterations since the last restart
    uphill: float = -math.inf  # <grad f(y_k), y_k - y_{k-1}>
    struggled: bool = False  # the first trial did not pass at once
    cut_off: int = 0  # inner runs whose steps ran out, in all iterations
    stalled: bool = False

    @property
    def y(self) -> Vector:
        """The output."""
        return self.at.v

    @property
    def point(self) -> Vector:
        """Y."""
        return self.at.v

    @property
    def grad(self) -> Vector:
        """Gradient of f at y."""
        return self.at.grad

    @property
    def bend_ratio(self) -> float:
        """|change of grad h| / |change of grad g| along the last step; 0 before the first."""
        return self.at.pairs.newest_ratio()


@dataclass(frozen=True)
class SAEQN:
    r"""Splitting accelerated envelope with a learned model of h; needs no constants.

    f = h + g convex; h alone may be non-convex.

    Algorithm, from x_0 = y_0 = z_0, A_0 = 0:

    1. a = (1/L + sqrt(1/L^2 + 4 A/L))/2, x = (A y + a z)/(A + a)
    2. from y: a trial point v that almost minimises F_{L,x} = f + L/2 \|. - x\|^2 by what the
       gradients seen so far tell about h (`geartrain.methods.quasi_newton.trials`). Its gradient is
       one call of h and a new pair for the model.
    3. the Monteiro-Svaiter test \|grad F_{L,x}(v)\| <= sigma L \|v - x\|. Where it fails, larger
       L, with their own a and x, are tried for the same v, which costs no call. If it passes:
       y_+ = v, z_+ = z - a grad f(y_+), A_+ = A + a.
    4. if none passes but f(v) < f(y) by the trapezoidal rule, or the gradient has halved: y_+ = v,
       and the method restarts there (A = 0, z = v).
    5. otherwise L grows and 2 is repeated.

    Restart (A = 0, z = y) also where <grad f(y_+), y_+ - y> > 0, and after an iteration whose first
    trial point did not pass at once.

    Guarantee: f(y_N) - f* <= R^2/(2 A_N) for convex f, with N and R from the last restart, whatever
    the model is worth: the test asks L to exceed the error of the model along the step, not L_h.
    Where every iteration restarts, that is a proximal point method, which is not accelerated. One
    gradient of h a trial point, and mostly one trial point an iteration.

    Parameters
    ----------
    sigma : float
        Of the test, in (0, 1].
    memory : int
        Number of pairs kept.
    inner : LBFGS
        The inner method. Its pairs are kept from one inner run to the next.
    trial : trial maker, optional
        How trial points are made (`geartrain.methods.quasi_newton.trials`); by default `Proximal`
        for a convex h, `Difference` otherwise.

    Notes
    -----
    The first L is guessed from the curvature of g along the gradient (one call of g), later ones
    from the error of the model along the last step.

    References
    ----------
    .. [1] R. Monteiro, B. Svaiter, An accelerated hybrid proximal extragradient method for convex
       optimization, SIAM J. Optim. 23 (2013).
    .. [2] J. Nocedal, S. Wright, Numerical Optimization, 2nd ed. (2006), Section 7.2.
    """

    sigma: float = 0.9
    memory: int = 60
    inner: LBFGS = field(default_factory=lambda: LBFGS(max_steps=500))
    trial: TrialMaker | None = None

    needs: ClassVar[tuple[str, ...]] = ("grad",)

    def __post_init__(self) -> None:
        if not 0.0 < self.sigma <= 1.0:
            raise ValueError(f"sigma must be in (0, 1], got {self.sigma:g}")

    def _maker(self, problem: Sum) -> TrialMaker:
        if self.trial is not None:
            return self.trial
        return Proximal(self.inner) if problem.h_is_convex else Difference(self.inner)

    def init(self, problem: Sum, x0: Vector) -> SAEQNState:
        """Both gradients at x0, and one more of g for a first guess of L."""
        grad_h, grad_g = problem.h.grad(x0), problem.g.grad(x0)
        at = Known(x0, grad_h, grad_g, Pairs.none(x0.size, self.memory), None)
        L = self._maker(problem).first * _curvature_of_g(problem, at)
        return SAEQNState(k=0, A=0.0, at=at, z=x0, x=x0, L=L, L_next=L)

    def step(self, problem: Sum, state: SAEQNState) -> SAEQNState:
        """One outer iteration."""
        make = self._maker(problem)
        A, y, z, since = state.A, state.y, state.z, state.since
        if (since > 1 and state.uphill > 0.0) or state.struggled:
            A, z, since = 0.0, y, 0
        at, L, trials, cut_off = state.at, state.L_next, 0, state.cut_off
        while True:
            F = Envelope(problem, L, _line_3(A, y, z, L)[1])
            # 2.
            trial = make(F, at)
            grad_h = problem.h.grad(trial.v)
            s = trial.v - at.v
            pairs = at.pairs.add(s, grad_h - at.grad_h, trial.grad_g - at.grad_g)
            at = Known(trial.v, grad_h, trial.grad_g, pairs, trial.inner)
            trials += 1
            cut_off += trial.cut_off
            needed = _error(F, at, trial.predicted) / self.sigma
            wanted = max(make.safety * needed, 0.0 if trial.reached else 2.0 * L, _floor(at))
            # 3.
            L_passed, ratio = self._test(problem, A, y, z, at, L)
            lost = _is_rounding(F, at) or norm(at.v - y) <= EPS * norm(y)
            if ratio <= self.sigma or trials == _TRIALS or lost:
                break
            # 4.
            if _lower(at, state.at):
                return SAEQNState(
                    k=state.k + 1,
                    A=0.0,
                    at=at,
                    z=at.v,
                    x=F.x,
                    L=L,
                    L_next=min(max(wanted, _SHRINK * L), _GROW * L),
                    ms_ratio=ratio,
                    middle_steps=trials,
                    cut_off=cut_off,
                )
            # 5. back to y, with the new pair
            at = replace(state.at, pairs=at.pairs, inner=at.inner)
            L = min(max(wanted, 2.0 * L), _GROW * L)
        # 3., passed
        exact = _floor(at) >= L
        a, x = _line_3(A, y, z, L_passed)
        return SAEQNState(
            k=state.k + 1,
            A=A + a,
            at=at,
            z=z - a * at.grad,
            x=x,
            L=L_passed,
            L_next=min(max(wanted, _SHRINK * L), 2.0 * L_passed),
            ms_ratio=ratio,
            middle_steps=trials,
            since=since + 1,
            uphill=float(at.grad @ (at.v - y)),
            struggled=trials > 1 or L_passed > L,
            cut_off=cut_off,
            stalled=ratio > self.sigma or (exact and norm(at.grad) >= norm(state.grad)),
        )

    def _test(
        self, problem: Sum, A: float, y: Vector, z: Vector, at: Known, L: float
    ) -> tuple[float, float]:
        """The smallest L tried for which v passes, and its ratio; L itself if none does."""
        first = math.inf
        for factor in _RETRY:
            F = Envelope(problem, factor * L, _line_3(A, y, z, factor * L)[1])
            ratio = ms_ratio(F, at.v, at.grad)
            if ratio <= self.sigma:
                return F.L, ratio
            first = ratio if factor == 1.0 else first
        return L, first


def _line_3(A: float, y: Vector, z: Vector, L: float) -> tuple[float, Vector]:
    """Line 3 of SAE: a with L a^2 = A + a, and x = (A y + a z)/(A + a)."""
    a = (1.0 / L + math.sqrt(1.0 / L**2 + 4.0 * A / L)) / 2.0
    return a, y if A == 0.0 else (A * y + a * z) / (A + a)


def _error(F: Envelope, at: Known, predicted: Vector) -> float:
    """|grad F(v) - what the model predicted| / |v - x|: the L that the model needs."""
    distance = norm(at.v - F.x)
    return norm(F.grad(at.v, at.grad) - predicted) / distance if distance > 0.0 else F.L


def _floor(at: Known) -> float:
    """Below this L is lost in the rounding of the curvature along the last step."""
    curvature = at.pairs.Y_h[-1:] + at.pairs.Y_g[-1:]
    return 2.0 * EPS * norm(curvature.ravel())


def _curvature_of_g(problem: Sum, at: Known) -> float:
    """|change of grad g| / |step| along the gradient of f; where g is flat, one over a length."""
    size = norm(at.grad)
    if size == 0.0:
        return 1.0
    length = 1e-3 * max(norm(at.v), 1.0)
    bent = problem.g.grad(at.v - (length / size) * at.grad)
    seen = norm(bent - at.grad_g) / length
    return seen if seen > 0.0 else size / max(norm(at.v), 1.0)


def _lower(v: Known, y: Known) -> bool:
    """Whether f(v) < f(y) by the trapezoidal rule, or the gradient has halved."""
    step = v.v - y.v
    drop = 0.5 * float((v.grad + y.grad) @ step)
    return drop < 0.05 * float(y.grad @ step) or norm(v.grad) <= 0.5 * norm(y.grad)


def _is_rounding(F: Envelope, at: Known) -> bool:
    """Whether grad F is rounding error."""
    size = norm(at.grad_h) + norm(at.grad_g) + F.L * norm(at.v)
    return norm(F.grad(at.v, at.grad)) <= 10.0 * EPS * size
