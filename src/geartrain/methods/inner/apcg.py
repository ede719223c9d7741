r"""APCG on the dual of phi, with g the mean loss of a linear model.

=============  ============  ==============================================================
symbol         name          meaning
=============  ============  ==============================================================
x, z           ``z + u``,    main and second sequence of dual variables, one per loss
               ``z``
v(x)           ``v``         -D^{-1} (beta + (1/m) A' x), the primal point of x; with a non-smooth
                             psi the proximal step prox(-D^{-1} (beta + (1/m) A' x), D)
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

from geartrain.compiled.records import Separable
from geartrain.methods.chunking import pieces
from geartrain.methods.inner.finite_sum import LinearSum, _check_finite
from geartrain.methods.inner.primal_dual import (
    LONGEST,
    dual_step,
    need_linear,
    rows_of,
    weights_of_quadratic,
)
from geartrain.methods.separable import by_numbers, prox_by_coordinates
from geartrain.oracles.protocols import MissingOracle, Vector
from geartrain.problem import Model


@dataclass(frozen=True)
class APCGState:
    """State of `APCG` after s chunks."""

    v: Vector  # the start, then the primal point of the main sequence
    grad_g: Vector  # gradient of g at v
    z: Vector  # second sequence of dual variables
    u: Vector  # main sequence less z
    s: int = 0
    grad_psi: Vector | None = None  # in a model with a non-smooth psi: an element of dpsi(v)
    guessed: bool = False


# Paper: APCG
@dataclass(frozen=True)
class APCG:
    r"""Accelerated proximal coordinate gradient method, on the dual.

    Minimises phi(v) = <beta, v> + alpha/2 \|v\|^2 + (1/m) sum_k loss_k(<a_k, v>) by its dual F(s) =
    f(s) + sum_k Psi_k(s_k), f(s) = 1/2 \|beta + (1/m) A' s\|^2_{D^{-1}} + gamma/(2 m) \|s\|^2,
    Psi_k(s_k) = (loss_k^*(s_k) - gamma/2 s_k^2)/m.

    Algorithm, from x = z = s^0 with s_k^0 = loss_k'(<a_k, v_0>)::

        1. y = (x + a z)/(1 + a);  draw k uniformly
        2. z_+ = argmin m a/2 |s - (1 - a) z - a y|_L^2 + (grad f(y))_k s_k + Psi_k(s_k)
        3. x_+ = y + m a (z_+ - z) + m a^2 (z - y)

    Guarantee: E[F(x^t) - F*] <= (1 - a)^t [F(x^0) - F* + mu_L/2 \|x^0 - x*\|_L^2] (Theorem 1 of
    [1]_), so tau_g = sqrt(m L) in Assumption 4. One summand per step. A step of this object is a
    chunk of 1/a such steps and one gradient of g at v(x), where the rule is then tested.

    Notes
    -----
    Implements Algorithm 2 of [1]_ for the dual of Section 5 there. Line 2 changes one coordinate
    of (1 - a) z + a y by a proximal step of one loss, the root of a scalar equation, and counts as
    one summand; it is known for the losses of `geartrain.LinearModel` only. The first gradient of g
    is asked for even where it is handed in: the derivatives of the single losses are needed.

    With a non-smooth psi, the first part of f is the conjugate of psi + 1/2 \|.\|_D^2 at
    -(beta + (1/m) A' s), whose gradient is -(1/m) A v(s): its constants, and with them the theorem,
    do not change. A step needs v(y), counted as one call of ``prox``, and is made for
    `geartrain.L1` and `geartrain.Box`.

    References
    ----------
    .. [1] Q. Lin, Z. Lu, L. Xiao, An accelerated randomized proximal coordinate gradient method
       and its application to regularized empirical risk minimization, SIAM J. Optim. 25 (2015).
    """

    needs: ClassVar[tuple[str, ...]] = ("component",)
    takes_psi: ClassVar[bool] = True

    def init(self, phi: Model, v0: Vector, grad_g0: Vector | None, warm: Any = None) -> APCGState:
        """Both sequences at the derivatives of the losses at v0."""
        terms = need_linear(phi, "APCG")
        _numbers_of_psi(phi)
        grad_g, slopes = terms.snapshot(v0)
        grad_psi = None
        if phi.psi is not None:
            grad = phi.grad(v0, grad_g)
            grad_psi = phi.psi.residual(v0, grad) - grad
        return APCGState(v0, grad_g, slopes, np.zeros_like(slopes), grad_psi=grad_psi)

    def step(self, phi: Model, state: APCGState) -> APCGState:
        terms = need_linear(phi, "APCG")
        m, D = terms.m, weights_of_quadratic(phi, terms)
        dual = _Dual(phi, terms, D)
        chunk = math.ceil(1.0 / dual.a)
        order = np.random.default_rng((*phi.key, state.s)).integers(m, size=chunk)
        x, z = state.z + state.u, state.z
        Px, Pz = (terms.term.pull_back(w / m) for w in (x, z))
        for part in pieces(phi.g, "component", order.size, longest=LONGEST):
            x, z, Px, Pz = phi.g.bulk("component", dual.steps, order[part], x, z, Px, Pz)
        v, grad_psi = dual.primal(Px), None
        if phi.psi is not None:
            phi.g.ledger.add(f"{phi.psi.name}.prox", order.size + 1, 0.0)
            grad_psi = -(phi.beta + Px) - D * v
        _check_finite(v, phi.g, "component")
        return APCGState(v, terms.snapshot(v)[0], z, x - z, state.s + 1, grad_psi)

    def limit(self, phi: Model) -> int:
        """Limit on the chunks, each of which contracts the error by e."""
        return 300


class _Dual:
    """The dual of phi, and the steps of the method on it."""

    def __init__(self, phi: Model, terms: LinearSum, D: Vector) -> None:
        self.beta, self.D, self.psi = phi.beta, D, _numbers_of_psi(phi)
        self.term, self.row = terms.term, rows_of(terms)
        self.gamma = 1.0 / terms.term.loss.curvature
        self.L, self.a = apcg_numbers(terms, D, self.gamma)

    def primal(self, image: Vector) -> Vector:
        """v(s) by the image (1/m) A' s."""
        return prox_by_coordinates(self.psi, -(self.beta + image) / self.D, 1.0 / self.D)

    def steps(self, tally: Any, order: Any, x: Vector, z: Vector, Px: Vector, Pz: Vector) -> Any:
        """Lines 1 to 3 for the losses of `order`; Px and Pz are the images of x and z."""
        m, a, gamma = self.term.m, self.a, self.gamma
        for k in order:
            y, Py = (x + a * z) / (1.0 + a), (Px + a * Pz) / (1.0 + a)
            z_next, Pz_next = (1.0 - a) * z + a * y, (1.0 - a) * Pz + a * Py
            row, centre = self.row(k), z_next[k]
            stiff = m * m * a * self.L[k]
            rho = stiff * centre + float(row @ self.primal(Py)) - gamma * y[k]
            z_next[k] = dual_step(self.term.loss, self.term.y[k], stiff - gamma, rho)
            tally[0] += 1
            Pz_next += (z_next[k] - centre) / m * row
            x = y + m * a * (z_next - z) + m * a * a * (z - y)
            Px = Py + m * a * (Pz_next - Pz) + m * a * a * (Pz - Py)
            z, Pz = z_next, Pz_next
        return x, z, Px, Pz


def _numbers_of_psi(phi: Model) -> Separable:
    """The non-smooth term, empty where there is none."""
    numbers = by_numbers(phi.psi, phi.n)
    if numbers is None:
        raise MissingOracle(
            "APCG takes proximal steps with one length per coordinate and knows those of L1 and "
            f"Box, not of {phi.psi!r}; choose inner='katyusha' or inner='proxqn'"
        )
    return numbers


def apcg_numbers(terms: LinearSum, D: Vector, gamma: float) -> tuple[Vector, float]:
    m, term = terms.m, terms.term
    squared = terms.L_k * gamma  # norms of the rows, with the 1 of the intercept
    if term.intercept:
        L = (squared - 1.0) / D[0] + 1.0 / D[-1]
    else:
        L = squared / D[0]
    L = L / m**2 + gamma / m
    return L, math.sqrt(gamma / (m * float(L.max()))) / m
