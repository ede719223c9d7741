"""Logistic regression on Dask collections, in the manner of scikit-learn."""

from __future__ import annotations

from typing import Any

import dask
import dask.array as da
import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_array, check_is_fitted

from geartrain.distributed.difference import similarity
from geartrain.minimize import minimize
from geartrain.oracles.nonsmooth import L1


class LogisticRegression(ClassifierMixin, BaseEstimator):
    r"""Two-class logistic regression with a penalty, fitted in few rounds of a cluster.

    The objective is that of `sklearn.linear_model.LogisticRegression`, C times the sum of the
    losses plus 1/2 \|coef\|^2 (l2), \|coef\|_1 (l1), or l1_ratio \|coef\|_1 +
    (1 - l1_ratio)/2 \|coef\|^2 (elasticnet), divided by C times the total weight. With an l1 part,
    the coefficients of features that are not used are exactly 0.

    Parameters
    ----------
    client : Client, cluster, address or None
        Where the data is; None starts a LocalCluster.
    penalty : {"l2", "l1", "elasticnet"}
        Which penalty.
    l1_ratio : float
        The part of the l1 penalty in "elasticnet", between 0 and 1.
    C : float
        Inverse strength of the penalty.
    fit_intercept : bool
        Whether there is an intercept; it is not penalised.
    tol : float
        Relative gradient norm at which the fit ends.
    max_iter : int, optional
        Limit of iterations.

    Attributes
    ----------
    coef_, intercept_, classes_, n_features_in_
        As in scikit-learn.
    n_rounds_ : int
        Rounds of communication that the fit took.
    n_iter_ : int
        Iterations.
    result_ : Result
        All about the run.
    """

    def __init__(
        self,
        client: Any = None,
        *,
        penalty: str = "l2",
        l1_ratio: float = 0.5,
        C: float = 1.0,
        fit_intercept: bool = True,
        tol: float = 1e-6,
        max_iter: int | None = None,
    ) -> None:
        self.client = client
        self.penalty = penalty
        self.l1_ratio = l1_ratio
        self.C = C
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter

    def __sklearn_clone__(self) -> LogisticRegression:
        # A client cannot be copied; clones share it.
        return type(self)(**self.get_params(deep=False))

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LogisticRegression:
        """Fit to Dask arrays or dataframes; each block of rows is a shard.

        Parameters
        ----------
        X : Dask array or dataframe (m, n)
            At least two blocks of rows.
        y : Dask array or series (m,)
            Labels of two classes.
        sample_weight : Dask array or series (m,), optional
            Weights of the rows.

        Returns
        -------
        LogisticRegression
            Itself.
        """
        sparse = self._l1_part()
        X, y = _array(X, "X"), _array(y, "y")
        arrays = [X, y] if sample_weight is None else [X, y, _array(sample_weight, "weights")]
        weighed = da.ones_like(y, dtype=float) if sample_weight is None else arrays[2]
        self.classes_, total = dask.compute(da.unique(y), weighed.sum())
        if self.classes_.size != 2:
            raise ValueError(f"y must have two classes, got {self.classes_.size}")
        arrays[1] = da.where(y == self.classes_[1], 1.0, -1.0)
        h, g = similarity(
            self.client,
            tuple(arrays),
            "logistic",
            l2=(1.0 - sparse) / (self.C * float(total)),
            intercept=self.fit_intercept,
        )
        whole: Any = g
        if sparse > 0.0:
            weights = np.full(g.n, sparse / (self.C * float(total)))
            weights[g.n_features :] = 0.0  # of the intercept
            whole = g + L1(weights)
        self.result_ = minimize(h, whole, method="sae-qn", tol=self.tol, max_iter=self.max_iter)
        x = self.result_.x
        self.n_features_in_ = g.n_features
        self.coef_ = x[None, : g.n_features].copy()
        self.intercept_ = x[g.n_features :].copy() if self.fit_intercept else np.zeros(1)
        self.n_rounds_, self.n_iter_ = self.result_.calls["h.grad"], self.result_.nit
        return self

    def _l1_part(self) -> float:
        """The part of the l1 norm in the penalty."""
        parts = {"l2": 0.0, "l1": 1.0, "elasticnet": self.l1_ratio}
        if self.penalty not in parts:
            raise ValueError(f"penalty must be 'l2', 'l1' or 'elasticnet', got {self.penalty!r}")
        if not 0.0 <= self.l1_ratio <= 1.0:
            raise ValueError(f"l1_ratio must be between 0 and 1, got {self.l1_ratio!r}")
        return float(parts[self.penalty])

    def decision_function(self, X: Any) -> Any:
        """<coef, row> + intercept for the rows of a local X.

        Parameters
        ----------
        X : array or sparse matrix (m, n)
            In the memory of the caller.

        Returns
        -------
        array (m,)
            Positive for the second class.
        """
        check_is_fitted(self)
        X = check_array(X, accept_sparse="csr")
        if X.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {X.shape[1]} features, expected {self.n_features_in_}")
        return X @ self.coef_[0] + self.intercept_[0]

    def predict(self, X: Any) -> Any:
        """Classes of the rows of a local X.

        Parameters
        ----------
        X : array or sparse matrix (m, n)
            In the memory of the caller.

        Returns
        -------
        array (m,)
            Classes.
        """
        return self.classes_[(self.decision_function(X) > 0).astype(int)]

    def predict_proba(self, X: Any) -> Any:
        """Probabilities of both classes for the rows of a local X.

        Parameters
        ----------
        X : array or sparse matrix (m, n)
            In the memory of the caller.

        Returns
        -------
        array (m, 2)
            Rows add up to 1.
        """
        second = expit(self.decision_function(X))
        return np.column_stack([1.0 - second, second])


def _array(data: Any, name: str) -> Any:
    """Frames and series as arrays, block by block."""
    array = data.to_dask_array(lengths=True) if hasattr(data, "to_dask_array") else data
    if not isinstance(array, da.Array):
        raise TypeError(
            f"{name} must be a Dask array or dataframe, got {type(data).__name__}; "
            "dask.array.from_array(..., chunks=...) makes one"
        )
    return array
