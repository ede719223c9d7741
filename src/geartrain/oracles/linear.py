r"""Linear constraints as a non-smooth term: the indicator of l <= A x <= r, lo <= x <= hi.

The symbols are those of `geartrain.oracles.polyhedron` and `geartrain.oracles.nonsmooth`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from geartrain.oracles.algebra import Algebra
from geartrain.oracles.nonsmooth import Box, Derivative
from geartrain.oracles.polyhedron import (
    Active,
    Faces,
    NotProjected,
    Polyhedron,
    Projection,
    Projector,
)
from geartrain.oracles.validation import as_bounds, as_matrix, size_of
from geartrain.oracles.vectors import Vector, norm

# Rows are met up to this part of their scale: for the value, and to be active.
FEASIBLE = 1e-9
# A sparse A with more entries than this, zeros included, is factorised as a sparse matrix.
_DENSE = 100_000


@dataclass(frozen=True, eq=False)
class Linear(Algebra):
    r"""The constraints lower <= A x <= upper and those of `bounds`.

    Parameters
    ----------
    A : array (m, n) or sparse matrix
        One row per constraint. A `LinearOperator` is an error: projections need the matrix.
    lower, upper : float or array (m,)
        They may be infinite; a row is an equality where both are the same.
    bounds : `Box`, `NonNegative`, `scipy.optimize.Bounds`, pair or list of pairs, optional
        Of the variables: ``(0, 1)`` for all of them, or one pair for each, None for no bound.

    Notes
    -----
    The proximal step is the projection onto the set, by a factorisation that is kept while the
    active constraints stay the same: see `geartrain.oracles.polyhedron`. Points meet the bounds
    exactly, and the rows up to rounding: row i is met where it is off by at most 1e-9 of
    max(\|A_i\| \|x\|, \|b_i\|), b_i the side that it is compared with.

    Examples
    --------
    >>> import geartrain as gt
    >>> gt.Linear([[1.0, 1.0, 1.0]], 1.0, 1.0, bounds=(0.0, 0.6)).prox([2.0, 0.2, 0.1], 1.0)
    array([0.6 , 0.25, 0.15])
    """

    A: Any
    lower: Any = -math.inf
    upper: Any = math.inf
    bounds: Any = None

    def __post_init__(self) -> None:
        if callable(getattr(self.A, "matvec", None)):
            raise TypeError(
                "Linear: A must be an array or a sparse matrix, got a LinearOperator: a projection "
                "factorises rows of A; form the matrix, e.g. as a scipy.sparse.csr_array"
            )
        A = as_matrix(self.A, "Linear: A")
        m, n = A.shape
        object.__setattr__(self, "A", A)
        for name, sign in (("lower", 1.0), ("upper", -1.0)):
            given = as_bounds(getattr(self, name), name, "Linear")
            if size_of(given) not in (None, m):
                raise ValueError(
                    f"Linear: A has {m} rows, but {name} has {size_of(given)} entries"
                )
            if np.any(np.equal(given, sign * math.inf)):
                raise ValueError("Linear: lower must not be inf and upper must not be -inf")
            object.__setattr__(self, name, given)
        if (i := _first(np.greater(self.lower, self.upper))) is not None:
            raise ValueError(f"Linear: lower exceeds upper (first in row {i}): no x is inside")
        object.__setattr__(self, "bounds", as_box(self.bounds, n))
        self._polyhedron  # noqa: B018 - tells what is wrong with the rows

    @property
    def n(self) -> int:
        """Dimension."""
        return int(self.A.shape[1])

    @cached_property
    def _lengths(self) -> Vector:
        """Norms of the rows."""
        if sparse.issparse(self.A):
            top = abs(self.A).max(axis=1).toarray().ravel()
            scaled = sparse.diags_array(1.0 / np.where(top > 0.0, top, 1.0)) @ self.A
            return top * np.sqrt(scaled.power(2).sum(axis=1))
        top = np.abs(self.A).max(axis=1, initial=0.0)
        scaled = self.A / np.where(top > 0.0, top, 1.0)[:, None]
        return top * np.sqrt(np.einsum("ij,ij->i", scaled, scaled))

    @cached_property
    def _polyhedron(self) -> Polyhedron:
        """With rows of norm 1; rows of zeros are checked and have no sides."""
        m, n = self.A.shape
        zero = self._lengths == 0.0
        lower, upper = np.zeros(m) + self.lower, np.zeros(m) + self.upper
        if (i := _first(zero & ((lower > 0.0) | (upper < 0.0)))) is not None:
            raise ValueError(
                f"Linear: row {i} of A is zero, but {lower[i]:g} <= 0 <= {upper[i]:g} does not "
                "hold: no x is inside"
            )
        unit = 1.0 / np.where(zero, 1.0, self._lengths)
        if not sparse.issparse(self.A):
            A: Any = self.A * unit[:, None]
        else:
            A = sparse.csr_array(sparse.diags_array(unit) @ self.A)
            A = A.toarray() if m * n <= _DENSE else A
        l, r = np.where(zero, -math.inf, lower * unit), np.where(zero, math.inf, upper * unit)
        lo, hi = (np.zeros(n) + side for side in (self.bounds.lower, self.bounds.upper))
        return Polyhedron.of(A, l, r, lo, hi)

    def for_run(self) -> LinearRun:
        """The term as one run asks it."""
        return LinearRun(self)

    def violation(self, x: Vector) -> float:
        """The largest violation of a row over its scale; infinite where a bound is violated."""
        C = self._polyhedron
        if not (np.all(x >= C.lo) and np.all(x <= C.hi)):
            return math.inf
        off = C.beyond(x)
        worst = np.flatnonzero(off)
        sides = np.where(C.A[worst] @ x > C.r[worst], C.r[worst], C.l[worst])
        return float(np.max(off[worst] / np.maximum(norm(x), np.abs(sides)), initial=0.0))

    def value(self, x: Vector) -> float:
        """0 inside, up to rounding of the rows, and infinity outside."""
        return 0.0 if self.violation(x) <= FEASIBLE else math.inf

    def prox(self, u: Vector, alpha: float) -> Vector:
        """The projection."""
        return self.for_run().prox(u, alpha)

    def derivative(self, u: Vector, alpha: float) -> Derivative:
        """The projection onto the directions of the face that the step leads to."""
        return self.for_run().derivative(u, alpha)

    def residual(self, v: Vector, d: Vector) -> Vector:
        """-d projected onto the cone of the directions that do not leave the set at v."""
        return self.for_run().residual(v, d)

    def __repr__(self) -> str:
        m, n = self.A.shape
        return f"Linear(A of shape ({m}, {n}), lower, upper, {self.bounds!r:.60})"


class LinearRun:
    """The term as one run asks it: each projection begins with the active set of the last one.

    Parameters
    ----------
    term : Linear
    """

    def __init__(self, term: Linear) -> None:
        self.term = term
        self._faces = Faces(term._polyhedron.A)
        self._projector = Projector(term._polyhedron, self._faces)
        self._last: tuple[Vector, Projection] | None = None

    def prox(self, u: Vector, alpha: float) -> Vector:
        """The projection."""
        u = np.array(u, dtype=float)
        found = self._projector(u)
        self._last = u, found
        return found.v.copy()

    def derivative(self, u: Vector, alpha: float) -> Derivative:
        """The projection onto the directions of the face that the step leads to."""
        u = np.asarray(u, dtype=float)
        if self._last is None or not np.array_equal(self._last[0], u):
            begun = Projector(self.term._polyhedron, self._faces, self._projector.active)
            self._last = u.copy(), begun(u)
        return self._faces(self._last[1].active)

    def residual(self, v: Vector, d: Vector) -> Vector:
        """-d projected onto the cone of the directions that do not leave the set at v."""
        return -self._in_cone(v, -np.asarray(d, dtype=float)).v

    def _in_cone(self, v: Vector, direction: Vector) -> Projection:
        cone = self.term._polyhedron.tangent(np.asarray(v, dtype=float), FEASIBLE)
        return Projector(cone, self._faces, self._projector.active)(direction)


def _first(where: Any) -> int | None:
    """The first index at which it is true."""
    found = np.flatnonzero(np.atleast_1d(where))
    return int(found[0]) if found.size else None


def as_box(bounds: Any, n: int) -> Box:
    """Bounds of n variables, in one of the forms of SciPy or as a `Box`."""
    if bounds is None:
        return Box(-math.inf)
    if isinstance(bounds, Box) or (hasattr(bounds, "lb") and hasattr(bounds, "ub")):
        box = bounds if isinstance(bounds, Box) else Box(bounds)
    else:
        box = Box(*_pair(bounds, n))
    if box.n not in (None, n):
        raise ValueError(f"bounds are those of {box.n} variables, but there are {n}")
    return box


def _pair(bounds: Any, n: int) -> tuple[Any, Any]:
    """Lower and upper bounds, from a pair or a list of pairs; None is no bound."""
    try:
        listed = list(bounds)
        shapes = {np.ndim(entry) for entry in listed}
        if shapes == {0} and len(listed) == 2:  # one pair for all
            pairs = [listed] * n
        elif shapes == {1} and len(listed) == n and all(len(entry) == 2 for entry in listed):
            pairs = [list(entry) for entry in listed]
        elif len(listed) == 2 and shapes <= {0, 1}:  # all lower and all upper bounds
            return tuple(listed)
        else:
            raise TypeError
    except TypeError:
        raise TypeError(
            "bounds must be gt.Box, scipy.optimize.Bounds, a pair (lower, upper), or a list with "
            f"one pair for each of the {n} variables; got {bounds!r:.60}"
        ) from None
    lower = [-math.inf if low is None else low for low, _ in pairs]
    return lower, [math.inf if high is None else high for _, high in pairs]
