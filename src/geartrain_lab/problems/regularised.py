"""Least squares with a regulariser that is cheap but badly conditioned."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from geartrain.oracles import LinearModel, Quadratic, Term
from geartrain.oracles.protocols import Vector


def graph_laplacian(
    side: int = 40, rows: int = 400, seed: int = 0
) -> tuple[LinearModel, Quadratic]:
    """A dense least-squares term, and the Laplacian of a grid as regulariser."""
    rng = np.random.default_rng(seed)
    n = side * side
    T = sparse.diags_array(
        [-np.ones(side - 1), np.r_[1.0, 2.0 * np.ones(side - 2), 1.0], -np.ones(side - 1)],
        offsets=[-1, 0, 1],
    )
    eye = sparse.eye_array(side)
    W = sparse.csr_array(sparse.kron(T, eye) + sparse.kron(eye, T))
    u, v = np.meshgrid(np.linspace(0, 1, side), np.linspace(0, 1, side))
    A = rng.standard_normal((rows, n)) / np.sqrt(n)
    b = A @ (np.sin(4 * u) * np.cos(3 * v)).ravel() + 0.01 * rng.standard_normal(rows)
    return LinearModel(A, b, loss="squared"), Quadratic(0.1 * W + 1e-6 * sparse.eye_array(n))


def total_variation(
    side: int = 64, weight: float = 1e-3, smooth: float = 1e-3, seed: int = 0
) -> tuple[Term, Term]:
    """Deblurring: 1/2 |blur(x) - b|^2, and the smoothed total variation as regulariser."""
    rng = np.random.default_rng(seed)
    image = np.zeros((side, side))
    image[side // 4 : side // 2, side // 4 : 3 * side // 4] = 1.0
    image[side // 2 : 3 * side // 4, side // 3 : side // 2] = 0.6
    frequencies = np.fft.fftfreq(side)
    filter_ = np.exp(
        -2.0 * (3.0 * np.pi) ** 2 * (frequencies[:, None] ** 2 + frequencies[None, :] ** 2)
    )

    def blur(x: Vector) -> Vector:
        return np.real(np.fft.ifft2(filter_ * np.fft.fft2(x)))

    observed = blur(image) + 0.01 * rng.standard_normal((side, side))
    n, ridge = side * side, 1e-6

    def fit(x: Vector) -> tuple[float, Vector]:
        residual = blur(x.reshape(side, side)) - observed
        return 0.5 * float(np.sum(residual**2)), blur(residual).ravel()

    def variation(x: Vector) -> tuple[float, Vector]:
        X = x.reshape(side, side)
        down, right = np.zeros_like(X), np.zeros_like(X)
        down[:-1], right[:, :-1] = np.diff(X, axis=0), np.diff(X, axis=1)
        size = np.sqrt(down**2 + right**2 + smooth**2)
        down, right = down / size, right / size
        grad = -down - right
        grad[1:] += down[:-1]
        grad[:, 1:] += right[:, :-1]
        value = weight * float(np.sum(size - smooth)) + 0.5 * ridge * float(x @ x)
        return value, weight * grad.ravel() + ridge * x

    L_g = 8.0 * weight / smooth + ridge
    return Term(fit, L=1.0, n=n), Term(variation, L=L_g, mu=ridge, n=n)
