"""The kernel support vector classifier."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable
from functools import cache
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import compute_class_weight
from sklearn.utils._param_validation import Interval, StrOptions, validate_parameter_constraints
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from geartrain.estimators.arrays import Array, classes_and_labels, points_and_labels, sample_weights
from geartrain.estimators.svm.block_smo import block_smo
from geartrain.estimators.svm.kernel_matrix import KERNELS, Kernel, TrainingKernel
from geartrain.estimators.svm.problem import BinaryProblem, Solution, primal_objective
from geartrain.estimators.svm.smoothed import smoothed_katyusha, smoothed_lbfgs, smoothed_sae
from geartrain.oracles.ledger import Ledger

Solver = Callable[[BinaryProblem], Solution]


def exact_hinge(problem: BinaryProblem) -> Solution:
    """Block SMO on the dual of the hinge loss."""
    return block_smo(problem.hinge_dual())


# The solvers of every loss by name; the first is "auto".
SOLVERS: dict[str, dict[str, Solver]] = {
    "hinge": {"smo": exact_hinge},
    "smoothed_hinge": {
        "lbfgs": smoothed_lbfgs,
        "sae": smoothed_sae,
        "katyusha": smoothed_katyusha,
    },
}


# Paper: kernel SVM
class KernelSVC(ClassifierMixin, BaseEstimator):
    r"""Support vector classifier with a kernel: the same model as SVC, fitted several times faster.

    Minimises 1/2 \|w\|^2 + sum_i C_i loss(y_i f(x_i)) over f = <w, phi(x)> + b, where C_i is `C`
    times the class and sample weights; that is lambda = 1/(C m) for the mean loss. Several
    classes are fitted one against the rest.

    Parameters
    ----------
    C : float
        Weight of the losses, with the meaning it has in `sklearn.svm.SVC`.
    kernel : {"rbf", "linear", "poly", "precomputed"} or callable
        As in SVC; a callable takes two arrays of points and gives their kernel matrix.
    gamma : "scale", "auto" or float
        "scale" is 1 / (n_features * X.var()), with the variance weighted by `sample_weight`;
        "auto" is 1 / n_features.
    degree : int
        Of the kernel "poly".
    coef0 : float
        Of the kernel "poly".
    loss : {"hinge", "smoothed_hinge"}
        The smoothed hinge is mu ln(1 + exp((1 - t)/mu)). It exceeds the hinge by at most
        mu ln 2, so the hinge objective at its solution is within mu ln 2 sum(C_i) of the best.
    mu : float
        Smoothing of "smoothed_hinge".
    solver : str
        "auto", which is the first of the loss. For the hinge "smo", block SMO. For the smoothed
        hinge the library's methods in the geometry of the kernel's space: "lbfgs", "sae" with
        L-BFGS inside, "katyusha", which is SAE with Katyusha inside and stores K.
    tol : float
        "smo": largest violation of the optimality conditions, as in SVC.
        The others: norm of the gradient in the kernel's space relative to that at zero.
    class_weight : dict, "balanced" or None
        Factors of C by class.
    memory_limit : float
        Megabytes that a fit may take beyond the data. Kernel rows that do not fit are computed
        again when needed.
    warm_start : bool
        Start from the last solution if the number of samples and the classes are the same.
    max_iter : int
        Limit of blocks ("smo") or iterations.
    verbose : bool
        Show progress on stderr.

    Attributes
    ----------
    classes_ : array (n_classes,)
    support_ : array (n_support,)
        Indices of the samples with a coefficient that is not zero.
    support_vectors_ : array (n_support, n_features)
        Empty if the kernel is precomputed.
    dual_coef_ : array (1 or n_classes, n_support)
        Coefficients of the support vectors, y_i alpha_i.
    intercept_ : array (1 or n_classes,)
    objective_ : float or array (n_classes,)
        The primal objective: `gap_` above the dual one, which is float64. Of the hinge it is
        computed when first asked for.
    gap_ : float or array (n_classes,)
        Duality gap: `objective_` exceeds the minimum by at most this. What float32 rounding may
        have left in it is counted in.
    n_iter_ : array (1 or n_classes,)
    n_calls_ : dict
        Kernel rows in float32 ("kernel.row", including the shorter ones of the sample from which
        "smo" guesses its start), products with the kernel matrix ("kernel.product") and
        two-variable steps of "smo" ("smo.step"). The solvers of the smoothed hinge also count
        gradients of the penalty ("h.grad") and of the losses ("g.grad"), and summands of the losses
        ("g.component").
    n_features_in_ : int
    feature_names_in_ : array (n_features,)

    Examples
    --------
    >>> import geartrain as gt
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = gt.estimators.KernelSVC().fit(scale(X), y)
    >>> bool(model.gap_ < 1e-3 * model.objective_), model.score(scale(X), y) > 0.98
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "C": [Interval(Real, 0.0, None, closed="neither")],
        "kernel": [StrOptions(set(KERNELS)), callable],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="neither")],
        "degree": [Interval(Integral, 1, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "loss": [StrOptions(set(SOLVERS))],
        "mu": [Interval(Real, 0.0, None, closed="neither")],
        "solver": [str],
        "tol": [Interval(Real, 0.0, None, closed="neither")],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "memory_limit": [Interval(Real, 0.0, None, closed="neither")],
        "warm_start": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: str | Callable[[Any, Any], Any] = "rbf",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        loss: str = "hinge",
        mu: float = 0.1,
        solver: str = "auto",
        tol: float = 1e-3,
        class_weight: dict[Any, float] | str | None = None,
        memory_limit: float = 1000.0,
        warm_start: bool = False,
        max_iter: int = 100_000,
        verbose: bool = False,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.loss = loss
        self.mu = mu
        self.solver = solver
        self.tol = tol
        self.class_weight = class_weight
        self.memory_limit = memory_limit
        self.warm_start = warm_start
        self.max_iter = max_iter
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel in ("rbf", "linear", "poly")
        return tags

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:
        return super()._get_param_names()

    @classmethod
    @cache
    def _defaults(cls) -> dict[str, Any]:
        parameters = inspect.signature(cls).parameters
        return {name: parameter.default for name, parameter in parameters.items()}

    def _validate_params(self) -> None:
        """The checks of scikit-learn, of what is not the default: they take their time."""
        given = {
            name: getattr(self, name)
            for name, default in self._defaults().items()
            if getattr(self, name) is not default
        }
        if not get_config()["skip_parameter_validation"]:
            validate_parameter_constraints(
                self._parameter_constraints, given, caller_name=type(self).__name__
            )

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelSVC:
        """Fit the model.

        Parameters
        ----------
        X : array or sparse matrix (n_samples, n_features)
            The points; for a precomputed kernel its matrix (n_samples, n_samples).
        y : array (n_samples,)
            Labels.
        sample_weight : array (n_samples,), optional
            Factors of C by sample.

        Returns
        -------
        KernelSVC
            The model itself.
        """
        self._validate_params()
        solve = self._solver()
        X, y = points_and_labels(self, X, y, **self._accepted())
        if y.dtype.kind == "f" and (y != np.floor(y)).any():
            check_classification_targets(y)  # slow, and only this kind of labels can fail
        if self.kernel == "precomputed" and X.shape[0] != X.shape[1]:
            raise ValueError(
                f"Precomputed matrix must be a square matrix. Input is a {X.shape[0]}x{X.shape[1]} "
                "matrix."
            )
        self._known_classes: Any = getattr(self, "classes_", None)
        self.classes_, labels = classes_and_labels(y)
        if self.classes_.size < 2:
            raise ValueError(
                f"The number of classes has to be greater than one; got {self.classes_.size} class"
            )
        weights = None if sample_weight is None else sample_weights(sample_weight, X)
        C = self._weights(weights, y, labels)
        self._kernel = Kernel(self.kernel, self._gamma(X, weights), self.degree, self.coef0)
        training = TrainingKernel(self._kernel, X, 1e6 * self.memory_limit)
        starts = self._starts(X.shape[0])
        solutions = []
        targets = [1] if self.classes_.size == 2 else range(self.classes_.size)
        for k, target in enumerate(targets):
            signs = np.where(labels == target, 1.0, -1.0)
            if not C.all() and not (C[signs > 0].any() and C[signs < 0].any()):
                raise ValueError(
                    "a class has only samples of weight zero; remove it or give it weight"
                )
            problem = BinaryProblem(
                kernel=training,
                y=signs,
                C=C,
                mu=self.mu,
                tol=self.tol,
                max_iter=self.max_iter,
                start=None if starts is None else starts[k],
                report=self._reporter(self.classes_[target]),
            )
            solutions.append(solve(problem))
        self._keep(X, solutions, training.ledger)
        return self

    def _solver(self) -> Solver:
        """The solver by name; "auto" is the first of the loss."""
        solvers = SOLVERS[self.loss]
        name = next(iter(solvers)) if self.solver == "auto" else self.solver
        if name not in solvers:
            raise ValueError(
                f"solver={self.solver!r} does not solve loss={self.loss!r}; choose one of "
                f"{', '.join(map(repr, solvers))} or 'auto'"
            )
        return solvers[name]

    def _accepted(self) -> dict[str, Any]:
        return {"accept_sparse": "csr"} if self.kernel in ("rbf", "linear", "poly") else {}

    def _gamma(self, X: Any, weights: Array | None) -> float:
        if self.gamma == "scale":
            variance = _variance(X, weights)
            return 1.0 / (X.shape[1] * variance) if variance > 0.0 else 1.0
        return 1.0 / X.shape[1] if self.gamma == "auto" else float(self.gamma)

    def _weights(self, weights: Array | None, y: Array, labels: Array) -> Array:
        """C_i of every sample."""
        C = np.full(labels.size, float(self.C))
        if self.class_weight == "balanced":
            totals = np.bincount(labels, weights)
            C *= (totals.sum() / (totals.size * totals))[labels]
        elif self.class_weight is not None:
            C *= compute_class_weight(self.class_weight, classes=self.classes_, y=y)[labels]
        return C if weights is None else C * weights

    def _reporter(self, label: Any) -> Callable[[str], None]:
        if not self.verbose:
            return lambda line: None
        return lambda line: print(f"KernelSVC, class {label}: {line}", file=sys.stderr)

    def _starts(self, m: int) -> Array | None:
        """Coefficients of the last fit, if they are those of a problem like this one.

        They are scaled to the new C: what was at its bound is at its bound again.
        """
        if not self.warm_start or not hasattr(self, "_coefficients"):
            return None
        same = self._known_classes is not None and np.array_equal(
            self._known_classes, self.classes_
        )
        return self.C * self._coefficients if same and self._coefficients.shape[1] == m else None

    def _keep(self, X: Any, solutions: list[Solution], ledger: Ledger) -> None:
        coefficients = np.array([solution.coefficients for solution in solutions])
        if self.warm_start:
            self._coefficients = coefficients / self.C
        self.support_ = np.flatnonzero(coefficients.any(axis=0))
        self.support_vectors_ = (
            np.empty((0, 0)) if self.kernel == "precomputed" else X[self.support_]
        )
        self.dual_coef_ = coefficients[:, self.support_]
        self.intercept_ = np.array([solution.intercept for solution in solutions])
        self.n_iter_ = np.array([solution.n_iter for solution in solutions])
        gaps = [solution.gap for solution in solutions]
        self.gap_ = gaps[0] if len(gaps) == 1 else np.array(gaps)
        self._objectives = [solution.objective for solution in solutions]
        self.n_calls_ = dict(ledger.calls)
        for kind in solutions[0].calls:
            self.n_calls_[kind] = sum(solution.calls[kind] for solution in solutions)
        if not all(solution.converged for solution in solutions):
            warnings.warn(
                f"KernelSVC stopped before the tolerance {self.tol:g} was met "
                f"(max_iter={self.max_iter}); gap_ tells how far from the optimum it is",
                ConvergenceWarning,
                stacklevel=3,
            )

    @property
    def objective_(self) -> Any:
        """The primal objective; see the attributes."""
        for k, (gap, row) in enumerate(zip(np.atleast_1d(self.gap_), self.dual_coef_, strict=True)):
            if self._objectives[k] is None:
                points, c = self.support_vectors_[row != 0.0], row[row != 0.0]
                f = self._kernel.expand_symmetric(points, c)
                self._objectives[k] = primal_objective(np.sign(c), c, f, float(gap))
        return self._objectives[0] if len(self._objectives) == 1 else np.array(self._objectives)

    def decision_function(self, X: Any) -> Array:
        """Value of f: (n_samples,) for two classes, else (n_samples, n_classes).

        Parameters
        ----------
        X : array or sparse matrix (n_samples, n_features)
            For a precomputed kernel, its values between these and the training samples.

        Returns
        -------
        array
            Positive for ``classes_[1]``, or the largest for the class that is predicted.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64, order="C", **self._accepted())
        if self.kernel == "precomputed":
            values = X[:, self.support_] @ self.dual_coef_.T
        else:
            if sparse.issparse(self.support_vectors_) and not sparse.issparse(X):
                X = sparse.csr_matrix(X)
            values = self._kernel.expand(X, self.support_vectors_, self.dual_coef_.T)
        values += self.intercept_
        return values[:, 0] if self.classes_.size == 2 else values

    def predict(self, X: Any) -> Array:
        """Labels of the rows of X.

        Parameters
        ----------
        X : array or sparse matrix (n_samples, n_features)
            As in `decision_function`.

        Returns
        -------
        array (n_samples,)
            The labels.
        """
        values = self.decision_function(X)
        if values.ndim == 1:
            return self.classes_[(values > 0.0).astype(np.intp)]
        return self.classes_[values.argmax(axis=1)]


def _variance(X: Any, weights: Array | None) -> float:
    """Variance of all entries of X, its rows weighted."""
    if weights is None:
        if not sparse.issparse(X):
            centred = X.ravel() - X.mean()
            return float(centred @ centred) / X.size
        mean = X.mean()
        return float(X.multiply(X).mean() - mean * mean)
    weights = weights / (weights.sum() * X.shape[1])
    mean = float((weights @ X).sum())
    square = X.multiply(X) if sparse.issparse(X) else X * X
    return float((weights @ square).sum() - mean * mean)
