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

from geartrain.compiled.coefficients import inverse
from geartrain.geometry import Geometry
from geartrain.methods.quasi_newton.factors import root
from geartrain.methods.quasi_newton.rows import Rows
from geartrain.oracles.protocols import Vector, answers
from geartrain.oracles.spectrum import eigh
from geartrain.oracles.together import leaves

_TINY = 1e-300
# Eigenvalues of V'NV below this part of the largest are rounding.
_NOTHING = 1e-12


@dataclass(frozen=True)
class Bare:
    """V'MV with some of the rows V, and E of `Small.spectrum` in terms of them."""

    rows: Rows
    at: Any  # which of the rows
    G: Vector  # their inner products
    M: Vector
    E: Vector
    geometry: Geometry

    @cached_property
    def vectors(self) -> tuple[Vector, ...]:
        """V."""
        return tuple(self.rows.rows[i] for i in self.at.tolist())

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
        rows, at = self.C.nonzero()
        if (rows[1:] == rows[:-1]).any():
            raise ValueError("C combines several rows")
        scale, M, G, E = self.C[rows, at], self.M, self.G, self.spectrum[1]
        if len(rows) < len(self.C):
            M, G, E = M[rows[:, None], rows], G[rows[:, None], rows], E[:, rows]
        square = scale[:, None] * scale
        return Bare(self.rows, at, G / square, M * square, E * scale, self.geometry)

    def combine(self, c: Vector) -> Vector:
        """V'C' c."""
        return self.rows.combine(c @ self.C)

    def __call__(self, v: Vector) -> Vector:
        """V'C'MCV v."""
        return self.combine(self.M @ self.dots(v))

    @cached_property
    def factors(self) -> tuple[Vector, Vector]:
        """M and the rows C V."""
        if self.rows.array is not None and np.array_equal(self.C, np.eye(len(self.rows))):
            return self.M, self.rows.array
        return self.M, np.array(self.rows.combine_all(self.C))

    def all(self, vectors: Sequence[Vector]) -> list[Vector]:
        """V'C'MCV times each of the vectors: faster than one by one."""
        dots = self.rows.dots_all(vectors, self.geometry, self.used)
        return self.rows.combine_all(dots @ self.C.T @ self.M @ self.C)

    @cached_property
    def spectrum(self) -> tuple[Vector, Vector]:
        """w and E: with G = R R' and R'MR = P diag(w) P', E = diag(1/w) P'R'M."""
        R = root(self.G)
        MR = self.M @ R
        w, P = eigh(R.T @ MR)
        kept = np.abs(w) > _NOTHING * (max(-w[0], w[-1], _TINY) if len(w) else 0.0)
        if len(w) and not kept[kept.argmin()]:
            w, P = w[kept], P[:, kept]
        return w, (MR @ (P / w)).T


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
        return inverse(self.eigenvalues, self.lam, mu)

    @cached_property
    def eigenvalues(self) -> Vector:
        """Those on the span of the rows, negative ones set to 0."""
        if self.small is None:
            return np.zeros(0)
        return np.maximum(self.small.spectrum[0] + self.lam, 0.0)

    def times(self, c: float) -> LowRank:
        """c > 0 times the matrix."""
        small = None if self.small is None else replace(self.small, M=c * self.small.M)
        return replace(self, lam=c * self.lam, small=small)

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
