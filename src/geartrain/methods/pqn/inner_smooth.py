r"""The inner run without psi: L-BFGS from the matrix of the model.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
y          ``Y``           a y_g + (B + mu I) s: the change of grad phi
tau        ``tau``         curvature of a g along the last step
H_0        --              (B + (mu + tau) I)^{-1}
R          --              upper triangle of S Y', the pairs in the order of their age
T          ``T``           its inverse
=========  ==============  ==================================================================

The direction is -q - S'T'(diag(<s, y>) a - Y q) with a = T S grad phi and q = H_0 (grad phi - Y'a),
which is what the two loops over the pairs compute [1]_. Slopes decide about steps, so that values
of g are not needed.

References
----------
.. [1] R. Byrd, J. Nocedal, R. Schnabel, Representations of quasi-Newton matrices and their use in
   limited memory methods, Math. Program. 63 (1994).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from geartrain.methods.pqn.evaluation import CURVED
from geartrain.methods.pqn.inner import Leave, Pairs, Phi, Run
from geartrain.methods.pqn.low_rank import Inverse
from geartrain.methods.pqn.rows import add_to, dots
from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.oracles.protocols import Vector
from geartrain.problem import EPS

# A step along d is taken where the slope has risen into [-STEEP, FLAT] times |slope at 0|.
_STEEP, _FLAT = 0.9, 0.3
# A slope that falls by more than this part shows that phi is not convex.
_BENT = 1.0 + 1e-6
# Points per line search.
_POINTS = 30
# H_0 is made again where tau has changed by more than this factor.
_NEAR = 2.0


class Curvature:
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
        n = phi.p.v.size
        self.phi, self.memory = phi, memory
        self.S, self.Y = np.empty((2, 2 * memory + 1, n))
        self.start = self.end = 0  # of the window of pairs in use
        self.T = np.zeros((0, 0))
        self.sy = np.zeros(0)
        self.kept: list[tuple[Vector, Vector]] = []
        self.tau, self._made = 0.0, -1.0
        for s, y_g in pairs[-memory:]:
            self.add(s, y_g, phi.B(s, phi.mu))

    def __len__(self) -> int:
        return self.end - self.start

    def clear(self) -> None:
        """Forget the pairs."""
        self.start = self.end = 0
        self.T, self.sy, self.kept = np.zeros((0, 0)), np.zeros(0), []

    def add(self, s: Vector, y_g: Vector, Bs: Vector) -> None:
        """Learn from a step, with (B + mu I) s, if phi bends up along it."""
        geometry, a = self.phi.terms.geometry, self.phi.part
        y = Bs + (y_g if a == 1.0 else a * y_g)
        along, ss = float(geometry.dot(s, y)), float(geometry.dot(s, s))
        if not along > CURVED * math.sqrt(ss) * geometry.norm(y):
            return
        if len(self) == self.memory:
            self.start += 1
            self.T, self.sy = self.T[1:, 1:], self.sy[1:]
            del self.kept[0]
        if self.end == len(self.S):
            k = len(self)
            self.S[:k], self.Y[:k] = self.S[self.start : self.end], self.Y[self.start : self.end]
            self.start, self.end = 0, k
        k = len(self)
        column = -self.T @ dots(self.S[self.start : self.end], y, geometry) / along
        T = np.zeros((k + 1, k + 1))
        T[:k, :k], T[:k, k], T[k, k] = self.T, column, 1.0 / along
        self.S[self.end], self.Y[self.end] = s, y
        self.end += 1
        self.T, self.sy = T, np.append(self.sy, along)
        self.kept.append((s, y_g))
        self.tau = max(a * float(geometry.dot(s, y_g)), 0.0) / ss

    @property
    def _base(self) -> Inverse:
        """H_0."""
        if not self._made / _NEAR <= self.tau <= _NEAR * self._made:
            self._made = self.tau
            self._inverse = self.phi.B.inverse(self.phi.mu + self.tau)
        return self._inverse

    def direction(self, grad: Vector) -> Vector:
        """-H grad with the inverse Hessian of BFGS."""
        if not len(self):
            return -self._base(grad)
        geometry = self.phi.terms.geometry
        S, Y = self.S[self.start : self.end], self.Y[self.start : self.end]
        a = self.T @ dots(S, grad, geometry)
        q = self._base(add_to(grad.copy(), Y, -a))
        c = self.T.T @ (self.sy * a - dots(Y, q, geometry))
        return -add_to(q, S, c)


@dataclass(slots=True)
class _OnRay:
    """A point of a line search."""

    t: float
    v: Vector
    g: float
    grad_g: Vector


def descend(phi: Phi, enough: float, pairs: Pairs, leave: Leave, most: int, memory: int) -> Run:
    """L-BFGS until |grad phi| <= `enough`, `leave`, or `most` gradients of g."""
    terms, p, a = phi.terms, phi.p, phi.part
    dot, norm = terms.dot, terms.norm
    v, g, grad_g = p.v, p.g, p.grad_g
    linear = p.grad_h if a == 1.0 else p.grad_h + (1.0 - a) * p.grad_g
    grad = linear + a * grad_g
    residual, calls, bent = norm(grad), 0, False
    learned = Curvature(phi, pairs, memory)
    while calls < most and residual > enough:
        d = learned.direction(grad)
        slope = float(dot(grad, d))
        if not slope < 0.0:  # rounding
            if not len(learned):
                break
            learned.clear()
            continue
        Bd = phi.B(d, phi.mu)
        ends = slope, float(dot(linear, d)), float(dot(d, Bd))
        found, asked, bent = _line_search(phi, v, d, ends, most - calls)
        calls += asked
        if found is None or bent:
            break
        s, Bs = (d, Bd) if found.t == 1.0 else (found.t * d, found.t * Bd)
        y_g = found.grad_g - grad_g
        stuck = norm(s) <= EPS * norm(v)
        v, g, grad_g, linear = found.v, found.g, found.grad_g, linear + Bs
        grad = linear + (grad_g if a == 1.0 else a * grad_g)
        residual = norm(grad)
        learned.add(s, y_g, Bs)
        if stuck or leave(v, grad_g, residual):
            break
    return Run(v, (g, grad_g), residual, tuple(learned.kept), grad_g, bent=bent)


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
