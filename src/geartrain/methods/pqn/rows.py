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


@lru_cache(maxsize=256)
def _all(k: int) -> Any:
    return np.arange(k)


def dots(rows: Vector, v: Vector, geometry: Geometry, which: Any = None) -> Vector:
    """Inner products with v of the rows, or of those that are chosen, in that order."""
    if geometry is EUCLIDEAN and rows.size > _ALONE:
        which = _all(len(rows)) if which is None else which
        out = np.empty(len(which))
        _kernels().dots(rows, which, v, out)
        return out
    out = geometry.primal(rows) @ geometry.dual(v)
    return out if which is None else out[which]


def dots3(
    rows: Vector, x: Vector, y: Vector, z: Vector, geometry: Geometry, which: Any = None
) -> Vector:
    """Inner products of the rows with three vectors, a column for each."""
    if rows.size <= _ALONE or geometry is not EUCLIDEAN:
        return np.stack([dots(rows, v, geometry, which) for v in (x, y, z)], axis=1)
    which = _all(len(rows)) if which is None else which
    out = np.empty((len(which), 3))
    _kernels().dots3(rows, which, x, y, z, out)
    return out


def table(vectors: Vector, rows: Vector, geometry: Geometry, which: Any = None) -> Vector:
    """Inner products of several vectors, a row for each, with the rows."""
    if rows.size <= _ALONE or geometry is not EUCLIDEAN:
        out = geometry.primal(vectors) @ geometry.dual(rows).T
        return out if which is None else out[:, which]
    last = len(vectors) - 1
    out = np.empty((len(vectors) + 2, len(rows) if which is None else len(which)))
    for i in range(0, len(vectors), 3):
        x, y, z = vectors[i], vectors[min(i + 1, last)], vectors[min(i + 2, last)]
        out[i : i + 3] = dots3(rows, x, y, z, geometry, which).T
    return out[: len(vectors)]


def add_to(v: Vector, rows: Vector, c: Vector, which: Any = None) -> Vector:
    """v with sum_i c_i rows_i, of all rows or of those that are chosen, added to it, in place."""
    if rows.size > _ALONE:
        _kernels().add_to(v, rows, _all(len(rows)) if which is None else which, c)
    else:
        v += c @ (rows if which is None else rows[which])
    return v


def two_loops(rows: Vector, products: Vector, d: Vector) -> Vector:
    """H d by the pairs s_1, y_1, s_2, y_2, ... with these <s, y>, oldest first, in the place of d.

    H is the inverse Hessian of L-BFGS, from <s, y>/<y, y> I of the newest pair: J. Nocedal,
    S. Wright, Numerical Optimization, 2nd ed. (2006), Algorithm 7.4.
    """
    if rows.size > _ALONE:
        _kernels().two_loops(rows, products, d)
        return d
    known, weights = [*zip(rows[::2], rows[1::2], products.tolist(), strict=True)], []
    for s, y, sy in reversed(known):
        weights.append(float(s @ d) / sy)
        d -= weights[-1] * y
    if known:
        _, y, sy = known[-1]
        d *= sy / float(y @ y)
    for (s, y, sy), weight in zip(known, reversed(weights), strict=True):
        d += (weight - float(y @ d) / sy) * s
    return d
