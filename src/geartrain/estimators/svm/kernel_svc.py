"""The kernel support vector classifier."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import compute_class_weight
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from geartrain.compiled.records import Array
from geartrain.estimators.svm.base import LARGEST_C, KernelMachine
from geartrain.estimators.svm.block_smo import block_smo
from geartrain.estimators.svm.pairs import one_against_rest, pack, pairs, unpack, votes
from geartrain.estimators.svm.problem import Solution, SVMProblem
from geartrain.estimators.svm.smoothed import smoothed_katyusha, smoothed_lbfgs, smoothed_sae
from geartrain.oracles.ledger import Ledger

Solver = Callable[[SVMProblem], Solution]

# The solvers of every loss by name; the first is "auto".
SOLVERS: dict[str, dict[str, Solver]] = {
    "hinge": {"smo": block_smo},
    "smoothed_hinge": {
        "lbfgs": smoothed_lbfgs,
        "sae": smoothed_sae,
        "katyusha": smoothed_katyusha,
    },
}


def _has_probability(model: KernelSVC) -> bool:
    if not model.probability:
        raise AttributeError("predict_proba is not available when probability=False")
    return True


# Paper: kernel SVM
class KernelSVC(ClassifierMixin, KernelMachine):
    r"""Support vector classifier with a kernel: the same model as SVC, fitted several times faster.

    Minimises 1/2 \|w\|^2 + sum_i C_i loss(y_i f(x_i)) over f = <w, phi(x)> + b, where C_i is `C`
    times the class and sample weights; this corresponds to lambda = 1/(C m) for the mean loss.
    Several classes are fitted one against one, as in `sklearn.svm.SVC`.

    Parameters
    ----------
    C : float
        Weight of the losses, with the same meaning as in `sklearn.svm.SVC`. Infinity stands for
        1e10.
    kernel : {"rbf", "linear", "poly", "sigmoid", "precomputed"} or callable
        As in SVC. A callable takes two collections of points and returns their kernel matrix; it is
        called once with all training points.
    gamma : "scale", "auto" or float
        "scale" is 1 / (n_features * X.var()), with the variance weighted by `sample_weight`;
        "auto" is 1 / n_features.
    degree : int
        Degree of the kernel "poly".
    coef0 : float
        Constant of the kernels "poly" and "sigmoid".
    loss : {"hinge", "smoothed_hinge"}
        The smoothed hinge is mu ln(1 + exp((1 - t)/mu)). It exceeds the hinge by at most
        mu ln 2, so the hinge objective at its solution is within mu ln 2 sum(C_i) of the optimum.
    mu : float
        Smoothing of "smoothed_hinge".
    solver : str
        "auto" chooses the first solver of the loss. The hinge has "smo", block SMO. The smoothed
        hinge has the library's methods in the geometry of the kernel's space: "lbfgs"; "sae" with
        inner L-BFGS; "katyusha", which is SAE with inner Katyusha and stores K.
    tol : float
        "smo": largest violation of the optimality conditions, as in SVC. The others: norm of the
        gradient in the kernel's space, relative to that at zero.
    class_weight : dict, "balanced" or None
        Factors of C by class.
    decision_function_shape : {"ovr", "ovo"}
        Shape of `decision_function` with more than two classes: one column per class or one per
        pair of classes.
    break_ties : bool
        Whether `predict` resolves ties between the votes of the pairs by the decision values; only
        with ``decision_function_shape="ovr"``.
    probability : bool
        Whether `predict_proba` is available. Fits the model on five folds to calibrate it, as
        `sklearn.calibration.CalibratedClassifierCV` with ``ensemble=False``.
    memory_limit : float
        Megabytes that a fit may take in addition to the data. Kernel rows that do not fit are
        computed again when needed.
    warm_start : bool
        Whether to start from the last solution if the numbers of samples and classes are the same.
    max_iter : int
        Limit of two-variable steps ("smo", as in SVC) or iterations for each binary problem; -1 for
        none.
    random_state : int, RandomState or None
        Seed of the folds of `probability`.
    verbose : bool
        Whether to show progress on stderr.

    Attributes
    ----------
    classes_ : array (n_classes,)
    class_weight_ : array (n_classes,)
        Factors of C by class.
    support_ : array (n_support,)
        Indices of the samples with a nonzero coefficient, class by class.
    support_vectors_ : array (n_support, n_features)
        Empty if the kernel is precomputed or a callable.
    n_support_ : array (n_classes,)
        Number of support vectors of each class.
    dual_coef_ : array (n_classes - 1, n_support)
        Coefficients of the support vectors, y_i alpha_i, arranged as in SVC; sparse if X is.
    coef_ : array (n_pairs, n_features)
        Weights of the features if the kernel is linear.
    intercept_ : array (n_pairs,)
    objective_ : float or array (n_pairs,)
        The primal objective: the dual objective in float64 plus `gap_`. For the hinge it is
        computed when first needed.
    gap_ : float or array (n_pairs,)
        Duality gap: `objective_` exceeds the minimum by at most this. It includes the error that
        float32 rounding may have left. It is a bound for positive semidefinite kernels, which
        "sigmoid" is not.
    n_iter_ : array (n_pairs,)
        Two-variable steps ("smo") or iterations.
    fit_status_ : int
        0 if all problems were solved to the tolerance, 1 otherwise.
    n_calls_ : dict
        Kernel rows in float32 ("kernel.row", including the shorter ones of the sample from which
        "smo" guesses its start), products with the kernel matrix ("kernel.product"), blocks and
        two-variable steps of "smo" ("smo.block", "smo.step"). The solvers of the smoothed hinge
        also count gradients of the penalty ("h.grad") and of the losses ("g.grad"), and summands of
        the losses ("g.component").
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
        **KernelMachine._parameter_constraints,
        "loss": [StrOptions(set(SOLVERS))],
        "mu": [Interval(Real, 0.0, None, closed="neither")],
        "solver": [str],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "decision_function_shape": [StrOptions({"ovr", "ovo"})],
        "break_ties": ["boolean"],
        "probability": ["boolean"],
        "random_state": ["random_state"],
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
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        probability: bool = False,
        memory_limit: float = 1000.0,
        warm_start: bool = False,
        max_iter: int = -1,
        random_state: Any = None,
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
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.probability = probability
        self.memory_limit = memory_limit
        self.warm_start = warm_start
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose

    def _solve(self, X: Any, y: Array, weights: Array | None, ledger: Ledger) -> list[Solution]:
        solve, known_classes = self._solver(), getattr(self, "classes_", ())
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if self.classes_.size < 2:
            raise ValueError(
                f"The number of classes has to be greater than one; got {self.classes_.size} class"
            )
        C = self._bounds(weights, y, labels)
        X = self._prepare(X, weights)
        if not np.array_equal(known_classes, self.classes_):
            self._solved = []
        two, precomputed = self.classes_.size == 2, self._kernel.name == "precomputed"
        solutions, coefficients = [], []
        for k, (i, j) in enumerate(pairs(self.classes_.size)):
            of: Any = slice(None) if two else np.flatnonzero((labels == i) | (labels == j))
            signs = np.where(labels[of] == (1 if two else i), 1.0, -1.0)
            self._check_weights(signs, C[of], two)
            points = X[np.ix_(of, of)] if precomputed and not two else X[of]
            lo, hi = np.minimum(signs * C[of], 0.0), np.maximum(signs * C[of], 0.0)
            what = f", {self.classes_[i]} or {self.classes_[j]}"
            problem = self._problem(k, points, signs, ledger, what, lo=lo, hi=hi, mu=self.mu)
            solutions.append(solve(problem))
            coefficients.append(np.zeros(labels.size))
            coefficients[-1][of] = solutions[-1].coefficients
        support, self.n_support_, dual_coef = pack(coefficients, labels, self.classes_.size)
        self._keep(X, support, dual_coef, solutions)
        self.n_iter_ = np.array([solution.n_iter for solution in solutions])
        return solutions

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

    def _bounds(self, weights: Array | None, y: Array, labels: Array) -> Array:
        if self.class_weight == "balanced":
            totals = np.bincount(labels, weights)
            with np.errstate(divide="ignore"):
                self.class_weight_ = totals.sum() / (totals.size * totals)
        elif self.class_weight is None:
            self.class_weight_ = np.ones(self.classes_.size)
        else:
            self.class_weight_ = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
        C = min(float(self.C), LARGEST_C) * self.class_weight_[labels]
        return C if weights is None else np.where(weights > 0.0, C, 0.0) * weights

    @staticmethod
    def _check_weights(signs: Array, C: Array, two: bool) -> None:
        if C.all() or (C[signs > 0].any() and C[signs < 0].any()):
            return
        if two:
            raise ValueError(
                "Invalid input - all samples with positive weights belong to the same class."
            )
        raise ValueError("a class has only samples of weight zero; remove it or give it weight")

    def _calibrate(self, X: Any, y: Array, sample_weight: Any) -> None:
        if not self.probability:
            self._calibrated = None
            return
        from sklearn.calibration import CalibratedClassifierCV  # slow to import

        folds = StratifiedKFold(5, shuffle=True, random_state=self.random_state)
        model = CalibratedClassifierCV(
            clone(self).set_params(probability=False), cv=folds, ensemble=False
        )
        self._calibrated = model.fit(X, y, sample_weight=sample_weight)

    def _coefficients(self) -> Any:
        return unpack(self._dense_dual_coef(), self.n_support_)

    def decision_function(self, X: Any) -> Array:
        """Decision values, whose shape follows `decision_function_shape`.

        Parameters
        ----------
        X : array or sparse matrix (n_samples, n_features)
            For a precomputed kernel, its values between these and the training samples.

        Returns
        -------
        array (n_samples,), (n_samples, n_classes) or (n_samples, n_pairs)
            For two classes, positive for ``classes_[1]``. For more classes and "ovr", the votes of
            the pairs with ties resolved by their values; for "ovo", the value of each pair (i, j),
            i < j, positive for class i.
        """
        values = self._values(X)
        if self.classes_.size == 2:
            return values[:, 0]
        ovr = self.decision_function_shape == "ovr"
        return one_against_rest(values, self.classes_.size) if ovr else values

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
        check_is_fitted(self)
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError("break_ties must be False when decision_function_shape is 'ovo'")
        if self.classes_.size == 2:
            return self.classes_[(self.decision_function(X) > 0.0).astype(np.intp)]
        if self.break_ties:
            return self.classes_[self.decision_function(X).argmax(axis=1)]
        return self.classes_[votes(self._values(X) > 0.0, self.classes_.size).argmax(axis=1)]

    @available_if(_has_probability)
    def predict_proba(self, X: Any) -> Array:
        """Calibrated probabilities of the classes; only with ``probability=True``.

        Parameters
        ----------
        X : array or sparse matrix (n_samples, n_features)
            As in `decision_function`.

        Returns
        -------
        array (n_samples, n_classes)
            Rows sum to one; columns are in the order of `classes_`.
        """
        check_is_fitted(self)
        if self._calibrated is None:
            raise NotFittedError(
                "predict_proba is not available when fitted with probability=False; set "
                "probability=True before the fit"
            )
        return self._calibrated.predict_proba(X)

    @available_if(_has_probability)
    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of `predict_proba`; only with ``probability=True``.

        Parameters
        ----------
        X : array or sparse matrix (n_samples, n_features)
            As in `decision_function`.

        Returns
        -------
        array (n_samples, n_classes)
            Columns are in the order of `classes_`.
        """
        return np.log(self.predict_proba(X))
