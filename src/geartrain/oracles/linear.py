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
from geartrain.oracles.linear_programs import contradiction, least
from geartrain.oracles.nonsmooth import Box, Derivative
from geartrain.oracles.polyhedron import (
    Faces,
    NotProjected,
    Polyhedron,
    Projection,
    Projector,
)
from geartrain.oracles.protocols import KnownTerm
from geartrain.oracles.validation import are_bounds, as_bounds, as_matrix, number_or_vector, size_of
from geartrain.oracles.vectors import Vector, norm

# Rows are met up to this part of their scale, and active up to the rounding of projections: a
# multiplier of a row that is not met with equality makes a certificate false.
FEASIBLE, ACTIVE = 1e-9, 1e-12
# Of a point that is so many times as long as its projection, rounding moves that off the rows.
_FAR = 1e3
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
                raise ValueError(f"Linear: A has {m} rows, but {name} has {size_of(given)} entries")
            if np.any(np.equal(given, sign * math.inf)):
                raise ValueError("Linear: lower must not be inf and upper must not be -inf")
            object.__setattr__(self, name, given)
        if (i := _first(np.greater(self.lower, self.upper))) is not None:
            raise ValueError(f"Linear: lower exceeds upper (first in row {i}): no x is inside")
        object.__setattr__(self, "bounds", as_box(self.bounds, n))
        self._polyhedron  # noqa: B018 - tells what is wrong with the rows

    @property
    def n(self) -> int:
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
        low, up = np.where(zero, -math.inf, lower * unit), np.where(zero, math.inf, upper * unit)
        low = np.append(low, np.zeros(n) + self.bounds.lower)
        return Polyhedron.of(A, low, np.append(up, np.zeros(n) + self.bounds.upper))

    def for_run(self) -> LinearRun:
        """The term as one run asks it."""
        return LinearRun(self)

    def violation(self, x: Vector) -> float:
        """The largest violation of a row over its scale; infinite where a bound is violated."""
        C = self._polyhedron
        off = C.beyond(x)
        if np.any(off[C.m :]):
            return math.inf
        rows = np.flatnonzero(off)
        if not rows.size:
            return 0.0
        sides = np.abs(np.where(off > 0.0, C.up, C.low)[rows])
        return float(np.max(np.abs(off[rows]) / np.maximum(norm(x), sides)))

    def value(self, x: Vector) -> float:
        """0 inside, up to rounding of the rows, and infinity outside."""
        return 0.0 if self.violation(x) <= FEASIBLE else math.inf

    def prox(self, u: Vector, alpha: float) -> Vector:
        return self.for_run().prox(u, alpha)

    def derivative(self, u: Vector, alpha: float) -> Derivative:
        """The projection onto the directions of the face that the step leads to."""
        return self.for_run().derivative(u, alpha)

    def residual(self, v: Vector, d: Vector) -> Vector:
        """-d projected onto the cone of the directions that do not leave the set at v."""
        return self.for_run().residual(v, d)

    def gap(self, v: Vector, u: Vector) -> float:
        """The largest <u, v - s> over the set, by one linear program."""
        return float(u @ v) - least(self._polyhedron, np.asarray(u, dtype=float))

    def joined(self, other: Any) -> Linear | None:
        """The constraints of both, where the other term is `Linear` or `Box`; else None."""
        if isinstance(other, Box):
            return Linear(self.A, self.lower, self.upper, self.bounds.joined(other))
        if not isinstance(other, Linear):
            return None
        if other.n != self.n:
            raise ValueError(f"constraints of {self.n} and {other.n} variables cannot be added")
        stack = sparse.vstack if any(map(sparse.issparse, (self.A, other.A))) else np.concatenate
        lower, upper = (
            np.concatenate([np.zeros(len(t._lengths)) + getattr(t, side) for t in (other, self)])
            for side in ("lower", "upper")
        )
        return Linear(stack([other.A, self.A]), lower, upper, self.bounds.joined(other.bounds))

    def __repr__(self) -> str:
        m, n = self.A.shape
        return f"Linear(A of shape ({m}, {n}), lower, upper, {self.bounds!r:.60})"


class LinearRun(KnownTerm):
    """The term as one run asks it: each projection begins with the active set of the last one."""

    def __init__(self, term: Linear) -> None:
        self.term = term
        self._faces = Faces(term._polyhedron.A)
        self._projector = Projector(term._polyhedron, self._faces)
        self._last: tuple[Vector, Projection] | None = None

    @property
    def memory(self) -> Any:
        """The active set of the last projection."""
        self._last = None
        return self._projector.active

    @memory.setter
    def memory(self, kept: Any) -> None:
        if kept.size == self._projector.active.size:
            self._projector.active = kept

    def prox(self, u: Vector, alpha: float) -> Vector:
        u = np.array(u, dtype=float)
        C = self.term._polyhedron
        try:
            found = self._projector(u)
        except NotProjected:
            if told := contradiction(C):
                raise ValueError(f"Linear: no x meets all constraints: {told}") from None
            raise
        self._last, v = (u, found), found.v
        if norm(u) > _FAR * norm(v):
            v = Projector(C, self._faces, found.active)(v).v
        return v.copy()

    def derivative(self, u: Vector, alpha: float) -> Derivative:
        u = np.asarray(u, dtype=float)
        if self._last is None or not np.array_equal(self._last[0], u):
            begun = Projector(self.term._polyhedron, self._faces, self._projector.active)
            self._last = u.copy(), begun(u)
        return self._faces(self._last[1].active)

    def residual(self, v: Vector, d: Vector) -> Vector:
        return -self._in_cone(v, -np.asarray(d, dtype=float)).v

    def multipliers(self, x: Vector, w: Vector) -> dict[str, Vector]:
        """Of rows and bounds, by an element w of the normal cone; see ``res.multipliers``."""
        C, lengths, box = self.term._polyhedron, self.term._lengths, self.term.bounds
        y, z = np.split(-self._in_cone(x, w).y, [C.m])
        z = np.where((x > box.lower) & (x < box.upper), 0.0, z)
        rows = y / np.where(lengths > 0.0, lengths, 1.0)
        return {"rows": rows + 0.0, "bounds": z + 0.0}  # no -0

    def _in_cone(self, v: Vector, direction: Vector) -> Projection:
        cone = self.term._polyhedron.tangent(np.asarray(v, dtype=float), ACTIVE)
        return Projector(cone, self._faces, self._projector.active)(direction)


def _first(where: Any) -> int | None:
    found = np.flatnonzero(np.atleast_1d(where))
    return int(found[0]) if found.size else None


def as_box(bounds: Any, n: int | None) -> Box:
    """Bounds of n variables, in one of the forms of SciPy or as a `Box`."""
    if bounds is None:
        return Box(-math.inf)
    if isinstance(bounds, Box):
        box = bounds
    else:
        box = Box(bounds) if are_bounds(bounds) else Box(*_pair(bounds, n))
    if n is not None and box.n not in (None, n):
        raise ValueError(f"bounds are those of {box.n} variables, but there are {n}")
    return box


def _pair(bounds: Any, n: int | None) -> tuple[Any, Any]:
    """Lower and upper bounds, from a pair or a list of pairs; None is no bound."""
    try:
        entries = [[entry] if np.ndim(entry) == 0 else list(entry) for entry in bounds]
        of_one = all(np.ndim(entry) == 0 for entry in bounds)
    except TypeError:
        entries, of_one = [], False
    if len(entries) == 2 and (of_one or (n != 2 and {len(e) for e in entries} != {2})):
        lower, upper = entries  # a pair, of numbers or of arrays
    elif entries and not of_one and all(len(entry) == 2 for entry in entries):
        lower, upper = (list(side) for side in zip(*entries, strict=True))
    else:
        raise TypeError(
            "bounds must be gt.Box, scipy.optimize.Bounds, a pair (lower, upper), or a list with "
            f"one pair for each variable, None for no bound; got {bounds!r:.60}"
        )
    lower = [-math.inf if low is None else low for low in lower]
    upper = [math.inf if high is None else high for high in upper]
    return (lower[0], upper[0]) if of_one else (lower, upper)


def constrained(g: Any, constraints: Any, bounds: Any, n: int | None) -> Any:
    """g with the constraints and bounds of `geartrain.minimize` added to it."""
    terms: list[Any] = [] if bounds is None else [as_box(bounds, n)]
    listed = constraints if isinstance(constraints, (list, tuple)) else [constraints]
    terms += [_as_linear(one) for one in listed if one is not None]
    for term in terms:
        g = term.__radd__(g)
    return g


def _as_linear(constraint: Any) -> Linear:
    """One of SciPy's constraints as a term."""
    if isinstance(constraint, Linear):
        return constraint
    if all(hasattr(constraint, name) for name in ("A", "lb", "ub")):
        A = constraint.A if sparse.issparse(constraint.A) else np.atleast_2d(constraint.A)
        lower, upper = (number_or_vector(np.ravel(b)) for b in (constraint.lb, constraint.ub))
        return Linear(A, lower, upper)
    raise TypeError(
        "constraints must be scipy.optimize.LinearConstraint or a list of them, got "
        f"{type(constraint).__name__}: nonlinear constraints are not solved for; write the linear "
        "ones as LinearConstraint(A, lower, upper), add a smooth penalty of the others to h or g, "
        "or use scipy.optimize.minimize"
    )
