"""Quadratic problems whose h and g are badly conditioned in different directions.

Their minimiser is known, and both spectra matter, so that the calls of each term show how they
depend on its own constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from geartrain.datasets import KnownProblem
from geartrain.oracles import LinearModel, Quadratic
from geartrain.oracles.protocols import Vector


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


@dataclass(frozen=True)
class KnownTrain:
    """Terms, the last of which is g, the minimiser of their sum, and the minimum."""

    terms: tuple[Any, ...]
    x_star: Vector
    f_star: float

    @property
    def names(self) -> tuple[str, ...]:
        """As `geartrain.minimize` names the terms."""
        return (*(f"h{i + 1}" for i in range(len(self.terms) - 1)), "g")


def opposed_train(
    n: int, *, L: Sequence[float], mu: float, seed: int, shared: bool = False
) -> KnownTrain:
    """One quadratic per entry of L, in one random eigenbasis; the last one is g.

    L has their largest eigenvalues, and mu is the smallest one of the sum, which belongs to g. The
    spectrum of every term is in a block of directions of its own, or, `shared`, in all directions
    in a random order.
    """
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.standard_normal((n, n)))[0]
    x_star = rng.standard_normal(n)
    blocks = np.array_split(np.arange(n), len(L))
    terms = []
    for i, (top, block) in enumerate(zip(L, blocks, strict=True)):
        spectrum = np.zeros(n)
        where = rng.permutation(n) if shared else block
        spectrum[where] = np.geomspace(min(mu, top), top, where.size)
        if i == len(L) - 1:
            spectrum = np.maximum(spectrum, mu)
        Q = (U * spectrum) @ U.T
        Q = 0.5 * (Q + Q.T)
        terms.append(Quadratic(Q, b=Q @ x_star))
    return KnownTrain(tuple(terms), x_star, sum(term.value(x_star) for term in terms))
