r"""The best point on the span of the last steps, by what is known of h there.

=========  ===========  ==========================================================
symbol     name         meaning
=========  ===========  ==========================================================
p          ``p``        the last point kept, where both gradients are known
Q          ``Q``        orthonormal rows that span the last steps
H_h Q      ``HQ_h``     the Hessian of h times these rows, from the pairs
u          ``u``        coordinates: w = p + u Q
=========  ===========  ==========================================================

Along known steps the gradient of h is known to second order, grad h(p + u Q) = grad h(p) + u H_h Q,
while g can be asked itself. So F_{L,x} is minimised over p + span(Q) without a call of h. For a
quadratic h this is the exact line search of conjugate gradients, in all directions kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from geartrain.methods.secant import Pairs
from geartrain.oracles.protocols import Vector
from geartrain.problem import Envelope, norm

if TYPE_CHECKING:
    from geartrain.methods.trials import Known

# A step is left out where less than this part of it is new.
_NEW = 0.05
# The gradient along the span may be this part of the whole gradient.
_ALONG = 0.2
_STEPS, _CUTS, _CUT = 8, 4, 0.3
# Between these the curvature of g along a step may have changed since the step was made.
_FADED, _GROWN = 0.01, 3.0


def refreshed(g: Any, p: Known, pairs: Pairs) -> Pairs:
    """The pairs as they would be at p: one gradient of g each.

    The curvature of g along a step is measured anew; that of h is taken to have changed as much,
    as it has for a difference f - f_1 of means of one loss.
    """
    length = 1e-4 * max(norm(p.v), 1.0)
    Y_h, Y_g = pairs.Y_h.copy(), pairs.Y_g.copy()
    for i, s in enumerate(pairs.S):
        now = (g.grad(p.v + length * s) - p.grad_g) / length
        before = float(s @ pairs.Y_g[i])
        if before > 0.0:
            Y_h[i] *= min(max(float(s @ now) / before, _FADED), _GROWN)
        Y_g[i] = now
    return replace(pairs, Y_h=Y_h, Y_g=Y_g)


@dataclass(frozen=True)
class Span:
    """Orthonormal rows Q, newest first, and the Hessians of h and g times them."""

    Q: Vector  # (k, n)
    HQ_h: Vector
    HQ_g: Vector

    @staticmethod
    def of(pairs: Pairs) -> Span:
        """Gram-Schmidt from the newest step to the oldest."""
        n = pairs.S.shape[1]
        rows = np.zeros((0, 3 * n))
        for row in np.hstack([pairs.S, pairs.Y_h, pairs.Y_g])[::-1]:
            for _ in range(2):  # twice is enough
                row = row - (rows[:, :n] @ row[:n]) @ rows
            new = norm(row[:n])
            if new > _NEW:
                rows = np.vstack([rows, row / new])
        return Span(*np.split(rows, 3, axis=1))


def lowest_on_span(F: Envelope, p: Known, pairs: Pairs) -> Known:
    """W, the minimiser of F_{L,x} on p + span of the steps; its gradient of h is an estimate."""
    if len(pairs.S) == 0:
        return p
    span = Span.of(pairs)
    Q, M = span.Q, _symmetric(span.Q @ span.HQ_h.T)
    inverse = _inverse(M + _symmetric(Q @ span.HQ_g.T) + F.L * np.eye(len(Q)))

    def known(u: Vector) -> tuple[Known, Vector]:
        v = p.v + u @ Q
        grad_g = F.f.g.grad(v)
        w = replace(p, v=v, grad_h=p.grad_h + u @ span.HQ_h, grad_g=grad_g)
        return w, Q @ F.grad(v, p.grad_h + grad_g) + M @ u

    w, u, r = p, np.zeros(len(Q)), Q @ F.grad(p.v, p.grad)
    for _ in range(_STEPS):
        if norm(r) <= _ALONG * norm(F.grad(w.v, w.grad)):
            break
        d = -inverse @ r
        for k in range(_CUTS):
            w_next, r_next = known(u + _CUT**k * d)
            if abs(float(r_next @ d)) <= 0.9 * abs(float(r @ d)):
                break
        else:
            break
        inverse = _bfgs(inverse, _CUT**k * d, r_next - r)
        w, u, r = w_next, u + _CUT**k * d, r_next
    return w


def _symmetric(M: Vector) -> Vector:
    return 0.5 * (M + M.T)


def _inverse(H: Vector) -> Vector:
    """|H|^{-1}, no eigenvalue of |H| below a thousandth of the largest."""
    w, V = np.linalg.eigh(H)
    w = np.abs(w)
    return (V / np.maximum(w, max(1e-3 * w.max(), np.finfo(float).tiny))) @ V.T


def _bfgs(inverse: Vector, s: Vector, y: Vector) -> Vector:
    """The BFGS update of an inverse (Nocedal and Wright, (6.17))."""
    sy = float(s @ y)
    if sy <= 0.0:
        return inverse
    left = np.eye(len(s)) - np.outer(s, y) / sy
    return left @ inverse @ left.T + np.outer(s, s) / sy
