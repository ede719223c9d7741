r"""Varag for phi with g = (1/m) sum_k g_k: epochs that double in length first.

===============  ===============  ==================================================
symbol           name             meaning
===============  ===============  ==================================================
xt               ``point``        snapshot
x                ``z``            mirror sequence, kept over epochs
xbar             ``y``            main sequence, starts each epoch at xt
T_s              ``T``            length of epoch s
alpha_s, p_s     ``tau_1``, 1/2   weights of x and xt
gamma_s          ``gamma``        1/(3 L alpha_s)
===============  ===============  ==================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from geartrain.methods.base import ceiling
from geartrain.methods.inner.finite_sum import EpochStart, sum_of
from geartrain.methods.inner.katyusha import EpochMethod, KatyushaState, check_options
from geartrain.methods.inner.recursion import Steps, separated
from geartrain.oracles.protocols import Vector
from geartrain.problem import Model


# Paper: Varag
@dataclass(frozen=True)
class Varag(EpochMethod):
    r"""Varag on phi(v) = <beta, v> + alpha/2 \|v\|^2 + (1/m) sum_k g_k(v).

    Algorithm, one step = epoch s = 1, 2, ..., with s_0 = floor(log2 m) + 1,
    T_s = 2^{min(s, s_0) - 1}, p_s = 1/2, alpha_s = 1/2 for s <= s_0 and
    max(2/(s - s_0 + 4), min(sqrt(m alpha/(3 L)), 1/2)) later, gamma_s = 1/(3 L alpha_s)::

        1. xbar = xt; for t = 1 .. T_s: the component step of Katyusha with
           tau_1 = alpha_s, tau_2 = p_s, a = gamma_s, y = xbar, z = x
        2. xt_+ = sum_t theta_t xbar_t, normalised, where (up to a factor) theta_t = 1 - t3 for
           t < T_s and 1 for t = T_s while s <= s_0, or m < 3 L/(4 alpha) and
           s <= s_0 + sqrt(12 L/(m alpha)) - 4; otherwise
           theta_t = Gamma_{t-1} - t3 Gamma_t and Gamma_{T-1}, Gamma_t = (1 + alpha gamma_s)^t, with
           t3 = 1 - alpha_s - p_s; the gradient of g there

    Guarantee: phi(xt_s) - phi* <= D_0/2^{s+1} up to s_0, then linear with tau_g = sqrt(m L)
    (Theorem 2 of [1]_), D_0 = 2 (phi(v_0) - phi*) + (3 L/2) \|v_0 - v*\|^2. T_s components
    and one gradient of g per epoch.

    Parameters
    ----------
    sampling : {"importance", "uniform"}
        As in `geartrain.Katyusha`.

    Notes
    -----
    The strong convexity is that of the quadratic, treated exactly; then the recursion of [1]_ is
    Katyusha's. The doubling epochs pay from a cold start; inside SAE, where runs are short and
    start warm, `geartrain.Katyusha` needs fewer calls. With a non-smooth psi in phi, which is part
    of the composite term of [1]_, line 1 has its proximal step, as in `geartrain.Katyusha`.

    References
    ----------
    .. [1] G. Lan, Z. Li, Y. Zhou, A unified variance-reduced accelerated gradient method for
       convex optimization, NeurIPS (2019).
    """

    sampling: str = "importance"

    def __post_init__(self) -> None:
        check_options(None, self.sampling)

    def step(self, phi: Model, state: KatyushaState) -> KatyushaState:
        terms = sum_of(phi)
        draw = terms.sampling(self.sampling)
        s, strong = state.s + 1, phi.alpha + terms.strong
        T = epoch_length(s, terms.m)
        numbers = separated(
            draw.L,
            tuple(phi.alpha + ridge for ridge in terms.ridges),
            lambda L: epoch_numbers(s, terms.m, L, strong),
        )
        order = draw.order(np.random.default_rng((*phi.key, state.s)), T)
        start = EpochStart(order, draw.scale, state.snapshot, y=state.point, z=state.z)
        end = terms.epoch(numbers, phi, start)
        xt = new_snapshot(numbers, T, end.mean, end.y)
        grad_g, memory = terms.snapshot(xt)
        return self.at(phi, xt, grad_g, memory=memory, y=end.y, z=end.z, s=s)

    def limit(self, phi: Model) -> int:
        """Epoch limit: 100 times the theoretical number."""
        terms = sum_of(phi)
        L = terms.sampling(self.sampling).L
        return 200 + ceiling(100.0 * math.sqrt(1.0 + 3.0 * L / (terms.m * phi.alpha)))


def first_epochs(m: int) -> int:
    """s_0, the number of epochs that double."""
    return int(math.log2(m)) + 1


def epoch_length(s: int, m: int) -> int:
    """T_s, the number of component steps of epoch s."""
    return 2 ** (min(s, first_epochs(m)) - 1)


def epoch_numbers(s: int, m: int, L: float, strong: float) -> Steps:
    """alpha_s, p_s, gamma_s, and the powers rho of the weights theta_t."""
    s_0, tau_1 = first_epochs(m), 0.5
    if s > s_0:
        tau_1 = max(2.0 / (s - s_0 + 4.0), min(math.sqrt(m * strong / (3.0 * L)), 0.5))
    gamma = 1.0 / (3.0 * L * tau_1)
    early = s <= s_0 or (
        m < 0.75 * L / strong and s <= s_0 + math.sqrt(12.0 * L / (m * strong)) - 4.0
    )
    return Steps(tau_1, 0.5, gamma, 1.0 if early else 1.0 / (1.0 + gamma * strong))


def new_snapshot(numbers: Steps, T: int, mean: Vector, last: Vector) -> Vector:
    """Line 2: theta_t = (rho - t3) rho^{T-t} for t < T, and rho for t = T."""
    t3 = 0.5 - numbers.tau_1
    inside = (numbers.rho - t3) * numbers.weight(T)
    return (inside * mean + t3 * last) / (inside + t3)
