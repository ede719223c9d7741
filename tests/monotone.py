"""Monotone operators with known solutions, for tests."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import geartrain as gt


class Known(NamedTuple):
    """P, Q (with or without a set), a solution, and constants."""

    P: gt.Operator
    Q: object
    z: np.ndarray  # the solution
    L_P: float
    L_Q: float
    mu: float


def _monotone(rng, n, mu, skew):
    M = rng.standard_normal((n, n))
    K = rng.standard_normal((n, n))
    J = M @ M.T / n + mu * np.eye(n) + skew * (K - K.T) / np.sqrt(n)
    return J, np.linalg.norm(J, 2)


def known(seed=0, n=12, mu=0.1, psi=None, skew=1.0, stiff=10.0):
    """Linear skew operators plus a smooth monotone field; the solution is chosen first.

    With psi "box" or "simplex", half of the bounds are active, with multipliers of the right signs.
    """
    rng = np.random.default_rng(seed)
    J, L_J = _monotone(rng, n, mu, skew)
    D, L_D = _monotone(rng, n, 0.0, stiff)
    if psi == "simplex":
        z = np.where(rng.random(n) < 0.5, 0.0, rng.random(n))
        z[0] = 1.0
        z /= z.sum()
        normal = -np.where(z > 0.0, 0.0, rng.random(n))
        Q_set = gt.Simplex()
    elif psi == "box":
        z = np.clip(2.0 * rng.standard_normal(n), -1.0, 1.0)
        normal = np.where(np.abs(z) == 1.0, np.sign(z) * rng.random(n), 0.0)
        Q_set = gt.Box(-1.0, 1.0)
    else:
        z, normal, Q_set = rng.standard_normal(n), np.zeros(n), None
    # P(z) + Q(z) + normal = 0
    a = J @ z + np.tanh(z)
    b = -a - D @ z - normal
    P = gt.Operator(lambda v: J @ v + np.tanh(v), n=n, L=L_J + 1.0, mu=mu)
    Q = gt.Operator(lambda v: D @ v + b, n=n, L=L_D)
    return Known(P, Q if Q_set is None else Q + Q_set, z, L_J + 1.0, L_D, mu)


def without_constants(operator, n):
    """The same function, of which nothing else is known."""
    return gt.Operator(operator.operator, n=n)
