"""Logistic regression on Dask collections, in the manner of scikit-learn."""

from __future__ import annotations

import math
import warnings
from functools import partial
from typing import Any, cast

import dask
import dask.array as da
import numpy as np
from distributed import Client
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_array, check_is_fitted, check_X_y

from geartrain.distributed.difference import connect, similarity
from geartrain.distributed.rounds import workers_of
from geartrain.distributed.softmax import Softmax
from geartrain.minimize import minimize
from geartrain.oracles.nonsmooth import L1
from geartrain.oracles.validation import as_number, as_positive, as_vector

# Up to so many coefficients, the directions that "similar-newton" sends along with a point take
# less time than the rounds that it saves.
_FEW_COEFFICIENTS = 10_000


class LogisticRegression(ClassifierMixin, BaseEstimator):
    r"""Logistic regression with a penalty, fitted in few rounds of a cluster.

    The objective is that of `sklearn.linear_model.LogisticRegression`, C times the sum of the
    losses plus l1_ratio \|coef\|_1 + (1 - l1_ratio)/2 \|coef\|^2, divided by C times the total
    weight. The loss is the logistic one for two classes and the multinomial one (softmax) for more.
    With an l1 part, the coefficients of features that are not used are exactly 0.

    Parameters
    ----------
    client : Client, cluster, address or None
        Where the data is; None starts a LocalCluster.
    penalty : {"l2", "l1", "elasticnet", None}
        Deprecated as in scikit-learn: "l2" stands for l1_ratio=0, "l1" for l1_ratio=1, and None for
        C=numpy.inf.
    l1_ratio : float
        The part of the l1 norm in the penalty, between 0 and 1.
    C : float
        Inverse strength of the penalty; ``numpy.inf`` for none.
    fit_intercept : bool
        Whether there is an intercept; it is not penalised.
    tol : float
        Relative gradient norm at which the fit ends.
    max_iter : int, optional
        Limit of iterations.
    method : str
        "similar-newton", which needs the fewest rounds and sends sixteen directions along with each
        point, "pqn", which sends points only, or any other method of `geartrain.minimize` that
        takes a non-convex h. "auto" is the first one for up to 10,000 coefficients, and otherwise
        the second one, as with an l1 part.

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
        penalty: str | None = "deprecated",
        l1_ratio: float = 0.0,
        C: float = 1.0,
        fit_intercept: bool = True,
        tol: float = 1e-6,
        max_iter: int | None = None,
        method: str = "auto",
    ) -> None:
        self.client = client
        self.penalty = penalty
        self.l1_ratio = l1_ratio
        self.C = C
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.method = method

    def __sklearn_clone__(self) -> LogisticRegression:
        # A client cannot be copied; clones share it.
        return type(self)(**self.get_params(deep=False))

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LogisticRegression:
        """Fit to Dask arrays or dataframes, or to arrays in the memory of the caller.

        Parameters
        ----------
        X : Dask array or dataframe, array or sparse matrix (m, n)
            Each block of rows of a Dask collection is a shard; at least two are needed. The rows of
            other data are shuffled and sent to the workers of the cluster.
        y : Dask array or series, or array (m,)
            Labels of two or more classes.
        sample_weight : Dask array or series, or array (m,), optional
            Weights of the rows.

        Returns
        -------
        LogisticRegression
            Itself.
        """
        l1, C = self._penalty()
        client = connect(self.client)
        gather = _blocks if hasattr(X, "dask") else _parts
        self.classes_, total, shards = gather(client, X, y, sample_weight)
        K = self.classes_.size
        h, g = similarity(
            client,
            shards,
            "logistic" if K == 2 else Softmax(K),
            l2=(1.0 - l1) / (C * total),
            intercept=self.fit_intercept,
        )
        method, whole = self.method, cast(Any, g)
        self.n_features_in_ = p = g.n_features
        if l1 > 0.0:
            weights = np.full((1 if K == 2 else K, p + self.fit_intercept), l1 / (C * total))
            weights[:, p:] = 0.0  # of the intercepts
            whole = g + L1(weights.ravel())
        if method == "auto":
            few = g.n <= _FEW_COEFFICIENTS and l1 == 0.0
            method = "similar-newton" if few else "pqn"
        self.result_ = minimize(h, whole, method=method, tol=self.tol, max_iter=self.max_iter)
        W = self.result_.x.reshape(1 if K == 2 else K, -1)
        self.coef_ = W[:, :p].copy()
        self.intercept_ = W[:, p].copy() if self.fit_intercept else np.zeros(len(W))
        if K > 2:  # a common number does not change the probabilities
            self.intercept_ -= self.intercept_.mean()
        self.n_rounds_, self.n_iter_ = self.result_.calls["h.grad"], self.result_.nit
        return self

    def _penalty(self) -> tuple[float, float]:
        """The part of the l1 norm in the penalty, and C."""
        part = as_number(self.l1_ratio, "l1_ratio")
        if not 0.0 <= part <= 1.0:
            raise ValueError(f"l1_ratio must be between 0 and 1, got {self.l1_ratio!r}")
        C = math.inf if math.inf == self.C else as_positive(self.C, "C")
        if self.penalty == "deprecated":
            return part, C
        parts = {"l2": 0.0, "l1": 1.0, "elasticnet": part, None: 0.0}
        if self.penalty not in parts:
            raise ValueError(
                f"penalty must be 'l2', 'l1', 'elasticnet' or None, got {self.penalty!r}"
            )
        warnings.warn(
            "penalty is deprecated, as in scikit-learn: use l1_ratio=0 in place of 'l2', "
            "l1_ratio=1 in place of 'l1', and C=numpy.inf in place of None",
            FutureWarning,
            stacklevel=3,
        )
        return parts[self.penalty], math.inf if self.penalty is None else C

    def decision_function(self, X: Any) -> Any:
        """<coef, row> + intercept for the rows of X.

        Parameters
        ----------
        X : array or sparse matrix (m, n)
            In the memory of the caller.

        Returns
        -------
        array (m,) or (m, n_classes)
            Of two classes, one number per row, positive for the second class; otherwise one per
            class.
        """
        check_is_fitted(self)
        X = check_array(X, accept_sparse="csr")
        if X.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {X.shape[1]} features, expected {self.n_features_in_}")
        scores = X @ self.coef_.T + self.intercept_
        return scores[:, 0] if self.classes_.size == 2 else scores

    def predict(self, X: Any) -> Any:
        """Classes of the rows of X.

        Parameters
        ----------
        X : array or sparse matrix (m, n)
            In the memory of the caller.

        Returns
        -------
        array (m,)
            Classes.
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return self.classes_[(scores > 0).astype(int)]
        return self.classes_[scores.argmax(axis=1)]

    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the classes for the rows of X.

        Parameters
        ----------
        X : array or sparse matrix (m, n)
            In the memory of the caller.

        Returns
        -------
        array (m, n_classes)
            Rows add up to 1.
        """
        scores = self.decision_function(X)
        if scores.ndim == 2:
            return softmax(scores, axis=1)
        second = expit(scores)
        return np.column_stack([1.0 - second, second])


# Classes, total weight and shards of the data.
Gathered = tuple[Any, float, Any]


def _blocks(client: Client, X: Any, y: Any, weights: Any) -> Gathered:
    """Of Dask collections: each block of rows is a shard."""
    X, y = _array(X, "X"), _array(y, "y")
    more = [] if weights is None else [_array(weights, "sample_weight")]
    weighed = more[0] if more else da.ones_like(y, dtype=float)
    classes, total = dask.compute(da.unique(y), weighed.sum())
    coded = y.map_blocks(partial(_coded, classes=_checked(classes)), dtype=float)
    return classes, float(total), (X, coded, *more)


def _parts(client: Client, X: Any, y: Any, weights: Any) -> Gathered:
    """Of local data: shuffled, so that the parts are alike, and one part per worker."""
    X, y = check_X_y(X, y, accept_sparse="csr", dtype=np.float64)
    classes = np.unique(y)
    coded = _coded(y, _checked(classes))
    weights = np.ones(y.size) if weights is None else as_vector(weights, "sample_weight", y.size)
    order = np.random.default_rng(0).permutation(y.size)
    pieces = np.array_split(order, max(2, len(workers_of(client))))
    shards = [partial(tuple, (X[rows], coded[rows], weights[rows])) for rows in pieces]
    return classes, float(weights.sum()), shards


def _checked(classes: Any) -> Any:
    if classes.size < 2:
        raise ValueError(f"y must have at least two classes, got {classes.size}")
    return classes


def _coded(y: Any, classes: Any) -> Any:
    """Labels -1 and +1 of two classes, or the numbers of more."""
    numbers = np.searchsorted(classes, y).astype(float)
    return 2.0 * numbers - 1.0 if len(classes) == 2 else numbers


def _array(data: Any, name: str) -> Any:
    """Frames and series as arrays, block by block."""
    array = data.to_dask_array(lengths=True) if hasattr(data, "to_dask_array") else data
    if not isinstance(array, da.Array):
        raise TypeError(
            f"{name} must be a Dask array or dataframe as X is, got {type(data).__name__}; "
            "dask.array.from_array(..., chunks=...) makes one"
        )
    return array
