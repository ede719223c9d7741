r"""Multinomial logistic regression on one shard.

======  ==============  ================================================================
symbol  name            meaning
======  ==============  ================================================================
K       ``classes``     number of classes
W       ``x``           (K, p) coefficients, row by row; with an intercept (K, p + 1)
z_k     ``scores(x)``   W a_k, one score per class
p_k     ``P``           softmax of z_k
======  ==============  ================================================================

The loss of row k is ln sum_j exp(z_kj) - z_k[y_k]. Its gradient in the scores is p_k - e_{y_k}, and
its Hessian is diag(p_k) - p_k p_k'.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import logsumexp

from geartrain.oracles.algebra import Algebra
from geartrain.oracles.protocols import Vector
from geartrain.oracles.spectrum import gram_norm
from geartrain.oracles.validation import as_matrix, as_nonnegative, as_vector


@dataclass(frozen=True)
class Softmax:
    """The multinomial logistic loss; y is the number of the class, from 0 to `classes` - 1."""

    classes: int
    name = "softmax"


class SoftmaxModel(Algebra):
    """``sum_k w_k loss(y_k, W a_k) / sum_k w_k + l2/2 |W|^2`` as a function of W, row by row.

    y are the numbers of the classes. The ridge does not include the intercepts, which are the last
    column of W if there is an `intercept`.
    """

    lower_bound = 0.0

    def __init__(
        self,
        A: Any,
        y: Any,
        loss: Softmax,
        l2: float = 0.0,
        intercept: bool = False,
        weights: Any = None,
    ) -> None:
        self.A = as_matrix(A, "A")
        self.m, self.n_features = self.A.shape
        self.loss, self.intercept = loss, intercept
        self.y = as_vector(y, "y", self.m).astype(np.intp)
        if self.y.min() < 0 or self.y.max() >= loss.classes:
            raise ValueError(f"y must hold numbers of classes from 0 to {loss.classes - 1}")
        self.l2 = as_nonnegative(l2, "l2")
        given = np.ones(self.m) if weights is None else as_vector(weights, "weights", self.m)
        if (given < 0).any() or not given.any():
            raise ValueError("weights must not be negative, and at least one must be positive")
        self.total = float(given.sum())
        self.shares = given / self.total
        self.width = self.n_features + intercept  # of a row of W
        self.n = loss.classes * self.width

    def scores(self, x: Vector) -> Vector:
        """``A W'``, (m, K); for several columns of x, (m, K, columns)."""
        W = x.reshape(self.loss.classes, self.width, -1)
        flat = np.moveaxis(W[:, : self.n_features], 1, 0).reshape(self.n_features, -1)
        out = np.asarray(self.A @ flat).reshape(self.m, self.loss.classes, -1)
        if self.intercept:
            out = out + W[:, -1]
        return out[..., 0] if x.ndim == 1 else out

    def pull_back(self, slopes: Vector) -> Vector:
        """The adjoint of `scores`."""
        cubes = slopes.reshape(self.m, self.loss.classes, -1)
        back = np.asarray(self.A.T @ cubes.reshape(self.m, -1))
        rows = np.moveaxis(back.reshape(self.n_features, self.loss.classes, -1), 0, 1)
        if self.intercept:
            rows = np.concatenate([rows, cubes.sum(axis=0)[:, None]], axis=1)
        return rows.reshape(self.n) if slopes.ndim == 2 else rows.reshape(self.n, -1)

    def ridge(self, x: Vector) -> Vector:
        """The gradient of the ridge."""
        out = self.l2 * x.reshape(self.loss.classes, self.width, -1)
        if self.intercept:
            out[:, -1] = 0.0
        return out.reshape(x.shape)

    def value(self, x: Vector) -> float:
        """The weighted mean of the losses, plus the ridge."""
        Z = self.scores(x)
        losses = logsumexp(Z, axis=1) - Z[np.arange(self.m), self.y]
        return float(self.shares @ losses + 0.5 * (x @ self.ridge(x)))

    def value_and_grad(self, x: Vector) -> tuple[float, Vector]:
        """Value and gradient from one pass over the data."""
        Z, ridge = self.scores(x), self.ridge(x)
        sums = logsumexp(Z, axis=1)
        value = self.shares @ (sums - Z[np.arange(self.m), self.y]) + 0.5 * (x @ ridge)
        slopes = np.exp(Z - sums[:, None])
        slopes[np.arange(self.m), self.y] -= 1.0
        return float(value), self.pull_back(self.shares[:, None] * slopes) + ridge

    def products(self, x: Vector, D: Vector) -> Vector:
        """The Hessian at x times the columns of D."""
        Z = self.scores(x)
        P = np.exp(Z - logsumexp(Z, axis=1, keepdims=True))[..., None]
        S = self.scores(D)
        bent = P * (S - (P * S).sum(axis=1, keepdims=True))
        return self.pull_back(self.shares[:, None, None] * bent) + self.ridge(D)

    @cached_property
    def L(self) -> float:
        """Half the largest eigenvalue of the weighted Gram matrix (diag(p) - pp' <= 1/2)."""
        A = self.A
        if self.intercept:
            ones = np.ones((self.m, 1))
            A = sparse.hstack([A, ones], "csr") if sparse.issparse(A) else np.hstack([A, ones])
        root = np.sqrt(self.shares)
        scaled = sparse.diags_array(root) @ A if sparse.issparse(A) else root[:, None] * A
        return 0.5 * gram_norm(scaled) + self.l2

    @property
    def mu(self) -> float:
        """That of the ridge, if nothing is left out of it."""
        return 0.0 if self.intercept else self.l2

    def __repr__(self) -> str:
        shape = f"{self.m} x {self.n_features}"
        return f"SoftmaxModel({shape}, {self.loss.classes} classes, l2={self.l2:g})"
