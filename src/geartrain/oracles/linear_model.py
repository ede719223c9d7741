"""The term ``mean_k loss(y_k, <a_k, x>) + l2/2 |x|^2`` for dense and sparse data."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from geartrain.oracles.algebra import Algebra
from geartrain.oracles.float32_products import times, transposed_times
from geartrain.oracles.losses import Loss, Squared, WeightedLoss, make_loss
from geartrain.oracles.protocols import Vector
from geartrain.oracles.spectrum import (
    column_norms_squared,
    gram_norm,
    largest_eigenvalue,
    row_norms_squared,
)
from geartrain.oracles.validation import as_matrix, as_nonnegative, as_vector
from geartrain.oracles.vectors import dot


class LinearModel(Algebra):
    """Mean loss of a linear model, with an optional ridge.

    Parameters
    ----------
    A : array, sparse matrix or LinearOperator (m, n_features)
        With an operator (of SciPy or pylops), only products with A and A' are used; the term then
        does not answer ``component`` and ``coord``. An array or a sparse matrix of float32 is kept
        in this precision, which halves the memory; points, gradients and all arithmetic are
        float64.
    y : array (m,)
        Labels -1 and +1 for logistic, smoothed_hinge and squared_hinge; real targets for
        squared and huber; counts for poisson and positive targets for gamma, whose means are
        ``exp(<a_k, x>)``.
    loss : str
        See `geartrain.oracles.losses` for names and formulas.
    l2 : float
        Weight of ``1/2 |x|^2``, which does not include the intercept.
    intercept : bool
        Whether to append a column of ones, so that ``x[-1]`` is the intercept and
        n = n_features + 1.
    sample_weight : array (m,), optional
        Weights of the rows, for ``sum_k w_k loss_k / sum_k w_k`` in place of the mean. The term
        then does not answer ``component`` and ``coord``.
    **loss_params
        ``mu`` of smoothed_hinge, ``delta`` of huber.

    Attributes
    ----------
    L, mu, L_components, L_coord
        Computed on first use from the largest eigenvalue of A'A, the row norms and the column
        norms, each times the largest curvature of the loss; None for poisson and gamma, whose
        curvature has no bound.

    Examples
    --------
    >>> import numpy as np, geartrain as gt
    >>> term = gt.LinearModel(np.eye(2), [1, -1], loss="logistic", l2=0.5)
    >>> round(term.value(np.zeros(2)), 6)
    0.693147
    >>> term.grad(np.zeros(2))
    array([-0.25,  0.25])
    >>> term.L
    0.625
    """

    takes_vectors = True

    def __init__(
        self,
        A: Any,
        y: Any,
        loss: str | Loss = "logistic",
        l2: float = 0.0,
        intercept: bool = False,
        sample_weight: Any = None,
        **loss_params: float,
    ) -> None:
        self.A = as_matrix(A, "A", operator=True, single=True)
        self.m, self.n_features = self.A.shape
        if self.m == 0:
            raise ValueError("A has no rows: a mean over no data is not defined")
        self.y = as_vector(y, "y", self.m)
        self.loss = make_loss(loss, **loss_params)
        if self.loss.labels and not np.isin(self.y, (-1.0, 1.0)).all():
            seen = np.unique(self.y)
            raise ValueError(
                f"loss {self.loss.name!r} needs labels -1 and +1, got "
                f"{', '.join(f'{v:g}' for v in seen[:5])}{', ...' if seen.size > 5 else ''}; "
                "for two classes a < b use numpy.where(y == b, 1, -1)"
            )
        least = float(self.y.min())
        if (self.loss.targets and least < 0.0) or (self.loss.targets == "positive" and least == 0):
            raise ValueError(
                f"loss {self.loss.name!r} needs targets that are {self.loss.targets}, but the "
                f"smallest is {least:g}"
            )
        self.l2 = as_nonnegative(l2, "l2")
        self.intercept = bool(intercept)
        self.n = self.n_features + self.intercept
        self.n_components = self.m
        self._plain, self._weights, self._total = self.loss, np.ones(1), float(self.m)
        if sample_weight is not None:
            self._weigh(as_vector(sample_weight, "sample_weight", self.m))
        if self.calls_user_code or sample_weight is not None:
            self.component = self.coord = None  # type: ignore[assignment]
            self.L_occurring = self.n_components = self.L_components = self.L_coord = None  # type: ignore[assignment]
        if not math.isfinite(self._plain.curvature):
            self.L = self.L_occurring = self.L_components = self.L_coord = None  # type: ignore[assignment]
        if isinstance(self._plain, Squared):
            self.hessian_product = self.curvature_product

    def _weigh(self, weights: Vector) -> None:
        if (weights < 0).any() or not weights.any():
            raise ValueError(
                "sample_weight must not be negative, and at least one must be positive"
            )
        self._total = float(weights.sum())
        self._weights = weights * (self.m / self._total)
        self.loss = WeightedLoss(self._plain, self._weights)

    @property
    def total(self) -> float:
        """The sum of the weights of the rows, which are 1 if not given."""
        return self._total

    @property
    def calls_user_code(self) -> bool:
        return not isinstance(self.A, np.ndarray) and not sparse.issparse(self.A)

    def ridge(self, x: Vector) -> Vector:
        """The gradient of ``l2/2 |x|^2``, which does not include the intercept."""
        out = self.l2 * x
        if self.intercept:
            out[-1] = 0.0
        return out

    def predict(self, x: Vector) -> Vector:
        """The predictions ``<a_k, x>`` of all rows."""
        if self.intercept:
            return times(self.A, x[:-1]) + x[-1]
        return times(self.A, x)

    def pull_back(self, slopes: Vector) -> Vector:
        """``sum_k slopes_k a_k`` for every column of slopes."""
        out = transposed_times(self.A, slopes)
        if not self.intercept:
            return out
        return np.concatenate([out, slopes.sum(axis=0, keepdims=True)])

    def value(self, x: Vector) -> float:
        losses = self.loss.value(self.y, self.predict(x))
        return float(losses.mean()) + 0.5 * dot(x, self.ridge(x))

    def grad(self, x: Vector) -> Vector:
        slopes = self.loss.derivative(self.y, self.predict(x))
        return self.pull_back(slopes / self.m) + self.ridge(x)

    def value_and_grad(self, x: Vector) -> tuple[float, Vector]:
        z = self.predict(x)
        ridge = self.ridge(x)
        value = float(self.loss.value(self.y, z).mean()) + 0.5 * dot(x, ridge)
        return value, self.pull_back(self.loss.derivative(self.y, z) / self.m) + ridge

    def products(self, x: Vector, D: Vector) -> Vector:
        """The Hessian at x times the columns of D."""
        bends = self.loss.second(self.y, self.predict(x)) / self.m
        return self.pull_back(bends[:, None] * self.predict(D)) + self.ridge(D)

    def curvature_product(self, v: Vector) -> Vector:
        """The Hessian times v that would result if every loss had its largest curvature."""
        bends = self._plain.curvature / self.m * self._weights
        return self.pull_back((bends * self.predict(v).T).T) + self.ridge(v)

    def row(self, k: int) -> tuple[Vector | slice, Vector]:
        """Positions and entries of row k, without the intercept."""
        if sparse.issparse(self.A):
            span = slice(self.A.indptr[k], self.A.indptr[k + 1])
            return self.A.indices[span], self.A.data[span].astype(np.float64, copy=False)
        return slice(0, self.n_features), self.A[k].astype(np.float64, copy=False)

    def component(self, x: Vector, k: int) -> Vector:
        """Gradient of ``loss(y_k, <a_k, x>) + l2/2 |x|^2``."""
        where, entries = self.row(k)
        z = entries @ x[where] + (x[-1] if self.intercept else 0.0)
        slope = float(self.loss.derivative(self.y[k : k + 1], np.array([z]))[0])
        out = self.ridge(x)
        out[where] += slope * entries
        if self.intercept:
            out[-1] += slope
        return out

    @cached_property
    def _columns(self) -> Any:
        """A stored by columns, for partial derivatives."""
        return self.A.tocsc() if sparse.issparse(self.A) else self.A

    def coord(self, x: Vector, i: int) -> float:
        slopes = self.loss.derivative(self.y, self.predict(x))
        if self.intercept and i == self.n - 1:
            return float(slopes.mean())
        if sparse.issparse(self.A):
            C = self._columns
            span = slice(C.indptr[i], C.indptr[i + 1])
            return float(C.data[span] @ slopes[C.indices[span]] / self.m + self.l2 * x[i])
        return float(self.A[:, i] @ slopes / self.m + self.l2 * x[i])

    @property
    def with_ones(self) -> Any:
        """A, with a column of ones if there is an intercept."""
        if not self.intercept:
            return self.A
        ones = np.ones((self.m, 1), dtype=self.A.dtype)
        if sparse.issparse(self.A):
            return sparse.csr_array(sparse.hstack([self.A, sparse.csr_array(ones)]))
        return np.hstack([self.A, ones])

    @cached_property
    def L(self) -> float:
        w = self._weights
        if self.calls_user_code:
            norm = largest_eigenvalue(lambda v: self.pull_back(w * self.predict(v)), self.n)
        elif self._weights.size == 1:
            norm = gram_norm(self.with_ones)
        else:
            root, A = np.sqrt(w), self.with_ones
            norm = gram_norm(sparse.diags_array(root) @ A if sparse.issparse(A) else A.T * root)
        return self._plain.curvature * norm / self.m + self.l2

    @property
    def mu(self) -> float:
        return 0.0 if self.intercept else self.l2

    convex = True

    @property
    def lower_bound(self) -> float | None:
        """A number that no value is below: that of the loss, 0 for those of the library."""
        return self.loss.lower_bound

    def contains(self, other: Any) -> bool:
        """Whether `other` is the mean loss of the same rows with a ridge that is not larger."""
        alike = type(other) is type(self) and (other._plain, other.intercept, other.m) == (
            self._plain,
            self.intercept,
            self.m,
        )
        if not alike or other.l2 > self.l2 or not _same_memory(self.A, other.A):
            return False
        same = np.array_equal(self.y, other.y) and np.array_equal(self._weights, other._weights)
        return bool(same)

    @cached_property
    def L_components(self) -> Vector:
        norms = row_norms_squared(self.A) + (1.0 if self.intercept else 0.0)
        return self.loss.curvature * norms + self.l2

    @cached_property
    def L_coord(self) -> Vector:
        out = self.loss.curvature * column_norms_squared(self.A) / self.m + self.l2
        return np.append(out, self.loss.curvature) if self.intercept else out

    @cached_property
    def L_occurring(self) -> Vector:
        """As L_coord, by the mean over the rows in which the variable is not zero.

        It tells the unit of a variable, whether it is rare or not.
        """
        counts = self.A.count_nonzero(0) if sparse.issparse(self.A) else np.count_nonzero(self.A, 0)
        squares = column_norms_squared(self.A) / np.maximum(counts, 1)
        out = self.loss.curvature * squares + self.l2
        return np.append(out, self.loss.curvature) if self.intercept else out

    def __repr__(self) -> str:
        kind = "CSR" if sparse.issparse(self.A) else "dense"
        kind = type(self.A).__name__ if self.calls_user_code else kind
        return f"LinearModel({self.loss.name}, {kind} {self.m} x {self.n_features}, l2={self.l2:g})"


def _same_memory(A: Any, B: Any) -> bool:
    """Whether two matrices are the same numbers in memory."""
    if A is B:
        return True
    if sparse.issparse(A) and sparse.issparse(B):
        arrays = ("data", "indices", "indptr")
        return bool(A.format == B.format and A.shape == B.shape) and all(
            hasattr(A, name) and _same_memory(getattr(A, name), getattr(B, name)) for name in arrays
        )
    if not (isinstance(A, np.ndarray) and isinstance(B, np.ndarray)):
        return False
    layouts = ((M.__array_interface__["data"], M.shape, M.strides, M.dtype) for M in (A, B))
    return next(layouts) == next(layouts)
