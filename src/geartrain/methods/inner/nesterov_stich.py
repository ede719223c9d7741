r"""Nesterov and Stich's accelerated coordinate descent with its exponent and restarts.

==========  ============  ==========================================================
symbol      name          meaning
==========  ============  ==========================================================
x           ``v``         main sequence, where the rule is tested
v           ``walk.z``    second sequence
beta        ``beta``      exponent of the probabilities, p_i = L_i^beta/S_beta
S_beta      ``S``         sum_i L_i^beta
w_i         ``w``         L_i^{1 - 2 beta}, weights of the norm
sigma_w     ``sigma``     strong convexity in that norm
A, B        ``A``, ``B``  weights of the estimating sequence
==========  ============  ==========================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

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
from geartrain.oracles.protocols import Vector
from geartrain.problem import Model


@dataclass(frozen=True)
class NesterovStichState:
    """State of `NesterovStich` after `chunk` chunks."""

    v: Vector  # main sequence
    grad_g: Vector  # gradient of g at v
    walk: Walk
    A: float
    B: float
    since: int = 0  # steps since the last restart
    chunk: int = 0


# Paper: Nesterov-Stich
@dataclass(frozen=True)
class NesterovStich:
    r"""Accelerated coordinate descent on phi(v) = <beta, v> + alpha/2 \|v\|^2 + g(v).

    Algorithm, from x = v = v_0, A = 0, B = 1::

        1. a from S_beta^2 a^2 = (A + a)(B + sigma_w a);  A_+ = A + a, B_+ = B + sigma_w a,
           s = a/A_+, t = sigma_w a/B_+
        2. y = [(1 - s) x + s (1 - t) v]/(1 - s t);  draw i with p_i = L_i^beta/S_beta
        3. x_+ = y - (d/L_i) e_i with d the i-th partial derivative of phi at y
        4. v_+ = (1 - t) v + t y - a d/(B_+ w_i p_i) e_i

    Guarantee: E[A (phi(x) - phi*) + B/2 \|v - v*\|_w^2] does not grow, so the natural number of
    steps is K = S_beta/sqrt(sigma_w) ([1]_). A step of this object is a chunk of K steps, one
    partial derivative of g each, and one gradient of g at x, where the rule is then tested.

    Parameters
    ----------
    beta : float
        In [0, 1/2]. With 1/2 the norm is Euclidean and sigma_w = alpha + mu_g is known exactly;
        below, only sigma_w >= (alpha + mu_g)/max_i w_i is.
    restart : int, optional
        Take sigma_w = 0 and start the momentum again from x after so many steps. The paper has
        300 in Section 5.2; about 4 K is better, and less than n is poor.

    Notes
    -----
    The terms that run compiled, and the price of the others, are those of `geartrain.inner.ACD`.

    References
    ----------
    .. [1] Yu. Nesterov, S. Stich, Efficiency of the accelerated coordinate descent method on
       structured optimization problems, SIAM J. Optim. 27 (2017).
    """

    beta: float = 0.5
    restart: int | None = None

    needs: ClassVar[tuple[str, ...]] = ("coord",)

    def __post_init__(self) -> None:
        if not 0.0 <= self.beta <= 0.5:
            raise ValueError(f"beta must be in [0, 1/2], got {self.beta:g}")
        check_period(self.restart)

    def init(
        self, phi: Model, v0: Vector, grad_g0: Vector | None, warm: NesterovStichState | None = None
    ) -> NesterovStichState:
        grad_g = phi.g.grad(v0) if grad_g0 is None else grad_g0
        return NesterovStichState(v0, grad_g, start_walk((phi.g.term,), v0), A=0.0, B=1.0)

    def step(self, phi: Model, state: NesterovStichState) -> NesterovStichState:
        L = model_constants(phi, "NesterovStich")
        w = L ** (1.0 - 2.0 * self.beta)
        sigma = (phi.alpha + phi.mu_g) / float(w.max())
        sampler = Sampler(L**self.beta)
        S = float((L**self.beta).sum())
        index = sampler.draw((*phi.key, state.chunk), chunk_length(S / math.sqrt(sigma), phi.n))
        steps = StepLengths(x=1.0 / L, z=1.0 / (w * sampler.p))
        walk, A, B, since, done = state.walk, state.A, state.B, state.since, 0
        while done < index.size:
            if since == self.restart:
                walk, A, B, since = walk.restarted(), 0.0, 1.0, 0
            some = index.size - done
            if self.restart is not None:
                some = min(some, self.restart - since)
            strong = sigma if self.restart is None else 0.0
            weights, A, B = nesterov_stich_weights(A, B, S, strong, some)
            walk = walk_model(phi, walk, index[done : done + some], weights, steps)
            done, since = done + some, since + some
        v = walk.x
        return NesterovStichState(v, phi.g.grad(v), walk, A, B, since, state.chunk + 1)

    def limit(self, phi: Model) -> int:
        """Limit on the chunks; a higher one where restarts are guessed."""
        return MAX_CHUNKS if self.restart is None else 20 * MAX_CHUNKS


def nesterov_stich_weights(
    A: float, B: float, S: float, sigma: float, steps: int
) -> tuple[Schedule, float, float]:
    """Lines 1 and 2 for so many steps; the weights, A and B."""
    from geartrain.compiled.coordinate import estimating_sequence

    k, be, a, A, B = estimating_sequence(A, B, S, sigma, steps)
    return Schedule(k, be, a), A, B
