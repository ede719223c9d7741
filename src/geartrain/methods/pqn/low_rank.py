r"""The matrices lam I + W'TW that the learned models are.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
V          ``rows``        a few rows of length n, with inner products V V'
C          ``C``           lower triangle with orthonormal rows W = C V
X          ``X``           coordinates of the rows: V = X W
T          ``T``           symmetric
z          ``z``           inner products of a vector with the first rows, in their order
c          ``weights``     of these rows: W'TW v = V'c
=========  ==============  ==================================================================

W itself is never formed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
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
SPAN = 1e-12
# Eigenvalues of a matrix that is inverted are at least these parts of the largest: outside of the
# span of the rows, and on it.
FLAT_OFF, FLAT = 1e-8, 1e-10


@dataclass(frozen=True)
class RowBasis:
    """Orthonormal combinations of rows, taken in some order: of the first ones of that order."""

    rows: Vector
    order: Any  # of the rows
    gram: Vector  # of the first rows in that order, which the basis is made of

    @staticmethod
    def of(rows: Vector, gram: Vector, order: Any) -> RowBasis:
        """Of all rows."""
        return RowBasis(rows, order, gram[order[:, None], order])

    @cached_property
    def X(self) -> Vector:
        """Coordinates of the rows, in that order: a lower triangle, by Cholesky's method."""
        size = np.sqrt(np.maximum(self.gram.diagonal(), _TINY))
        scaled, added = self.gram / (size[:, None] * size), 0.0
        info, more = 1, SPAN
        while info and more < 1.0:  # in some geometries inner products are rounded by more
            scaled.flat[:: len(scaled) + 1] += more - added
            L, info = lapack().dpotrf(scaled, lower=1, clean=1)
            added, more = more, 100.0 * more
        if info:
            raise NonFiniteAnswer("inner products of steps and gradients are not finite")
        return np.multiply(size[:, None], L, order="F")

    @cached_property
    def C(self) -> Vector:
        """The inverse of X, with columns of zeros for the other rows."""
        r = len(self.X)
        C = np.zeros((r, len(self.order)))
        C[:, :r] = lapack().dtrtri(self.X, lower=1)[0]
        return C

    @cached_property
    def which(self) -> Any:
        """The rows that the basis is made of."""
        return self.order[: len(self.gram)]

    def products(self, v: Vector, geometry: Geometry) -> Vector:
        """z."""
        return dots(self.rows, v, geometry, self.which)

    def add_to(self, v: Vector, c: Vector) -> Vector:
        """v with V'c added to it, in place."""
        return add_to(v, self.rows, c, self.which)

    def coordinates(self, products: Vector) -> Vector:
        """W v from the inner products of all rows with v, or from several columns of them."""
        return lapack().dtrtrs(self.X, products[self.which], lower=1)[0]

    def coefficients(self, z: Vector) -> Vector:
        """c with V'c = W'z for all rows, where z holds the first coordinates."""
        r, c = len(z), np.zeros(len(self.order))
        c[self.order[:r]] = lapack().dtrtrs(self.X[:r, :r], z, lower=1, trans=1)[0]
        return c


class LowRank:
    """The matrix lam I + W'TW.

    Parameters
    ----------
    lam : float
    basis : RowBasis, optional
    T : matrix, optional
        It acts on the first coordinates.
    geometry : Geometry

    Attributes
    ----------
    age : int or None
        Of the memory with the rows, where these are as they were in younger memories.
    """

    age: int | None = None

    def __init__(
        self,
        lam: float,
        basis: RowBasis | None = None,
        T: Vector | None = None,
        geometry: Geometry = EUCLIDEAN,
    ) -> None:
        self.lam, self.basis, self.geometry = lam, basis, geometry
        if T is not None or basis is None:
            self.T = np.zeros((0, 0)) if T is None else T

    @cached_property
    def T(self) -> Vector:
        """The matrix T."""
        raise NotImplementedError

    def weights(self, z: Vector) -> Vector:
        """c with W'TW v = V'c, from z; a row for each, where there are several."""
        assert self.basis is not None
        return _through(self.basis.X, z, lambda q: self.T @ q)

    def __call__(self, v: Vector, mu: float = 0.0) -> Vector:
        """The matrix plus mu I, times v."""
        out = (self.lam + mu) * v
        if self.basis is None:
            return out
        return self.basis.add_to(out, self.weights(self.basis.products(v, self.geometry)))

    def dense(self, mu: float, n: int) -> Vector:
        """The matrix plus mu I, for vectors of length n, in the Euclidean inner product."""
        full = np.zeros((n, n))
        if self.basis is not None:
            W = self.basis.coordinates(self.basis.rows)[: len(self.T)]
            full += W.T @ self.T @ W
        full.flat[:: n + 1] += self.lam + mu
        return full

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
        a, basis = max(self.lam + mu, _TINY), self.basis
        if basis is None:
            return Inverse(a)
        T = self.T
        r = len(T)
        size = float(np.abs(T).max(initial=0.0)) + a
        shifted = T.copy(order="F")
        shifted.flat[:: r + 1] += a
        L, info = lapack().dpotrf(shifted, lower=1, clean=0, overwrite_a=1)
        pivots = L.diagonal() ** 2
        if not info and a > FLAT_OFF * size and pivots.min(initial=math.inf) > FLAT * size:

            def solve(z: Vector) -> Vector:
                return lapack().dpotrs(L, z, lower=1)[0] - z / a

        else:
            w, E = self.spectrum
            w = np.maximum(w + self.lam, 0.0) + mu
            top = float(w.max(initial=0.0))
            a = max(a, FLAT_OFF * top)
            parts = 1.0 / np.maximum(w, FLAT * top + _TINY) - 1.0 / a

            def solve(z: Vector) -> Vector:
                return E @ (parts * (z @ E))

        return Inverse(a, basis, lambda z: _through(basis.X, z, solve), self.geometry)

    def at_least(self, least: float) -> LowRank:
        """With the eigenvalues of W'TW raised to `least`."""
        if self.basis is None:
            return self
        w, E = self.spectrum
        return LowRank(self.lam, self.basis, (E * np.maximum(w, least)) @ E.T, self.geometry)

    def bend(self, products: Vector, length: float) -> float:
        """<s, B s> of a step of this length; `products` are those of the rows with s, in order."""
        bend = self.lam * length * length
        if self.basis is not None:
            z = products[: len(self.basis.gram)]
            bend += float(self.weights(z) @ z)
        return bend


@dataclass(frozen=True)
class Inverse:
    """The inverse of a low-rank matrix: q -> q/a + V'c."""

    a: float
    basis: RowBasis | None = None
    weights: Callable[[Vector], Vector] = np.copy  # c, from z of q
    geometry: Geometry = EUCLIDEAN

    def __call__(self, q: Vector) -> Vector:
        """The inverse times q."""
        out = q / self.a
        if self.basis is None:
            return out
        return self.basis.add_to(out, self.weights(self.basis.products(q, self.geometry)))


def _through(X: Vector, z: Vector, act: Callable[[Vector], Vector]) -> Vector:
    """c with V'c = W'act(W v), from z; a row for each, where there are several."""
    q = act(lapack().dtrtrs(X, z.T, lower=1)[0])
    return lapack().dtrtrs(X, q, lower=1, trans=1)[0].T
