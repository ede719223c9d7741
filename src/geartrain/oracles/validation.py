"""Checks of what users hand in; every message says what was wrong and what is expected."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from scipy import sparse

from geartrain.oracles.protocols import Vector


def as_vector(value: Any, name: str, size: int | None = None) -> Vector:
    """`value` as a finite float64 vector; integers and float32 are converted."""
    try:
        array = np.asarray(value)
        if np.iscomplexobj(array):
            raise TypeError(f"{name} must be real, got complex numbers")
        array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        if "must be real" in str(error):
            raise
        raise TypeError(f"{name} must be a vector of real numbers, got {value!r:.60}") from error
    if array.ndim != 1:
        raise ValueError(
            f"{name} must be one-dimensional, got shape {array.shape}; flatten it with .ravel()"
        )
    if size is not None and array.size != size:
        raise ValueError(f"{name} must have length {size}, got {array.size}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} contains NaN or infinity")
    return array


def as_matrix(value: Any, name: str, *, operator: bool = False) -> Any:
    """`value` as a finite float64 array or CSR matrix (or, if allowed, a LinearOperator)."""
    if callable(getattr(value, "matvec", None)):  # a LinearOperator, SciPy's or another's
        if operator:
            return _as_operator(value, name)
        raise TypeError(f"{name} must be an array or a sparse matrix, got a LinearOperator")
    if np.iscomplexobj(value):
        raise TypeError(f"{name} must be real, got complex numbers")
    if sparse.issparse(value):
        matrix = sparse.csr_array(value, dtype=np.float64)
        entries = matrix.data
    else:
        try:
            matrix = np.ascontiguousarray(value, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"{name} must be a two-dimensional array of real numbers or a sparse matrix, "
                f"got {type(value).__name__}"
            ) from error
        entries = matrix
    if matrix.ndim != 2:
        raise ValueError(f"{name} must be two-dimensional, got shape {matrix.shape}")
    if not np.isfinite(entries).all():
        raise ValueError(f"{name} contains NaN or infinity")
    return matrix


def _as_operator(value: Any, name: str) -> Any:
    """`value` itself if it knows ``@`` and ``.T`` (SciPy, pylops), else as one of SciPy's."""
    if not hasattr(value, "shape"):
        raise TypeError(f"{name} is a LinearOperator without a shape")
    if np.iscomplexobj(value) or np.dtype(getattr(value, "dtype", None) or float).kind == "c":
        raise TypeError(f"{name} must be real, got a complex LinearOperator")
    if hasattr(value, "__matmul__") and hasattr(value, "T"):
        return value
    from scipy.sparse.linalg import aslinearoperator  # here, because importing it takes a while

    return aslinearoperator(value)


def as_nonnegative(value: Any, name: str) -> float:
    """`value` as a finite number that is at least 0."""
    number = as_number(value, name)
    if number < 0:
        raise ValueError(f"{name} must be at least 0, got {number:g}")
    return number


def as_positive(value: Any, name: str) -> float:
    """`value` as a finite number above 0."""
    number = as_number(value, name)
    if number <= 0:
        raise ValueError(f"{name} must be positive, got {number:g}")
    return number


def as_whole(value: Any, name: str, least: int = 0) -> int:
    """`value` as a whole number that is at least `least`."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, got {value!r}") from None
    if number < least:
        raise ValueError(f"{name} must be at least {least}, got {number}")
    return number


def as_number(value: Any, name: str) -> float:
    """`value` as a finite number."""
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be a number, got {value!r}") from error
    if not np.isfinite(number):
        raise ValueError(f"{name} must be finite, got {number}")
    return number
