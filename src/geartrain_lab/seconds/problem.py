"""What a problem of ``geartrain bench seconds`` is, the families by name, and what they share.

A family is a function ``(seed, size) -> Problem``; at size 1 the best rival takes 10 ms
to 1 s. **The split is a rule**: even seeds are to look at while the library is changed,
odd ones are for the report.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

import geartrain as gt

Array = np.ndarray[Any, Any]
Evaluation = tuple[float, Array]


@dataclass(frozen=True, eq=False)
class Problem:
    """f = h + g + psi, and a starting point with a finite f."""

    h: Any
    g: Any = None  # None where h is all that is smooth
    psi: Any = None
    # The minimiser, or what a solver made for this problem has to know.
    known: dict[str, Any] = field(default_factory=dict)
    start: Array | None = None

    @cached_property
    def x0(self) -> Array:
        """The starting point; zero unless said."""
        return np.zeros(self.h.n) if self.start is None else self.start

    @property
    def smooth_terms(self) -> list[Any]:
        return [term for term in (self.h, self.g) if term is not None]

    @property
    def rest(self) -> Any:
        """g + psi, the second argument of `geartrain.minimize`."""
        if self.g is None or self.psi is None:
            return self.psi if self.g is None else self.g
        return self.g + self.psi

    def f(self, x: Array) -> float:
        return float(sum(t.value_and_grad(x)[0] for t in self.smooth_terms)) + self.psi_at(x)

    def psi_at(self, x: Array) -> float:
        return 0.0 if self.psi is None else float(self.psi.value(x))


Make = Callable[[int, float], Problem]
FAMILIES: dict[str, Make] = {}


def family(make: Make) -> Make:
    """Enter a family under the name of its function."""
    FAMILIES[make.__name__.replace("_", " ")] = make
    return make


def is_report(seed: int) -> bool:
    """Whether the problems of this seed are for reports alone."""
    return seed % 2 == 1


def draws(seed: int) -> np.random.Generator:
    return np.random.default_rng([29, seed])


def sized(number: int, size: float, least: int = 6) -> int:
    return max(least, round(number * size))


def ridge(n: int, weight: float) -> gt.Quadratic:
    """weight/2 |x|^2."""
    return gt.Quadratic(sparse.eye_array(n, format="csr") * weight)


def differences(n: int, order: int = 1) -> Any:
    """The matrix of the differences of this order."""
    D = sparse.eye_array(n, format="csr")
    for _ in range(order):
        D = D[1:] - D[:-1]
    return D


def roughness(side: int, weight: float, extra: float = 0.0) -> gt.Quadratic:
    """weight/2 times the squared differences of neighbours in a square picture, and a ridge."""
    D, eye = differences(side), sparse.eye_array(side)
    Q = sparse.kron(D.T @ D, eye) + sparse.kron(eye, D.T @ D)
    return gt.Quadratic(sparse.csr_array(weight * Q + extra * sparse.eye_array(side**2)))


def picture(rng: np.random.Generator, side: int) -> Array:
    """A few bright ellipses, side x side."""
    u, v = np.meshgrid(*2 * [np.linspace(-1.0, 1.0, side)])
    out = np.zeros((side, side))
    for _ in range(6):
        (a, b), (p, q) = rng.uniform(-0.6, 0.6, 2), rng.uniform(0.1, 0.4, 2)
        out[((u - a) / p) ** 2 + ((v - b) / q) ** 2 < 1.0] += rng.uniform(0.3, 1.0)
    return out


def projections(side: int, angles: int) -> Any:
    """The sparse matrix of a parallel-beam scan of a side x side picture."""
    u, v = (c.ravel() for c in np.meshgrid(*2 * [np.arange(side) - (side - 1) / 2.0]))
    bins, pixels, blocks = int(1.5 * side), np.arange(side**2), []
    for angle in np.linspace(0.0, np.pi, angles, endpoint=False):
        at = u * np.cos(angle) + v * np.sin(angle) + bins / 2.0
        low = np.floor(at).astype(int)
        rows, weights = np.concatenate([low, low + 1]), np.concatenate([low + 1 - at, at - low])
        shape = (bins + 2, side**2)
        blocks.append(sparse.csr_array((weights, (rows, np.tile(pixels, 2))), shape=shape))
    return sparse.csr_array(sparse.vstack(blocks) / side)


def correlated(rng: np.random.Generator, m: int, n: int, rho: float) -> Array:
    """Rows of which neighbouring columns have correlation rho."""
    A = rng.standard_normal((m, n))
    for j in range(1, n):
        A[:, j] = rho * A[:, j - 1] + np.sqrt(1.0 - rho**2) * A[:, j]
    return A


def sparse_truth(rng: np.random.Generator, n: int, nonzeros: int) -> Array:
    """A vector with few entries that are not 0."""
    out = np.zeros(n)
    out[rng.choice(n, min(nonzeros, n), replace=False)] = rng.standard_normal(min(nonzeros, n))
    return out


def labels(margins: Array, rng: np.random.Generator, noise: float = 0.5) -> Array:
    """-1 and 1 by the sign of noisy margins."""
    return np.where(
        margins + noise * margins.std() * rng.standard_normal(margins.size) > 0, 1.0, -1.0
    )


def gaussian_kernel(rng: np.random.Generator, m: int, width: float) -> tuple[Array, Array, Array]:
    """Kernel matrix, labels (two interleaved spirals) and points."""
    t, y = 3.0 * np.sqrt(rng.random(m)), np.where(rng.random(m) < 0.5, 1.0, -1.0)
    P = (y * t * np.array([np.cos(2.0 * t), np.sin(2.0 * t)])).T + 0.25 * rng.standard_normal(
        (m, 2)
    )
    squares = ((P[:, None] - P[None]) ** 2).sum(axis=2)
    return np.exp(-squares / (2.0 * width**2)), y, P


def splines(at: Array, n: int) -> Any:
    """n cubic B-splines on [0, 1] at these points, sparse."""
    from scipy.interpolate import BSpline

    knots = np.concatenate([[0.0] * 3, np.linspace(0.0, 1.0, n - 2), [1.0] * 3])
    return sparse.csr_array(BSpline.design_matrix(np.clip(at, 0.0, 1.0), knots, 3))


def multinomial(A: Array, classes: Array, count: int) -> gt.Term:
    """Mean multinomial logistic loss; x is the matrix (features, classes) by rows."""
    m, d = A.shape
    ones = np.eye(count)[classes]

    def value_and_grad(x: Array) -> Evaluation:
        scores = A @ x.reshape(d, count)
        scores -= scores.max(axis=1, keepdims=True)
        P = np.exp(scores)
        total = P.sum(axis=1, keepdims=True)
        value = float((np.log(total[:, 0]) - scores[np.arange(m), classes]).mean())
        return value, (A.T @ (P / total - ones)).ravel() / m

    return gt.Term(value_and_grad, n=d * count)
