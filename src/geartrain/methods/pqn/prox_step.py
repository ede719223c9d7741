r"""The minimiser of a low-rank quadratic plus psi.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
v, d       ``v``, ``d``    a point, and the gradient of the smooth part there
r          ``r``           shortest known element of d + dpsi(v)
C          ``C``           curvature of the smooth part, lam I + A'SA
A          --              K V with a few rows V: W of `LowRank` with S = T, or the factors of the
                           updates of the model, where S has the diagonal 1, ..., 1, -1, ..., -1
w          ``w``           ~ argmin <d, w - v> + 1/2 <w - v, C (w - v)> + psi(w)
--         ``grad_psi``    element of the subdifferential of psi at w, by the last proximal step
q          ``q``           stands for A (w - v)
w(q)       --              prox(u, lam), u = v - (d + A'S q)/lam
F(q)       ``F``           q - A (w(q) - v); its root gives the minimiser
J          ``J``           derivative of the proximal step
=========  ==============  ==================================================================

Where psi tells J, by a semismooth Newton method [1]_: a step solves (I + A J A'S/lam) dq = -F(q),
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
from geartrain.methods.pqn.models import Updated
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

    def __call__(self, V: Vector, J: Any, gram: Vector | None = None) -> Vector:
        """V J V'; gram = V V', where it is known, saves work for the first J."""
        if not self.psi.separable:
            return J.form(V) if hasattr(J, "form") else np.asarray(V @ J(V.T))
        r, n = V.shape
        used, before = self.products[:r, :r], self.diagonal
        after = J(np.ones((n, 1)))[:, 0]
        if before is None:  # from J = 0 or J = I, whichever is nearer
            full = gram is not None and 2 * np.count_nonzero(after == 1.0) > n
            before = np.full(n, float(full))
            used[:] = gram if full else 0.0
        changed = np.flatnonzero(after != before)
        if changed.size:
            A, change = V[:, changed], (after - before)[changed]
            same = bool((change == change[0]).all())
            used += change[0] * (A @ A.T) if same else (A * change) @ A.T
        self.diagonal = after
        return used


@dataclass(frozen=True)
class _Factors:
    """C - lam I = A'SA, where A = K V has rows that are combinations of the rows V."""

    V: Vector
    K: Vector
    S: Vector  # symmetric, or its diagonal
    gram: Vector | None = None  # V V', where the rows of A are not orthonormal

    @staticmethod
    def of(C: LowRank) -> _Factors:
        """From the updates that C is made of, where it is known by them."""
        basis = C.basis
        assert basis is not None
        if isinstance(C, Updated):
            P, N = C.factors
            used = basis.gram.diagonal() > 0.0  # y_g = 0 where there is no g
            S = np.append(np.ones(len(P)), -np.ones(len(N)))
            K = np.concatenate([P, N])[:, used]
            return _Factors(basis.rows[basis.which[used]], K, S, basis.gram[np.ix_(used, used)])
        K = np.zeros((len(C.T), len(basis.order)))
        K[:, basis.order] = basis.C[: len(K)]
        return _Factors(basis.rows, K, C.T)

    def weights(self, q: Vector) -> Vector:
        """c with A'S q = V'c."""
        return (self.S * q if self.S.ndim == 1 else self.S @ q) @ self.K

    def size(self, q: Vector) -> float:
        """|A'S q|."""
        if self.gram is None:
            return norm(self.S @ q)
        c = self.weights(q)
        return math.sqrt(max(float(c @ self.gram @ c), 0.0))

    def newton(self, G: Vector, lam: float) -> Vector:
        """I + A J A'S/lam, where G = V J V'."""
        M = self.K @ G @ self.K.T
        M = M * (self.S / lam) if self.S.ndim == 1 else M @ (self.S / lam)
        M.flat[:: len(M) + 1] += 1.0
        return np.asarray(M)


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
    """w(q) with |A'S F(q)| <= `enough`, or the last one."""
    factors = _Factors.of(C)
    V, K = factors.V, factors.K
    calls = 0

    def at(q: Vector) -> tuple[Vector, Vector, Vector, Vector, float]:
        """u and the slope at q, w(q) = prox(u), F(q), and |A'S F(q)|."""
        nonlocal calls
        slope = add_to(d.copy(), V, factors.weights(q))
        u = v - slope / lam
        w = psi.prox(u, lam)
        calls += 1
        F = q - K @ dots(V, w - v, C.geometry)
        return u, slope, w, F, factors.size(F)

    def solved(J: Any, right: Vector) -> Vector | None:
        """dq with (I + A J A'S/lam) dq = right."""
        if not right.size:  # no update was left: C is lam I
            return right
        N = factors.newton(moved(V, J, factors.gram), lam)
        dq, info = lapack().dgesv(N, right)[2:]
        return dq if not info and np.isfinite(dq).all() else None

    J = psi.derivative(v + (r - d) / lam, lam)
    first = solved(J, K @ dots(V, J(r[:, None])[:, 0], C.geometry) / -lam)
    q = np.zeros(len(K)) if first is None else first
    u, slope, w, F, size = at(q)
    for _ in range(_NEWTON):
        if size <= enough:
            break
        dq = solved(psi.derivative(u, lam), -F)
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
        u, slope, w, F, size = after
    return ProxStep(w, _proven(lam, v, w, slope, enough), size, calls)
