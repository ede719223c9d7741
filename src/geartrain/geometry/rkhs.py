r"""The inner product of the function space of a kernel.

===========  ==============  ===================================================================
symbol       name            meaning
===========  ==============  ===================================================================
K            ``K``           kernel matrix; <u, v>_K = u'Kv
[u; K u]     a pair          represents a vector of coefficients, see `geartrain.geometry`
===========  ==============  ===================================================================

A term phi(K x) has the gradient K phi'(K x), and K^{-1} times that is phi'(K x), so no inverse is
needed and K may be singular. K x is the second half of the pair. The only product with K is the one
that gives the second half of the gradient.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from geartrain.geometry.base import PairGeometry, norm
from geartrain.oracles.algebra import Combination
from geartrain.oracles.linear_model import LinearModel
from geartrain.oracles.protocols import AnyTerm, Vector
from geartrain.oracles.quadratic import Quadratic
from geartrain.oracles.spectrum import extreme_eigenvalues, random_start
from geartrain.oracles.validation import as_matrix


class RKHS(PairGeometry):
    """The inner product u'Kv of coefficients, which is that of the functions sum_i u_i k(x_i, .).

    The gradient of f(x) = (1/m) sum_k loss(y_k, (K x)_k) + lam/2 x'Kx in it is loss'/m + lam x. A
    gradient of the loss takes one product with K, a gradient of the penalty none.

    Parameters
    ----------
    K : array, sparse matrix or LinearOperator, (m, m)
        Kernel matrix, symmetric and positive semidefinite.
    intercept : bool
        Whether x has one more coordinate, the intercept, with the usual inner product.

    Notes
    -----
    The geometry accepts ``LinearModel(K, y, ..., intercept=...)`` without l2, ``Quadratic`` of a
    multiple of K without b (with an intercept K is bordered by zeros, or by a number in the
    corner), and their sums and multiples. A product with a random vector tests whether a matrix is
    K.

    Examples
    --------
    >>> import numpy as np, geartrain as gt
    >>> t = np.linspace(0.0, 1.0, 40)
    >>> K = np.exp(-50.0 * (t[:, None] - t) ** 2)
    >>> h = gt.Quadratic(0.1 * K)
    >>> g = gt.LinearModel(K, np.sign(np.cos(9.0 * t)), loss="logistic")
    >>> res = gt.minimize(h, g, geometry=gt.geometry.RKHS(K), tol=1e-8)
    >>> res.success, round(res.constants["L_h"].value, 12)
    (True, 0.1)
    """

    def __init__(self, K: Any, intercept: bool = False) -> None:
        self.K = as_matrix(K, "K", operator=True)
        self.m = self.K.shape[0]
        if self.K.shape != (self.m, self.m):
            raise ValueError(f"K must be square, got shape {self.K.shape}")
        self.intercept = bool(intercept)
        self.n = self.m + self.intercept

    def product(self, u: Vector) -> Vector:
        """K u; the intercept stays the same."""
        return np.append(self.K @ u[:-1], u[-1]) if self.intercept else self.K @ u

    def enter(self, x: Vector) -> Vector:
        """The pair [x; K x], with the intercept in both halves."""
        if x.size == self.m + 1 and not self.intercept:
            raise ValueError(f"x has an intercept: use RKHS(K, intercept=True), not {self!r}")
        return super().enter(x)

    @cached_property
    def _probe(self) -> Vector:
        return self.enter(random_start(self.n))

    def term(self, term: AnyTerm, name: str) -> Any:
        """`term` as a function of pairs, or an error that says why that is not possible."""
        if isinstance(term, Combination):
            return Combination([(w, self.term(t, name)) for w, t in term.parts])
        if isinstance(term, LinearModel):
            why = self._is_no_loss(term)
            if not why:
                return KernelLoss(term, self)
        elif isinstance(term, Quadratic):
            weights = self._weights(term)
            if weights is not None:
                return KernelPenalty(weights)
            why = "it is not 1/2 x'Kx times a number"
        else:
            why = "it is not known whether its gradient is K times something"
        raise TypeError(
            f"{self!r} cannot use {name} = {term!r}: {why}. It accepts LinearModel(K, ...), "
            "Quadratic(lam * K) and their sums; for other terms use gt.geometry.Preconditioned(M)"
        )

    def _is_no_loss(self, term: LinearModel) -> str:
        if term.intercept != self.intercept:
            return "its intercept and that of the geometry do not agree"
        if term.l2:
            return "the gradient of l2/2 |x|^2 is not K times something"
        v, m = self._probe, self.m
        if term.A.shape != (m, m) or not _close(term.A @ v[:m], v[self.n : self.n + m]):
            return "its matrix is not K"
        return ""

    def _weights(self, term: Quadratic) -> Vector | None:
        """w with Q u = w * M u, which has the factor of K and the number in the corner, or None."""
        if term.n != self.n or term.b.any():
            return None
        m, u, image = self.m, self._probe[: self.n], self._probe[self.n :]
        product = term.Q @ u
        w = np.full(self.n, float(u[:m] @ product[:m]) / float(u[:m] @ image[:m]))
        if self.intercept:
            w[-1] = product[-1] / image[-1]
        return w if _close(product, w * image) else None

    def __repr__(self) -> str:
        return f"RKHS(m={self.m}{', intercept=True' if self.intercept else ''})"


def _close(a: Vector, b: Vector) -> bool:
    return norm(a - b) <= 1e-10 * norm(b)


class KernelLoss:
    """(1/m) sum_k loss(y_k, (K x)_k + intercept) as a function of pairs."""

    mu = 0.0
    convex = True

    def __init__(self, model: LinearModel, space: RKHS) -> None:
        self.model, self.space, self.n = model, space, 2 * space.n

    def _predict(self, x: Vector) -> Vector:
        """K x plus the intercept, from the second half of the pair."""
        second = x[self.space.n :]
        return second[:-1] + second[-1] if self.space.intercept else second

    def value(self, x: Vector) -> float:
        return float(self.model.loss.value(self.model.y, self._predict(x)).mean())

    def grad(self, x: Vector) -> Vector:
        return self._represent(self._predict(x))

    def value_and_grad(self, x: Vector) -> tuple[float, Vector]:
        z = self._predict(x)
        return float(self.model.loss.value(self.model.y, z).mean()), self._represent(z)

    def _represent(self, z: Vector) -> Vector:
        """The pair of loss'(z)/m and of its sum for the intercept; one product with K."""
        slopes = self.model.loss.derivative(self.model.y, z) / self.space.m
        if self.space.intercept:
            slopes = np.append(slopes, slopes.sum())
        return np.concatenate([slopes, self.space.product(slopes)])

    @cached_property
    def L(self) -> float | None:
        """Curvature of the loss times the largest eigenvalue of K (plus 1 1'), divided by m.

        The Hessian is A'DA with A = [K, 1] and D <= curvature/m, and A M^{-1} A' = K + 1 1'. The
        column of ones belongs to the intercept.
        """
        K, m, one = self.space.K, self.space.m, float(self.space.intercept)
        low, high = extreme_eigenvalues(lambda u: K @ u + one * u.sum(), m)
        if low < -1e-8 * high:
            raise ValueError(
                f"K must be positive semidefinite, but it has an eigenvalue of {low:.2g} or less"
            )
        bound = self.model.loss.curvature * high / m
        return bound if math.isfinite(bound) else None

    def __repr__(self) -> str:
        return f"{self.model!r} in {self.space!r}"


class KernelPenalty:
    """1/2 x'(w M)x as a function of pairs; no answer takes a product with K."""

    def __init__(self, w: Vector) -> None:
        self.w, self.n = np.concatenate([w, w]), 2 * w.size

    def value(self, x: Vector) -> float:
        return 0.5 * RKHS.dot(x, self.w * x)

    def grad(self, x: Vector) -> Vector:
        return self.w * x

    def value_and_grad(self, x: Vector) -> tuple[float, Vector]:
        grad = self.w * x
        return 0.5 * RKHS.dot(x, grad), grad

    def prox(self, u: Vector, alpha: float) -> Vector:
        return (alpha / (self.w + alpha)) * u

    @property
    def L(self) -> float:
        return float(abs(self.w).max())

    @property
    def mu(self) -> float:
        return max(float(self.w.min()), 0.0)

    @property
    def convex(self) -> bool:
        return bool(self.w.min() >= 0.0)

    def __repr__(self) -> str:
        return f"KernelPenalty({self.w[0]:g})"
