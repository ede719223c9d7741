r"""The minimiser of a low-rank quadratic model plus a separable psi, by a semismooth Newton method.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
C          ``C``           lam + V'MV, lam a number or a diagonal, with a few rows V
q          ``q``           stands for V (w - v): as many numbers as V has rows
w(q)       ``w``           prox(v - (d + V'M q)/lam, lam)
F(q)       ``F``           q - V (w(q) - v); its root gives the minimiser
A          --              coordinates in which w(q) changes with q
=========  ==============  ==================================================================

w(q) is a point with a known subgradient of psi, and the subgradient of the model there is -V'M F(q)
[1]_. A step solves (I + V_A lam_A^{-1} V_A' M) dq = -F(q), which is exact as long as A does not
change: about ten proximal steps for an accuracy that accelerated proximal gradient steps may need
hundreds for.

References
----------
.. [1] S. Becker, J. Fadili, P. Ochs, On quasi-Newton forward-backward splitting: proximal calculus
   and convergence, SIAM J. Optim. 29 (2019).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from geartrain.compiled.records import Separable
from geartrain.oracles.protocols import Vector
from geartrain.oracles.splitting import Psi
from geartrain.oracles.vectors import norm

# Newton steps, and halvings of each.
_MOST, _HALVINGS = 30, 6


def root(
    lam: float | Vector,
    M: Vector,
    V: Vector,
    d: Vector,
    psi: Psi,
    numbers: Separable,
    v: Vector,
    enough: float,
) -> tuple[Vector, Vector] | None:
    """w(q) and the element of dpsi there, with |V'M F(q)| <= `enough`; None if it is not found.

    lam + V'MV is positive definite; lam is a number or a diagonal.
    """
    q, slope = np.zeros(len(M)), d
    w = psi.prox(v - slope / lam, lam)
    F = q - V @ (w - v)
    size = norm((M @ F) @ V)
    for _ in range(_MOST):
        if size <= enough:
            return w, lam * (v - w) - slope
        A = _moving(w, numbers)
        V_A = V[:, A]
        if isinstance(lam, np.ndarray):
            bent = ((V_A / lam[A]) @ V_A.T) @ M
        else:
            bent = (V_A @ V_A.T) @ (M / lam)
        try:
            dq = np.linalg.solve(np.eye(len(M)) + bent, -F)
        except np.linalg.LinAlgError:
            return None
        if not np.isfinite(dq).all():
            return None
        part = 1.0
        for _ in range(_HALVINGS):
            q_new = q + part * dq
            slope_new = d + (M @ q_new) @ V
            w_new = psi.prox(v - slope_new / lam, lam)
            F_new = q_new - V @ (w_new - v)
            size_new = norm((M @ F_new) @ V)
            if size_new < (1.0 - 0.1 * part) * size:
                break
            part *= 0.5
        else:
            return None
        q, slope, w, F, size = q_new, slope_new, w_new, F_new, size_new
    return None


def _moving(w: Vector, numbers: Separable) -> NDArray[np.bool_]:
    inside = (w > numbers.lower) & (w < numbers.upper)
    return np.asarray(inside & ((w != 0.0) | (numbers.lam == 0.0)))
