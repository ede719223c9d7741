r"""The matrices lam I + V'C'MCV that the learned models are.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
V          ``rows``        a few rows of length n
C          ``C``           combinations of them that the model uses
G          ``G``           inner products of the rows of C V
M          ``M``           symmetric, as many rows as C
N          ``N``           C'MC
w, E V     ``spectrum``    V'NV = sum_j w_j u_j u_j' with orthonormal u_j = (E V)_j
=========  ==============  ==================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from geartrain.methods.quasi_newton.rows import Rows
from geartrain.oracles.protocols import Vector

_TINY = 1e-300
# Eigenvalues of V'NV below this part of the largest are rounding.
_NOTHING = 1e-12
# In solves, eigenvalues are at least these parts of the largest: along V, and off it.
_FLAT, _FLAT_OFF = 1e-10, 1e-8


@dataclass(frozen=True)
class Small:
    """The part of a matrix that acts on the span of the rows."""

    rows: Rows
    C: Vector
    G: Vector
    M: Vector

    @cached_property
    def N(self) -> Vector:
        """C'MC."""
        return self.C.T @ self.M @ self.C

    @cached_property
    def spectrum(self) -> tuple[Vector, Vector]:
        """w and E: with G = R R' and R'MR = P diag(w) P', E = diag(1/w) P'R'M C."""
        sizes = np.sqrt(np.maximum(np.diag(self.G), _TINY))
        e, U = np.linalg.eigh(self.G / np.outer(sizes, sizes))
        R = sizes[:, None] * U * np.sqrt(np.maximum(e, 0.0))
        w, P = np.linalg.eigh(R.T @ self.M @ R)
        kept = np.abs(w) > _NOTHING * np.abs(w).max(initial=_TINY)
        return w[kept], (P[:, kept] / w[kept]).T @ R.T @ self.M @ self.C


@dataclass(frozen=True)
class LowRank:
    """The matrix lam I + V'NV."""

    lam: float
    small: Small | None = None

    def __call__(self, v: Vector, mu: float = 0.0) -> Vector:
        """(lam + mu) v + V'NV v."""
        out = (self.lam + mu) * v
        if self.small is not None:
            out += self.small.rows.combine(self.small.N @ self.small.rows.dots(v))
        return out

    def solve(self, q: Vector, mu: float) -> Vector:
        """((lam + mu) I + V'NV)^{-1} q, with the negative eigenvalues of lam I + V'NV set to 0."""
        a = max(self.lam + mu, _TINY)
        if self.small is None or self.small.spectrum[0].size == 0:
            return q / a
        w, E = self.small.spectrum
        w = np.maximum(w + self.lam, 0.0) + mu
        top = max(float(w.max()), a)
        a = max(a, _FLAT_OFF * top)
        change = 1.0 / np.maximum(w, _FLAT * top) - 1.0 / a
        out = self.small.rows.combine((change * (E @ self.small.rows.dots(q))) @ E)
        out += q / a
        return out

    def positive(self) -> LowRank:
        """With the negative eigenvalues of V'NV set to zero."""
        if self.small is None:
            return self
        w, E = self.small.spectrum
        up = w > 0.0
        G = np.eye(int(up.sum()))
        return replace(self, small=Small(self.small.rows, E[up], G, np.diag(w[up])))
