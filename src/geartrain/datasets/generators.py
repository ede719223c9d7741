"""Problems f = h + g whose minimiser is known by construction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from geartrain.oracles.linear_model import LinearModel
from geartrain.oracles.protocols import Vector
from geartrain.oracles.quadratic import Quadratic


@dataclass(frozen=True)
class KnownProblem:
    """Terms h and g, the minimiser of their sum, and the minimum."""

    h: Any
    g: Any
    x_star: Vector
    f_star: float


def make_quadratics(
    n: int = 100, *, L_h: float = 1.0, L_g: float = 100.0, mu: float = 1e-2, seed: int = 0
) -> KnownProblem:
    """Two quadratics in one random eigenbasis, so that both spectra are felt.

    Parameters
    ----------
    n : int
        Dimension.
    L_h, L_g : float
        Largest eigenvalues of the two.
    mu : float
        Smallest eigenvalue of the sum.
    seed : int
        Of the eigenbasis and the minimiser.

    Returns
    -------
    KnownProblem
        Log-spaced spectra, that of g over half of the directions.
    """
    if not (n >= 2 and 0.0 < mu < min(L_h, L_g)):
        raise ValueError(f"need n >= 2 and 0 < mu < min(L_h, L_g), got n={n}, mu={mu:g}")
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.standard_normal((n, n)))[0]
    # h falls over all directions, g over the second half; together they end at mu.
    h_values = np.geomspace(L_h, 0.5 * mu, n)
    g_values = np.full(n, 0.5 * mu)
    g_values[n // 2 :] = np.geomspace(0.5 * mu, L_g, n - n // 2)[::-1]
    x_star = rng.standard_normal(n)
    Q_h, Q_g = ((U * values) @ U.T for values in (h_values, g_values))
    Q_h, Q_g = 0.5 * (Q_h + Q_h.T), 0.5 * (Q_g + Q_g.T)
    h, g = Quadratic(Q_h), Quadratic(Q_g, (Q_h + Q_g) @ x_star)
    return KnownProblem(h, g, x_star, h.value(x_star) + g.value(x_star))


def make_logistic(
    m: int = 500, n: int = 50, *, L_g: float = 100.0, mu: float = 1e-2, seed: int = 0
) -> KnownProblem:
    """Logistic h and a quadratic g whose linear part puts the minimum at a chosen point.

    Parameters
    ----------
    m, n : int
        Rows and columns of the data of h.
    L_g, mu : float
        Largest and smallest eigenvalue of g.
    seed : int
        Of the data and the minimiser.

    Returns
    -------
    KnownProblem
        With grad h(x*) + Q x* - b = 0 by the choice of b.
    """
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((m, n)) / np.sqrt(n)
    x_star = rng.standard_normal(n)
    h = LinearModel(A, np.where(A @ x_star + rng.logistic(size=m) > 0.0, 1.0, -1.0))
    values = np.geomspace(mu, L_g, n)
    g = Quadratic(np.diag(values), values * x_star + h.grad(x_star))
    return KnownProblem(h, g, x_star, h.value(x_star) + g.value(x_star))
