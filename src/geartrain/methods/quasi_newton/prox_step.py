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
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from geartrain.geometry import EUCLIDEAN
from geartrain.methods.quasi_newton.composite_scaling import ScaledLowRank, base
from geartrain.methods.quasi_newton.factors import bfgs
from geartrain.methods.quasi_newton.low_rank import LowRank, Small
from geartrain.methods.quasi_newton.prox_newton import root
from geartrain.methods.quasi_newton.rows import Rows, slices
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
# Errors of values of psi that contradict its subgradients by less than this part are noise.
_NOISE = 1e-6
# An update is left out where <s, C s> is below this part of <s, y>.
_ROUNDED = 1e-14
# Steps between two looks at the residual.
_LOOK = 5


@dataclass(frozen=True)
class _Stacked(Small):
    """V'MV with all rows in one array, which is not copied."""

    V: Vector

    @property
    def factors(self) -> tuple[Vector, Vector]:
        """M and V."""
        return self.M, self.V


@dataclass(frozen=True)
class ProxStep:
    """An approximate minimiser of a model with psi."""

    w: Vector
    grad_psi: Vector
    residual: float  # |r|


def curvature(S: Vector, Y: Vector, lam: float) -> LowRank:
    """Limited-memory BFGS from steps S and changes Y, oldest first; lam I if no pair is curved.

    It starts from <y, y>/<s, y> of the newest pair.
    """
    sizes = np.linalg.norm(S, axis=1)
    rise = np.einsum("ij,ij->i", S, Y)
    curved = rise > _CURVED * sizes * np.linalg.norm(Y, axis=1)
    k = int(np.count_nonzero(curved))
    if k == 0:
        return LowRank(lam)
    V = np.concatenate([S[curved], Y[curved]]) / np.tile(sizes[curved], 2)[:, None]
    G = V @ V.T
    lam = float(G[-1, -1] / G[k - 1, -1])
    M = bfgs(G[:k, :k], G[:k, k:], lam, _ROUNDED)
    return LowRank(lam, _Stacked(Rows(V), np.eye(2 * k), G, 0.5 * (M + M.T), EUCLIDEAN, V))


def largest(C: LowRank) -> float:
    """The largest eigenvalue of C, or an upper bound of it."""
    top = 0.0 if C.small is None else max(0.0, float(C.small.spectrum[0].max(initial=0.0)))
    return (C.lam + top) * (float(C.D.max()) if isinstance(C, ScaledLowRank) else 1.0)


def minimised(
    C: LowRank, mu: float, d: Vector, psi: Psi, v: Vector, enough: float, most: int
) -> ProxStep:
    """The model with C + mu I, until the residual is at most `enough` or after `most` steps."""
    lam, numbers = base(C, mu), by_numbers(psi, v.size)
    if numbers is not None and C.small is not None:
        M, V = C.small.factors
        found = root(lam, M, V, d, psi, numbers, v, enough)
        if found is not None:
            w, u = found
            return ProxStep(w, u, norm(psi.residual(w, d + C(w - v, mu), u)))
    L, product = (largest(C) + mu) / _SAFE, _product(C, mu)
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


def _product(C: LowRank, mu: float) -> Callable[[Vector], Vector]:
    """The function s -> (C + mu I) s, prepared for many products."""
    lam = base(C, mu)
    if C.small is None:
        return lambda s: lam * s
    M, V = C.small.factors
    if V.shape[1] <= 2 * len(V):  # a full matrix is smaller
        pieces = slices(V.shape[1], len(V) * max(V.shape))
        dense = np.concatenate([V[:, piece].T @ M @ V for piece in pieces])
        return lambda s: dense @ s + lam * s
    return lambda s: (M @ (V @ s)) @ V + lam * s


def change_of(psi: Psi, v: Vector, d: Vector, step: ProxStep) -> float:
    """psi(w) - psi(v), or its upper bound <u, w - v> where values do not tell the difference.

    With <d, w - v> added, the change of psi shows descent. Where both nearly cancel, the rounding
    error of the values of psi and of w would hide that. Values that contradict the bound have
    larger errors: those of pyproximal's nuclear norm, for instance, come from roots of
    eigenvalues.
    """
    s = step.w - v
    bound = float(step.grad_psi @ s)
    if not psi.has_value:
        return bound
    old, new = value_at(psi, v), value_at(psi, step.w)
    near = _ROUNDING * (abs(old) + norm(d) * norm(v))
    if math.isnan(new - old) or abs(float(d @ s) + bound) <= near:
        return bound
    noisy = 0.0 < new - old - bound <= _NOISE * (abs(old) + abs(new))
    return bound if noisy else new - old


def value_at(psi: Psi, v: Vector) -> float:
    """psi at a proximal step; nan where there is none.

    A proximal step is in the domain of psi. Where the value is infinite all the same, rounding has
    moved it out of a set whose indicator allows for none, and no value is known.
    """
    value = psi.value(v) if psi.has_value else math.nan
    return value if math.isfinite(value) else math.nan
