"""The problems of ``geartrain bench frontier``: f = h + g with h expensive, from x0 = 0."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from geartrain import datasets
from geartrain.oracles import LinearModel, LogSumExp, Quadratic, Term
from geartrain.oracles.protocols import Vector
from geartrain.oracles.spectrum import extreme_eigenvalues


def _nothing(h: Any, g: Any) -> dict[str, float]:
    return {}


@dataclass(frozen=True)
class Problem:
    """A problem by name; `make` gives (h, g)."""

    name: str
    make: Callable[[], tuple[Any, Any]]
    separable: bool = True  # False where separation should not win
    # What the terms do not know, for the methods that ask for it: L_h, mu.
    constants: Callable[[Any, Any], dict[str, float]] = _nothing
    f_star: Callable[[Any, Any], float] | None = None  # where long runs would not give it


def log_density(n: int = 500, p: int = 6000, seed: int = 7) -> tuple[Any, Any]:
    """The problem eq:softmax_reg of Section 5.2 of the paper."""
    rng = np.random.default_rng(seed)
    A = sparse.random_array(
        (p, n), density=0.001, rng=rng, data_sampler=lambda size: rng.uniform(-1, 1, size)
    )
    weights = rng.uniform(size=n)
    weights /= weights.sum()
    E = rng.uniform(1.0, 2.0, (n, n))
    G2 = (E.T * weights) @ E
    return LogSumExp(sparse.csr_array(A)), Quadratic(0.5 * (G2 + G2.T))


def kernel_svm() -> tuple[Any, Any]:
    """The problem exp_eq_svm_main_smooth of Section 5.1, on the minutes of the gas sensors."""
    table = datasets.load_gas_sensors()
    X = np.asarray(table.X)
    X = (X - X.min(axis=0)) / (X.max(axis=0) - X.min(axis=0))
    return kernel_machine(X, np.where(table.y == np.unique(table.y)[0], 1.0, -1.0))


def random_kernel_svm(m: int = 60) -> tuple[Any, Any]:
    """The same on random points."""
    rng = np.random.default_rng(2)
    X = rng.uniform(size=(m, 4))
    return kernel_machine(X, np.where(X @ (1.0, 1.0, -1.0, 0.0) > 0.5, 1.0, -1.0), 5.0, 0.1, 0.5)


def kernel_machine(
    X: Vector, y: Vector, gamma: float = 0.1, lam: float = 1e-2, mu: float = 0.1
) -> tuple[Any, Any]:
    """(h, g) of `kernel_svm`."""
    squares = np.einsum("ij,ij->i", X, X)
    K = np.exp(-gamma * np.maximum(squares[:, None] + squares - 2.0 * X @ X.T, 0.0))
    K = 0.5 * (K + K.T)
    m = len(y)
    Q = np.zeros((m + 1, m + 1))
    Q[:m, :m] = lam * K
    return Quadratic(Q), LinearModel(K, y, loss="smoothed_hinge", mu=mu, intercept=True)


def kernel_svm_minimum(h: Any, g: Any) -> float:
    """f* by L-BFGS in the RKHS, where the problem is well conditioned."""
    from geartrain.lab import svm_reference as rkhs

    return rkhs.solve(g.A, g.y, lam=h.Q[0, 0] / g.A[0, 0], mu=g.loss.mu).f


def sharded(name: str, shards: int, l2: float) -> tuple[Any, Any]:
    """Logistic regression on data in shards: h = f - f_1, g = f_1 and the ridge.

    Rows are shuffled, given a constant column and scaled to norm 1.
    """
    table = datasets.load_libsvm(f"{name}.libsvm")
    return split(table.X, np.where(table.y == table.y.max(), 1.0, -1.0), shards, l2)


def random_shards(m: int = 800, n: int = 30, shards: int = 8) -> tuple[Any, Any]:
    """The same on random rows, columns of different size."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((m, n)) / np.arange(1, n + 1)
    y = np.where(X.sum(axis=1) + 0.3 * rng.standard_normal(m) > 0.0, 1.0, -1.0)
    return split(X, y, shards, 1e-3)


def split(X: Any, y: Vector, shards: int, l2: float) -> tuple[Any, Any]:
    """(h, g) of `sharded`."""
    m = X.shape[0]
    A = sparse.csr_array(sparse.hstack([sparse.csr_array(X), np.ones((m, 1))]))
    norms = np.sqrt(np.asarray(A.multiply(A).sum(axis=1)).ravel())
    A = sparse.csr_array(sparse.diags_array(1.0 / norms) @ A)
    order = np.random.default_rng(0).permutation(m)
    A, y = A[order], y[order]
    first = m // shards
    f, f_1 = LinearModel(A, y), LinearModel(A[:first], y[:first])
    return f - f_1, LinearModel(A[:first], y[:first], l2=l2)


def shard_constants(h: Any, g: Any) -> dict[str, float]:
    """How unlike the shards are, which methods for shards suppose to be known.

    L_h is the curvature of h at x0; the term itself only knows the far larger constant of f. f is
    as strongly convex as its ridge.
    """
    step = 1e-4  # of central differences

    def hessian(v: Vector) -> Vector:
        t = step / float(np.linalg.norm(v))
        return (h.grad(t * v) - h.grad(-t * v)) / (2.0 * t)

    return {"L_h": max(map(abs, extreme_eigenvalues(hessian, h.n))), "mu": g.mu}


def graph_laplacian(side: int = 40, rows: int = 400, seed: int = 0) -> tuple[Any, Any]:
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
) -> tuple[Any, Any]:
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


def suite(quick: bool = False) -> list[Problem]:
    """All problems, or a few small ones."""
    small = [
        Problem("graph Laplacian", lambda: graph_laplacian(side=20, rows=150)),
        Problem("total variation", lambda: total_variation(side=32)),
        Problem("log-density", lambda: log_density(n=100, p=1200)),
        Problem("kernel SVM, random", random_kernel_svm, f_star=kernel_svm_minimum),
        Problem("random, 8 shards", random_shards, constants=shard_constants),
    ]
    if quick:
        return small
    out = [
        Problem("log-density", log_density),
        Problem("kernel SVM", kernel_svm, f_star=kernel_svm_minimum),
        Problem("graph Laplacian", graph_laplacian),
        Problem("total variation", total_variation),
    ]
    for name in ("a9a", "mushrooms", "phishing"):
        for shards in (4, 16, 64):
            for l2 in (1e-4, 1e-5):
                title = f"{name}, {shards} shards, l2 {l2:g}"
                make = partial(sharded, name, shards, l2)
                out.append(Problem(title, make, constants=shard_constants))
    rcv1 = partial(sharded, "rcv1_small", 4, 1e-4)
    out.append(Problem("rcv1_small, 4 shards", rcv1, False, constants=shard_constants))
    return out
