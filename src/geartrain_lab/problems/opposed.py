"""Quadratic problems whose h and g are badly conditioned in different directions.

Their minimiser is known, and both spectra matter, so that the calls of each term show how they
depend on its own constant.
"""

from __future__ import annotations

import numpy as np

from geartrain.datasets import KnownProblem
from geartrain.oracles import LinearModel, Quadratic


def opposed_quadratics(
    n: int, *, L_h: float, L_g: float, mu: float, seed: int, x_star_scale: float = 1.0
) -> KnownProblem:
    """Two quadratics: h has its large eigenvalues where g has its small ones, and vice versa.

    L_h and L_g are the largest eigenvalues, mu the smallest one of the sum; the entries of the
    minimiser have the standard deviation `x_star_scale`.
    """
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.standard_normal((n, n)))[0]
    half = n // 2
    spectrum_h, spectrum_g = np.full((2, n), mu / 2)
    spectrum_h[:half] = np.geomspace(mu / 2, L_h, half)
    spectrum_g[half:] = np.geomspace(mu / 2, L_g, n - half)
    H, G = (U * spectrum_h) @ U.T, (U * spectrum_g) @ U.T
    H, G = (H + H.T) / 2, (G + G.T) / 2
    x_star = x_star_scale * rng.standard_normal(n)
    h, g = Quadratic(H, b=H @ x_star), Quadratic(G, b=G @ x_star)
    return KnownProblem(h, g, x_star, h.value(x_star) + g.value(x_star))


def opposed_finite_sum(
    m: int, *, L_h: float, L_g_hat: float, mu: float, seed: int, n: int = 40
) -> KnownProblem:
    """A quadratic h, and as g a mean of m squared losses whose rows have equal norms.

    The rows have norm sqrt(L_g_hat) and lie in one half of the space; h is curved in the other.
    """
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.standard_normal((n, n)))[0]
    half = n // 2
    A = rng.standard_normal((m, half)) * np.geomspace(1.0, 1e-3, half)
    A *= np.sqrt(L_g_hat / np.einsum("ij,ij->i", A, A))[:, None]
    spectrum = np.full(n, mu)
    spectrum[half:] = np.geomspace(mu, L_h, half)
    x_star = rng.standard_normal(n)
    A = A @ U[:, :half].T
    H = (U * spectrum) @ U.T
    h = Quadratic((H + H.T) / 2, b=H @ x_star)
    g = LinearModel(A, A @ x_star, loss="squared")
    return KnownProblem(h, g, x_star, h.value(x_star) + g.value(x_star))
