r"""The inner run with psi: proximal quasi-Newton steps on the model.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
d          ``d``           grad of phi - psi at v
C          ``C``           BFGS of phi - psi from B + (mu + tau) I, with the pairs
tau        ``tau``         curvature of a g along the last step
c          ``known``       of g = c/2 \|v\|^2 + <b, v>: then C = B + (mu + a c) I is exact, and
                           one step is the whole run
Q          ``Q``           Hessian of a quadratic g with few variables, as the term states it: then
                           C = B + mu I + a Q is exact, too
shift      ``shift``       added to C after a step that was too long
=========  ==============  ==================================================================

Whether phi has fallen is told by the slopes at both ends, so g is not asked for values; for a
quadratic g this is exact.
"""

from __future__ import annotations

import math

import numpy as np

from geartrain.methods.pqn.evaluation import CURVED
from geartrain.methods.pqn.inner import InnerOutcome, Leave, Pairs, Phi
from geartrain.methods.pqn.inner_quadratic import hessian, spherical
from geartrain.methods.pqn.low_rank import LowRank, RowBasis
from geartrain.methods.pqn.models import Updated
from geartrain.methods.pqn.prox_step import Moved, minimised
from geartrain.methods.pqn.rows import dots
from geartrain.methods.pqn.secants import compact
from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.oracles.protocols import Vector
from geartrain.oracles.spectrum import lapack
from geartrain.problem import EPS

# Part of the predicted change of phi that a step must bring; accuracy of a proximal quasi-Newton
# step over the residual before it.
_ARMIJO, _ACCURACY = 1e-4, 0.1
# Accuracy of a run over the residual before it where psi tells no derivative, so that every digit
# takes many proximal steps: on six families two thirds of them, and as many calls of h. With 0.1,
# 1.04 times as many calls.
_COARSE = 0.05
# Rejected steps in a row after which only rounding is left.
_TRIES = 30


class ProxCurvature:
    """C, made from the matrix of the model and the pairs.

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
        self.phi, self.memory = phi, memory
        self.B, n = _positive(phi.B), phi.p.v.size
        self.known = spherical(phi.terms)
        self.Q = None if self.known is not None else hessian(phi.terms)
        self.exact = self.known is not None or self.Q is not None
        self.moved: Moved | None = None
        self.pairs: list[tuple[Vector, Vector]] = []
        if self.exact:
            return
        basis = self.B.basis
        base = np.zeros((0, n))
        if basis is not None:  # the rows that B acts on
            base = basis.rows[basis.order[: len(self.B.T)]]
        self.first = len(base)
        self.rows = np.zeros((self.first + 2 * memory, n))  # products with all of them are finite
        self.rows[: self.first] = base
        self.gram = np.zeros((len(self.rows),) * 2)
        if basis is not None:
            self.gram[: self.first, : self.first] = basis.gram[: self.first, : self.first]
        self.moved = Moved(phi.terms.psi, len(self.rows))
        self.count = 0  # pairs put into the rows, of which the newest are kept
        for s, y_g in pairs[-memory:]:
            self.add(s, y_g)

    def add(self, s: Vector, y_g: Vector) -> None:
        """One more pair, in the place of the oldest one."""
        size, geometry = self.phi.terms.norm(s), self.phi.terms.geometry
        if self.moved is None or not size > 0.0:
            return
        self.pairs.append((s, y_g))
        at = self.first + 2 * (self.count % self.memory)
        self.count += 1
        for i, row in ((at, s / size), (at + 1, y_g / size)):
            self.rows[i] = row
            used = self.rows[: max(i + 1, self.end)]
            self.gram[i, : len(used)] = self.gram[: len(used), i] = dots(used, row, geometry)
            self.moved.add(used, i)

    @property
    def end(self) -> int:
        """Of the rows in use."""
        return self.first + 2 * min(self.count, self.memory)

    def clear(self) -> None:
        """Forget the pairs."""
        self.pairs, self.count = [], 0

    def matrix(self) -> tuple[LowRank, float]:
        """C without the shift, as a matrix and a multiple of I that is added to it."""
        if self.known is not None:
            return self.B, self.phi.mu + self.phi.part * self.known
        if self.Q is not None:
            return _whole(self.B.dense(self.phi.mu, len(self.Q)) + self.phi.part * self.Q), 0.0
        return self._from_pairs(self._tau()), 0.0

    def _from_pairs(self, tau: float) -> LowRank:
        phi, B, first = self.phi, self.B, self.first
        lam, a, end = B.lam + phi.mu + tau, phi.part, self.end
        if not end:
            return LowRank(lam, geometry=B.geometry)
        order = np.arange(end)
        if self.count > self.memory:  # oldest first
            order[first:] = np.roll(order[first:], -2 * (self.count % self.memory))
        basis = RowBasis.of(self.rows[:end], self.gram, order)
        k = len(B.T)
        S, Y_g = basis.X[first::2], basis.X[first + 1 :: 2]
        model = (B.lam + phi.mu) * S
        model[:, :k] += S[:, :k] @ B.T
        Y = a * Y_g + model
        along = np.einsum("ij,ij->i", S, Y)
        good = along > CURVED * np.sqrt(np.einsum("ij,ij->i", Y, Y))
        T = np.zeros((end, end))
        if good.any():
            S, Y, base = S[good], Y[good], model[good] + tau * S[good]
            T = compact(S, Y, S @ Y.T, base)
        T[:k, :k] += B.T
        return LowRank(lam, basis, 0.5 * (T + T.T), B.geometry)

    def _tau(self) -> float:
        """Curvature of a g along the newest step; before there is one, that of the model."""
        if not self.pairs:
            return self.phi.B.lam + self.phi.mu
        s, y_g = self.pairs[-1]
        dot = self.phi.terms.dot
        return max(self.phi.part * float(dot(s, y_g)), 0.0) / float(dot(s, s))


def _whole(C: Vector) -> LowRank:
    """A full matrix as a multiple of I and the rest, of which no part is small beside the other."""
    lam, I = float(np.mean(C.diagonal())), np.eye(len(C))
    return LowRank(lam, RowBasis.of(I, I, np.arange(len(C))), C - lam * I)


def _positive(B: LowRank) -> LowRank:
    """B with its negative eigenvalues set to 0; there are none where h is convex."""
    if isinstance(B, Updated) and B.floor == 0.0:
        return B
    shifted = B.T.copy()
    shifted.flat[:: len(B.T) + 1] += B.lam
    if not len(B.T) or lapack().dpotrf(shifted, lower=1)[1] == 0:
        return B
    return B.at_least(-B.lam)


def descend(
    phi: Phi, enough: float, pairs: Pairs, leave: Leave, most: int, memory: int
) -> InnerOutcome:
    """Until the shortest known subgradient is at most `enough`, `leave`, or `most` calls of g."""
    terms, p, a = phi.terms, phi.p, phi.part
    norm, dot, psi = terms.norm, terms.dot, terms.psi
    v, g, grad_g, value = p.v, p.g, p.grad_g, p.psi
    w: Vector | None = None if psi.has_residual else p.r - p.grad
    linear = p.grad_h if a == 1.0 else p.grad_h + (1.0 - a) * p.grad_g
    learned = ProxCurvature(phi, pairs, memory)
    if phi.inside and not psi.has_derivative:
        enough = max(enough, _COARSE * norm(p.r))
    calls = tries = prox_steps = 0
    if not phi.inside:
        d, alpha = linear + a * grad_g, phi.B.lam + phi.mu
        v = psi.prox(p.v - d / alpha, alpha)
        w, value = alpha * (p.v - v) - d, terms.psi_at(v)
        g, grad_g = terms.g(v)
        linear = linear + phi.B(v - p.v, phi.mu)
        calls = prox_steps = 1
    shift, proven = 0.0, math.inf  # the residual of an exact model, by its last step
    while True:
        d = linear + a * grad_g
        if proven <= enough:
            size = proven
            break
        r = p.r if v is p.v and w is None else psi.residual(v, d, w)
        size = norm(r)
        over = calls >= most or size <= enough or tries > _TRIES
        if over or (calls and tries == 0 and leave(v, size)):
            break
        C, more = learned.matrix()
        accuracy = enough if learned.exact else _ACCURACY * size
        to = minimised(C, more + shift, d, r, psi, v, accuracy, learned.moved)
        prox_steps += to.prox_steps
        s, value_w = to.w - v, terms.psi_at(to.w)
        length, rise = norm(s), value_w - value
        if np.isnan(rise) and to.grad_psi is not None:
            rise = float(dot(to.grad_psi, s))
        slope = float(dot(d, s)) + rise
        if not slope < 0.0 or length <= EPS * norm(v):
            if not learned.pairs:
                break
            learned.clear()
            tries += 1
            continue
        calls += 1
        try:
            g_w, grad_w = terms.g(to.w)
        except NonFiniteAnswer:
            shift, tries = max(10.0 * shift, 10.0 * size / length), tries + 1
            continue
        Bs, y_g = learned.B(s, phi.mu), grad_w - grad_g
        learned.add(s, y_g)
        change = float(dot(d, s)) + 0.5 * float(dot(Bs + a * y_g, s)) + rise
        if change <= _ARMIJO * slope:  # by the trapezoidal rule
            v, g, grad_g, value, w = to.w, g_w, grad_w, value_w, to.grad_psi
            linear, tries = linear + Bs, 0
            proven = to.residual if learned.exact else math.inf
            shift = 0.1 * shift if shift > 1e-10 * C.lam else 0.0
        else:
            missed = norm(Bs + a * y_g - C(s, more)) / length
            shift, tries = max(4.0 * shift, missed, 0.1 * C.lam), tries + 1
    known = None if v is p.v else (g, grad_g)
    kept = tuple(learned.pairs[-memory:])
    return InnerOutcome(v, known, size, kept, w, prox_steps=prox_steps)
