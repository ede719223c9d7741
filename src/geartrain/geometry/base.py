r"""Inner products in which the methods can work.

===========  ==============  ===================================================================
symbol       name            meaning
===========  ==============  ===================================================================
M            ``product``     positive definite; <u, v>_M = u'Mv
M^{-1} w     ``solve``       the gradient of f in that inner product is M^{-1} grad f(x)
[u; M u]     a pair          representation of a vector: one array of length 2n
===========  ==============  ===================================================================

The theorems hold in any inner product; a method only has to use the norms, inner products and
gradients of that inner product. A vector u is stored together with its image M u. Sums and
multiples act on both halves in the same way, so the images of the iterates follow by linearity, and
an inner product is the dot product of the first half of one pair with the second half of the other.
A gradient is the pair [M^{-1} grad f; grad f], which takes one solve and no product with M.

For a kernel matrix the roles are reversed: see `geartrain.geometry.rkhs`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np

from geartrain.oracles.algebra import Combination
from geartrain.oracles.linear_model import LinearModel
from geartrain.oracles.protocols import AnyTerm, Asked, KnownTerm, Vector, answers, as_term
from geartrain.oracles.questions import NUMBER, QUESTIONS, VECTOR, Question
from geartrain.oracles.spectrum import (
    DENSE_LIMIT,
    computed_ends,
    extreme_eigenvalues,
    largest_eigenvalue,
    random_start,
    ritz_ends,
)
from geartrain.oracles.vectors import dot, norm, pair_norm


class Geometry:
    """An inner product, and the representation of vectors and terms in it; here the usual one."""

    dot: Callable[[Vector, Vector], float] = staticmethod(dot)
    norm: Callable[[Vector], float] = staticmethod(norm)

    def primal(self, v: Vector) -> Vector:
        """The part of v (or of each row of v) such that <u, v> = primal(u) . dual(v)."""
        return v

    def dual(self, v: Vector) -> Vector:
        """The part of v that `primal` of the other vector is multiplied by."""
        return v

    def enter(self, x: Vector) -> Vector:
        """The representation of the plain vector x."""
        return x

    def leave(self, v: Vector) -> Vector:
        """The plain vector that v represents."""
        return v

    def term(self, term: AnyTerm, name: str) -> Any:
        """`term` as a function of represented vectors; errors call it `name`."""
        return term

    def __repr__(self) -> str:
        return "Euclidean()"


EUCLIDEAN = Geometry()


def as_geometry(geometry: Any) -> Geometry:
    """`geometry` itself, or an error if it is no geometry."""
    if not callable(getattr(geometry, "enter", None)):
        raise TypeError(
            "geometry must be RKHS(K), Preconditioned(M), Diagonal(d) or LowRankPlusDiagonal(U, d) "
            f"of gt.geometry, got {type(geometry).__name__}"
        )
    return geometry


class PairGeometry(Geometry, ABC):
    """A geometry that represents vectors by pairs [u; M u]."""

    n: int  # dimension of the plain vectors

    @abstractmethod
    def product(self, u: Vector) -> Vector:
        """M u."""

    @abstractmethod
    def term(self, term: AnyTerm, name: str) -> Any:
        """`term` as a function of pairs."""

    @staticmethod
    def dot(u: Vector, v: Vector) -> float:
        """u'Mv: the first half of u times the second half of v."""
        n = u.size // 2
        return dot(u[:n], v[n:])

    @staticmethod
    def norm(v: Vector) -> float:
        """Norm of the inner product; a negative square is rounding."""
        n = v.size // 2
        return pair_norm(v[:n], v[n:])

    @staticmethod
    def primal(v: Vector) -> Vector:
        return v[..., : v.shape[-1] // 2]

    @staticmethod
    def dual(v: Vector) -> Vector:
        return v[..., v.shape[-1] // 2 :]

    def enter(self, x: Vector) -> Vector:
        """The pair [x; M x]; one product with M, none if x = 0."""
        if x.size != self.n:
            raise ValueError(f"{self!r} is of dimension {self.n}, but x has {x.size}")
        return np.concatenate([x, self.product(x) if x.any() else x])

    def leave(self, v: Vector) -> Vector:
        if v.size != 2 * self.n:
            raise ValueError(f"a run in {self!r} cannot go on from one in another geometry")
        return v[: self.n]


class Solvable(PairGeometry):
    """A geometry whose M can be solved with; it accepts every term that has a gradient."""

    @abstractmethod
    def solve(self, w: Vector) -> Vector:
        """M^{-1} w."""

    def represent(self, gradient: Vector) -> Vector:
        return np.concatenate([self.solve(gradient), gradient])

    def term(self, term: AnyTerm, name: str) -> Any:
        if answers(term).isdisjoint(("grad", "value_and_grad")):
            raise TypeError(f"{self!r} needs gradients, but {name} = {term!r} gives none")
        return PairTerm(term, self)

    @cached_property
    def largest(self) -> float:
        """Upper estimate of the largest eigenvalue of M."""
        return largest_eigenvalue(self.product, self.n)

    @cached_property
    def largest_inverse(self) -> float:
        """Upper estimate of the largest eigenvalue of M^{-1}."""
        return largest_eigenvalue(self.solve, self.n)

    def spectrum(self, H: Callable[[Vector], Vector]) -> tuple[float, float]:
        """Bounds of the eigenvalues of M^{-1} H for a symmetric H.

        Up to n = 400 all eigenvalues are computed. For larger n the Lanczos method is run in the
        inner product of M, and the lower bound is 0 unless a Ritz value proves H indefinite.
        """
        n = self.n
        if n <= DENSE_LIMIT:
            from scipy.linalg import eigh  # here, because importing it takes a while

            M = np.array([self.product(e) for e in np.eye(n)])
            values = eigh(np.array([H(e) for e in np.eye(n)]), M, eigvals_only=True)
            return computed_ends(values)
        start = self.enter(random_start(n))
        return ritz_ends(
            *extreme_eigenvalues(
                lambda u: self.represent(H(u[:n])), n, start, lambda B, w: B[..., :n] @ w[n:]
            )
        )


class PairTerm(KnownTerm):
    """A term as a function of pairs: one solve per gradient.

    It answers the questions of the term whose answers can be turned into pairs (`lifts` in the
    table of questions).

    `L` and `mu` are those of the inner product. They are tight where the Hessian or a bound of it
    is known as a matrix (quadratics, linear models, sums of these); otherwise
    L = L_term/lambda_min(M) and mu = mu_term/lambda_max(M).
    """

    def __init__(self, term: AnyTerm, space: Solvable) -> None:
        self.plain = as_term(term)
        self.space, self.n = space, 2 * space.n
        self.n_components = self.plain.n_components
        asked = Asked(term)
        for name in answers(term):
            if QUESTIONS[name].lifts:
                setattr(self, name, partial(self._lifted, QUESTIONS[name], getattr(asked, name)))

    def _lifted(self, question: Question, ask: Callable[..., Any], *args: Any) -> Any:
        """The answer at the first half of every argument, as a pair."""
        n = self.space.n
        answer = ask(*(a[:n] if isinstance(a, np.ndarray) else a for a in args))
        return question.mapped(answer, self._pair)

    def _pair(self, kind: str, entry: Any) -> Any:
        if kind == NUMBER:
            return entry
        if kind == VECTOR:
            return self.space.represent(np.asarray(entry))
        pairs = [self.space.represent(w) for w in np.asarray(entry).T]
        return np.array(pairs).reshape(len(pairs), self.n).T

    @cached_property
    def _curvature(self) -> tuple[float, float | None]:
        """mu and L in the inner product; mu is negative if the term is known to be non-convex."""
        term, space = self.plain, self.space
        if callable(getattr(term, "hessian_product", None)):
            return space.spectrum(term.hessian_product)
        if isinstance(term, Combination):
            parts = Combination([(w, PairTerm(t, space)) for w, t in term.parts])
            return parts.mu, parts.L
        low = float(term.mu) / space.largest
        if isinstance(term, LinearModel):
            return low, space.spectrum(term.curvature_product)[1]
        return low, None if term.L is None else float(term.L) * space.largest_inverse

    @property
    def L(self) -> float | None:
        low, high = self._curvature
        return None if high is None else max(high, -low)

    @property
    def mu(self) -> float:
        return max(self._curvature[0], 0.0)

    @property
    def convex(self) -> bool:
        return bool(self.plain.convex)

    def __repr__(self) -> str:
        return f"{self.plain!r} in {self.space!r}"
