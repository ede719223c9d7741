r"""Loopless Katyusha for phi with g = (1/m) sum_k g_k.

==================  ============  ================================================
symbol              name          meaning
==================  ============  ================================================
w                   ``point``     snapshot
y, z                ``y``, ``z``  main and mirror sequence
p                   ``p``         probability of a new snapshot after a step, 1/m
theta_1, theta_2    same          weights of z and w in x
==================  ============  ================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from geartrain.methods.base import ceiling
from geartrain.methods.inner.finite_sum import EpochStart, sum_of
from geartrain.methods.inner.katyusha import EpochMethod, KatyushaState, check_options
from geartrain.methods.inner.recursion import Steps, separated
from geartrain.problem import Model


@dataclass(frozen=True)
class LKatyusha(EpochMethod):
    r"""Loopless Katyusha on phi(v) = <beta, v> + alpha/2 \|v\|^2 + (1/m) sum_k g_k(v).

    Algorithm, with sigma = alpha/L, theta_2 = 1/2, theta_1 = min(sqrt(2 sigma/(3 p)), 1/2),
    eta = 1/(3 theta_1), for each component step::

        1. x = theta_1 z + theta_2 w + (1 - theta_1 - theta_2) y, G~ from the component at x as in
           Katyusha
        2. z_+ = (z - (eta/L) G~)/(1 + eta sigma)
        3. y_+ = x + theta_1 (z_+ - z)
        4. with probability p: w_+ = y (the one before the step), the gradient of g there

    Guarantee: the potential of Theorem 2.4 of [1]_ falls in expectation by
    1 - min(sigma eta/(1 + sigma eta), p theta_1/(1 + theta_1), theta_1/2) per component step.

    Parameters
    ----------
    p : float, optional
        1/m if not given.
    sampling : {"importance", "uniform"}
        As in `geartrain.Katyusha`.

    Notes
    -----
    One `step` runs up to and including the next change of w: a geometric number of component
    steps with mean 1/p, then one gradient of g. Because the quadratic is treated exactly, the
    terms eta sigma x of the paper cancel in line 2 and L is that of the components alone. With a
    non-smooth psi in phi, line 2 is a proximal step, as in `geartrain.Katyusha`.

    References
    ----------
    .. [1] D. Kovalev, S. Horvath, P. Richtarik, Don't jump through hoops and remove those
       loops: SVRG and Katyusha are better without the outer loop, ALT (2020).
    """

    p: float | None = None
    sampling: str = "importance"

    def __post_init__(self) -> None:
        check_options(None, self.sampling)
        if self.p is not None and not 0.0 < self.p <= 1.0:
            raise ValueError(f"p must be in (0, 1], got {self.p:g}")

    def step(self, phi: Model, state: KatyushaState) -> KatyushaState:
        terms, snapshot = sum_of(phi), state.snapshot
        draw = terms.sampling(self.sampling)
        p = 1.0 / terms.m if self.p is None else self.p
        strong = phi.alpha + terms.strong

        def steps(L: float) -> Steps:
            theta_1 = min(math.sqrt(2.0 * strong / (3.0 * p * L)), 0.5)
            return Steps(theta_1, 0.5, 1.0 / (3.0 * theta_1 * L), 1.0)

        numbers = separated(draw.L, tuple(phi.alpha + ridge for ridge in terms.ridges), steps)
        rng = np.random.default_rng((*phi.key, state.s))
        order = draw.order(rng, int(rng.geometric(p)))
        y, z = state.y, state.z
        w = y
        for part in (order[:-1], order[-1:]):
            w = y  # before the last step: the old y of line 4
            end = terms.epoch(numbers, phi, EpochStart(part, draw.scale, snapshot, y, z))
            y, z = end.y, end.z
        grad_g, memory = terms.snapshot(w)
        return self.at(phi, w, grad_g, memory=memory, y=y, z=z, s=state.s + 1)

    def limit(self, phi: Model) -> int:
        """Step limit: 100 times the theoretical number."""
        terms = sum_of(phi)
        p = 1.0 / terms.m if self.p is None else self.p
        L = terms.sampling(self.sampling).L
        return 200 + ceiling(100.0 * math.sqrt(1.0 + 3.0 * p * L / phi.alpha))
