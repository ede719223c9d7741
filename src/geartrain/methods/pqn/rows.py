"""A few vectors of length n as the rows of one array: inner products and linear combinations."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from geartrain.geometry import EUCLIDEAN, Geometry
from geartrain.oracles.protocols import Vector

# Arrays with more entries are left to compiled loops: BLAS would wake its threads for them.
_ALONE = 9_000


@lru_cache(maxsize=1)
def _kernels() -> Any:
    from geartrain.compiled import long_rows  # here, because importing Numba takes a while

    return long_rows


def dots(rows: Vector, v: Vector, geometry: Geometry) -> Vector:
    """Inner products of the rows with v."""
    if geometry is not EUCLIDEAN:
        return geometry.primal(rows) @ geometry.dual(v)
    if rows.size <= _ALONE:
        return rows @ v
    out = np.empty(len(rows))
    _kernels().dots(rows, v, out)
    return out


def dots3(rows: Vector, x: Vector, y: Vector, z: Vector, geometry: Geometry) -> Vector:
    """Inner products of the rows with three vectors, a column for each."""
    if rows.size <= _ALONE or geometry is not EUCLIDEAN:
        return np.stack([dots(rows, v, geometry) for v in (x, y, z)], axis=1)
    out = np.empty((len(rows), 3))
    _kernels().dots3(rows, x, y, z, out)
    return out


def add_to(v: Vector, rows: Vector, c: Vector) -> Vector:
    """v with sum_i c_i rows_i added to it, in place."""
    if rows.size <= _ALONE:
        v += c @ rows
    else:
        _kernels().add_to(v, rows, c)
    return v
