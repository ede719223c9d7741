r"""The recursion that Katyusha, loopless Katyusha and Varag share.

==================  ============  ==========================================================
symbol              name          meaning
==================  ============  ==========================================================
xt                  ``xt``        snapshot, whose gradient of g is known
z, y                same          mirror and main sequence; both go on over epochs
tau_1, tau_2        same          weights of z and xt in x; t3 = 1 - tau_1 - tau_2 is that of y
a                   ``a``         step of the mirror sequence
b                   ``b``         grad g(xt) + beta, without the part of the quadratic
G~                  ``estimate``  b + (grad g_k(x) - grad g_k(xt))/(m p_k), unbiased
rho                 ``rho``       the new snapshot is sum_j rho^{l-j} y_j, normalised
==================  ============  ==========================================================

One step, with the component k drawn with probability p_k::

    x = tau_1 z + tau_2 xt + t3 y,    z_+ = (z - a G~)/(1 + a alpha),    y_+ = x + tau_1 (z_+ - z).

The compiled kernels run it in the variables z and w = y - k z - f, in which it is diagonal:
w_+ = t3 w + q (component part of G~). The numbers of that form are `diagonal`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from geartrain.oracles.protocols import Vector


@dataclass(frozen=True)
class Steps:
    """The numbers of one epoch."""

    tau_1: float
    tau_2: float
    a: float
    rho: float

    def weight(self, l: int) -> float:
        """sum_{j=1}^{l} rho^{l-j}."""
        if self.rho == 1.0:
            return float(l)
        return -math.expm1(l * math.log(self.rho)) / (1.0 - self.rho)

    def diagonal(self, alpha: float) -> DiagonalForm:
        """The diagonal form on coordinates with alpha/2 v_i^2."""
        t3 = 1.0 - self.tau_1 - self.tau_2
        r = 1.0 / (1.0 + self.a * alpha)
        # y_+ = tau_1 z_+ + tau_2 xt + t3 y; k makes z cancel from w_+
        k = self.tau_1 * r / (r - t3)
        q = (k - self.tau_1) * r * self.a
        return DiagonalForm(r, t3, k, q, self.a, self.tau_1 + t3 * k, self.tau_2)


@dataclass(frozen=True)
class DiagonalForm:
    """z_+ = r (z - a b - a d), w_+ = t3 w + q d for the component part d of the estimate.

    With f = (tau_2 xt + q b)/(1 - t3): y = k z + w + f and x = x1 z + t3 w + (t3 f + tau_2 xt).
    """

    r: float
    t3: float
    k: float
    q: float
    a: float
    x1: float
    tau_2: float

    @property
    def numbers(self) -> tuple[float, ...]:
        return self.r, self.t3, self.k, self.q, self.a, self.x1

    def shift(self, xt: Vector, b: Vector) -> Vector:
        """The part f of y that no component changes."""
        return (self.tau_2 * xt + self.q * b) / (1.0 - self.t3)


def separated(L: float, alphas: tuple[float, ...], make: Callable[[float], Steps]) -> Steps:
    """`make(L)`, with L raised until r and t3 are apart.

    They can meet only where a ridge does not touch the intercept, so that the quadratic is much
    stronger in some coordinates than the strong convexity that sets tau_1. Every constant above
    L is a valid one.
    """
    steps = make(L)
    while any(abs(d.r - d.t3) < 0.05 * max(d.r, d.t3) for d in map(steps.diagonal, alphas)):
        L *= 1.5
        steps = make(L)
    return steps


def epoch_by_components(
    tally: Any,
    component: Any,
    order: Any,
    scale: Vector,
    memory: Any,
    xt: Vector,
    b: Vector,
    y: Vector,
    z: Vector,
    tau_1: float,
    tau_2: float,
    a: float,
    alpha: float,
    rho: float,
) -> Any:
    """The recursion as printed, for any ``component(x, k)``; Numba can compile it.

    Rows of `memory` are the components at xt, NaN where not yet known; an empty one keeps
    nothing, and every step asks twice.
    """
    acc = np.zeros_like(y)
    for k in order:
        x = tau_1 * z + tau_2 * xt + (1.0 - tau_1 - tau_2) * y
        if memory.shape[0] == 0:
            old = component(xt, k)
            tally[0] += 1
        else:
            if np.isnan(memory[k, 0]):
                memory[k] = component(xt, k)
                tally[0] += 1
            old = memory[k]
        estimate = b + (component(x, k) - old) * scale[k]
        tally[0] += 1
        z_next = (z - a * estimate) / (1.0 + a * alpha)
        y, z = x + tau_1 * (z_next - z), z_next
        acc = rho * acc + y
    return y, z, acc


def pass_over_components(tally: Any, component: Any, m: int, v: Vector, memory: Any) -> Vector:
    """Mean of all components at v; fills `memory` unless that is empty."""
    total = np.zeros_like(v)
    for k in range(m):
        g_k = component(v, k)
        tally[0] += 1
        total += g_k
        if memory.shape[0] > 0:
            memory[k] = g_k
    return total / m
