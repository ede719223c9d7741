r"""The minimiser of a low-rank quadratic plus psi.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
v, d       ``v``, ``d``    a point, and the gradient of the smooth part there
C          ``C``           its curvature, lam I + W'TW
w          ``w``           ~ argmin <d, w - v> + 1/2 <w - v, C (w - v)> + psi(w)
u          ``grad_psi``    element of the subdifferential of psi at w, by the last proximal step
q          ``q``           stands for W (w - v)
w(q)       --              prox(v - (d + W'T q)/lam, lam)
F(q)       ``F``           q - W (w(q) - v); its root gives the minimiser
A          --              coordinates in which w(q) changes with q
=========  ==============  ==================================================================

With an l1 norm or a box by a semismooth Newton method [1]_: a step solves
(I + W_A W_A' T/lam) dq = -F(q), which is exact as long as A does not change. With other terms, and
where that does not end, by accelerated proximal gradient steps with restart [2]_. Both ask for
proximal steps of psi, and neither h nor g.

References
----------
.. [1] S. Becker, J. Fadili, P. Ochs, On quasi-Newton forward-backward splitting: proximal calculus
   and convergence, SIAM J. Optim. 29 (2019).
.. [2] B. O'Donoghue, E. Candes, Adaptive restart for accelerated gradient schemes, Found. Comput.
   Math. 15 (2015).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geartrain.methods.pqn.evaluation import NoPsi, ScaledPsi
from geartrain.methods.pqn.low_rank import LowRank
from geartrain.methods.pqn.rows import add_to, dots
from geartrain.methods.separable import by_numbers
from geartrain.oracles.protocols import Vector
from geartrain.oracles.vectors import norm

# The step length is this part of the inverse of the largest eigenvalue of C, which is rounded.
_SAFE = 0.99
# Steps between two looks at the residual.
_LOOK = 5
# Newton steps, and halvings of each.
_NEWTON, _HALVINGS = 30, 6


@dataclass(frozen=True)
class ProxStep:
    """An approximate minimiser of a model with psi."""

    w: Vector
    grad_psi: Vector | None
    residual: float
    prox_steps: int


def minimised(
    C: LowRank, mu: float, d: Vector, psi: Any, v: Vector, enough: float, most: int = 500
) -> ProxStep:
    """The model with C + mu I, until the residual is at most `enough` or after `most` steps."""
    if isinstance(psi, NoPsi):
        return ProxStep(v - C.inverse(mu)(d), None, 0.0, 0)
    lam = C.lam + mu
    moving = moving_of(psi, v.size)
    if moving is not None and C.basis is not None:
        found = _root(C, lam, d, psi, moving, v, enough)
        if found is not None:
            return found
    L, product = (C.top + mu) / _SAFE, _product(C, lam)
    w = y = v
    t, k = 1.0, 0
    while True:
        slope = d + product(y - v)
        new = psi.prox(y - slope / L, L)
        k += 1
        u = L * (y - new) - slope
        if k % _LOOK == 0 or k == most or C.basis is None:
            r = norm(psi.residual(new, d + product(new - v), u))
            if r <= enough or k == most or C.basis is None:
                return ProxStep(new, u, r, k)
        if float((y - new) @ (new - w)) > 0.0:
            t = 1.0
        after = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t))
        y, w, t = new + ((t - 1.0) / after) * (new - w), new, after


def _product(C: LowRank, lam: float) -> Callable[[Vector], Vector]:
    """The function s -> C s, prepared for many products."""
    if C.basis is None:
        return lambda s: lam * s
    basis = C.basis
    r = len(C.T)
    M = np.zeros((len(basis.order),) * 2)
    M[np.ix_(basis.order, basis.order)] = basis.C[:r].T @ C.T @ basis.C[:r]
    V = basis.rows
    if V.shape[1] <= 2 * len(V):  # a full matrix is smaller
        dense = V.T @ M @ V
        return lambda s: dense @ s + lam * s
    return lambda s: add_to(lam * s, V, M @ dots(V, s, C.geometry))


def moving_of(psi: Any, n: int) -> Callable[[Vector], NDArray[np.bool_]] | None:
    """w -> the coordinates in which a proximal step to w moves with its argument."""
    inside, scale = (psi.psi, psi.t) if isinstance(psi, ScaledPsi) else (psi, 1.0)
    numbers = by_numbers(inside, n)
    if numbers is None:
        return None

    def moving(w: Vector) -> NDArray[np.bool_]:
        x = w / scale
        inner = (x > numbers.lower) & (x < numbers.upper)
        return np.asarray(inner & ((x != 0.0) | (numbers.lam == 0.0)))

    return moving


def _root(
    C: LowRank,
    lam: float,
    d: Vector,
    psi: Any,
    moving: Callable[[Vector], NDArray[np.bool_]],
    v: Vector,
    enough: float,
) -> ProxStep | None:
    """w(q) with |W'T F(q)| <= `enough`; None if it is not found."""
    basis, T = C.basis, C.T
    assert basis is not None
    V, r = basis.rows, len(T)
    R = basis.C[:r]
    calls = 0

    def at(q: Vector) -> tuple[Vector, Vector, Vector, float]:
        """The slope at q, w(q), F(q), and |W'T F(q)|, by orthonormality |T F(q)|."""
        nonlocal calls
        slope = add_to(d.copy(), V, basis.coefficients(T @ q))
        w = psi.prox(v - slope / lam, lam)
        calls += 1
        F = q - basis.coordinates(dots(V, w - v, C.geometry))[:r]
        return slope, w, F, norm(T @ F)

    q = np.zeros(r)
    slope, w, F, size = at(q)
    for _ in range(_NEWTON):
        if size <= enough:
            u = lam * (v - w) - slope
            return ProxStep(w, u, size, calls)
        V_A = V[:, moving(w)][basis.order]
        K = R @ (V_A @ V_A.T) @ R.T
        try:
            dq = np.linalg.solve(np.eye(r) + K @ T / lam, -F)
        except np.linalg.LinAlgError:
            return None
        if not np.isfinite(dq).all():
            return None
        part = 1.0
        for _ in range(_HALVINGS):
            after = at(q + part * dq)
            if after[-1] < (1.0 - 0.1 * part) * size:
                break
            part *= 0.5
        else:
            return None
        q = q + part * dq
        slope, w, F, size = after
    return None
