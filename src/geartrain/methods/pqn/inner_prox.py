r"""The inner run with psi: proximal quasi-Newton steps on the model.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
d          ``d``           grad of phi - psi at v
C          ``C``           BFGS of phi - psi from B + (mu + tau) I, with the pairs
tau        ``tau``         curvature of a g along the last step
shift      ``shift``       added to C after a step that was too long
=========  ==============  ==================================================================

Whether phi has fallen is told by the slopes at both ends, so g is not asked for values; for a
quadratic g this is exact.
"""

from __future__ import annotations

import numpy as np

from geartrain.methods.pqn.evaluation import CURVED
from geartrain.methods.pqn.inner import Leave, Pairs, Phi, Run
from geartrain.methods.pqn.low_rank import Basis, LowRank
from geartrain.methods.pqn.prox_step import minimised
from geartrain.methods.pqn.secants import compact
from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.oracles.protocols import Vector
from geartrain.problem import EPS

# Part of the predicted change of phi that a step must bring; accuracy of a proximal quasi-Newton
# step over the residual before it.
_ARMIJO, _ACCURACY = 1e-4, 0.1
# Rejected steps in a row after which only rounding is left.
_TRIES = 30


class Curvature:
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
        B = phi.B.at_least(-phi.B.lam)
        self.B, n = B, phi.p.v.size
        base = np.zeros((0, n))
        if B.basis is not None:  # the rows that B acts on
            base = B.basis.rows[B.basis.order[: len(B.T)]]
        self.rows = np.empty((len(base) + 4 * memory, n))
        self.rows[: len(base)] = base
        self.first, self.end = len(base), len(base)  # of the rows of pairs
        self.gram = np.zeros((len(self.rows),) * 2)
        if B.basis is not None:
            self.gram[: self.first, : self.first] = B.basis.gram[: self.first, : self.first]
        self.pairs: list[tuple[Vector, Vector]] = []
        for s, y_g in pairs[-memory:]:
            self.add(s, y_g)

    def add(self, s: Vector, y_g: Vector) -> None:
        """One more pair."""
        size = self.phi.terms.norm(s)
        if not size > 0.0:
            return
        self.pairs.append((s, y_g))
        if self.end == len(self.rows):
            self.pairs = self.pairs[-self.memory :]
            self.end = self.first
            for pair in self.pairs:
                self._put(*pair)
        else:
            self._put(s, y_g)

    def _put(self, s: Vector, y_g: Vector) -> None:
        size, geometry = self.phi.terms.norm(s), self.phi.terms.geometry
        for row in (s / size, y_g / size):
            self.rows[self.end] = row
            self.end += 1
            used = self.rows[: self.end]
            new = geometry.primal(used) @ geometry.dual(row)
            self.gram[self.end - 1, : self.end] = self.gram[: self.end, self.end - 1] = new

    def clear(self) -> None:
        """Forget the pairs."""
        self.pairs, self.end = [], self.first

    def matrix(self, tau: float) -> LowRank:
        """C without the shift."""
        phi, B = self.phi, self.B
        lam, a = B.lam + phi.mu + tau, phi.part
        start = max(self.first, self.end - 2 * self.memory)
        used = np.r_[: self.first, start : self.end]
        if not len(used):
            return LowRank(lam, geometry=B.geometry)
        gram = self.gram[np.ix_(used, used)]
        rows = self.rows if start == self.first else self.rows[used]
        basis = Basis.of(rows[: len(used)], gram, np.arange(len(used)))
        r, k = len(used), len(B.T)
        T = np.zeros((r, r))
        T[:k, :k] = B.T
        S, Y_g = basis.X[self.first :: 2], basis.X[self.first + 1 :: 2]
        model = (B.lam + phi.mu) * S + S @ T
        Y = a * Y_g + model
        along = np.einsum("ij,ij->i", S, Y)
        good = along > CURVED * np.sqrt(np.einsum("ij,ij->i", Y, Y))
        S, Y, base = S[good], Y[good], model[good] + tau * S[good]
        if len(S):
            T = T + compact(S, Y, S @ Y.T, base)
        return LowRank(lam, basis, 0.5 * (T + T.T), B.geometry)

    def tau(self, otherwise: float) -> float:
        """Curvature of a g along the newest step."""
        if not self.pairs:
            return otherwise
        s, y_g = self.pairs[-1]
        dot = self.phi.terms.dot
        return max(self.phi.part * float(dot(s, y_g)), 0.0) / float(dot(s, s))


def descend(phi: Phi, enough: float, pairs: Pairs, leave: Leave, most: int, memory: int) -> Run:
    """Until the shortest known subgradient is at most `enough`, `leave`, or `most` calls of g."""
    terms, p, a = phi.terms, phi.p, phi.part
    norm, dot, psi = terms.norm, terms.dot, terms.psi
    v, g, grad_g, value = p.v, p.g, p.grad_g, p.psi
    w: Vector | None = None if psi.has_residual else p.r - p.grad
    linear = p.grad_h if a == 1.0 else p.grad_h + (1.0 - a) * p.grad_g
    learned = Curvature(phi, pairs, memory)
    calls = tries = prox_steps = 0
    if not phi.inside:
        d, alpha = linear + a * grad_g, phi.B.lam + phi.mu
        v = psi.prox(p.v - d / alpha, alpha)
        w, value = alpha * (p.v - v) - d, terms.psi_at(v)
        g, grad_g = terms.g(v)
        linear = linear + phi.B(v - p.v, phi.mu)
        calls = prox_steps = 1
    shift = 0.0
    while True:
        d = linear + a * grad_g
        r = psi.residual(v, d, w)
        size = norm(r)
        over = calls >= most or size <= enough or tries > _TRIES
        if over or (calls and tries == 0 and leave(v, grad_g, size)):
            break
        C = learned.matrix(learned.tau(10.0 * size / (norm(v) or 1.0)))
        to = minimised(C, shift, d, psi, v, _ACCURACY * size)
        prox_steps += to.prox_steps
        s, value_w = to.w - v, terms.psi_at(to.w)
        length, rise = norm(s), value_w - value
        if np.isnan(rise):
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
            shift = 0.1 * shift if shift > 1e-10 * C.lam else 0.0
        else:
            missed = norm(Bs + a * y_g - C(s)) / length
            shift, tries = max(4.0 * shift, missed, 0.1 * C.lam), tries + 1
    known = None if v is p.v else (g, grad_g)
    kept = tuple(learned.pairs[-memory:])
    return Run(v, known, size, kept, grad_g, w, prox_steps=prox_steps)
