r"""The minimiser of a low-rank quadratic model plus a separable psi, by a semismooth Newton method.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
C          ``C``           lam I + U'WU, rows of U orthonormal, W diagonal
q          ``q``           stands for U (w - v): as many numbers as U has rows
w(q)       ``w``           prox(v - (d + U'W q)/lam, lam)
F(q)       ``F``           q - U (w(q) - v); its root gives the minimiser
A          ``moving``      coordinates in which w(q) changes with q
=========  ==============  ==================================================================

w(q) is a point with a known subgradient of psi, and the subgradient of the model there is -U'W F(q)
[1]_. A step solves (I + U_A U_A' W/lam) dq = -F(q), which is exact as long as A does not change:
about ten proximal steps for an accuracy that accelerated proximal gradient steps may need hundreds
for.

References
----------
.. [1] S. Becker, J. Fadili, P. Ochs, On quasi-Newton forward-backward splitting: proximal calculus
   and convergence, SIAM J. Optim. 29 (2019).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from geartrain.compiled.records import Separable
from geartrain.methods.quasi_newton.low_rank import LowRank
from geartrain.oracles.protocols import Vector
from geartrain.oracles.splitting import Psi
from geartrain.oracles.vectors import norm

# Newton steps, and halvings of each.
_MOST, _HALVINGS = 30, 6


def orthonormal(C: LowRank) -> tuple[Vector, Vector]:
    """The diagonal of W and the rows of U; both may be empty."""
    if C.small is None or C.small.spectrum[0].size == 0:
        return np.zeros(0), np.zeros((0, 0))
    w, E = C.small.spectrum
    return w, np.array(C.small.rows.combine_all(E @ C.small.C))


def root(
    lam: float,
    W: Vector,
    U: Vector,
    d: Vector,
    psi: Psi,
    numbers: Separable,
    v: Vector,
    enough: float,
) -> tuple[Vector, Vector] | None:
    """w(q) and the element of dpsi there, with |W F(q)| <= `enough`; None where steps do not help.

    lam I + U'WU is positive definite.
    """
    q = np.zeros(len(W))
    slope = d
    w = psi.prox(v - slope / lam, lam)
    F = q - U @ (w - v)
    size = norm(W * F)
    for _ in range(_MOST):
        if size <= enough:
            return w, lam * (v - w) - slope
        A = _moving(w, numbers)
        U_A = U[:, A]
        try:
            dq = np.linalg.solve(np.eye(len(W)) + (U_A @ U_A.T) * (W / lam), -F)
        except np.linalg.LinAlgError:
            return None
        part = 1.0
        for _ in range(_HALVINGS):
            q_new = q + part * dq
            slope_new = d + (W * q_new) @ U
            w_new = psi.prox(v - slope_new / lam, lam)
            F_new = q_new - U @ (w_new - v)
            if norm(W * F_new) < (1.0 - 0.1 * part) * size:
                break
            part *= 0.5
        else:
            return None
        q, slope, w, F, size = q_new, slope_new, w_new, F_new, norm(W * F_new)
    return None


def _moving(w: Vector, numbers: Separable) -> NDArray[np.bool_]:
    inside = (w > numbers.lower) & (w < numbers.upper)
    return np.asarray(inside & ((w != 0.0) | (numbers.lam == 0.0)))
