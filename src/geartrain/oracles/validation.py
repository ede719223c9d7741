"""Checks of the user's input; every message says what is wrong and what is expected."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from geartrain.oracles.vectors import Vector


def as_vector(value: Any, name: str, size: int | None = None) -> Vector:
    """`value` as a finite float64 vector; integers and float32 are converted."""
    array = _as_floats(value, name, "a vector of real numbers")
    if array.ndim != 1:
        raise ValueError(
            f"{name} must be one-dimensional, got shape {array.shape}; flatten it with .ravel()"
        )
    if size is not None and array.size != size:
        raise ValueError(f"{name} must have length {size}, got {array.size}")
    if array.size == 0:
        raise ValueError(f"{name} is empty: it must have at least one entry")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} contains NaN or infinity")
    return array


def as_matrix(value: Any, name: str, *, operator: bool = False, single: bool = False) -> Any:
    """`value` as a finite float64 array or CSR matrix (or, if allowed, a LinearOperator).

    Where `single` is allowed, float32 is kept.
    """
    if callable(getattr(value, "matvec", None)):  # a LinearOperator, SciPy's or another's
        if operator:
            return _as_operator(value, name)
        raise TypeError(f"{name} must be an array or a sparse matrix, got a LinearOperator")
    if sparse.issparse(value):
        if np.iscomplexobj(value):
            raise TypeError(f"{name} must be real, got complex numbers")
        kept = single and value.dtype == np.float32
        matrix = sparse.csr_array(value, dtype=np.float32 if kept else np.float64)
        if not matrix.has_canonical_format:  # products of SciPy may sort and sum in place
            matrix = matrix.copy()
            matrix.sum_duplicates()
        entries = matrix.data
    else:
        what = "a two-dimensional array of real numbers or a sparse matrix"
        floats = _as_floats(value, name, what, copy=False, single=single)
        matrix = entries = np.ascontiguousarray(floats)
    if matrix.ndim != 2:
        raise ValueError(f"{name} must be two-dimensional, got shape {matrix.shape}")
    if matrix.shape[1] == 0:
        raise ValueError(f"{name} has no columns: it must have at least one")
    if not np.isfinite(entries).all():
        raise ValueError(f"{name} contains NaN or infinity")
    return matrix


def _as_floats(value: Any, name: str, what: str, *, copy: bool = True, single: bool = False) -> Any:
    """`value` as an array of float64, or float32 if `single` allows it; `what` it must be."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(
            f"{name} must be {what}, got a masked array; fill it first, e.g. {name}.filled(0.0)"
        )
    try:
        array = np.asarray(value)
        if not np.iscomplexobj(array) and not _is_text_or_time(array):
            with np.errstate(over="ignore"):  # an infinity is refused later
                kept = single and array.dtype == np.float32
                return array.astype(np.float32 if kept else np.float64, copy=copy)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{name} must be {what}, got {value!r:.60}") from error
    if np.iscomplexobj(array):
        raise TypeError(f"{name} must be real, got complex numbers")
    raise TypeError(f"{name} must be {what}, got {value!r:.60}")


def _is_text_or_time(array: Any) -> bool:
    """Whether NumPy would make numbers of what is none."""
    kind = array.dtype.kind
    return kind in "mMSU" or (
        kind == "O" and any(isinstance(entry, (str, bytes)) for entry in array.flat)
    )


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
    number = as_number(value, name)
    if number < 0:
        raise ValueError(f"{name} must be at least 0, got {number:g}")
    return number


def as_positive(value: Any, name: str) -> float:
    number = as_number(value, name)
    if number <= 0:
        raise ValueError(f"{name} must be positive, got {number:g}")
    return number


def unless_none(check: Callable[..., Any], value: Any, *more: Any) -> Any:
    """What `check` makes of the value; None for None."""
    return None if value is None else check(value, *more)


def as_whole(value: Any, name: str, least: int = 0) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, got {value!r}") from None
    if number < least:
        raise ValueError(f"{name} must be at least {least}, got {number}")
    return number


def as_number(value: Any, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be a number, got {value!r}") from error
    if not np.isfinite(number):
        raise ValueError(f"{name} must be finite, got {number}")
    return number


# Checks of the arguments of non-smooth terms.


def size_of(value: Any) -> int | None:
    """The length of an array; None for a number."""
    return value.size if isinstance(value, np.ndarray) else None


def are_bounds(value: Any) -> bool:
    return hasattr(value, "lb") and hasattr(value, "ub")


def number_or_vector(side: Any) -> Any:
    """One side of SciPy's bounds, which keep one number as an array of length 1."""
    return np.ravel(side)[0] if np.size(side) == 1 else side


def as_weights(value: Any, name: str) -> Any:
    """One finite number that is at least 0, or a vector of them."""
    try:
        checked = as_vector(value, name) if np.ndim(value) else float(value)
    except TypeError:
        raise TypeError(f"{name} must be a number or a vector, got {value!r:.60}") from None
    if not np.all(np.isfinite(checked)) or np.any(np.less(checked, 0.0)):
        raise ValueError(f"{name} must be finite and at least 0, got {value!r:.60}")
    return checked


def as_bounds(value: Any, name: str, term: str = "Box") -> Any:
    try:
        if np.iscomplexobj(value):
            raise TypeError("complex numbers")
        checked = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{term}: {name} must be numbers, got {value!r:.60}") from error
    if checked.ndim > 1 or checked.size == 0:
        raise ValueError(f"{term}: {name} must be a number or a vector, got shape {checked.shape}")
    if np.isnan(checked).any():
        raise ValueError(f"{term}: {name} contains NaN")
    return checked if checked.ndim else float(checked)


def as_groups(groups: Any) -> Any:
    """A size, or the number of the group of each coordinate."""
    if isinstance(groups, (int, np.integer)):
        if groups < 1:
            raise ValueError(f"GroupL1: the size of groups must be at least 1, got {groups}")
        return int(groups)
    if not hasattr(groups, "__len__"):
        raise TypeError(
            "GroupL1: groups must be a whole number, the number of the group of each coordinate, "
            f"or lists of coordinates, got {groups!r:.60}"
        )
    if len(groups) == 0:
        raise ValueError("GroupL1: there are no groups")
    if all(np.ndim(entry) == 0 for entry in groups):
        labels = np.asarray(groups)
        if labels.dtype.kind not in "iu" or labels.min() < -1 or labels.max() < 0:
            raise ValueError("GroupL1: groups must be numbers 0, 1, ... of groups, or -1 for none")
        return labels.astype(np.int64)
    lists = [np.asarray(entry, dtype=np.int64) for entry in groups]
    joined = np.concatenate(lists)
    if joined.min() < 0 or np.unique(joined).size < joined.size:
        raise ValueError("GroupL1: groups must not overlap, and their coordinates start at 0")
    labels = np.full(int(joined.max()) + 1, -1, dtype=np.int64)
    for number, entry in enumerate(lists):
        labels[entry] = number
    return labels
