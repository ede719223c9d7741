r"""The matrices lam I + V'MV that the learned models are.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
V          ``span``        a few rows of length n
G = V V'   ``gram``        their inner products
M          ``M``           symmetric, as many rows as V
w, E V     ``spectrum``    V'MV = sum_j w_j u_j u_j' with orthonormal u_j = (E V)_j
=========  ==============  ==================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from geartrain.methods.quasi_newton.memory import Span
from geartrain.oracles.protocols import Vector

_TINY = 1e-300
# Eigenvalues of V'MV below this part of the largest are rounding.
_NOTHING = 1e-12
# In solves, eigenvalues are at least these parts of the largest: along V, and off it.
_FLAT, _FLAT_OFF = 1e-10, 1e-8


@dataclass(frozen=True)
class LowRank:
    """The matrix lam I + V'MV."""

    lam: float
    span: Span | None = None
    gram: Vector | None = None
    M: Vector | None = None

    def __call__(self, v: Vector, mu: float = 0.0) -> Vector:
        """(lam + mu) v + V'MV v."""
        out = (self.lam + mu) * v
        if self.span is None or self.M is None:
            return out
        return out + self.span.combine(self.M @ self.span.dots(v))

    @cached_property
    def spectrum(self) -> tuple[Vector, Vector]:
        """w and E. With G = R R' and R'MR = P diag(w) P' they are w and diag(1/w) P'R'M."""
        assert self.gram is not None and self.M is not None
        sizes = np.sqrt(np.maximum(np.diag(self.gram), _TINY))
        e, U = np.linalg.eigh(self.gram / np.outer(sizes, sizes))
        R = sizes[:, None] * U * np.sqrt(np.maximum(e, 0.0))
        w, P = np.linalg.eigh(R.T @ self.M @ R)
        kept = np.abs(w) > _NOTHING * np.abs(w).max(initial=_TINY)
        return w[kept], (P[:, kept] / w[kept]).T @ R.T @ self.M

    def solve(self, q: Vector, mu: float) -> Vector:
        """(lam + mu) I + V'MV, inverted, times q; negative eigenvalues count as mu."""
        a = self.lam + mu
        if self.span is None or self.M is None:
            return q / max(a, _TINY)
        w, E = self.spectrum
        if w.size == 0:
            return q / max(a, _TINY)
        w = np.maximum(w + self.lam, 0.0) + mu
        top = max(float(w.max()), a)
        a = max(a, _FLAT_OFF * top, _TINY)
        change = 1.0 / np.maximum(w, _FLAT * top + _TINY) - 1.0 / a
        return q / a + self.span.combine((change * (E @ self.span.dots(q))) @ E)

    def positive(self) -> LowRank:
        """With the negative eigenvalues of V'MV set to zero."""
        if self.span is None:
            return self
        w, E = self.spectrum
        return replace(self, M=(E.T * np.maximum(w, 0.0)) @ E)
