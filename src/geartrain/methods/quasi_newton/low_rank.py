r"""The matrices lam I + V'C'MCV that the learned models are.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
V          ``rows``        a few rows of length n
C          ``C``           combinations of them that the model uses
G          ``G``           inner products of the rows of C V
M          ``M``           symmetric, as many rows as C
w, E C V   ``spectrum``    V'C'MCV = sum_j w_j u_j u_j' with orthonormal u_j = (E C V)_j
=========  ==============  ==================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np

from geartrain.geometry import Geometry
from geartrain.methods.quasi_newton.rows import Rows
from geartrain.oracles.protocols import Vector, answers
from geartrain.oracles.spectrum import eigh
from geartrain.oracles.together import leaves

_TINY = 1e-300
# Eigenvalues of V'NV below this part of the largest are rounding.
_NOTHING = 1e-12
# In solves, eigenvalues are at least these parts of the largest: along V, and off it.
_FLAT, _FLAT_OFF = 1e-10, 1e-8


@dataclass(frozen=True)
class Bare:
    """V'MV with some of the rows V, and E of `Small.spectrum` in terms of them."""

    rows: Rows
    at: Any  # which of the rows
    G: Vector  # their inner products
    M: Vector
    E: Vector
    geometry: Geometry

    def dots_all(self, vectors: Sequence[Vector]) -> Vector:
        """V v for each of the vectors, a row of the result per vector."""
        return self.rows.dots_all(vectors, self.geometry, self.at)[:, self.at]

    def add_to(self, vectors: Sequence[Vector], coefficients: Vector) -> None:
        """Add V'c to each of the vectors in place, c its row of the coefficients."""
        C = np.zeros((len(vectors), len(self.rows)))
        C[:, self.at] = coefficients
        self.rows.add_to(vectors, C)


@dataclass(frozen=True)
class Small:
    """V'C'MCV: the part of a matrix that acts on the span of the rows."""

    rows: Rows
    C: Vector
    G: Vector
    M: Vector
    geometry: Geometry

    @cached_property
    def used(self) -> Any:
        """Rows that C combines."""
        return np.flatnonzero(self.C.any(axis=0))

    def dots(self, v: Vector) -> Vector:
        """C V v."""
        return self.C @ self.rows.dots(v, self.geometry, self.used)

    @cached_property
    def bare(self) -> Bare:
        """The same in terms of the rows V, where C does no more than choose and scale them."""
        at = np.argmax(self.C != 0.0, axis=1)
        scale = self.C[np.arange(len(at)), at]
        if np.count_nonzero(self.C) > np.count_nonzero(scale):
            raise ValueError("C combines several rows")
        kept = np.flatnonzero(scale)
        scale, at = scale[kept], at[kept]
        M, G = self.M[kept[:, None], kept], self.G[kept[:, None], kept]
        square = np.outer(scale, scale)
        E = self.spectrum[1][:, kept] * scale
        return Bare(self.rows, at, G / square, M * square, E, self.geometry)

    def combine(self, c: Vector) -> Vector:
        """V'C' c."""
        return self.rows.combine(c @ self.C)

    def __call__(self, v: Vector) -> Vector:
        """V'C'MCV v."""
        return self.combine(self.M @ self.dots(v))

    @cached_property
    def factors(self) -> tuple[Vector, Vector]:
        """M and the rows C V."""
        return self.M, np.array(self.rows.combine_all(self.C))

    def all(self, vectors: Sequence[Vector]) -> list[Vector]:
        """V'C'MCV times each of the vectors: faster than one by one."""
        dots = self.rows.dots_all(vectors, self.geometry, self.used)
        return self.rows.combine_all(dots @ self.C.T @ self.M @ self.C)

    @cached_property
    def spectrum(self) -> tuple[Vector, Vector]:
        """w and E: with G = R R' and R'MR = P diag(w) P', E = diag(1/w) P'R'M."""
        sizes = np.sqrt(np.maximum(np.diag(self.G), _TINY))
        e, U = eigh(self.G / np.outer(sizes, sizes))
        R = sizes[:, None] * U * np.sqrt(np.maximum(e, 0.0))
        w, P = eigh(R.T @ self.M @ R)
        kept = np.abs(w) > _NOTHING * np.abs(w).max(initial=_TINY)
        return w[kept], (P[:, kept] / w[kept]).T @ R.T @ self.M


@dataclass(frozen=True)
class LowRank:
    """The matrix lam I + V'C'MCV."""

    lam: float
    small: Small | None = None

    def __call__(self, v: Vector, mu: float = 0.0) -> Vector:
        """The matrix plus mu I, times v."""
        out = (self.lam + mu) * v
        if self.small is not None:
            out += self.small(v)
        return out

    def all(self, vectors: Sequence[Vector], mu: float) -> list[Vector]:
        """The matrix plus mu I, times each of the vectors: faster than one by one."""
        if self.small is None or not vectors:
            return [self(v, mu) for v in vectors]
        out = self.small.all(vectors)
        for product, v in zip(out, vectors, strict=True):
            product += (self.lam + mu) * v
        return out

    def solve(self, q: Vector, mu: float) -> Vector:
        """The inverse of (this with its negative eigenvalues set to 0, plus mu I), times q."""
        a, change = self.inverse(mu)
        out = q / a
        if self.small is not None and len(change):
            E = self.small.spectrum[1]
            c = (change * (E @ self.small.dots(q))) @ E
            self.small.rows.add_to([out], (c @ self.small.C)[None])
        return out

    def inverse(self, mu: float) -> tuple[float, Vector]:
        """a and the diagonal of D in the matrix I/a + V'C'E'DECV that `solve` applies."""
        a = max(self.lam + mu, _TINY)
        if self.small is None or len(self.small.spectrum[0]) == 0:
            return a, np.zeros(0)
        w = np.maximum(self.small.spectrum[0] + self.lam, 0.0) + mu
        top = max(float(w.max()), a)
        a = max(a, _FLAT_OFF * top)
        return a, 1.0 / np.maximum(w, _FLAT * top) - 1.0 / a

    def positive(self) -> LowRank:
        """With the negative eigenvalues of V'C'MCV set to zero."""
        if self.small is None:
            return self
        w, E = self.small.spectrum
        return replace(self, small=replace(self.small, M=(E.T * np.maximum(w, 0.0)) @ E))


@dataclass(frozen=True)
class Bowl:
    """The quadratic <c, v> + 1/2 <v - p, B (v - p)>."""

    c: Vector
    B: LowRank
    p: Vector
    geometry: Geometry

    def value(self, v: Vector) -> float:
        """Its value at v."""
        dot, s = self.geometry.dot, v - self.p
        return float(dot(self.c, v)) + 0.5 * float(dot(s, self.B(s)))

    def grad(self, v: Vector) -> Vector:
        """Its gradient at v."""
        return self.c + self.B(v - self.p)


class Raised:
    """g with a quadratic added, as an oracle that counts the calls of g.

    Parameters
    ----------
    g : Oracle
        The counted term, or several of them together.
    bowl : Bowl
        The quadratic.
    """

    def __init__(self, g: Any, bowl: Bowl) -> None:
        self.oracle, self.bowl = g, bowl
        self.name, self.n, self.ledger = g.name, g.n, g.ledger
        self.leaves = leaves(g)
        self.kept: dict[str, Any] = {}
        told: dict[str, Any] = {"grad": self.grad}
        if "value_and_grad" in answers(g.term):
            self.value_and_grad, self.value = self._fused, self._value
            told |= {"value_and_grad": self._fused, "value": self._value}
        self.term = SimpleNamespace(**told, n=g.n, convex=True, mu=0.0)

    def grad(self, v: Vector) -> Vector:
        """Gradient of the sum: one gradient of g."""
        return self.oracle.grad(v) + self.bowl.grad(v)

    def _fused(self, v: Vector) -> tuple[float, Vector]:
        value, grad = self.oracle.value_and_grad(v)
        return value + self.bowl.value(v), grad + self.bowl.grad(v)

    def _value(self, v: Vector) -> float:
        return self.oracle.value(v) + self.bowl.value(v)
