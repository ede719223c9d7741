r"""The inner run without psi: L-BFGS from the matrix of the model.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
b          ``b``           lam + mu: B + mu I = b I + V'MV with the rows V of the memory
s, y_g     ``D``           the pairs of g, as rows s_1, y_g1, s_2, y_g2, ...: oldest first
z          ``Z``           inner products of V with these rows
e          ``E``           M V s
z_B        ``Z_B``         V (B + mu I) s = b V s + V V' e
y          --              a y_g + (B + mu I) s = b s + a y_g + V'e: the change of grad phi
tau        ``tau``         curvature of a g along the last step
H_0        ``base``        (B + (mu + tau) I)^{-1} = I/alpha + V'KV
R          --              upper triangle of S Y'
u, eps     same            grad phi = u + V'eps, u = grad f(p) + b (v - p) + a (change of grad g)
=========  ==============  ==================================================================

The direction is d = -q - S'R'^{-1}(diag(<s, y>) t - Y q) with R t = S grad phi and
q = H_0 (grad phi - Y't), which is what the two loops over the pairs compute [1]_. All of it is done
with inner products: only V u and D u, and d as a linear combination of u, V and D, take time that
grows with n. Slopes decide about steps, so that values of g are not needed.

References
----------
.. [1] R. Byrd, J. Nocedal, R. Schnabel, Representations of quasi-Newton matrices and their use in
   limited memory methods, Math. Program. 63 (1994).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from geartrain.methods.pqn.evaluation import CURVED
from geartrain.methods.pqn.inner import InnerOutcome, Leave, Pairs, Phi
from geartrain.methods.pqn.low_rank import Inverse
from geartrain.methods.pqn.rows import add_to, dots, table
from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.oracles.protocols import Vector
from geartrain.oracles.spectrum import lapack
from geartrain.problem import EPS

# A step along d is taken where the slope has risen into [-STEEP, FLAT] times |slope at 0|.
_STEEP, _FLAT = 0.9, 0.3
# A slope that falls by more than this part shows that phi is not convex.
_BENT = 1.0 + 1e-6
# Points per line search.
_POINTS = 30
# H_0 is made again where tau has changed by more than this factor.
_NEAR = 2.0


@dataclass(frozen=True)
class Direction:
    """A direction, with its products."""

    d: Vector
    z: Vector  # V d
    z_B: Vector  # V (B + mu I) d
    e: Vector  # M V d


class InnerCurvature:
    """The pairs of one run, and H_0.

    Parameters
    ----------
    phi : Phi
        The model.
    pairs : tuple of (s, y_g)
        Known at the start.
    memory : int
        Number of pairs used.
    """

    def __init__(self, phi: Phi, pairs: Pairs, memory: int) -> None:
        self.phi, self.memory, self.basis = phi, memory, phi.B.basis
        self.b = phi.B.lam + phi.mu
        self.gram = np.zeros((0, 0)) if self.basis is None else self.basis.gram
        room, r, pairs = memory + memory // 4 + 1, len(self.gram), pairs[-memory:]
        self.D, self.D_D = np.empty((2 * room, phi.p.v.size)), np.empty((2 * room, 2 * room))
        self.Z, self.E, self.Z_B = np.empty((2 * room, r)), np.empty((room, r)), np.empty((room, r))
        self.start, self.end = 0, len(pairs)  # of the window of pairs in use
        self.tau, self._made = 0.0, -1.0
        for i, pair in enumerate(pairs):
            self.D[2 * i], self.D[2 * i + 1] = pair
        if pairs:
            D, geometry = self.D[: 2 * len(pairs)], phi.terms.geometry
            for i in range(0, len(D), 3):  # three rows with those before and with themselves
                new = slice(i, min(i + 3, len(D)))
                self.D_D[new, : new.stop] = table(D[new], D[: new.stop], geometry)
                self.D_D[: new.stop, new] = self.D_D[new, : new.stop].T
            if self.basis is not None:
                self.Z[: len(D)] = table(D, self.basis.rows, geometry, self.basis.which)
            Z = self.Z[: len(D) : 2]
            self.E[: self.end] = self._weights(Z)
            self.Z_B[: self.end] = self.b * Z + self.E[: self.end] @ self.gram
        self._learn()

    def __len__(self) -> int:
        return self.end - self.start

    def clear(self) -> None:
        """Forget the pairs."""
        self.start = self.end = 0
        self._learn()

    @property
    def kept(self) -> Pairs:
        """The pairs (s, y_g)."""
        return tuple((self.D[2 * i], self.D[2 * i + 1]) for i in range(self.start, self.end))

    def products(self, v: Vector) -> Vector:
        """V v."""
        if self.basis is None:
            return np.zeros(0)
        return self.basis.products(v, self.phi.terms.geometry)

    def _weights(self, z: Vector) -> Vector:
        """M z."""
        return z if self.basis is None else self.phi.B.weights(z)

    def add(self, to: Direction, t: float, s: Vector, y_g: Vector, z_g: Vector) -> None:
        """Learn from a step s = t d, where V y_g = z_g."""
        geometry = self.phi.terms.geometry
        if len(self) == self.memory:
            self.start += 1
        if self.end == len(self.E):
            self._select(np.arange(self.start, self.end))
        i, j, first = self.end, 2 * self.end, 2 * self.start
        self.D[j], self.D[j + 1], self.Z[j], self.Z[j + 1] = s, y_g, t * to.z, z_g
        self.E[i], self.Z_B[i] = t * to.e, t * to.z_B
        for row, v in ((j, s), (j + 1, y_g)):
            to_v = dots(self.D[first : j + 2], v, geometry)
            self.D_D[row, first : j + 2] = self.D_D[first : j + 2, row] = to_v
        self.end = i + 1
        self._learn()

    def _select(self, which: Any) -> None:
        """Keep these pairs, at the beginning of the arrays."""
        k, both = len(which), np.stack([2 * which, 2 * which + 1], axis=1).ravel()
        for A in (self.E, self.Z_B):
            A[:k] = A[which]
        for A in (self.D, self.Z):
            for i, j in enumerate(both):
                A[i] = A[j]
        self.D_D[: 2 * k, : 2 * k] = self.D_D[both][:, both]
        self.start, self.end = 0, k

    def _learn(self) -> None:
        """The inner products of the y; pairs along which phi does not bend up are left out."""
        a, b = self.phi.part, self.b
        pairs, rows = slice(self.start, self.end), slice(2 * self.start, 2 * self.end)
        D_D, Z, E = self.D_D[rows, rows], self.Z[rows], self.E[pairs]
        with np.errstate(over="ignore", invalid="ignore"):  # such pairs do not pass the test
            self.Z_Y = self.Z_B[pairs] + a * Z[1::2]
            D_Y = b * D_D[:, ::2] + a * D_D[:, 1::2] + Z @ E.T
            self.S_Y, g_Y = D_Y[::2], D_Y[1::2]
            self.Y_Y = b * self.S_Y + a * g_Y + E @ self.Z_Y.T
            along, ss = self.S_Y.diagonal(), D_D.diagonal()[::2]
            bent = along > CURVED * np.sqrt(np.maximum(ss * self.Y_Y.diagonal(), 0.0))
        if not bent.all():
            self._select(self.start + np.flatnonzero(bent))
            self._learn()
        elif len(self):
            self.tau = max(a * float(D_D[-2, -1]), 0.0) / float(ss[-1])

    @property
    def base(self) -> Inverse:
        """H_0."""
        if not self._made / _NEAR <= self.tau <= _NEAR * self._made:
            self._made = self.tau
            self._inverse = self.phi.B.inverse(self.phi.mu + self.tau)
        return self._inverse

    def direction(self, u: Vector, z_u: Vector, eps: Vector) -> Direction:
        """-H (u + V'eps) with the inverse Hessian of BFGS, where V u = z_u."""
        base, b, a = self.base, self.b, self.phi.part
        z = z_u + self.gram @ eps
        d, of_V = u * (-1.0 / base.a), eps * (-1.0 / base.a)
        z_d = z * (-1.0 / base.a)
        if len(self):
            pairs, rows = slice(self.start, self.end), slice(2 * self.start, 2 * self.end)
            D, Z, E, R, Z_Y = self.D[rows], self.Z[rows], self.E[pairs], self.S_Y, self.Z_Y
            to_D = dots(D, u, self.phi.terms.geometry) + Z @ eps
            to_S, to_g = to_D[::2], to_D[1::2]
            t = lapack().dtrtrs(R, to_S)[0]
            weights = base.weights(z - t @ Z_Y)
            Y_w = b * to_S + a * to_g + E @ z - self.Y_Y @ t  # w = u + V'eps - Y't
            Y_q = Y_w / base.a + Z_Y @ weights
            of_D = np.empty(len(D))
            of_D[::2] = (b / base.a) * t
            of_D[::2] -= lapack().dtrtrs(R, R.diagonal() * t - Y_q, trans=1)[0]
            of_D[1::2] = (a / base.a) * t
            add_to(d, D, of_D)
            z_d += of_D @ Z
            more = (t @ E) / base.a - weights
        else:
            more = -base.weights(z)
        if self.basis is not None:
            self.basis.add_to(d, of_V + more)
            z_d += self.gram @ more
        e = self._weights(z_d)
        return Direction(d, z_d, b * z_d + self.gram @ e, e)


@dataclass(slots=True)
class _OnRay:
    """A point of a line search."""

    t: float
    v: Vector
    g: float
    grad_g: Vector


def descend(
    phi: Phi, enough: float, pairs: Pairs, leave: Leave, most: int, memory: int
) -> InnerOutcome:
    """L-BFGS until |grad phi| <= `enough`, `leave`, or `most` gradients of g."""
    terms, p, a = phi.terms, phi.p, phi.part
    dot, norm = terms.dot, terms.norm
    v, g, grad_g, u = p.v, p.g, p.grad_g, p.grad
    residual, calls, bent = norm(u), 0, False
    learned = InnerCurvature(phi, pairs, memory)
    z_u, eps = learned.products(u), np.zeros(len(learned.gram))
    while calls < most and residual > enough:
        to = learned.direction(u, z_u, eps)
        d = to.d
        slope = float(dot(u, d)) + float(eps @ to.z)
        if not slope < 0.0:  # rounding
            if not len(learned):
                break
            learned.clear()
            continue
        bend = learned.b * float(dot(d, d)) + float(to.e @ to.z)
        found, asked, bent = _line_search(
            phi, v, d, (slope, slope - a * float(dot(grad_g, d)), bend), most - calls
        )
        calls += asked
        if found is None or bent:
            break
        t = found.t
        s, y_g = d if t == 1.0 else t * d, found.grad_g - grad_g
        stuck = norm(s) <= EPS * norm(v)
        v, g, grad_g = found.v, found.g, found.grad_g
        u = u + learned.b * s + (y_g if a == 1.0 else a * y_g)
        before, z_u = z_u, learned.products(u)
        learned.add(to, t, s, y_g, (z_u - before - (t * learned.b) * to.z) / a)
        eps = eps + t * to.e
        # a square of the size of rounding has no root
        square = float(dot(u, u)) + float(eps @ (2.0 * z_u + learned.gram @ eps))
        residual = math.sqrt(max(square, 0.0)) if len(eps) else norm(u)
        if stuck or leave(v, grad_g, residual):
            break
    return InnerOutcome(v, (g, grad_g), residual, learned.kept, grad_g, bent=bent)


def _line_search(
    phi: Phi, v: Vector, d: Vector, ends: tuple[float, float, float], most: int
) -> tuple[_OnRay | None, int, bool]:
    """A point along v + t d with a small slope, the calls of g, and whether phi bends down.

    `ends`: the slope of phi, of its linear part, and the curvature of its quadratic part along d.
    """
    slope_0, linear, bend = ends
    t, low, high = 1.0, (0.0, slope_0), None
    best: _OnRay | None = None  # the last one that still descends
    new: _OnRay | None = None
    asked, slope = 0, -math.inf
    while asked < min(most, _POINTS):
        asked += 1
        w = v + (d if t == 1.0 else t * d)
        try:
            value, grad_g = phi.terms.g(w)
            new = _OnRay(t, w, value, grad_g)
            slope = linear + t * bend + phi.part * float(phi.terms.dot(grad_g, d))
        except NonFiniteAnswer:  # too far
            slope = math.inf
        if not math.isfinite(slope):
            slope, new = math.inf, None
        if slope < _BENT * low[1]:
            return best, asked, True
        if _STEEP * slope_0 <= slope <= -_FLAT * slope_0:
            return new, asked, False
        if slope < 0.0:
            low, best = (t, slope), new
            if high is None:
                rise = (slope - slope_0) / t
                ahead = 1.0 - slope / rise / t if rise > 0.0 else 10.0
                t *= min(10.0, max(2.0, ahead))
                continue
        else:
            high = t, slope
        if high[0] - low[0] <= 1e-15 * high[0]:
            return new or best, asked, False
        part = low[1] / (low[1] - high[1]) if math.isfinite(high[1]) else 0.3
        t = low[0] + (high[0] - low[0]) * max(0.1, min(0.9, part))
    if new is not None and 0.0 <= slope <= -_STEEP * slope_0:  # out of budget, and not too far
        return new, asked, False
    return best, asked, False
