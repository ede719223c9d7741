r"""Inner methods for a g that gives values only: derivatives are central differences.

========  ============  ==========================================================
symbol    name          meaning
========  ============  ==========================================================
y         ``v``         main sequence, where the rule is tested
z         ``walk.z``    second sequence
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
    Steps,
    Walk,
    chunk_length,
    coordinate_constants,
    model_constants,
    walk_slowly,
)
from geartrain.methods.inner.acd import nu_acdm_weights
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
    chunk: int = 0


class _ZerothOrder:
    """Start and limit, the same for both."""

    needs: ClassVar[tuple[str, ...]] = ("value",)

    def init(self, phi: Model, v0: Vector, grad_g0: Vector | None) -> ZerothOrderState:
        """Y = z = v0."""
        if grad_g0 is None:
            grad_g0 = central_gradient(phi.g.value, v0, _steps(phi, v0))
        return ZerothOrderState(v0, grad_g0, Walk(v0, np.zeros_like(v0), ()))

    def limit(self, phi: Model) -> int:
        """Chunks after which the noise has won."""
        return _MAX_CHUNKS


@dataclass(frozen=True)
class CoordinateSearch(_ZerothOrder):
    r"""Accelerated coordinate search on phi(v) = <beta, v> + alpha/2 \|v\|^2 + g(v).

    Algorithm: that of `geartrain.ACD`, with

        (g(x + t_i e_i) - g(x - t_i e_i))/(2 t_i) + beta_i + alpha x_i

    for the i-th partial derivative of phi at x.

    Guarantee: without noise that of `geartrain.ACD`, K = sum_i sqrt(L_i/sigma) steps being the
    natural number; with values right to delta, phi - phi* ends near delta^{4/3}. Two values of g a
    step. A step of this object is a chunk of 1.5 K steps, 2 n values for an estimate of the
    gradient at y, where the rule is then tested, and one value for the size of the rounding
    errors if the term states no ``noise``.

    Notes
    -----
    The difference steps t_i are those of `geartrain.oracles.differences`. ``grad_g`` of the state
    is an estimate, good to about sqrt(n) delta/t.
    """

    def step(self, phi: Model, state: ZerothOrderState) -> ZerothOrderState:
        """One chunk of coordinate steps, then the estimate of the gradient."""
        L = model_constants(phi, "CoordinateSearch")
        sigma = phi.alpha + phi.mu_g
        S = float(np.sqrt(L).sum())
        sampler = Sampler(np.sqrt(L))
        index = sampler.draw((*phi.key, state.chunk), chunk_length(S / math.sqrt(sigma), phi.n))
        value, t = phi.g.value, _steps(phi, state.v)
        walk = state.walk.copy()
        walk_slowly(
            lambda x, i: central_partial(value, x, i, t[i]),
            walk.z,
            walk.u,
            index,
            *nu_acdm_weights(S, sigma, index.size),
            *Steps(x=1.0 / L, z=1.0 / sampler.p)[:2],
            phi.beta,
            phi.alpha,
            False,
        )
        v = walk.x
        return ZerothOrderState(v, central_gradient(value, v, t), walk, state.chunk + 1)


@dataclass(frozen=True)
class DirectionalSearch(_ZerothOrder):
    r"""Accelerated random directional search on phi(v) = <beta, v> + alpha/2 \|v\|^2 + g(v).

    Algorithm, from y = z = v_0, with L = L_g + alpha, sigma = alpha + mu_g, S = n sqrt(L),
    tau = 2/(1 + sqrt(4 S^2/sigma + 1)):

    1. draw e uniformly on the unit sphere;  x = tau z + (1 - tau) y
    2. d = (g(x + t e) - g(x - t e))/(2 t) + <beta + alpha x, e>
    3. y_+ = x - (d/L) e
    4. z_+ = (1 - tau) z + tau x - (tau/sigma) n d e

    Guarantee: without noise that of `geartrain.ACD`, n sqrt(L/sigma) steps being the natural
    number K. Two values of g a step. A step of this object is a chunk of 1.5 K steps, 2 n values
    for an estimate of the gradient at y, and one value if the term states no ``noise``.

    Notes
    -----
    Needs more steps than `geartrain.CoordinateSearch` where the coordinates differ, but no
    constant for each of them, and it ends nearer to the minimum when values are noisy. The
    difference step t is the smallest of `geartrain.oracles.differences`. ``grad_g`` of the state
    is an estimate by coordinate differences.

    References
    ----------
    .. [1] P. Dvurechensky, E. Gorbunov, A. Gasnikov, An accelerated directional derivative method
       for smooth stochastic convex optimization, Eur. J. Oper. Res. 290 (2021). The constants
       here are those of the analysis of [2]_, which are smaller.
    .. [2] Z. Allen-Zhu, Z. Qu, P. Richtarik, Y. Yuan, Even faster accelerated coordinate descent
       using non-uniform sampling, ICML (2016).
    """

    def step(self, phi: Model, state: ZerothOrderState) -> ZerothOrderState:
        """One chunk of directional steps, then the estimate of the gradient."""
        if phi.L_g is None:
            raise MissingConstant("DirectionalSearch needs L_g: give the term its L or pass L_g=")
        n, L, sigma = phi.n, phi.L_g + phi.alpha, phi.alpha + phi.mu_g
        S = n * math.sqrt(L)
        tau = 2.0 / (1.0 + math.sqrt(4.0 * S * S / sigma + 1.0))
        value, steps = phi.g.value, _steps(phi, state.v)
        t = float(steps.min())
        rng = np.random.default_rng((*phi.key, state.chunk))
        y, z = state.v, state.walk.z
        for _ in range(chunk_length(S / math.sqrt(sigma), n)):
            e = rng.standard_normal(n)
            e /= math.sqrt(float(e @ e))
            x = tau * z + (1.0 - tau) * y
            slope = (value(x + t * e) - value(x - t * e)) / (2.0 * t)
            d = slope + float((phi.beta + phi.alpha * x) @ e)
            y = x - (d / L) * e
            z = (1.0 - tau) * z + tau * x - (tau / sigma * n * d) * e
        grad_g = central_gradient(value, y, steps)
        return ZerothOrderState(y, grad_g, Walk(z, y - z, ()), state.chunk + 1)


def _steps(phi: Model, x: Vector) -> Vector:
    L = coordinate_constants(phi.g.term, phi.L_g, "a method of differences")
    return difference_steps(phi.g.term, phi.g.value, x, L)
