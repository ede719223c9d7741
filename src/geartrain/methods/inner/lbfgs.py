r"""L-BFGS on phi: the inner method that needs no constants.

========  ==============  =====================================================
symbol    name            meaning
========  ==============  =====================================================
s, y      ``pairs``       steps and the changes of the gradient of *g* along them
H         two loops       inverse of the Hessian of phi, from the pairs
========  ==============  =====================================================
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from geartrain.oracles.protocols import Vector
from geartrain.problem import EPS, Model

Pairs = tuple[tuple[Vector, Vector], ...]

# A step t along d is taken when the slope has risen into [-STEEP, FLAT] times |slope at 0|.
_STEEP = 0.9
_FLAT = 0.3
# A slope that falls by more than this part shows that phi is not convex.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class LBFGSState:
    """State of `LBFGS`."""

    v: Vector
    grad_g: Vector  # gradient of g at v
    pairs: Pairs  # of g, newest last
    curved: tuple[tuple[Vector, Vector, float], ...]  # s, y of phi and <s, y> of the usable ones
    failed: bool = False  # no step along a descent direction: rounding


@dataclass(frozen=True)
class LBFGS:
    r"""Limited-memory BFGS on phi(v) = <beta, v> + alpha/2 \|v\|^2 + g(v).

    Algorithm: that of [1]_. The pairs hold the curvature of g alone; that of the quadratic, which
    is known exactly, is added when they are used, so pairs can be handed from model to model.

    Guarantee: linear convergence, no useful rate; quick in practice. One gradient of g per step,
    mostly. The line search looks at slopes only (phi is convex), so g is never asked for values.

    Parameters
    ----------
    memory : int
        Number of pairs kept.
    max_steps : int
        Give up after so many steps.

    References
    ----------
    .. [1] J. Nocedal, S. Wright, Numerical Optimization, 2nd ed. (2006), Algorithm 7.4.
    """

    memory: int = 15
    max_steps: int = 10_000

    needs: ClassVar[tuple[str, ...]] = ("grad",)
    any_geometry: ClassVar[bool] = True

    def init(
        self, phi: Model, v0: Vector, grad_g0: Vector | None, warm: LBFGSState | None = None
    ) -> LBFGSState:
        grad_g = phi.g.grad(v0) if grad_g0 is None else grad_g0
        pairs = () if warm is None else warm.pairs[-self.memory :]
        curved = tuple(c for s, y_g in pairs if (c := _curved(phi, s, y_g)))
        return LBFGSState(v0, grad_g, pairs, curved)

    def step(self, phi: Model, state: LBFGSState) -> LBFGSState:
        if state.failed:
            return state
        dot = phi.geometry.dot
        grad_phi = phi.grad(state.v, state.grad_g)
        d, first = _direction(phi, state.curved, grad_phi)
        slope0 = float(dot(grad_phi, d))
        if not slope0 < 0.0:  # rounding: no descent by these pairs, or at all
            return replace(state, pairs=(), curved=(), failed=not state.curved)
        t, low, high = first, (0.0, slope0), None
        for _ in range(30):
            v = state.v + t * d
            grad_g = phi.g.grad(v)
            slope = float(dot(phi.grad(v, grad_g), d))
            if _STEEP * slope0 <= slope <= -_FLAT * slope0:
                s, y_g = v - state.v, grad_g - state.grad_g
                new = _curved(phi, s, y_g)
                curved = (*state.curved, new) if new else state.curved
                pairs = (*state.pairs, (s, y_g))[-self.memory :]
                return LBFGSState(v, grad_g, pairs, curved[-self.memory :])
            if slope < (1.0 + _ROUNDING) * slope0:
                break  # phi bends down: it is not convex
            if slope < 0.0:
                low = (t, slope)
            else:
                high = (t, slope)
            t = _next_trial(low, high, slope0)
            if high is not None and high[0] - low[0] <= 4.0 * EPS * high[0]:
                break
        return replace(state, failed=True)

    def limit(self, phi: Model) -> int:
        return self.max_steps


def _curved(phi: Model, s: Vector, y_g: Vector) -> tuple[Vector, Vector, float] | None:
    """s, the change y of the gradient of phi along it, and <s, y>; None without curvature."""
    y = phi.changes([s], [y_g])[0]
    norm = phi.geometry.norm
    sy = float(phi.geometry.dot(s, y))
    return (s, y, sy) if sy > 1e-12 * norm(s) * norm(y) else None


def _direction(
    phi: Model, curved: tuple[tuple[Vector, Vector, float], ...], grad_phi: Vector
) -> tuple[Vector, float]:
    """-H grad phi by the two loops, and the first step length to try."""
    dot = phi.geometry.dot
    q = -grad_phi
    weights: list[float] = []
    for s, y, sy in reversed(curved):
        weights.append(float(dot(s, q)) / sy)
        q -= weights[-1] * y
    if curved:
        _, y, sy = curved[-1]
        q *= sy / float(dot(y, y))
        first = 1.0
    elif phi.L_g is not None:
        q /= phi.alpha + phi.L_g
        first = 1.0
    else:
        first = min(1.0 / phi.alpha, 1.0 / max(phi.geometry.norm(grad_phi), EPS))
    for (s, y, sy), weight in zip(curved, reversed(weights), strict=True):
        q += (weight - float(dot(y, q)) / sy) * s
    return q, first


def _next_trial(low: tuple[float, float], high: tuple[float, float] | None, slope0: float) -> float:
    """Secant on the slope, kept inside the bracket, or expansion while there is none."""
    t_low, s_low = low
    if high is None:
        # Slope rose from slope0 to s_low over t_low: follow it, 2 to 10 times as far.
        rise = s_low - slope0
        target = t_low * slope0 / (slope0 - s_low) if rise > 0.0 else 10.0 * t_low
        return min(max(target, 2.0 * t_low), 10.0 * t_low)
    t_high, s_high = high
    t = t_low - s_low * (t_high - t_low) / (s_high - s_low)
    width = t_high - t_low
    return min(max(t, t_low + 0.1 * width), t_high - 0.1 * width)
