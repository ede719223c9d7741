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
    from scipy.optimize import linprog

    scale = float(np.abs(c).max(initial=0.0))
    if scale == 0.0:
        return 0.0
    c = c / scale
    up = np.flatnonzero(C.up[: C.m] < math.inf)  # equalities are rows with two sides here, too
    low = np.flatnonzero(C.low[: C.m] > -math.inf)
    stacked = sparse.vstack if sparse.issparse(C.A) else np.concatenate
    M, sides = stacked([C.A[up], -C.A[low]]), np.append(C.up[up], -C.low[low])
    found = linprog(c, M, sides, bounds=np.column_stack([C.low[C.m :], C.up[C.m :]]))
    if found.status == _UNBOUNDED or found.x is None:
        return -math.inf
    rows, held = np.zeros(C.m), np.minimum(found.ineqlin.marginals, 0.0)
    rows[up] += held[: up.size]
    rows[low] -= held[up.size :]
    y = np.append(rows, c - rows @ C.A)
    side = np.where(y > 0.0, C.low, C.up)
    y = np.where(np.isinf(side) & (np.abs(y) <= _ZERO), 0.0, y)
    used = y != 0.0
    return scale * float(y[used] @ side[used])


def contradiction(C: Polyhedron) -> str:
    """A small subset of the rows that no x within the bounds meets, in words; empty if C is not."""
    rows = np.arange(C.m)
    for _ in range(2):  # what holds the least sum of violations; then of these alone
        found = _violated(C, rows)
        if found is None:
            return ""
        rows = rows[found]
    for i in rows.tolist() if rows.size <= _NAMED else ():
        others = rows[rows != i]
        if _violated(C, others) is not None:
            rows = others
    alone = _violated(C, rows, bounded=False) is not None
    named = ", ".join(map(str, rows[:_NAMED])) + (", ..." if rows.size > _NAMED else "")
    told = f"row {named} of A" if rows.size == 1 else f"rows {named} of A together"
    return f"{told} cannot be met" + ("" if alone else " within the bounds")


def _violated(C: Polyhedron, rows: Any, bounded: bool = True) -> Any:
    """Which of the rows hold the least sum of violations above 0; None where that is 0."""
    from scipy.optimize import linprog

    A, l, r = C.A[rows], C.low[rows], C.up[rows]
    m, n = A.shape
    lo, hi = (
        (C.low[C.m :], C.up[C.m :]) if bounded else (np.full(n, -math.inf), np.full(n, math.inf))
    )
    up, low = np.flatnonzero(r < math.inf), np.flatnonzero(l > -math.inf)
    slack = -sparse.eye_array(m, format="csr")
    K = sparse.csr_array(A)
    M = sparse.vstack([sparse.hstack([K[up], slack[up]]), sparse.hstack([-K[low], slack[low]])])
    c = np.append(np.zeros(n), np.ones(m))
    bounds = np.column_stack([np.append(lo, np.zeros(m)), np.append(hi, np.full(m, math.inf))])
    found = linprog(c, sparse.csr_array(M), np.append(r[up], -l[low]), bounds=bounds)
    size = max(1.0, *(np.abs(finite(b)).max(initial=0.0) for b in (l, r, lo, hi)))
    if found.x is None or found.fun <= _EMPTY * size:
        return None
    used = np.zeros(m, dtype=bool)
    held = np.abs(found.ineqlin.marginals) > _ZERO
    used[up[held[: up.size]]] = used[low[held[up.size :]]] = True
    return used if used.any() else None
