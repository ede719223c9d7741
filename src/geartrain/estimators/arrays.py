"""Arrays: their type and their checks."""

from typing import Any

from numpy.typing import NDArray
from sklearn.utils.validation import _check_sample_weight

Array = NDArray[Any]  # of floats, of indices, of one or two dimensions


def sample_weights(given: Any, X: Any) -> Array:
    """`given` as an array of weights of the rows of X; ones if it is None."""
    weights = _check_sample_weight(given, X)
    if (weights < 0).any():
        raise ValueError("Negative values in data passed to `sample_weight`")
    return weights
