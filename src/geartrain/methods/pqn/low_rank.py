r"""The matrices lam I + W'TW that the learned models are.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
V          ``rows``        a few rows of length n, with inner products V V'
C          ``C``           lower triangle with orthonormal rows W = C V
X          ``X``           coordinates of the rows: V = X W
T          ``T``           symmetric; it may act on the first coordinates only
=========  ==============  ==================================================================

W itself is never formed. All models of a trial point share one basis.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from geartrain.geometry import EUCLIDEAN, Geometry
from geartrain.methods.pqn.rows import add_to, dots
from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.oracles.protocols import Vector
from geartrain.oracles.spectrum import eigh, lapack

_TINY = 1e-300
# Added to the inner products of the rows, scaled to length one: what is new in a row beyond the
# others counts as rounding below the root of it.
_SPAN = 1e-12
# Eigenvalues of a matrix that is inverted are at least these parts of the largest: outside of the
# span of the rows, and on it.
_FLAT_OFF, _FLAT = 1e-8, 1e-10


@dataclass(frozen=True)
class Basis:
    """Orthonormal combinations of rows, taken in some order."""

    rows: Vector
    order: Any  # of the rows
    gram: Vector  # of the rows in that order
    X: Vector  # coordinates of the rows, in that order: a lower triangle
    C: Vector  # the inverse of X

    @staticmethod
    def of(rows: Vector, gram: Vector, order: Any) -> Basis:
        """By Cholesky's method."""
        G = gram[order[:, None], order]
        size = np.sqrt(np.maximum(G.diagonal(), _TINY))
        scaled, added = G / (size[:, None] * size), 0.0
        info, more = 1, _SPAN
        while info and more < 1.0:  # in some geometries inner products are rounded by more
            scaled.flat[:: len(G) + 1] += more - added
            L, info = lapack().dpotrf(scaled, lower=1, clean=1)
            added, more = more, 100.0 * more
        if info:
            raise NonFiniteAnswer("inner products of steps and gradients are not finite")
        C = lapack().dtrtri(L, lower=1)[0] / size
        return Basis(rows, order, G, size[:, None] * L, C)

    def coordinates(self, products: Vector) -> Vector:
        """W v from V v, or from several columns of them."""
        return self.C @ products[self.order]

    def coefficients(self, z: Vector) -> Vector:
        """c with V'c = W'z, where z holds the first coordinates."""
        c = np.empty(len(self.order))
        c[self.order] = z @ self.C[: len(z)]
        return c


@dataclass(frozen=True)
class LowRank:
    """The matrix lam I + W'TW."""

    lam: float
    basis: Basis | None = None
    T: Vector = field(default_factory=lambda: np.zeros((0, 0)))
    geometry: Geometry = EUCLIDEAN

    def __call__(self, v: Vector, mu: float = 0.0) -> Vector:
        """The matrix plus mu I, times v."""
        out = (self.lam + mu) * v
        if self.basis is None:
            return out
        z = self.basis.coordinates(dots(self.basis.rows, v, self.geometry))
        return add_to(out, self.basis.rows, self.basis.coefficients(self.T @ z[: len(self.T)]))

    @cached_property
    def spectrum(self) -> tuple[Vector, Vector]:
        """Eigenvalues and eigenvectors of T."""
        return eigh(self.T)

    @cached_property
    def top(self) -> float:
        """The largest eigenvalue."""
        return self.lam + (max(float(self.spectrum[0][-1]), 0.0) if len(self.T) else 0.0)

    def inverse(self, mu: float) -> Inverse:
        """Of the matrix, its negative eigenvalues set to 0, plus mu I."""
        a = max(self.lam + mu, _TINY)
        if self.basis is None:
            return Inverse(a)
        r = len(self.T)
        shifted = self.T.copy()
        shifted.flat[:: r + 1] += a
        size = float(np.abs(self.T).max(initial=0.0)) + a
        L, info = lapack().dpotrf(shifted, lower=1, clean=1)
        pivots = L.diagonal() ** 2
        if not info and a > _FLAT_OFF * size and pivots.min(initial=math.inf) > _FLAT * size:
            K = lapack().dpotri(L, lower=1)[0]
            K = np.tril(K) + np.tril(K, -1).T
            K.flat[:: r + 1] -= 1.0 / a
            return Inverse(a, self.basis, K, self.geometry)
        w, E = self.spectrum
        w = np.maximum(w + self.lam, 0.0) + mu
        top = float(w.max(initial=0.0))
        a = max(a, _FLAT_OFF * top)
        K = (E * (1.0 / np.maximum(w, _FLAT * top + _TINY) - 1.0 / a)) @ E.T
        return Inverse(a, self.basis, K, self.geometry)

    def at_least(self, least: float) -> LowRank:
        """With the eigenvalues of W'TW raised to `least`."""
        if self.basis is None:
            return self
        w, E = self.spectrum
        return LowRank(self.lam, self.basis, (E * np.maximum(w, least)) @ E.T, self.geometry)

    def bend(self, products: Vector, length: float) -> float:
        """<s, B s> of a step of this length, with V s as `products`."""
        bend = self.lam * length * length
        if self.basis is not None:
            z = self.basis.coordinates(products)[: len(self.T)]
            bend += float(z @ self.T @ z)
        return bend


@dataclass(frozen=True)
class Inverse:
    """The matrix I/a + W'KW."""

    a: float
    basis: Basis | None = None
    K: Vector = field(default_factory=lambda: np.zeros((0, 0)))
    geometry: Geometry = EUCLIDEAN

    def __call__(self, q: Vector) -> Vector:
        """The matrix times q."""
        out = q / self.a
        if self.basis is None:
            return out
        z = self.basis.coordinates(dots(self.basis.rows, q, self.geometry))
        return add_to(out, self.basis.rows, self.basis.coefficients(self.K @ z[: len(self.K)]))
