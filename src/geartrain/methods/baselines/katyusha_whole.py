r"""Katyusha on f = (1/m) sum_k (h + g_k): what finite sums cost without separation.

======  ============  ==========================================================
symbol  name          meaning
======  ============  ==========================================================
xt      ``x_tilde``   snapshot, the output; both gradients are known here
y, z    ``y``, ``z``  main and mirror sequence, kept over epochs
======  ============  ==========================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from geartrain.methods.base import State
from geartrain.methods.inner.finite_sum import Snapshot, finite_sum
from geartrain.methods.inner.katyusha import check_options, epoch_length
from geartrain.oracles.protocols import Vector, require
from geartrain.problem import Sum


@dataclass(frozen=True, kw_only=True)
class KatyushaWholeState(State):
    """State of `KatyushaWhole` after s epochs."""

    s: int
    x_tilde: Vector
    grad_h: Vector  # gradient of h at x_tilde
    grad_g: Vector  # gradient of g at x_tilde
    memory: Any  # the components of g at x_tilde, where known
    y: Vector
    z: Vector
    L: float

    @property
    def point(self) -> Vector:
        """The snapshot."""
        return self.x_tilde

    @property
    def grad(self) -> Vector:
        return self.grad_h + self.grad_g


# Paper: Katyusha on the whole
@dataclass(frozen=True)
class KatyushaWhole:
    r"""Katyusha on f = (1/m) sum_k (h + g_k), with mu the strong convexity of f.

    Algorithm, one step = one epoch of l component steps from the snapshot xt, with L = L_h + mean
    L_k, tau_2 = 1/2, tau_1 = min(sqrt(l mu/(3 L)), 1/2), a = 1/(3 tau_1 L)::

        1. x = tau_1 z + tau_2 xt + (1 - tau_1 - tau_2) y,
           G~ = grad h(x) + grad g(xt) + (grad g_k(x) - grad g_k(xt))/(m p_k)
        2. z_+ = (z + a mu x - a G~)/(1 + a mu),  y_+ = x + tau_1 (z_+ - z)
        3. xt_+ = sum_j (1 + a mu)^j y_j, normalised; both gradients there

    For mu = 0, tau_1 = 2/(s + 4) in epoch s and xt_+ is the plain mean.

    Guarantee: O((m + sqrt(m L/mu)) ln(1/eps)) steps [1]_. An epoch asks h for l + 1 gradients:
    every component h + g_k holds all of h.

    Parameters
    ----------
    epoch : int, optional
        l, as in `geartrain.Katyusha`.
    sampling : {"importance", "uniform"}
        With p_k = L_k/sum L, or p_k = 1/m and L = L_h + max L_k.

    Notes
    -----
    Since each component holds the same h, its part of the estimator is the exact gradient at x,
    and the one at xt drops out: one call of h per step, not two, and no variance from it.
    mu in f instead of in a composite term: the form of [2]_.

    References
    ----------
    .. [1] Z. Allen-Zhu, Katyusha: the first direct acceleration of stochastic gradient methods,
       JMLR 18 (2018).
    .. [2] D. Kovalev, S. Horvath, P. Richtarik, Don't jump through hoops and remove those
       loops: SVRG and Katyusha are better without the outer loop, ALT (2020).
    """

    epoch: int | None = None
    sampling: str = "importance"

    needs: ClassVar[tuple[str, ...]] = ("grad",)

    def __post_init__(self) -> None:
        check_options(self.epoch, self.sampling)

    def init(self, problem: Sum, x0: Vector) -> KatyushaWholeState:
        require("KatyushaWhole", "g", problem.g.term, "component")
        L_h = problem.L_h.need("L_h", "KatyushaWhole")
        terms = finite_sum(problem.g)
        L = L_h + terms.sampling(self.sampling).L + max(terms.ridges)
        grad_g, memory = terms.snapshot(x0)
        return KatyushaWholeState(
            s=0,
            x_tilde=x0,
            grad_h=problem.h.grad(x0),
            grad_g=grad_g,
            memory=memory,
            y=x0,
            z=x0,
            L=L,
        )

    def step(self, problem: Sum, state: KatyushaWholeState) -> KatyushaWholeState:
        terms = finite_sum(problem.g)
        draw = terms.sampling(self.sampling)
        mu = problem.mu.value or 0.0
        L, xt = state.L, state.x_tilde
        l = epoch_length(terms.m, L, mu) if self.epoch is None else self.epoch
        tau_1 = min(math.sqrt(l * mu / (3.0 * L)), 0.5) if mu else 2.0 / (state.s + 4.0)
        a = 1.0 / (3.0 * tau_1 * L)
        order = draw.order(np.random.default_rng((problem.seed, state.s)), l)
        estimator = terms.estimator(Snapshot(xt, state.grad_g, state.memory.copy()), draw.scale)
        y, z = state.y, state.z
        total, weight = np.zeros_like(y), 0.0
        for k in order:
            # 1.
            x = tau_1 * z + 0.5 * xt + (0.5 - tau_1) * y
            estimate = problem.h.grad(x) + estimator(x, k)
            # 2.
            z_next = (z + a * (mu * x - estimate)) / (1.0 + a * mu)
            y = x + tau_1 * (z_next - z)
            z = z_next
            # 3., with the weights divided by the latest
            total = total / (1.0 + a * mu) + y
            weight = weight / (1.0 + a * mu) + 1.0
        x_tilde = total / weight
        grad_g, memory = terms.snapshot(x_tilde)
        return KatyushaWholeState(
            s=state.s + 1,
            x_tilde=x_tilde,
            grad_h=problem.h.grad(x_tilde),
            grad_g=grad_g,
            memory=memory,
            y=y,
            z=z,
            L=L,
        )
