"""Arrays: their type and their checks."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data

Array = NDArray[Any]  # of floats, of indices, of one or two dimensions


def sample_weights(given: Any, X: Any) -> Array:
    """`given` as an array of weights of the rows of X; ones if it is None."""
    weights = _check_sample_weight(given, X)
    if (weights < 0).any():
        raise ValueError("Negative values in data passed to `sample_weight`")
    return weights


def points_and_labels(estimator: Any, X: Any, y: Any, **options: Any) -> tuple[Any, Array]:
    """X in float64 and y as scikit-learn checks them; what it would only look at is not copied.

    Its checks take longer than a small fit, so plain arrays that pass them all are seen here.
    """
    plain = (
        type(X) is type(y) is np.ndarray
        and X.dtype == np.float64
        and X.flags.c_contiguous
        and X.ndim == 2
        and X.size > 0
        and y.shape == X.shape[:1]
        and y.dtype.kind in "biuf"
        and bool(np.isfinite(X.sum()) and np.isfinite(y.sum()))
    )
    if not plain:
        return validate_data(estimator, X, y, dtype=np.float64, order="C", **options)
    estimator.n_features_in_ = X.shape[1]
    if hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
    return X, y


def classes_and_labels(y: Array) -> tuple[Array, Array]:
    """The different values of y in order, and which of them every y is."""
    if y.dtype.kind in "biuf":
        classes = np.array([y.min(), y.max()])
        second = y == classes[1]
        if classes[0] != classes[1] and (second | (y == classes[0])).all():
            return classes, second.astype(np.intp)  # two, found without sorting
    return np.unique(y, return_inverse=True)


def labels_of_classes(y: Array) -> tuple[Array, Array]:
    """`classes_and_labels` of the labels of a classifier, which must not be measurements.

    scikit-learn's check takes as long as a fit of a few hundred rows: whole numbers are spared it.
    """
    if y.dtype.kind not in "biuf":
        check_classification_targets(y)
    classes, labels = classes_and_labels(y)
    if y.dtype.kind == "f" and (classes != np.rint(classes)).any():
        check_classification_targets(y)
    return classes, labels
