"""Checks of the arguments of non-smooth terms."""

from __future__ import annotations

from typing import Any

import numpy as np

from geartrain.oracles.validation import as_vector


def size_of(value: Any) -> int | None:
    """The length of an array; None for a number."""
    return value.size if isinstance(value, np.ndarray) else None


def are_bounds(value: Any) -> bool:
    """Whether the object is `scipy.optimize.Bounds`, or one like it."""
    return hasattr(value, "lb") and hasattr(value, "ub")


def as_weights(value: Any, name: str) -> Any:
    """One finite number that is at least 0, or a vector of them."""
    try:
        checked = as_vector(value, name) if np.ndim(value) else float(value)
    except TypeError:
        raise TypeError(f"{name} must be a number or a vector, got {value!r:.60}") from None
    if not np.all(np.isfinite(checked)) or np.any(np.less(checked, 0.0)):
        raise ValueError(f"{name} must be finite and at least 0, got {value!r:.60}")
    return checked


def as_bounds(value: Any, name: str) -> Any:
    """One number or a vector; infinities are allowed, NaN is not."""
    try:
        if np.iscomplexobj(value):
            raise TypeError("complex numbers")
        checked = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"Box: {name} must be numbers, got {value!r:.60}") from error
    if checked.ndim > 1 or checked.size == 0:
        raise ValueError(f"Box: {name} must be a number or a vector, got shape {checked.shape}")
    if np.isnan(checked).any():
        raise ValueError(f"Box: {name} contains NaN")
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
