"""The kernel support vector regressor."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils._param_validation import Interval

from geartrain.compiled.records import Array
from geartrain.estimators.svm.base import LARGEST_C, KernelMachine
from geartrain.estimators.svm.block_smo import block_smo
from geartrain.estimators.svm.problem import Solution
from geartrain.oracles.ledger import Ledger


class KernelSVR(RegressorMixin, KernelMachine):
    r"""Support vector regressor with a kernel: the same model as SVR.

    Minimises 1/2 \|w\|^2 + sum_i C_i max(0, \|y_i - f(x_i)\| - epsilon) over f = <w, phi(x)> + b,
    where C_i is `C` times the sample weight, by the block SMO of `KernelSVC`.

    Parameters
    ----------
    C : float
        Weight of the losses, with the same meaning as in `sklearn.svm.SVR`. Infinity stands for
        1e10.
    epsilon : float
        Residuals up to this size cause no loss.
    kernel : {"rbf", "linear", "poly", "sigmoid", "precomputed"} or callable
        As in SVR. A callable takes two collections of points and returns their kernel matrix; it is
        called once with all training points.
    gamma : "scale", "auto" or float
        "scale" is 1 / (n_features * X.var()), with the variance weighted by `sample_weight`;
        "auto" is 1 / n_features.
    degree : int
        Degree of the kernel "poly".
    coef0 : float
        Constant of the kernels "poly" and "sigmoid".
    tol : float
        Largest violation of the optimality conditions, as in SVR.
    memory_limit : float
        Megabytes that a fit may take in addition to the data. Kernel rows that do not fit are
        computed again when needed.
    warm_start : bool
        Whether to start from the last solution if the number of samples is the same.
    max_iter : int
        Limit of two-variable steps, as in SVR; -1 for none.
    verbose : bool
        Whether to show progress on stderr.

    Attributes
    ----------
    support_ : array (n_support,)
        Indices of the samples with a nonzero coefficient.
    support_vectors_ : array (n_support, n_features)
        Empty if the kernel is precomputed or a callable.
    n_support_ : array (1,)
        Number of support vectors.
    dual_coef_ : array (1, n_support)
        Coefficients of the support vectors; sparse if X is.
    coef_ : array (1, n_features)
        Weights of the features if the kernel is linear.
    intercept_ : array (1,)
    objective_ : float
        The primal objective: the dual objective in float64 plus `gap_`, computed when first needed.
    gap_ : float
        Duality gap: `objective_` exceeds the minimum by at most this. It includes the error that
        float32 rounding may have left. It is a bound for positive semidefinite kernels, which
        "sigmoid" is not.
    n_iter_ : int
        Two-variable steps.
    fit_status_ : int
        0 if the problem was solved to the tolerance, 1 otherwise.
    n_calls_ : dict
        Kernel rows in float32 ("kernel.row"), blocks ("smo.block") and two-variable steps
        ("smo.step").
    n_features_in_ : int
    feature_names_in_ : array (n_features,)

    Examples
    --------
    >>> import geartrain as gt
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = gt.estimators.KernelSVR(C=100.0).fit(X, y)
    >>> bool(model.gap_ < 1e-3 * model.objective_), model.score(X, y) > 0.6
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **KernelMachine._parameter_constraints,
        "epsilon": [Interval(Real, 0.0, None, closed="left")],
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        epsilon: float = 0.1,
        kernel: str | Callable[[Any, Any], Any] = "rbf",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        tol: float = 1e-3,
        memory_limit: float = 1000.0,
        warm_start: bool = False,
        max_iter: int = -1,
        verbose: bool = False,
    ) -> None:
        self.C = C
        self.epsilon = epsilon
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.tol = tol
        self.memory_limit = memory_limit
        self.warm_start = warm_start
        self.max_iter = max_iter
        self.verbose = verbose

    def _solve(self, X: Any, y: Array, weights: Array | None, ledger: Ledger) -> list[Solution]:
        y = y.astype(np.float64)
        C = np.full(y.size, min(float(self.C), LARGEST_C))
        if weights is not None:
            C *= weights
        X = self._prepare(X, weights)
        # The intercept is not penalised, so the targets may be shifted; without their common part
        # less is lost to rounding.
        shift = float(np.average(y, weights=C))
        kink = float(self.epsilon)
        solution = block_smo(self._problem(0, X, y - shift, ledger, lo=-C, hi=C, kink=kink))
        support = np.flatnonzero(solution.coefficients)
        dual_coef = solution.coefficients[support][None]
        self._keep(X, support, dual_coef, [solution], shift)
        self.n_support_ = np.array([support.size], dtype=np.int32)
        self.n_iter_ = solution.n_iter
        return [solution]

    def predict(self, X: Any) -> Array:
        """Predictions for the rows of X.

        Parameters
        ----------
        X : array or sparse matrix (n_samples, n_features)
            For a precomputed kernel, its values between these and the training samples.

        Returns
        -------
        array (n_samples,)
            The predictions.
        """
        return self._values(X)[:, 0]
