"""Questions about a polyhedron that are linear programs, answered by HiGHS.

SciPy's `linprog` is imported where it is needed, because that takes a while.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse

from geartrain.oracles.polyhedron import Polyhedron, finite
from geartrain.oracles.vectors import Vector

# Violations below this part of the sizes of the sides are no contradiction.
_EMPTY = 1e-7
# Rows of a contradiction are left out one by one, up to so many.
_NAMED = 40
# Reduced costs below this part of the largest are 0 where a variable has no bound.
_ZERO = 1e-9
_UNBOUNDED = 3  # the status of `linprog`


def least(C: Polyhedron, c: Vector) -> float:
    """A number that <c, s> is not below for any s in C; minus infinity where there is none.

    It is the value of the dual solution: by weak duality it holds however exact the solution is.
    """
    scale = float(np.abs(c).max(initial=0.0))
    if scale == 0.0:
        return 0.0
    found = _solved(C, c / scale)
    if found.status == _UNBOUNDED or found.x is None:
        return -math.inf
    y = _multipliers(C, found)
    d = c / scale - C.A.T @ y
    side = np.where(y > 0.0, C.l, C.r)
    end = np.where(d > 0.0, C.lo, C.hi)
    d = np.where(np.isinf(end) & (np.abs(d) <= _ZERO), 0.0, d)
    total = _products(y, side) + _products(d, end)
    return scale * total


def contradiction(C: Polyhedron) -> str:
    """A small subset of the rows that no x within the bounds meets, in words; empty if C is not."""
    rows = np.arange(C.l.size)
    for _ in range(2):  # what holds the least sum of violations; then of these alone
        found = _violated(C, rows)
        if found is None:
            return ""
        rows = rows[found]
    for i in rows.tolist() if rows.size <= _NAMED else ():
        others = rows[rows != i]
        if _violated(C, others) is not None:
            rows = others
    free = Polyhedron.of(C.A, C.l, C.r, np.full(C.lo.size, -math.inf), np.full(C.lo.size, math.inf))
    alone = _violated(free, rows) is not None
    named = ", ".join(map(str, rows[:_NAMED])) + (", ..." if rows.size > _NAMED else "")
    told = f"row {named} of A" if rows.size == 1 else f"rows {named} of A together"
    return f"{told} cannot be met" + ("" if alone else " within the bounds")


def _violated(C: Polyhedron, rows: Any) -> Any:
    """Which of the rows hold the least sum of violations above 0; None where that is 0."""
    from scipy.optimize import linprog

    A, l, r = C.A[rows], C.l[rows], C.r[rows]
    m, n = A.shape
    up, low = np.flatnonzero(r < math.inf), np.flatnonzero(l > -math.inf)
    slack = -sparse.eye_array(m, format="csr")
    K = sparse.csr_array(A)
    M = sparse.vstack([sparse.hstack([K[up], slack[up]]), sparse.hstack([-K[low], slack[low]])])
    c = np.append(np.zeros(n), np.ones(m))
    bounds = np.column_stack([np.append(C.lo, np.zeros(m)), np.append(C.hi, np.full(m, math.inf))])
    found = linprog(c, sparse.csr_array(M), np.append(r[up], -l[low]), bounds=bounds)
    size = max(1.0, *(np.abs(finite(b)).max(initial=0.0) for b in (l, r, C.lo, C.hi)))
    if found.x is None or found.fun <= _EMPTY * size:
        return None
    used = np.zeros(m, dtype=bool)
    held = np.abs(found.ineqlin.marginals) > _ZERO
    used[up[held[: up.size]]] = used[low[held[up.size :]]] = True
    return used if used.any() else None


def _solved(C: Polyhedron, c: Vector) -> Any:
    """The linear program over C; equalities are rows with two sides here, too."""
    from scipy.optimize import linprog

    up, low = C.r < math.inf, C.l > -math.inf
    stacked = sparse.vstack if sparse.issparse(C.A) else np.concatenate
    M = stacked([C.A[up], -C.A[low]])
    bounds = np.column_stack([C.lo, C.hi])
    return linprog(c, M, np.append(C.r[up], -C.l[low]), bounds=bounds)


def _multipliers(C: Polyhedron, found: Any) -> Vector:
    """y >= 0 of lower sides and y <= 0 of upper ones."""
    up, low = C.r < math.inf, C.l > -math.inf
    y = np.zeros(C.l.size)
    y[up] += np.minimum(found.ineqlin.marginals[: np.count_nonzero(up)], 0.0)
    y[low] -= np.minimum(found.ineqlin.marginals[np.count_nonzero(up) :], 0.0)
    return y


def _products(weights: Vector, sides: Vector) -> float:
    """Their inner product, where 0 times infinity is 0."""
    return float(np.sum(np.where(weights == 0.0, 0.0, weights * sides)))
