r"""APCG on the dual of phi, with g the mean loss of a linear model.

=============  ============  ==============================================================
symbol         name          meaning
=============  ============  ==============================================================
x, z           ``z + u``,    main and second sequence of dual variables, one per loss
               ``z``
v(x)           ``v``         -D^{-1} (beta + (1/m) A' x), the primal point of x
D              --            weights of the quadratic: alpha, and the ridge of the model
1/gamma        --            largest curvature of the loss
L_k            ``L``         \|a_k\|^2_{D^{-1}}/m^2 + gamma/m, constants of the smooth part
mu_L           --            gamma/(m max L_k), its convexity in the norm of the L_k
a              ``a``         sqrt(mu_L)/m, rate per step
=============  ============  ==============================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from geartrain.methods.inner.finite_sum import LinearSum, _check_finite
from geartrain.methods.inner.primal_dual import (
    need_linear,
    weights_of_quadratic,
)
from geartrain.methods.pieces import pieces
from geartrain.oracles.protocols import Vector
from geartrain.problem import Model


@dataclass(frozen=True)
class APCGState:
    """State of `APCG` after s chunks."""

    v: Vector  # the start, then the primal point of the main sequence
    grad_g: Vector  # gradient of g at v
    z: Vector  # second sequence of dual variables
    u: Vector  # main sequence less z
    s: int = 0


# Paper: APCG
@dataclass(frozen=True)
class APCG:
    r"""Accelerated proximal coordinate gradient method, on the dual.

    Minimises phi(v) = <beta, v> + alpha/2 \|v\|^2 + (1/m) sum_k loss_k(<a_k, v>) by its dual F(s) =
    f(s) + sum_k Psi_k(s_k), f(s) = 1/2 \|beta + (1/m) A' s\|^2_{D^{-1}} + gamma/(2 m) \|s\|^2,
    Psi_k(s_k) = (loss_k^*(s_k) - gamma/2 s_k^2)/m.

    Algorithm, from x = z = s^0 with s_k^0 = loss_k'(<a_k, v_0>):

    1. y = (x + a z)/(1 + a);  draw k uniformly
    2. z_+ = argmin m a/2 \|s - (1 - a) z - a y\|_L^2 + (grad f(y))_k s_k + Psi_k(s_k)
    3. x_+ = y + m a (z_+ - z) + m a^2 (z - y)

    Guarantee: E[F(x^t) - F*] <= (1 - a)^t [F(x^0) - F* + mu_L/2 \|x^0 - x*\|_L^2] (Theorem 1 of
    [1]_), so tau_g = sqrt(m L) in Assumption 4. One summand per step. A step of this object is a
    chunk of 1/a such steps and one gradient of g at v(x), where the rule is then tested.

    Notes
    -----
    Implements Algorithm 2 of [1]_ for the dual of Section 5 there. Line 2 changes one coordinate
    of (1 - a) z + a y by a proximal step of one loss, the root of a scalar equation, and counts as
    one summand; it is known for the losses of `geartrain.LinearModel` only. Neither x nor z is
    touched as a whole: a step costs O(nonzeros of the row). The first gradient of g is asked for
    even where it is handed in, because the derivatives of the single losses are needed.

    References
    ----------
    .. [1] Q. Lin, Z. Lu, L. Xiao, An accelerated randomized proximal coordinate gradient method
       and its application to regularized empirical risk minimization, SIAM J. Optim. 25 (2015).
    """

    needs: ClassVar[tuple[str, ...]] = ("component",)

    def init(self, phi: Model, v0: Vector, grad_g0: Vector | None, warm: Any = None) -> APCGState:
        """Both sequences at the derivatives of the losses at v0."""
        terms = need_linear(phi, "APCG")
        grad_g, slopes = terms.snapshot(v0)
        return APCGState(v0, grad_g, slopes, np.zeros_like(slopes))

    def step(self, phi: Model, state: APCGState) -> APCGState:
        """One chunk of steps, then the gradient of g."""
        from geartrain.compiled import primal_dual as kernels
        from geartrain.compiled.losses import encode

        terms = need_linear(phi, "APCG")
        m, D = terms.m, weights_of_quadratic(phi, terms)
        gamma = 1.0 / terms.term.loss.curvature
        L, a = apcg_numbers(terms, D, gamma)
        order = np.random.default_rng((*phi.key, state.s)).integers(m, size=math.ceil(1.0 / a))
        z, u = state.z.copy(), state.u.copy()
        Pz, Pu = (terms.term.pull_back(w / m) for w in (z, u))
        A, ask, labels = terms._A, phi.g.bulk, (terms.term.y, encode(terms.term.loss))
        for part in pieces(phi.g, "component", order.size):
            shared = (*labels, order[part], L, gamma, a, phi.beta, 1.0 / D, z, u, Pz, Pu)
            if sparse.issparse(A):
                rows = (A.data, A.indices, A.indptr)
                ask("component", kernels.apcg_csr, *rows, *shared, terms.term.n_features)
            else:
                ask("component", kernels.apcg_dense, A, *shared)
        v = -(phi.beta + Pz + Pu) / D
        _check_finite(v, phi.g, "component")
        return APCGState(v, terms.snapshot(v)[0], z, u, state.s + 1)

    def limit(self, phi: Model) -> int:
        """Chunks after which rounding has won: each contracts the error by e."""
        return 300


def apcg_numbers(terms: LinearSum, D: Vector, gamma: float) -> tuple[Vector, float]:
    """L_k and a."""
    m, term = terms.m, terms.term
    squared = terms.L_k * gamma  # norms of the rows, with the 1 of the intercept
    if term.intercept:
        L = (squared - 1.0) / D[0] + 1.0 / D[-1]
    else:
        L = squared / D[0]
    L = L / m**2 + gamma / m
    return L, math.sqrt(gamma / (m * float(L.max()))) / m
