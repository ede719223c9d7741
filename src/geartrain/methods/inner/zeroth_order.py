r"""Inner methods for a term g that gives values only: derivatives are central differences.

========  ============  ==========================================================
symbol    name          meaning
========  ============  ==========================================================
x         ``v``         main sequence, where the rule is tested
v         ``walk.z``    second sequence
A, B      ``A``, ``B``  weights of the estimating sequence
L_i, L    ``L``         constants of the derivatives of phi
sigma     ``sigma``     strong convexity of phi
t         ``t``         difference steps
========  ============  ==========================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from geartrain.methods.coordinate import (
    Sampler,
    Sequences,
    StepLengths,
    Walk,
    chunk_length,
    coordinate_constants,
    model_constants,
    walk_slowly,
)
from geartrain.methods.inner.nesterov_stich import nesterov_stich_weights
from geartrain.oracles.differences import central_gradient, central_partial, difference_steps
from geartrain.oracles.protocols import Vector
from geartrain.problem import MissingConstant, Model

# Noise ends a run long before rounding would.
_MAX_CHUNKS = 30


@dataclass(frozen=True)
class ZerothOrderState:
    """State after `chunk` chunks."""

    v: Vector  # main sequence
    grad_g: Vector  # estimate, by differences, of the gradient of g at v
    walk: Walk
    A: float = 0.0
    B: float = 1.0
    chunk: int = 0


class _ZerothOrder:
    """Start and limit, the same for both."""

    needs: ClassVar[tuple[str, ...]] = ("value",)

    def init(
        self, phi: Model, v0: Vector, grad_g0: Vector | None, warm: ZerothOrderState | None = None
    ) -> ZerothOrderState:
        if grad_g0 is None:
            grad_g0 = central_gradient(phi.g.value, v0, _steps(phi, v0))
        return ZerothOrderState(v0, grad_g0, Walk(v0, np.zeros_like(v0), ()))

    def limit(self, phi: Model) -> int:
        return _MAX_CHUNKS


# Paper: derivative-free
# Paper: outlook
@dataclass(frozen=True)
class CoordinateSearch(_ZerothOrder):
    r"""Accelerated coordinate search on phi(v) = <beta, v> + alpha/2 \|v\|^2 + g(v).

    Algorithm: that of `geartrain.inner.NesterovStich`, [1]_, with beta = 1/2, and::

        (g(y + t_i e_i) - g(y - t_i e_i))/(2 t_i) + beta_i + alpha y_i

    for the i-th partial derivative of phi at y.

    Guarantee: without noise that of `geartrain.inner.NesterovStich`, K = sum_i sqrt(L_i/sigma)
    steps being the natural number; with values right to delta, phi - phi* ends near delta^{4/3}.
    Two values of g per step. A step of this object is a chunk of K steps, 2 n values that estimate
    the gradient at x, where the rule is then tested, and one value for the size of the rounding
    errors if the term states no ``noise``.

    Notes
    -----
    The difference steps t_i are those of `geartrain.oracles.differences`. ``grad_g`` of the state
    is an estimate, good to about sqrt(n) delta/t.

    References
    ----------
    .. [1] Yu. Nesterov, S. Stich, Efficiency of the accelerated coordinate descent method on
       structured optimization problems, SIAM J. Optim. 27 (2017).
    """

    def step(self, phi: Model, state: ZerothOrderState) -> ZerothOrderState:
        L = model_constants(phi, "CoordinateSearch")
        sigma = phi.alpha + phi.mu_g
        S = float(np.sqrt(L).sum())
        sampler = Sampler(np.sqrt(L))
        index = sampler.draw((*phi.key, state.chunk), chunk_length(S / math.sqrt(sigma), phi.n))
        weights, A, B = nesterov_stich_weights(state.A, state.B, S, sigma, index.size)
        value, t = phi.g.value, _steps(phi, state.v)
        walk = state.walk.copy()
        walk_slowly(
            lambda x, i: central_partial(value, x, i, t[i]),
            Sequences(walk.z, walk.u),
            index,
            weights,
            StepLengths(x=1.0 / L, z=1.0 / sampler.p),
            phi.beta,
            phi.alpha,
        )
        v = walk.x
        return ZerothOrderState(v, central_gradient(value, v, t), walk, A, B, state.chunk + 1)


# Paper: derivative-free
@dataclass(frozen=True)
class DirectionalSearch(_ZerothOrder):
    r"""Accelerated random directional search on phi(v) = <beta, v> + alpha/2 \|v\|^2 + g(v).

    Algorithm, from x = v = v_0, A = 0, B = 1, with L = L_g + alpha, sigma = alpha + mu_g::

        1. a from n^2 L a^2 = (A + a)(B + sigma a);  A_+ = A + a, B_+ = B + sigma a,
           s = a/A_+, r = sigma a/B_+
        2. y = [(1 - s) x + s (1 - r) v]/(1 - s r);  draw e uniformly on the unit sphere
        3. d = (g(y + t e) - g(y - t e))/(2 t) + <beta + alpha y, e>
        4. x_+ = y - (d/L) e
        5. v_+ = (1 - r) v + r y - (a/B_+) n d e

    Guarantee: without noise E[A (phi(x) - phi*) + B/2 \|v - v*\|^2] does not grow, by the proof for
    coordinates with E[n d e] = grad phi(y); n sqrt(L/sigma) steps are the natural number K. Two
    values of g per step. A step of this object is a chunk of K steps, 2 n values for an estimate of
    the gradient at x, and one value if the term states no ``noise``.

    Notes
    -----
    Needs more steps than `geartrain.inner.CoordinateSearch` where the coordinates differ, but no
    constant for each of them, and it ends a little nearer to the minimum when values are noisy. The
    difference step t is the smallest of `geartrain.oracles.differences`. ``grad_g`` of the state
    is an estimate by coordinate differences. Deviation: the weights of [1]_ are replaced by those
    of `geartrain.inner.NesterovStich`, whose constants are smaller.

    References
    ----------
    .. [1] P. Dvurechensky, E. Gorbunov, A. Gasnikov, An accelerated directional derivative method
       for smooth stochastic convex optimization, Eur. J. Oper. Res. 290 (2021).
    """

    def step(self, phi: Model, state: ZerothOrderState) -> ZerothOrderState:
        if phi.L_g is None:
            raise MissingConstant("DirectionalSearch needs L_g: give the term its L or pass L_g=")
        n, L, sigma = phi.n, phi.L_g + phi.alpha, phi.alpha + phi.mu_g
        size = chunk_length(n * math.sqrt(L / sigma), n)
        weights, A, B = nesterov_stich_weights(state.A, state.B, n * math.sqrt(L), sigma, size)
        value, steps = phi.g.value, _steps(phi, state.v)
        t = float(steps.min())
        rng = np.random.default_rng((*phi.key, state.chunk))
        z, u = state.walk.z, state.walk.u  # v and x - v
        for k, be, a in zip(*weights, strict=True):
            e = rng.standard_normal(n)
            e /= math.sqrt(float(e @ e))
            y = z + k * u  # line 2
            slope = (value(y + t * e) - value(y - t * e)) / (2.0 * t)
            d = slope + float((phi.beta + phi.alpha * y) @ e)
            z_next = z + (be * k) * u - (a * n * d) * e
            z, u = z_next, y - (d / L) * e - z_next
        walk = Walk(z, u, ())
        x = walk.x
        return ZerothOrderState(x, central_gradient(value, x, steps), walk, A, B, state.chunk + 1)


def _steps(phi: Model, x: Vector) -> Vector:
    L = coordinate_constants(phi.g.term, phi.L_g, "a method of differences")
    return difference_steps(phi.g.term, phi.g.value, x, L)
