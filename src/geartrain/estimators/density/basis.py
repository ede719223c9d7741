"""Finite supports, basis functions on them, and roughness penalties.

A support is a row of p cells. On the line the cells are intervals of equal width; where counts
are given they are the indices 0, ..., p - 1. A basis is a function of the position t in [0, 1].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from geartrain.estimators.arrays import Array
from geartrain.oracles.validation import as_matrix

ORDER = 3  # of the derivative that a roughness penalty punishes: Gaussian shapes are free


@dataclass(frozen=True)
class Cells:
    """p cells of equal width from `low` to `high`, or p indices if `discrete`."""

    low: float
    high: float
    p: int
    discrete: bool

    @property
    def width(self) -> float:
        """Of a cell; 1 for an index, so that its density is its probability."""
        return 1.0 if self.discrete else (self.high - self.low) / self.p

    @property
    def points(self) -> Array:
        """Middles of the cells, or the indices."""
        if self.discrete:
            return np.arange(self.p, dtype=np.float64)
        return self.low + self.width * (np.arange(self.p) + 0.5)

    def position(self, z: Array) -> Array:
        """Z carried to [0, 1]."""
        return (z - self.low) / (self.high - self.low)

    def inside(self, z: Array) -> Array:
        """Whether z belongs to the support."""
        inside = (z >= self.low) & (z <= self.high)
        return inside & (z == np.round(z)) if self.discrete else inside

    def cell(self, z: Array) -> Array:
        """Index of the cell of every z inside."""
        if self.discrete:
            return z.astype(np.int64)
        return np.clip(((z - self.low) / self.width).astype(np.int64), 0, self.p - 1)


def interval(z: Array, p: int, padding: float) -> Cells:
    """Cells that hold the values z, with a margin of `padding` times their range."""
    low, high = float(z.min()), float(z.max())
    spread = high - low
    # A single value has no range; its own size, or 1, serves.
    margin = padding * spread if spread > 0.0 else max(0.5, 1e-3 * abs(low))
    return Cells(low - margin, high + margin, p, discrete=False)


class Basis(Protocol):
    """Basis functions a_1, ..., a_n."""

    @property
    def n(self) -> int:
        """Number of functions."""

    def rows(self, cells: Cells, z: Array) -> Any:
        """Values at the points z of the support, (z.size, n), dense or CSR."""

    def roughness(self) -> Any:
        """Precision matrix (n, n) of the roughness penalty, dense or CSR."""


def _differences(n: int) -> Any:
    """D'D for differences of order `ORDER` of n + 1 coefficients whose last is 0; CSR."""
    D = sparse.eye_array(n + 1, format="csr")
    for _ in range(min(ORDER, n)):
        D = D[1:] - D[:-1]
    return (D.T @ D).tocsr()[:n, :n]


@dataclass(frozen=True)
class Indicator:
    """One function a cell but the last, whose coefficient is 0: only differences matter."""

    n: int

    def rows(self, cells: Cells, z: Array) -> Any:
        entries = np.ones(z.size), (np.arange(z.size), cells.cell(z))
        return sparse.csr_array(entries, shape=(z.size, self.n + 1))[:, : self.n]

    def roughness(self) -> Any:
        """Differences between neighbouring cells."""
        return _differences(self.n)


@dataclass(frozen=True)
class BSplines:
    """Cubic B-splines with equidistant knots but the last, as they sum to 1."""

    n: int

    def rows(self, cells: Cells, z: Array) -> Any:
        from scipy.interpolate import BSpline

        knots = np.arange(-3, self.n + 2) / (self.n - 2)
        inside = np.clip(cells.position(z), 0.0, 1.0)
        return sparse.csr_array(BSpline.design_matrix(inside, knots, 3))[:, : self.n]

    def roughness(self) -> Any:
        """Differences between neighbouring coefficients: the P-spline penalty."""
        return _differences(self.n)


@dataclass(frozen=True)
class Fourier:
    """cos(pi k t), k = 1, ..., n."""

    n: int

    def rows(self, cells: Cells, z: Array) -> Any:
        return np.cos(np.pi * np.outer(cells.position(z), np.arange(1, self.n + 1)))

    def roughness(self) -> Any:
        """Integral of the squared derivative of order `ORDER`, up to a factor."""
        return np.diag(np.arange(1, self.n + 1, dtype=np.float64) ** (2 * ORDER))


class Matrix:
    """The user's matrix: row k holds the basis functions at cell k."""

    def __init__(self, A: Any) -> None:
        self.A = as_matrix(A, "basis")
        self.n = self.A.shape[1]

    def rows(self, cells: Cells, z: Array) -> Any:
        return self.A[cells.cell(z)]

    def roughness(self) -> Any:
        """A ridge: nothing is known about neighbours."""
        return sparse.eye_array(self.n, format="csr")


def make_basis(basis: Any, n_basis: int, p: int) -> Basis:
    """The basis by name, or the user's matrix."""
    if not isinstance(basis, str):
        matrix = Matrix(basis)
        if matrix.A.shape[0] != p:
            raise ValueError(f"basis has {matrix.A.shape[0]} rows but the support has {p} points")
        return matrix
    if basis == "indicator":
        return Indicator(p - 1)
    if basis == "bspline":
        return BSplines(n_basis)
    return Fourier(n_basis)
