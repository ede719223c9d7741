r"""Proximal quasi-Newton steps: a quadratic model with a low-rank matrix, plus psi.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
v, d       ``v``, ``d``    a point, and the gradient of the smooth part there
C          ``C``           its curvature by limited-memory BFGS, lam I + V'MV
w          ``w``           ~ argmin <d, w - v> + 1/2 <w - v, C (w - v)> + psi(w)
u          ``grad_psi``    element of the subdifferential of psi at w, by the last proximal step
r          ``residual``    element of least norm of the subdifferential of the model at w
=========  ==============  ==================================================================

With an l1 norm or a box the model is minimised by a semismooth Newton method
(`geartrain.methods.quasi_newton.prox_newton`). With other terms, and where that does not end, it is
minimised by accelerated proximal gradient steps with restart [1]_. Both ask for proximal steps of
psi, and neither h nor g.

References
----------
.. [1] B. O'Donoghue, E. Candes, Adaptive restart for accelerated gradient schemes, Found. Comput.
   Math. 15 (2015).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from geartrain.geometry import EUCLIDEAN
from geartrain.methods.quasi_newton.low_rank import LowRank, Small
from geartrain.methods.quasi_newton.models import sequential
from geartrain.methods.quasi_newton.prox_newton import orthonormal, root
from geartrain.methods.quasi_newton.rows import Rows
from geartrain.methods.separable import by_numbers
from geartrain.oracles.protocols import Vector
from geartrain.oracles.splitting import Psi
from geartrain.oracles.vectors import norm

# A pair shows curvature where <s, y> exceeds this part of |s| |y|.
_CURVED = 1e-10
# The step length is this part of the inverse of the largest eigenvalue of C, which is rounded.
_SAFE = 0.99
# A difference of values may be rounding error below this part of them.
_ROUNDING = 1e-12
# Steps between two looks at the residual.
_LOOK = 5


@dataclass(frozen=True)
class ProxStep:
    """An approximate minimiser of a model with psi."""

    w: Vector
    grad_psi: Vector
    residual: float  # |r|


def curvature(pairs: Sequence[tuple[Vector, Vector]], lam: float) -> LowRank:
    """Limited-memory BFGS from pairs (s, y), oldest first; lam I if none of them is curved.

    It starts from <y, y>/<s, y> of the newest pair.
    """
    curved = [(s, y) for s, y in pairs if s @ y > _CURVED * norm(s) * norm(y)]
    if not curved:
        return LowRank(lam)
    sizes = [norm(s) for s, _ in curved]
    S = [s / size for (s, _), size in zip(curved, sizes, strict=True)]
    Y = [y / size for (_, y), size in zip(curved, sizes, strict=True)]
    V = np.array([*S, *Y])
    G, k = V @ V.T, len(curved)
    lam = float(G[-1, -1] / G[k - 1, -1])
    M = sequential(G, k, lam)
    return LowRank(lam, Small(Rows(list(V)), np.eye(2 * k), G, 0.5 * (M + M.T), EUCLIDEAN))


def largest(C: LowRank) -> float:
    """The largest eigenvalue of C."""
    if C.small is None or C.small.spectrum[0].size == 0:
        return C.lam
    return C.lam + max(0.0, float(C.small.spectrum[0].max()))


def minimised(
    C: LowRank, mu: float, d: Vector, psi: Psi, v: Vector, enough: float, most: int
) -> ProxStep:
    """The model with C + mu I, until the residual is at most `enough` or after `most` steps."""
    lam, (W, U) = C.lam + mu, orthonormal(C)
    product = _product(lam, W, U)
    numbers = by_numbers(psi, v.size)
    if numbers is not None and W.size > 0:
        found = root(lam, W, U, d, psi, numbers, v, enough)
        if found is not None:
            w, u = found
            return ProxStep(w, u, norm(psi.residual(w, d + product(w - v), u)))
    L = (largest(C) + mu) / _SAFE
    w = y = v
    t = 1.0
    k = 0
    while True:
        slope = d + product(y - v)
        new = psi.prox(y - slope / L, L)
        k += 1
        u = L * (y - new) - slope
        if k % _LOOK == 0 or k == most or C.small is None:
            r = norm(psi.residual(new, d + product(new - v), u))
            if r <= enough or k == most:
                return ProxStep(new, u, r)
        if float((y - new) @ (new - w)) > 0.0:
            t = 1.0
        after = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t))
        y, w, t = new + ((t - 1.0) / after) * (new - w), new, after


def _product(lam: float, W: Vector, U: Vector) -> Callable[[Vector], Vector]:
    """The function s -> (lam I + U'WU) s, prepared for many products."""
    if W.size == 0:
        return lambda s: lam * s
    if U.shape[1] <= 2 * len(U):  # a full matrix is smaller
        dense = (U.T * W) @ U
        return lambda s: dense @ s + lam * s
    return lambda s: (W * (U @ s)) @ U + lam * s


def change_of(psi: Psi, v: Vector, d: Vector, step: ProxStep) -> float:
    """psi(w) - psi(v), or its upper bound <u, w - v> where values do not tell the difference.

    With <d, w - v> added, the change of psi shows descent. Where both nearly cancel, the rounding
    error of the values of psi and of w would hide that.
    """
    s = step.w - v
    bound = float(step.grad_psi @ s)
    if not psi.has_value:
        return bound
    old = psi.value(v)
    near = _ROUNDING * (abs(old) + norm(d) * norm(v))
    return bound if abs(float(d @ s) + bound) <= near else psi.value(step.w) - old
