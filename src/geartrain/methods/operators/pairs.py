r"""What visited points tell: steps with the changes of P and Q, and the mixture made of them.

============  =============  ===============================================================
symbol        name           meaning
============  =============  ===============================================================
R             ``R``          P + Q
e(v)          ``e``          the element of R(v) + dpsi(v) of least norm
S, dP, dQ     ``Pairs``      steps, changes of P and Q along them, as columns
alpha         ``alpha``      inverse length of the proximal step that residuals are taken by
D             ``D``          the derivative of that step
r             ``r``          alpha (p - prox(p - R(p)/alpha, alpha)); without psi, R(p)
A             ``A``          changes of r: alpha S - D (alpha S - dR); without psi, dR
============  =============  ===============================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from geartrain.methods.operators.resolvent import derivative
from geartrain.oracles.splitting import Psi
from geartrain.oracles.vectors import Vector, norm

# Pairs that are kept: _MORE than there are variables, at most _MOST and _MORE, and fewer where they
# would have more than _ENTRIES numbers.
_MORE, _MOST, _ENTRIES = 20, 200, 10**7
# Steps with less than this outside of the newer ones are left out; weight of |c|^2; where less than
# _NOVEL of the mixed residual is outside of the steps, the newest change stands for it, if more
# than _SEEN of that is.
_NEW, _RIDGE, _NOVEL, _SEEN = 1e-3, 1e-12, 0.1, 1e-8
# Gauss-Newton steps with psi: at most so many; the first one of these lengths t by which |r| falls
# by that part of t.
_ROUNDS, _LENGTHS, _FALL = 20, tuple(0.5**i for i in range(6)), 0.1


@dataclass(frozen=True)
class Visit:
    """A point, P and Q there, and the residual."""

    v: Vector
    P: Vector
    Q: Vector
    e: Vector

    @property
    def R(self) -> Vector:
        return self.P + self.Q


@dataclass(frozen=True)
class Pairs:
    """Steps of length 1 and the changes of P and Q along them, one per row, newest first."""

    S: Vector
    P: Vector
    Q: Vector

    @staticmethod
    def none(n: int) -> Pairs:
        return Pairs(*(np.zeros((0, n)) for _ in range(3)))

    def and_step(self, p: Visit, to: Visit) -> Pairs:
        """With the step from p to `to`, and without the oldest one where there are many."""
        n, length = p.v.size, norm(to.v - p.v)
        most = min(min(n, _MOST) + _MORE, max(_MORE, _ENTRIES // n))
        new = (to.v - p.v, to.P - p.P, to.Q - p.Q)
        rows = zip(new, (self.S, self.P, self.Q), strict=True)
        return Pairs(*(np.vstack([x / length, old])[:most] for x, old in rows))

    def independent(self) -> tuple[list[int], Vector]:
        """The rows with steps that newer ones do not tell, and an orthonormal basis of those."""
        rows: list[int] = []
        basis = np.zeros((min(self.S.shape), self.S.shape[1]))
        for i, s in enumerate(self.S):
            known = basis[: len(rows)]
            for _ in range(2):  # the second time for the sake of rounding
                s = s - (known @ s) @ known
            if len(rows) < len(basis) and (length := norm(s)) > _NEW:
                basis[len(rows)] = s / length
                rows.append(i)
        return rows, basis[: len(rows)]


class Mixture(NamedTuple):
    """A point b, what is predicted of P and Q there, and the norm of the residual."""

    b: Vector
    P: Vector
    Q: Vector
    r: float


def mixture(p: Visit, pairs: Pairs, psi: Psi | None, alpha: float, rho: float) -> Mixture:
    """The point p + S c, c = argmin |r(c)|^2 (+ (|r(0)|/rho)^2 |S c|^2 for a finite rho).

    r(c) is what the pairs predict of r at p + S c: without psi r + A c. With psi, Gauss-Newton
    steps, which cost proximal steps only, until they do not help.
    """
    rows, basis = pairs.independent()
    S, dP, dQ = (x[rows].T for x in (pairs.S, pairs.P, pairs.Q))
    dR, n, k = dP + dQ, p.v.size, len(rows)

    def predicted(c: Vector) -> tuple[Vector, Vector]:
        b, R = p.v + S @ c, p.R + dR @ c
        if psi is None:
            return R, dR
        forward = b - R / alpha
        r = alpha * (b - psi.prox(forward, alpha))
        return r, alpha * S - derivative(psi, forward, alpha)(alpha * S - dR)

    c = np.zeros(k)
    r, A = predicted(c)
    start = norm(r)
    for _ in range(_ROUNDS if k else 0):
        scale = np.sqrt((A * A).sum(axis=0)) + 1e-300
        squares, rest = [A / scale, math.sqrt(_RIDGE) * np.eye(k)], [r, np.zeros(k)]
        if rho < math.inf:
            squares.append(start / rho * S / scale)
            rest.append(start / rho * (S @ c))
        q, triangle = np.linalg.qr(np.vstack(squares))
        d = -np.linalg.solve(triangle, q.T @ np.concatenate(rest)) / scale
        if psi is None:
            c, r = d, r + A @ d
            break
        for t in _LENGTHS:
            r_new, A_new = predicted(c + t * d)
            if norm(r_new) <= (1.0 - _FALL * t) * norm(r):
                break
        else:
            break
        c, r, A = c + t * d, r_new, A_new
    b, P, Q = p.v + S @ c, p.P + dP @ c, p.Q + dQ @ c
    if 0 < k < n:  # skew parts: Krylov spaces stand still where R(b) is in their span
        outside, new = (x - (basis @ x) @ basis for x in (r, A[:, 0]))
        if norm(outside) < _NOVEL * norm(r) and norm(new) > _SEEN * norm(A[:, 0]):
            P = P + norm(r) / norm(new) * new
    return Mixture(b, P, Q, norm(r))
