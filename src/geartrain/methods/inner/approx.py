r"""APPROX: accelerated proximal coordinate descent, the quadratic taken as composite term.

=========  ============  ==========================================================
symbol     name          meaning
=========  ============  ==========================================================
x          ``v``         main sequence, where the rule is tested
z          ``walk.z``    second sequence
theta      ``theta``     weight of z, 1/n at the start
b_i        ``b``         constant of the i-th partial derivative of g
U          ``unit``      n sqrt((max b_i + alpha)/(alpha + mu_g)), natural number of steps
=========  ============  ==========================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from geartrain.methods.base import ceiling
from geartrain.methods.coordinate import (
    MAX_CHUNKS,
    Sampler,
    Schedule,
    StepLengths,
    Walk,
    check_period,
    chunk_length,
    model_constants,
    start_walk,
    walk_model,
)
from geartrain.methods.inner.agm import OutputState
from geartrain.methods.separable import by_numbers, need_separable
from geartrain.oracles.protocols import Vector
from geartrain.problem import Model


@dataclass(frozen=True, kw_only=True)
class APPROXState(OutputState):
    """State of `APPROX` after `chunk` chunks; its point is x."""

    walk: Walk
    theta: float
    since: int = 0  # steps since the last restart
    chunk: int = 0


# Paper: APPROX
@dataclass(frozen=True)
class APPROX:
    r"""APPROX on phi(v) = g(v) + psi(v), psi(v) = <beta, v> + alpha/2 \|v\|^2.

    Algorithm (serial, uniform sampling), from x = z = v_0, theta = 1/n::

        1. y = (1 - theta) x + theta z;  draw i uniformly
        2. z_i+ = argmin_t d (t - y_i) + n theta b_i/2 (t - z_i)^2 + psi_i(t)
           = (n theta b_i z_i - d - beta_i)/(n theta b_i + alpha),
           d the i-th partial derivative of g at y
        3. x_+ = y + n theta (z_+ - z)
        4. theta_+ = (sqrt(theta^4 + 4 theta^2) - theta^2)/2

    Guarantee: E[phi(x_k) - phi*] <= 4 n^2/(k - 1 + 2 n)^2 [(1 - 1/n)(phi(x_0) - phi*) +
    1/2 \|x_0 - v*\|_b^2] ([1]_, Theorem 3); restarts make it linear. A step of this object is a
    chunk of U steps, one partial derivative of g each, and one gradient of g at x, where the
    rule is then tested.

    Parameters
    ----------
    restart : int, optional
        Start again from x after so many steps; 3 U if not given.

    Notes
    -----
    The number of steps depends on the largest b_i, that of `geartrain.inner.ACD` on the mean of
    their square roots. The terms that run compiled, and the price of the others, are those of
    `geartrain.inner.ACD`.

    A separable non-smooth term of phi belongs to psi: then line 2 is a proximal step of one
    coordinate, each counted as one call of ``prox``. x is a convex combination of the points z
    ([1]_, Lemma 2) and comes with no subgradient, so that the output is one proximal gradient step
    from it (`geartrain.methods.inner.agm.OutputState`). The steps run compiled with `geartrain.L1`
    and `geartrain.Box`.

    References
    ----------
    .. [1] O. Fercoq, P. Richtarik, Accelerated, parallel, and proximal coordinate descent, SIAM J.
       Optim. 25 (2015).
    """

    restart: int | None = None

    needs: ClassVar[tuple[str, ...]] = ("coord",)
    takes_psi: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_period(self.restart)

    def init(
        self, phi: Model, v0: Vector, grad_g0: Vector | None, warm: APPROXState | None = None
    ) -> APPROXState:
        need_separable(phi.psi, "APPROX")
        grad_g = phi.g.grad(v0) if grad_g0 is None else grad_g0
        # A psi that has to be asked is asked step by step, without compiled products.
        terms = () if by_numbers(phi.psi, phi.n) is None else (phi.g.term,)
        walk = start_walk(terms, v0)
        return APPROXState.at(phi, v0, grad_g, _smoothness(phi), walk=walk, theta=1.0 / phi.n)

    def settle(self, phi: Model, state: APPROXState) -> APPROXState:
        return state.settled(phi, _smoothness(phi))

    def step(self, phi: Model, state: APPROXState) -> APPROXState:
        n = phi.n
        b = model_constants(phi, "APPROX") - phi.alpha
        unit = n * math.sqrt((float(b.max()) + phi.alpha) / (phi.alpha + phi.mu_g))
        period = ceiling(3.0 * unit) if self.restart is None else self.restart
        index = Sampler(np.ones(n)).draw((*phi.key, state.chunk), chunk_length(unit, n))
        with np.errstate(divide="ignore"):  # g may not depend on a coordinate at all
            steps = StepLengths(x=1.0 / b, z=b, composite=True)
        walk, theta, since, done = state.walk, state.theta, state.since, 0
        while done < index.size:
            if since == period:
                walk, theta, since = walk.restarted(), 1.0 / n, 0
            some = min(index.size - done, period - since)
            weights, theta = approx_weights(theta, n, some)
            walk = walk_model(phi, walk, index[done : done + some], weights, steps)
            done, since = done + some, since + some
        fields = {"walk": walk, "theta": theta, "since": since, "chunk": state.chunk + 1}
        return APPROXState.at(phi, walk.x, phi.g.grad(walk.x), _smoothness(phi), **fields)

    def limit(self, phi: Model) -> int:
        """Limit on the chunks; a higher one where restarts are guessed."""
        return MAX_CHUNKS if self.restart is None else 20 * MAX_CHUNKS


def _smoothness(phi: Model) -> float:
    """L_g, or the sum of the b_i, which is never less; only models with psi need it."""
    if phi.psi is None:
        return 0.0
    return phi.L_g or float(np.sum(model_constants(phi, "APPROX") - phi.alpha))


def approx_weights(theta: float, n: int, steps: int) -> tuple[Schedule, float]:
    """Lines 1 and 4 for so many steps; the weights and theta."""
    from geartrain.compiled.coordinate import thetas

    t = thetas(theta, steps + 1)
    return Schedule(1.0 - t[:-1], np.zeros(steps), n * t[:-1]), float(t[-1])
