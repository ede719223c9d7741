r"""The minimiser of a low-rank quadratic plus psi.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
v, d       ``v``, ``d``    a point, and the gradient of the smooth part there
r          ``r``           shortest known element of d + dpsi(v)
C          ``C``           curvature of the smooth part, lam I + W'TW
w          ``w``           ~ argmin <d, w - v> + 1/2 <w - v, C (w - v)> + psi(w)
u          ``grad_psi``    element of the subdifferential of psi at w, by the last proximal step
q          ``q``           stands for W (w - v)
w(q)       --              prox(v - (d + W'T q)/lam, lam)
F(q)       ``F``           q - W (w(q) - v); its root gives the minimiser
J          ``J``           derivative of the proximal step
=========  ==============  ==================================================================

Where psi tells J, by a semismooth Newton method [1]_: a step solves (I + W J W' T/lam) dq = -F(q),
which is exact as long as J does not change. The first J is that of the step from v to itself. With
other terms, and where that does not end, by accelerated proximal gradient steps with restart [2]_.
Both ask for proximal steps of psi, and neither h nor g.

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

from geartrain.methods.pqn.evaluation import NoPsi
from geartrain.methods.pqn.low_rank import LowRank
from geartrain.methods.pqn.rows import add_to, dots
from geartrain.oracles.protocols import Vector
from geartrain.oracles.spectrum import lapack
from geartrain.oracles.vectors import norm
from geartrain.problem import EPS

# The step length is this part of the inverse of the largest eigenvalue of C, which is rounded.
_SAFE = 0.99
# Steps between two looks at the residual.
_LOOK = 5
# Newton steps, and halvings of each.
_NEWTON, _HALVINGS = 30, 6
# A subgradient that a proximal step proves is known where its rounding error is below this part of
# the accuracy that is asked for.
_KNOWN = 0.1


@dataclass(frozen=True)
class ProxStep:
    """An approximate minimiser of a model with psi."""

    w: Vector
    grad_psi: Vector | None  # None where it is rounding error
    residual: float
    prox_steps: int


class Moved:
    """V J V' of rows V, where J is diagonal by the coordinates in which J has changed.

    Parameters
    ----------
    psi : Psi
    capacity : int
        Number of rows at most.
    """

    def __init__(self, psi: Any, capacity: int) -> None:
        self.psi = psi
        self.diagonal: Vector | None = None  # of J
        self.products = np.zeros((capacity, capacity))

    def add(self, V: Vector, i: int) -> None:
        """Row i is new."""
        if self.diagonal is not None:
            new = V @ (self.diagonal * V[i])
            self.products[i, : len(V)] = self.products[: len(V), i] = new

    def __call__(self, V: Vector, J: Any) -> Vector:
        """V J V'."""
        if not self.psi.separable:
            moved = J(V.T)
            support = np.flatnonzero(moved.any(axis=1))
            if support.size < len(moved):
                return np.asarray(V[:, support] @ moved[support])
            return np.asarray(V @ moved)
        r, before = len(V), self.diagonal
        after = J(np.ones((V.shape[1], 1)))[:, 0]
        used = self.products[:r, :r]
        if before is None:
            A = V[:, after != 0.0]
            used[:] = A @ (after[after != 0.0, None] * A.T) if not (after <= 1.0).all() else A @ A.T
        else:
            changed = np.flatnonzero(after != before)
            if changed.size:
                A = V[:, changed]
                used += (A * (after - before)[changed]) @ A.T
        self.diagonal = after
        return used


def minimised(
    C: LowRank,
    mu: float,
    d: Vector,
    r: Vector,
    psi: Any,
    v: Vector,
    enough: float,
    moved: Moved | None = None,
    most: int = 500,
) -> ProxStep:
    """The model with C + mu I, until the residual is at most `enough` or after `most` steps."""
    if isinstance(psi, NoPsi):
        return ProxStep(v - C.inverse(mu)(d), None, 0.0, 0)
    lam = C.lam + mu
    if C.basis is None:
        w = psi.prox(v - d / lam, lam)
        return ProxStep(w, _proven(lam, v, w, d, enough), 0.0, 1)
    used = 0
    if psi.has_derivative:
        found = _root(C, lam, d, r, psi, v, enough, moved or Moved(psi, len(C.basis.rows)))
        if found.residual <= enough:
            return found
        used = found.prox_steps
    L, product = (C.top + mu) / _SAFE, _product(C, lam)
    w = y = v
    t, k = 1.0, 0
    while True:
        slope = d + product(y - v)
        new = psi.prox(y - slope / L, L)
        k += 1
        if k % _LOOK == 0 or k >= most:
            u = _proven(L, y, new, slope, enough)
            size = norm(psi.residual(new, d + product(new - v), u))
            if size <= enough or k >= most:
                return ProxStep(new, u, size, used + k)
        if float((y - new) @ (new - w)) > 0.0:
            t = 1.0
        after = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t))
        y, w, t = new + ((t - 1.0) / after) * (new - w), new, after


def _proven(L: float, y: Vector, w: Vector, slope: Vector, enough: float) -> Vector | None:
    """L (y - w) - slope in dpsi(w), w = prox(y - slope/L, L); None where that is rounding."""
    if L * EPS * (norm(y) + norm(w)) > _KNOWN * enough:
        return None
    return L * (y - w) - slope


def _product(C: LowRank, lam: float) -> Callable[[Vector], Vector]:
    """The function s -> C s, prepared for many products."""
    basis = C.basis
    assert basis is not None
    r = len(C.T)
    M = np.zeros((len(basis.order),) * 2)
    M[np.ix_(basis.order, basis.order)] = basis.C[:r].T @ C.T @ basis.C[:r]
    V = basis.rows
    if V.shape[1] <= 2 * len(V):  # a full matrix is smaller
        dense = V.T @ M @ V
        return lambda s: dense @ s + lam * s
    return lambda s: add_to(lam * s, V, M @ dots(V, s, C.geometry))


def _root(
    C: LowRank, lam: float, d: Vector, r: Vector, psi: Any, v: Vector, enough: float, moved: Moved
) -> ProxStep:
    """w(q) with |W'T F(q)| <= `enough`, or the last one."""
    basis, T = C.basis, C.T
    assert basis is not None
    V, k = basis.rows, len(T)
    R, order = basis.C[:k], basis.order
    calls = 0

    def at(q: Vector) -> tuple[Vector, Vector, Vector, float]:
        """The slope at q, w(q), F(q), and |W'T F(q)|, by orthonormality |T F(q)|."""
        nonlocal calls
        slope = add_to(d.copy(), V, basis.coefficients(T @ q))
        w = psi.prox(v - slope / lam, lam)
        calls += 1
        F = q - basis.coordinates(dots(V, w - v, C.geometry))[:k]
        return slope, w, F, norm(T @ F)

    def solved(J: Any, right: Vector) -> Vector | None:
        """dq with (I + W J W'T/lam) dq = right."""
        G = moved(V, J)[np.ix_(order, order)]
        N = (R @ G @ R.T) @ (T / lam)
        N.flat[:: k + 1] += 1.0
        dq, info = lapack().dgesv(N, right)[2:]
        return dq if not info and np.isfinite(dq).all() else None

    J = psi.derivative(v + (r - d) / lam, lam)
    Jr = J(r[:, None])[:, 0]
    q = solved(J, basis.coordinates(dots(V, Jr, C.geometry))[:k] / -lam)
    slope, w, F, size = at(np.zeros(k) if q is None else q)
    q = np.zeros(k) if q is None else q
    for _ in range(_NEWTON):
        if size <= enough:
            break
        dq = solved(psi.derivative(v - slope / lam, lam), -F)
        if dq is None:
            break
        part = 1.0
        for _ in range(_HALVINGS):
            after = at(q + part * dq)
            if after[-1] < (1.0 - 0.1 * part) * size:
                break
            part *= 0.5
        else:
            break
        q = q + part * dq
        slope, w, F, size = after
    return ProxStep(w, _proven(lam, v, w, slope, enough), size, calls)
