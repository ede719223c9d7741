"""Parts shared by `KernelSVC` and `KernelSVR`: parameters, kernels, data, predictions."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import cache
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, is_regressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, Options, StrOptions
from sklearn.utils.validation import (
    _check_sample_weight,
    _num_samples,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)
from threadpoolctl import ThreadpoolController

from geartrain.compiled.records import Array
from geartrain.estimators.svm.kernel import KERNELS, OVERFLOW, Kernel
from geartrain.estimators.svm.kernel_matrix import KEYS, TrainingKernel
from geartrain.estimators.svm.problem import Solution, SVMProblem
from geartrain.oracles.ledger import Ledger

# An infinite C: at larger values the sums of the dual variables would lose all digits.
LARGEST_C = 1e10
# Operations for the whole kernel matrix from which on more threads of BLAS pay: short products
# alternate with compiled loops on one core, and threads that wait for the next product keep the
# other cores busy, or wait for these.
_MANY = 4e10


@cache
def _controller() -> ThreadpoolController:
    """Finding the BLAS libraries of the process takes longer than a small fit."""
    return ThreadpoolController()


def _threads(X: Any) -> int | None:
    """The number of threads of BLAS during a fit; None for as many as it takes by itself."""
    m, features = X.shape if hasattr(X, "shape") and len(X.shape) == 2 else (len(X), 1)
    return 1 if float(m) ** 2 * features < _MANY else None


class KernelMachine(BaseEstimator):
    """Base class of the support vector machines, which describe the parameters.

    A model consists of one problem or, with several classes, of one for each pair of them.
    """

    C: float
    kernel: str | Callable[[Any, Any], Any]
    gamma: str | float
    degree: int
    coef0: float
    tol: float
    memory_limit: float
    warm_start: bool
    max_iter: int
    verbose: bool

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "C": [Interval(Real, 0.0, None, closed="right")],
        "kernel": [StrOptions(set(KERNELS)), callable],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="left")],
        "degree": [Interval(Integral, 0, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "tol": [Interval(Real, 0.0, None, closed="neither")],
        "memory_limit": [Interval(Real, 0.0, None, closed="neither")],
        "warm_start": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left"), Options(Integral, {-1})],
        "verbose": ["verbose"],
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array or sparse matrix (n_samples, n_features)
            The points; for a precomputed kernel its matrix (n_samples, n_samples).
        y : array (n_samples,)
            Labels or targets.
        sample_weight : array (n_samples,), optional
            Factors of C by sample. Samples with negative weights are left out.

        Returns
        -------
        KernelSVC or KernelSVR
            The model itself.
        """
        self._validate_params()
        given, (X, y) = X, self._data(X, y)
        ledger = Ledger(names=(), more=KEYS)
        with _controller().limit(limits=_threads(X), user_api="blas"):
            solutions = self._solve(X, y, self._weights(X, sample_weight), ledger)
        self.n_calls_ = dict(ledger.calls)
        for kind in solutions[0].calls:
            self.n_calls_[kind] = sum(solution.calls[kind] for solution in solutions)
        self._calibrate(given, y, sample_weight)
        self._warn(solutions)
        return self

    def _solve(self, X: Any, y: Array, weights: Array | None, ledger: Ledger) -> list[Solution]:
        """Solve the problems of the model, and set its attributes."""
        raise NotImplementedError

    def _calibrate(self, X: Any, y: Array, sample_weight: Any) -> None:
        """What a classifier needs for probabilities."""

    def _data(self, X: Any, y: Any) -> tuple[Any, Any]:
        """The training data, checked. A callable kernel may take points of any kind."""
        if sparse.issparse(X) and self.kernel == "precomputed":
            raise TypeError("Sparse precomputed kernels are not supported.")
        if callable(self.kernel):
            check_consistent_length(X, y)
            y = column_or_1d(y, warn=True)
        else:
            checks = {"dtype": np.float64, "order": "C", "accept_sparse": "csr"}
            X, y = validate_data(self, X, y, y_numeric=is_regressor(self), **checks)
        if self.kernel == "precomputed" and X.shape[0] != X.shape[1]:
            raise ValueError(
                f"Precomputed matrix must be a square matrix. Input is a {X.shape[0]}x{X.shape[1]} "
                "matrix."
            )
        return X, y

    def _weights(self, X: Any, sample_weight: Any) -> Array | None:
        """The sample weights, negative ones as zero; None if none are given."""
        if sample_weight is None:
            return None
        weights = np.asarray(sample_weight, dtype=np.float64)
        if weights.size and weights.max() <= 0.0:
            raise ValueError("Invalid input - all samples have zero or negative weights.")
        return np.maximum(_check_sample_weight(weights, X), 0.0)

    def _prepare(self, X: Any, weights: Array | None) -> Any:
        """Set the kernel and return what `_problem` needs of X: points or a kernel matrix."""
        self._sparse = sparse.issparse(X) and not callable(self.kernel)
        self._points, self._n_fitted = None, _num_samples(X)
        if callable(self.kernel):
            self._points = X
            X = self._matrix(X)
        precomputed = callable(self.kernel) or self.kernel == "precomputed"
        self._gamma = 0.0 if precomputed else self._find_gamma(X, weights)
        name = "precomputed" if callable(self.kernel) else self.kernel
        self._kernel = Kernel(name, self._gamma, self.degree, self.coef0)
        return X

    def _problem(
        self, k: int, X: Any, y: Array, ledger: Ledger, what: str = "", **numbers: Any
    ) -> SVMProblem:
        """Problem k on the points X, from the last solution if `warm_start` allows it."""
        solved = getattr(self, "_solved", [])[k : k + 1] if self.warm_start else []
        return SVMProblem(
            kernel=TrainingKernel(self._kernel, X, 1e6 * self.memory_limit, ledger),
            y=y,
            tol=self.tol,
            max_iter=self.max_iter,
            start=next((self.C * c for c in solved if c.size == y.size), None),
            report=self._reporter(what),
            **numbers,
        )

    def _matrix(self, X: Any) -> Array:
        """The matrix of a callable kernel between X and the training points."""
        K = self.kernel(X, self._points)  # type: ignore[operator]
        K = np.asarray(K.toarray() if sparse.issparse(K) else K, dtype=np.float64, order="C")
        if K.shape != (_num_samples(X), self._n_fitted):
            raise ValueError(
                f"the kernel gave a matrix of shape {K.shape} for {_num_samples(X)} and "
                f"{self._n_fitted} points; expected {(_num_samples(X), self._n_fitted)}"
            )
        return K

    def _find_gamma(self, X: Any, weights: Array | None) -> float:
        if self.gamma == "auto":
            return 1.0 / X.shape[1]
        if self.gamma != "scale":
            return float(self.gamma)
        variance = _variance(X, weights)
        if not np.isfinite(variance):
            raise ValueError(OVERFLOW)
        return 1.0 / (X.shape[1] * variance) if variance > 0.0 else 1.0

    def _keep(
        self,
        X: Any,
        support: Array,
        dual_coef: Array,
        solutions: list[Solution],
        shift: float = 0.0,
    ) -> None:
        """Set the attributes that follow from the solutions; `shift` is added to the intercept."""
        intercept = np.array([solution.intercept for solution in solutions]) + shift
        if not (np.isfinite(dual_coef).all() and np.isfinite(intercept).all()):
            raise ValueError(OVERFLOW)
        self.support_ = support.astype(np.int32)
        precomputed = self._kernel.name == "precomputed"
        self.support_vectors_ = np.empty((0, 0)) if precomputed else X[support]
        self.dual_coef_ = sparse.csr_array(dual_coef) if self._sparse else dual_coef
        self.intercept_ = intercept
        if self.warm_start:
            self._solved = [solution.coefficients / self.C for solution in solutions]
        gaps = [solution.gap for solution in solutions]
        self.gap_ = gaps[0] if len(gaps) == 1 else np.array(gaps)
        self._objectives = [solution.objective for solution in solutions]
        self._linear = [solution.linear for solution in solutions]

    @property
    def objective_(self) -> Any:
        """The primal objective; see the attributes."""
        M = self._coefficients()
        for k, gap in enumerate(np.atleast_1d(self.gap_)):
            if self._objectives[k] is None:
                column = M[:, k] if isinstance(M, np.ndarray) else M[:, [k]].toarray().ravel()
                points, c = self.support_vectors_[column != 0.0], column[column != 0.0]
                f = self._kernel.expand_symmetric(points, c)
                self._objectives[k] = float(gap + self._linear[k] - 0.5 * (c @ f))
        return self._objectives[0] if len(self._objectives) == 1 else np.array(self._objectives)

    def _warn(self, solutions: list[Solution]) -> None:
        """Set `fit_status_`, and warn unless all problems were solved."""
        self.fit_status_ = int(not all(solution.converged for solution in solutions))
        if not self.fit_status_:
            return
        if any(s.n_iter >= self.max_iter > 0 for s in solutions if not s.converged):
            reason = (
                f"Solver terminated early (max_iter={self.max_iter}).  Consider pre-processing "
                "your data with StandardScaler or MinMaxScaler."
            )
        else:
            reason = f"{type(self).__name__} did not reach the tolerance {self.tol:g}."
        warnings.warn(
            f"{reason} The attribute gap_ bounds the distance from the optimum.",
            ConvergenceWarning,
            stacklevel=3,
        )

    def _reporter(self, what: str) -> Callable[[str], None]:
        if not self.verbose:
            return lambda line: None
        return lambda line: print(f"{type(self).__name__}{what}: {line}", file=sys.stderr)

    def _values(self, X: Any) -> Array:
        """Decision values or predictions, one column per problem."""
        check_is_fitted(self)
        coefficients = self._coefficients()
        if callable(self.kernel):
            return self._matrix(X)[:, self.support_] @ coefficients + self.intercept_
        X = validate_data(self, X, reset=False, dtype=np.float64, order="C", accept_sparse="csr")
        if self.kernel == "precomputed":
            return X[:, self.support_] @ coefficients + self.intercept_
        if self._sparse and not sparse.issparse(X):
            X = sparse.csr_array(X)
        if sparse.issparse(X) and not self._sparse:
            name = type(self).__name__
            raise ValueError(f"cannot use sparse input in {name!r} trained on dense data")
        return self._kernel.expand(X, self.support_vectors_, coefficients) + self.intercept_

    def _coefficients(self) -> Any:
        """Coefficients of the support vectors, one column per problem."""
        return self._dense_dual_coef().T

    def _dense_dual_coef(self) -> Array:
        coef: Any = self.dual_coef_
        return coef.toarray() if sparse.issparse(coef) else coef

    @property
    def coef_(self) -> Any:
        """Weights of the features, one row per problem; only for ``kernel="linear"``.

        It is sparse if the model was fitted to sparse points.
        """
        if self.kernel != "linear":
            raise AttributeError("coef_ is only available when using a linear kernel")
        coef = self._coefficients().T @ self.support_vectors_
        coef = sparse.csr_array(coef) if self._sparse else coef
        (coef.data if sparse.issparse(coef) else coef).flags.writeable = False
        return coef


def _variance(X: Any, weights: Array | None) -> float:
    """Variance of all entries of X, with weighted rows."""
    share = np.ones(X.shape[0]) if weights is None else weights
    share = share / (share.sum() * X.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float((share @ X).sum())
        if sparse.issparse(X):
            return float((share @ X.multiply(X)).sum() - mean * mean)
        return float(share @ np.square(X - mean).sum(axis=1))
