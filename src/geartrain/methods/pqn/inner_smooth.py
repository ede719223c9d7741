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
from functools import lru_cache
from typing import Any

import numpy as np

from geartrain.methods.pqn.evaluation import CURVED
from geartrain.methods.pqn.inner import InnerOutcome, InnerPairs, Leave, Pairs, Phi
from geartrain.methods.pqn.low_rank import Inverse, LowRank
from geartrain.methods.pqn.memory import RowBlock
from geartrain.methods.pqn.models import Updated
from geartrain.methods.pqn.rows import add_to, dots, dots3, table
from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.oracles.protocols import Vector
from geartrain.problem import EPS

# A step along d is taken where the slope has risen into [-STEEP, FLAT] times |slope at 0|.
_STEEP, _FLAT = 0.9, 0.3
# A slope that falls by more than this part shows that phi is not convex.
_BENT = 1.0 + 1e-6
# Points per line search.
_POINTS = 30
# There is room for as many pairs again as are used in a new block of rows up to this length.
_SHORT = 20_000
_TINY = 1e-300


@lru_cache(maxsize=1)
def _kernels() -> Any:
    from geartrain.compiled import inner_directions  # here, because importing Numba takes a while

    return inner_directions


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
    pairs : sequence of (s, y_g)
        Known at the start.
    memory : int
        Number of pairs used.
    """

    def __init__(self, phi: Phi, pairs: Pairs, memory: int) -> None:
        self.phi, self.memory, self.basis = phi, memory, phi.B.basis
        self.b = phi.B.lam + phi.mu
        self.gram = np.zeros((0, 0)) if self.basis is None else self.basis.gram
        room, r = 2 * memory, len(self.gram)
        self.D_D, self.Z = np.empty((2 * room, 2 * room)), np.empty((2 * room, r))
        self.E, self.Z_B, self.Z_Y = (np.empty((room, r)) for _ in range(3))
        self.S_Y, self.Y_Y = (np.empty((room, room)) for _ in range(2))
        self.tau = self._made = 0.0
        self._bases: dict[float, Inverse] = {}
        n, geometry = phi.p.v.size, phi.terms.geometry
        self._load(InnerPairs.of(pairs[-memory:] if len(pairs) > memory else pairs, n, geometry))

    def _load(self, known: InnerPairs) -> None:
        """Begin with these pairs; those along which phi does not bend up are left out."""
        m = len(known)
        self.start, self.end, self.block, self.D = 0, m, known.block, known.rows
        self.owned = False  # whether the block is that of this run alone
        self.exact = m  # end of the pairs of which Z was not learned by recursions
        if not m:
            return
        self.D_D[: 2 * m, : 2 * m] = known.gram
        Z = self.Z[: 2 * m]
        if self.basis is not None and not _carried(known, self.phi.B, Z):
            Z[:] = table(known.rows, self.basis.rows, self.phi.terms.geometry, self.basis.which)
        self.E[:m] = self._weights(Z[::2])
        self.Z_B[:m] = self.b * Z[::2] + self.E[:m] @ self.gram
        bent = self._learn(0)
        if not bent.all():
            self._load(known.chosen(np.flatnonzero(bent)))

    def __len__(self) -> int:
        return self.end - self.start

    def clear(self) -> None:
        """Forget the pairs."""
        self.start = self.end = self.exact = 0
        self.block, self.D = None, self.D[:0]

    @property
    def kept(self) -> InnerPairs:
        """The pairs (s, y_g)."""
        rows, age = slice(2 * self.start, 2 * self.end), self.phi.B.age
        Z = None if age is None else self.Z[2 * self.start : 2 * self.exact].copy()
        return InnerPairs(self.D, self.D_D[rows, rows].copy(), Z, age or 0, self.block)

    def products(self, v: Vector) -> Vector:
        """V v."""
        if self.basis is None:
            return np.zeros(0)
        return self.basis.products(v, self.phi.terms.geometry)

    def _weights(self, z: Vector) -> Vector:
        """M z."""
        return z if self.basis is None else self.phi.B.weights(z)

    def add(
        self, to: Direction, t: float, s: Vector, y_g: Vector, z_g: Vector, u: Vector
    ) -> Vector:
        """Learn from a step s = t d, where V y_g = z_g; D u for the next direction."""
        if self.end == len(self.E):
            self._move()
        D = self.D[2:] if len(self) == self.memory else self.D
        if self.block is None or not self.block.ends_with(D):
            if self.block is not None and self.owned:
                self.block.restart(D)
            else:
                spare = max(self.memory // 4 + 1, self.memory * _SHORT // max(s.size, _SHORT))
                self.block, self.owned = RowBlock(2 * (self.memory + spare), D), True
        D = self.block.extended(D, (s, y_g))
        i, j = self.end, 2 * self.end
        self.Z[j], self.Z[j + 1], self.E[i], self.Z_B[i] = t * to.z, z_g, t * to.e, t * to.z_B
        first = j + 2 - len(D)
        to_D = dots3(D, s, y_g, u, self.phi.terms.geometry)
        self.D_D[first : j + 2, j : j + 2] = to_D[:, :2]
        self.D_D[j : j + 2, first : j + 2] = to_D[:, :2].T
        self.start, self.end, self.D = first // 2, i + 1, D
        if not self._learn(i)[0]:
            self.end, self.D = i, D[:-2]
            self.block.filled -= 2
        return to_D[: len(self.D), 2].copy()

    def _move(self) -> None:
        """The window to the beginning of the arrays."""
        pairs, rows, m = slice(self.start, self.end), slice(2 * self.start, 2 * self.end), len(self)
        for A in (self.E, self.Z_B, self.Z_Y):
            A[:m] = A[pairs].copy()
        for A in (self.S_Y, self.Y_Y):
            A[:m, :m] = A[pairs, pairs].copy()
        self.Z[: 2 * m] = self.Z[rows].copy()
        self.D_D[: 2 * m, : 2 * m] = self.D_D[rows, rows].copy()
        self.start, self.end, self.exact = 0, m, max(self.exact - self.start, 0)

    def _learn(self, new: int) -> Any:
        """The inner products of the y from pair `new` on; along which of them phi bends up."""
        a, D_D, S_Y, Y_Y = self.phi.part, self.D_D, self.S_Y, self.Y_Y
        tables = (D_D, self.Z, self.E, self.Z_B, self.Z_Y, S_Y, Y_Y)
        _kernels().learn(a, self.b, self.start, new, self.end, *tables)
        pairs = slice(new, self.end)
        ss = D_D.diagonal()[2 * new : 2 * self.end : 2]
        with np.errstate(over="ignore", invalid="ignore"):  # such pairs do not pass the test
            yy = np.maximum(ss * Y_Y.diagonal()[pairs], 0.0)
            bent = S_Y.diagonal()[pairs] > CURVED * np.sqrt(yy)
        if bent[-1]:
            last = 2 * self.end - 2
            self.tau = max(a * float(D_D[last, last + 1]), 0.0) / float(ss[-1])
        return bent

    @property
    def base(self) -> Inverse:
        """H_0, with the power of 4 that is next to tau."""
        self._made = 4.0 ** round(0.5 * math.log2(self.tau)) if self.tau > _TINY else 0.0
        if self._made not in self._bases:
            self._bases[self._made] = self.phi.B.inverse(self.phi.mu + self._made)
        return self._bases[self._made]

    def direction(self, u: Vector, z_u: Vector, to_D: Vector, eps: Vector) -> Direction:
        """-H (u + V'eps) with the inverse Hessian of BFGS, where V u = z_u and D u = to_D."""
        base, window = self.base, (self.start, self.end)
        z = z_u + self.gram @ eps
        t, left = _kernels().first_loop(*window, to_D, eps, z, self.Z, self.Z_Y, self.S_Y)
        weights = base.weights(left)
        tables = (self.Z, self.E, self.Z_Y, self.S_Y, self.Y_Y)
        of_D, of_V, z_d = _kernels().second_loop(
            self.phi.part, self.b, base.a, *window, to_D, t, z, weights, *tables
        )
        d = add_to(u * (-1.0 / base.a), self.D, of_D)
        if self.basis is not None:
            z_d += self.gram @ of_V
            self.basis.add_to(d, of_V - eps / base.a)
        e = self._weights(z_d)
        return Direction(d, z_d, self.b * z_d + self.gram @ e, e)


def _carried(known: InnerPairs, B: LowRank, Z: Vector) -> bool:
    """Fill Z by what is known of an earlier memory, and compute what is new, if that pays."""
    if known.Z is None or not isinstance(B, Updated) or B.age is None:
        return False
    memory, k = B.memory, len(B.memory)
    before = known.Z.shape[1] // 2
    same = k - (B.age - known.age)  # the first pairs of the memory, and the last ones of the other
    if not 0 < same <= min(k, before) or not len(known.Z):
        return False
    m = len(known.Z)
    for kind in range(2):
        to = (kind + 1) * before
        Z[:m, kind * k : kind * k + same] = known.Z[:, to - same : to]
    for i in range(same, k):
        Z[:m, [i, k + i]] = dots3(known.rows[:m], *memory.pair(i), B.geometry)[:, :2]
    if m < len(Z):
        Z[m:] = table(known.rows[m:], memory.rows, B.geometry, B.span.which)
    return True


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
    residual, calls = norm(u), 0
    learned = InnerCurvature(phi, pairs, memory)
    z_u, eps = learned.products(u), np.zeros(len(learned.gram))
    to_D = dots(learned.D, u, terms.geometry)
    while calls < most and residual > enough:
        to = learned.direction(u, z_u, to_D, eps)
        d = to.d
        slope = float(dot(u, d)) + float(eps @ to.z)
        if not slope < 0.0:  # rounding
            if not len(learned):
                break
            learned.clear()
            to_D = to_D[:0]
            continue
        bend = learned.b * float(dot(d, d)) + float(to.e @ to.z)
        found, asked = _line_search(
            phi, v, d, (slope, slope - a * float(dot(grad_g, d)), bend), most - calls
        )
        calls += asked
        if found is None:
            break
        t = found.t
        s, y_g = d if t == 1.0 else t * d, found.grad_g - grad_g
        stuck = norm(s) <= EPS * norm(v)
        v, g, grad_g = found.v, found.g, found.grad_g
        u = u + learned.b * s + (y_g if a == 1.0 else a * y_g)
        before, z_u = z_u, learned.products(u)
        z_g = (z_u - before - (t * learned.b) * to.z) / a
        to_D = learned.add(to, t, s, y_g, z_g, u)
        eps = eps + t * to.e
        # a square of the size of rounding has no root
        square = float(dot(u, u)) + float(eps @ (2.0 * z_u + learned.gram @ eps))
        residual = math.sqrt(max(square, 0.0)) if len(eps) else norm(u)
        if stuck or leave(v, residual):
            break
    return InnerOutcome(v, (g, grad_g), residual, learned.kept)


def _line_search(
    phi: Phi, v: Vector, d: Vector, ends: tuple[float, float, float], most: int
) -> tuple[_OnRay | None, int]:
    """A point along v + t d with a small slope, None where phi bends down; and the calls of g.

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
            return None, asked
        if _STEEP * slope_0 <= slope <= -_FLAT * slope_0:
            return new, asked
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
            return new or best, asked
        part = low[1] / (low[1] - high[1]) if math.isfinite(high[1]) else 0.3
        t = low[0] + (high[0] - low[0]) * max(0.1, min(0.9, part))
    if new is not None and 0.0 <= slope <= -_STEEP * slope_0:  # out of budget, and not too far
        return new, asked
    return best, asked
