r"""Non-smooth terms psi: norms and constraints that are known by their proximal operator.

================  ============================================================================
symbol            meaning
================  ============================================================================
psi               closed convex function; the indicator of a set is 0 there and infinite elsewhere
prox(u, alpha)    argmin_v psi(v) + alpha/2 \|v - u\|^2; `alpha` is the inverse of a step length
residual(v, d)    the element of least norm of d + dpsi(v), dpsi(v) the subdifferential at v
gap(v, u)         the largest <u, v - s> over all s with psi(s) < infinity, of bounded sets
polar(u)          the largest <u, s> over all s with psi(s) <= 1, of norms
derivative        of u -> prox(u, alpha): the function that applies it, or one of its generalised
(u, alpha)        derivatives at kinks, to the columns of a matrix; it is symmetric. Where it has an
                  attribute ``form``, form(V) is V J V' of a matrix V with few rows, at less cost
separable         whether psi(v) = sum_i psi_i(v_i), so that single coordinates have a prox
joined(other)     of sets: the term `other` on the set, where that has a prox; else None
multipliers       of constraints: those of which w in dpsi(x) is made, for ``res.multipliers``
(x, w)
lmo(d)            argmin_v <d, v> over a set
diameter          of that set: no two of its points are further apart
================  ============================================================================

They are added to a smooth term, ``g + gt.L1(0.1)``, or stand for g alone. Any object with ``prox``
takes their place; ``value``, ``residual``, ``gap``, ``polar``, ``derivative`` and ``separable`` are
optional. With ``derivative`` the learned method takes a few proximal steps where it takes hundreds
without. A set may have ``lmo`` and ``diameter`` instead of ``prox``; then
`geartrain.methods.CGS` and `geartrain.methods.FrankWolfe` take it, and no other method does.

References
----------
.. [1] N. Parikh, S. Boyd, Proximal algorithms, Found. Trends Optim. 1 (2014).
.. [2] J. Duchi, S. Shalev-Shwartz, Y. Singer, T. Chandra, Efficient projections onto the l1-ball
   for learning in high dimensions, ICML (2008).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from geartrain.oracles.algebra import Algebra
from geartrain.oracles.protocols import calls_user_code
from geartrain.oracles.validation import (
    are_bounds,
    as_bounds,
    as_groups,
    as_number,
    as_positive,
    as_vector,
    as_weights,
    number_or_vector,
    size_of,
)
from geartrain.oracles.vectors import Vector, norm

# Rounding may move convex combinations of points of a simplex or a ball out of it by this much,
# relatively: a combination of combinations, thousands of times.
_OUTSIDE = 1e-12
_SAFE = 1e-140  # squares of numbers between this and its inverse lose nothing
Derivative = Callable[[Vector], Vector]  # applied to the columns of a matrix


@dataclass(frozen=True, eq=False)
class L1(Algebra):
    r"""The weighted l1 norm, sum_i lam_i \|x_i\|: solutions have coordinates that are exactly 0.

    Parameters
    ----------
    lam : float or array (n,)
        The weight, or one weight per coordinate; 0 leaves a coordinate without penalty.

    Examples
    --------
    >>> import geartrain as gt
    >>> gt.L1(0.5).prox([2.0, -0.1], 1.0)
    array([1.5, 0. ])
    """

    lam: Any

    separable = True
    extended_valued = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "lam", as_weights(self.lam, "lam"))

    @property
    def n(self) -> int | None:
        return size_of(self.lam)

    def value(self, x: Vector) -> float:
        return float(np.sum(self.lam * np.abs(x)))

    def prox(self, u: Vector, alpha: float) -> Vector:
        """Soft thresholding by lam/alpha."""
        return u - np.clip(u, -self.lam / alpha, self.lam / alpha)

    def derivative(self, u: Vector, alpha: float) -> Derivative:
        """The identity on the coordinates that are not 0 after the step."""
        return _mask((np.abs(u) > self.lam / alpha) | (np.asarray(self.lam) == 0.0))

    def residual(self, v: Vector, d: Vector) -> Vector:
        """d + lam sign(v) where v is not 0, and d shrunk by lam towards 0 where it is."""
        shrunk = np.sign(d) * np.maximum(np.abs(d) - self.lam, 0.0)
        return np.where(v != 0.0, d + self.lam * np.sign(v), shrunk)

    def polar(self, u: Vector) -> float:
        r"""The largest \|u_i\|/lam_i; infinite where a coordinate without penalty has a slope."""
        return _largest(np.abs(u), self.lam)


@dataclass(frozen=True, eq=False)
class Box(Algebra):
    """The constraint lower <= x <= upper.

    Parameters
    ----------
    lower : float, array (n,) or `scipy.optimize.Bounds`
        Lower bounds, which may be -inf; or an object with both as ``lb`` and ``ub``.
    upper : float or array (n,)
        Upper bounds, which may be inf.

    Examples
    --------
    >>> import geartrain as gt
    >>> gt.Box(0.0, 1.0).prox([2.0, -0.1, 0.3], 1.0)
    array([1. , 0. , 0.3])
    """

    lower: Any
    upper: Any = math.inf

    separable = True

    def __post_init__(self) -> None:
        lower, upper = self.lower, self.upper
        if are_bounds(lower):
            lower, upper = number_or_vector(lower.lb), number_or_vector(lower.ub)
        lower, upper = as_bounds(lower, "lower"), as_bounds(upper, "upper")
        sizes = {size for size in (size_of(lower), size_of(upper)) if size is not None}
        if len(sizes) > 1:
            raise ValueError(f"Box: lower and upper have different lengths: {sorted(sizes)}")
        if np.any(lower > upper):
            i = int(np.argmax(np.atleast_1d(lower > upper)))
            raise ValueError(f"Box: lower exceeds upper (first at coordinate {i}): no x is inside")
        if np.any(np.equal(lower, math.inf)) or np.any(np.equal(upper, -math.inf)):
            raise ValueError("Box: lower must not be inf and upper must not be -inf")
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    @property
    def n(self) -> int | None:
        return size_of(self.lower) or size_of(self.upper)

    def value(self, x: Vector) -> float:
        """0 inside and infinity outside; no rounding is allowed for."""
        inside = np.all(x >= self.lower) and np.all(x <= self.upper)
        return 0.0 if inside else math.inf

    def prox(self, u: Vector, alpha: float) -> Vector:
        return np.clip(u, self.lower, self.upper)

    def derivative(self, u: Vector, alpha: float) -> Derivative:
        """The identity on the coordinates between the bounds."""
        return _mask((u > self.lower) & (u < self.upper))

    def residual(self, v: Vector, d: Vector) -> Vector:
        """d, without what points out of the box where v is at a bound."""
        d = np.where(v <= self.lower, np.minimum(d, 0.0), d)
        return np.where(v >= self.upper, np.maximum(d, 0.0), d)

    def joined(self, other: Any) -> Any:
        """`other` within the bounds, where that is a term with a proximal step; else None."""
        if isinstance(other, Box):
            lower, upper = np.maximum(self.lower, other.lower), np.minimum(self.upper, other.upper)
            return Box(lower, upper)
        if isinstance(other, InBox):
            return InBox(other.term, self.joined(other.box))
        return InBox(other, self) if getattr(other, "separable", False) else None

    def multipliers(self, x: Vector, w: Vector) -> dict[str, Vector]:
        """Of the bounds, by an element w of the subdifferential; see ``res.multipliers``."""
        return {"rows": np.zeros(0), "bounds": -w}

    def gap(self, v: Vector, u: Vector) -> float:
        """The sum of max u_i (v_i - s_i) over s_i between the bounds."""
        end = np.where(u > 0.0, self.lower, self.upper)
        with np.errstate(invalid="ignore"):
            return float(np.sum(np.where(u == 0.0, 0.0, u * (v - end))))


class NonNegative(Box):
    """The constraint x >= 0.

    Examples
    --------
    >>> import geartrain as gt
    >>> gt.NonNegative().prox([2.0, -0.1], 1.0)
    array([2., 0.])
    """

    def __init__(self) -> None:
        super().__init__(0.0, math.inf)

    def __repr__(self) -> str:
        return "NonNegative()"


@dataclass(frozen=True, eq=False)
class InBox(Algebra):
    """A separable term within bounds, as in ``gt.L1(0.1) + gt.NonNegative()``.

    The proximal step of the term is clipped. This is exact: for each coordinate a convex function
    of one variable is minimised between two bounds, and it rises from its minimiser on to both
    sides, so that the nearest point between the bounds is lowest. For the same reason the least
    subgradient is that of the term without what points out of the box.
    """

    term: Any
    box: Box

    separable = True

    def __post_init__(self) -> None:
        # What the term does not tell is not told.
        for name in ("value", "residual", "derivative"):
            if callable(getattr(self.term, name, None)):
                object.__setattr__(self, name, getattr(self, f"_{name}"))

    @property
    def n(self) -> int | None:
        own: int | None = getattr(self.term, "n", None)
        return self.box.n if own is None else own

    @property
    def calls_user_code(self) -> bool:
        return calls_user_code(self.term)

    def prox(self, u: Vector, alpha: float) -> Vector:
        return self.box.prox(self.term.prox(u, alpha), alpha)

    def gap(self, v: Vector, u: Vector) -> float:
        return self.box.gap(v, u)

    def _value(self, x: Vector) -> float:
        return float(self.term.value(x)) + self.box.value(x)

    def _residual(self, v: Vector, d: Vector) -> Vector:
        return self.box.residual(v, self.term.residual(v, d))

    def _derivative(self, u: Vector, alpha: float) -> Derivative:
        inner = self.term.derivative(u, alpha)
        outer = self.box.derivative(self.term.prox(u, alpha), alpha)
        return lambda X: outer(inner(X))

    def __repr__(self) -> str:
        return f"{self.term!r} + {self.box!r}"


@dataclass(frozen=True, eq=False)
class GroupL1(Algebra):
    r"""The group lasso penalty, sum_j lam_j \|x_{G_j}\|_2: whole groups become exactly 0.

    Parameters
    ----------
    groups : int, array (n,) of int, or list of lists
        The size of consecutive groups; the number of the group of each coordinate, -1 for no group;
        or the coordinates of each group, where coordinates in no group have no penalty.
    lam : float or array
        The weight, or one weight per group.

    Examples
    --------
    >>> import geartrain as gt
    >>> gt.GroupL1(2, 1.0).prox([3.0, 4.0, 0.1, 0.2], 1.0)
    array([2.4, 3.2, 0. , 0. ])
    """

    groups: Any
    lam: Any

    extended_valued = False

    def __post_init__(self) -> None:
        given = self.groups
        object.__setattr__(self, "groups", as_groups(given))
        labelled = not isinstance(self.groups, int) and np.ndim(given[0]) == 0
        object.__setattr__(self, "n", self.groups.size if labelled else None)
        object.__setattr__(self, "lam", as_weights(self.lam, "lam"))
        count = None if isinstance(self.groups, int) else int(self.groups.max()) + 1
        if count is not None and size_of(self.lam) not in (None, count):
            raise ValueError(f"GroupL1: {count} groups but {size_of(self.lam)} weights")

    def _labels(self, v: Vector) -> Any:
        """The number of the group of each coordinate."""
        if not isinstance(self.groups, int):
            if self.groups.size < v.size:  # coordinates after those of the lists are in no group
                return np.append(self.groups, np.full(v.size - self.groups.size, -1))
            return self.groups
        if v.size % self.groups:
            raise ValueError(f"GroupL1: {v.size} variables do not make groups of {self.groups}")
        return np.arange(v.size) // self.groups

    def _norms(self, v: Vector, labels: Any) -> Vector:
        """Of every group, without overflow or underflow of the squares."""
        inside = labels >= 0
        of, entries = labels[inside], np.abs(v[inside])
        top = float(np.max(entries, initial=0.0))
        if _SAFE < top < 1.0 / _SAFE and not np.any(entries[entries <= _SAFE]):
            return np.sqrt(np.bincount(of, weights=np.square(entries)))
        largest = np.zeros(int(of.max()) + 1)
        np.maximum.at(largest, of, entries)
        scaled = entries / _nonzero(largest)[of]
        return np.sqrt(np.bincount(of, weights=np.square(scaled))) * largest

    def _scaled(self, v: Vector, labels: Any, factors: Vector) -> Vector:
        """v times the factor of its group; coordinates in no group as they are."""
        return np.where(labels >= 0, np.broadcast_to(factors, (labels.max() + 1,))[labels], 1.0) * v

    def value(self, x: Vector) -> float:
        """The weighted sum of the norms of the groups."""
        return float(np.sum(self.lam * self._norms(np.asarray(x, dtype=float), self._labels(x))))

    def prox(self, u: Vector, alpha: float) -> Vector:
        """Every group shrunk by lam/alpha."""
        u = np.asarray(u, dtype=float)
        labels = self._labels(u)
        return self._scaled(u, labels, _shrinking(self._norms(u, labels), self.lam / alpha))

    def derivative(self, u: Vector, alpha: float) -> Derivative:
        """t I + (1 - t) e e' in groups that are shrunk by the factor t > 0, e the unit vector."""
        u = np.asarray(u, dtype=float)
        labels = self._labels(u)
        sizes = self._norms(u, labels)
        diagonal = self._scaled(np.ones_like(u), labels, _shrinking(sizes, self.lam / alpha))
        return _GroupShrinking(u, labels, _nonzero(sizes), diagonal)

    def residual(self, v: Vector, d: Vector) -> Vector:
        """d + lam v/|v| in groups that are not 0, and d shrunk by lam in those that are."""
        labels = self._labels(v)
        sizes = self._norms(v, labels)
        shrunk = self._scaled(d, labels, _shrinking(self._norms(d, labels), self.lam))
        inward = np.where(labels >= 0, v / _nonzero(sizes)[labels], 0.0)
        moved = d + self._scaled(inward, labels, self.lam)
        alive = np.where(labels >= 0, (sizes > 0.0)[labels], True)
        return np.where(alive, moved, shrunk)

    def polar(self, u: Vector) -> float:
        """The largest norm of a group over its lam; infinite where u is not 0 in no group."""
        labels = self._labels(u)
        outside = math.inf if np.any(u[labels < 0]) else 0.0
        return max(outside, _largest(self._norms(u, labels), self.lam))


@dataclass(frozen=True)
class Simplex(Algebra):
    """The constraint x >= 0, sum_i x_i = radius.

    Parameters
    ----------
    radius : float
        The sum; 1 for probabilities.

    Examples
    --------
    >>> import geartrain as gt
    >>> gt.Simplex().prox([1.0, 0.5, -2.0], 1.0)
    array([0.75, 0.25, 0.  ])
    """

    radius: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", as_positive(self.radius, "radius"))

    def value(self, x: Vector) -> float:
        """0 where x >= 0 and the sum is right up to its rounding, and infinity elsewhere."""
        off = abs(float(np.sum(x)) - self.radius)
        return 0.0 if np.min(x) >= 0.0 and off <= _OUTSIDE * self.radius else math.inf

    def prox(self, u: Vector, alpha: float) -> Vector:
        """The projection, by sorting [2]_."""
        u = np.asarray(u, dtype=float)
        below = u - np.max(u)  # of the size of the radius where it matters, however large u is
        falling = np.sort(below)[::-1]
        over = (np.cumsum(falling) - self.radius) / np.arange(1, u.size + 1)
        free = np.max(np.flatnonzero(falling > over), initial=0)  # 0 where u is not finite
        w = np.maximum(below - over[free], 0.0)
        return w * (self.radius / np.sum(w))

    def derivative(self, u: Vector, alpha: float) -> Derivative:
        """The columns less their means, on the coordinates that are positive after the step."""
        return _Centring(np.flatnonzero(self.prox(u, alpha)))

    def residual(self, v: Vector, d: Vector) -> Vector:
        """d - m where v_i > 0 and min(d - m, 0) where v_i = 0, with the m of least norm."""
        free = v > 0.0
        at_zero = np.sort(d[~free])
        # m is the mean of d over the free coordinates and the j smallest of the others
        totals = np.sum(d[free]) + np.append(0.0, np.cumsum(at_zero))
        means = totals / (np.count_nonzero(free) + np.arange(at_zero.size + 1))
        below = np.nonzero(at_zero >= means[:-1])[0]
        m = means[below[0]] if below.size else means[-1]
        return np.where(free, d - m, np.minimum(d - m, 0.0))

    def lmo(self, d: Vector) -> Vector:
        """The vertex of the smallest entry of d."""
        s = np.zeros(np.shape(d))
        s[np.argmin(d)] = self.radius
        return s

    @property
    def diameter(self) -> float:
        return math.sqrt(2.0) * self.radius

    def gap(self, v: Vector, u: Vector) -> float:
        """The largest <u, v - s> over the simplex, at a vertex."""
        return float(u @ v - self.radius * np.min(u))


@dataclass(frozen=True, eq=False)
class Ball(Algebra):
    r"""The constraint \|x - center\|_2 <= radius.

    Parameters
    ----------
    radius : float
        Its radius.
    center : float or array (n,)
        Its centre.

    Examples
    --------
    >>> import geartrain as gt
    >>> gt.Ball(1.0).prox([3.0, 4.0], 1.0)
    array([0.6, 0.8])
    """

    radius: float = 1.0
    center: Any = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", as_positive(self.radius, "radius"))
        if np.ndim(self.center):
            object.__setattr__(self, "center", as_vector(self.center, "center"))
        else:
            object.__setattr__(self, "center", as_number(self.center, "center"))

    @property
    def n(self) -> int | None:
        return size_of(self.center)

    def value(self, x: Vector) -> float:
        """0 inside, up to rounding, and infinity outside."""
        return 0.0 if norm(x - self.center) <= self.radius * (1.0 + _OUTSIDE) else math.inf

    def prox(self, u: Vector, alpha: float) -> Vector:
        u = np.asarray(u, dtype=float)
        away = u - self.center
        length = norm(away)
        if length <= self.radius:
            return u.copy()
        return self.center + (self.radius / length) * away

    def derivative(self, u: Vector, alpha: float) -> Derivative:
        """The identity inside; outside, shrunk and without what points outwards."""
        away = np.asarray(u, dtype=float) - self.center
        length = norm(away)
        if length <= self.radius:
            return np.copy
        e, t = away / length, self.radius / length
        return lambda X: t * (X - np.outer(e, e @ X))

    def residual(self, v: Vector, d: Vector) -> Vector:
        """d, without what points out of the ball where v is at its boundary."""
        away = v - self.center
        length = norm(away)
        if length < self.radius * (1.0 - _OUTSIDE):
            return d
        return d + (max(0.0, -float(d @ away)) / length**2) * away

    def lmo(self, d: Vector) -> Vector:
        """The point of the boundary against d; the centre, which is as good as any, for d = 0."""
        d = np.asarray(d, dtype=float)
        return self.center - (self.radius / (norm(d) or 1.0)) * d

    @property
    def diameter(self) -> float:
        return 2.0 * self.radius

    def gap(self, v: Vector, u: Vector) -> float:
        """The largest <u, v - s> over the ball."""
        return float(u @ (v - self.center)) + self.radius * norm(u)


def _mask(inside: Any) -> Derivative:
    """The identity on some coordinates."""
    return lambda X: np.where(inside[:, None], X, 0.0)


class _Centring:
    """Some coordinates less their mean, and 0 in the others."""

    def __init__(self, free: Any) -> None:
        self.free = free

    def __call__(self, X: Vector) -> Vector:
        out, inside = np.zeros(X.shape), X[self.free]
        out[self.free] = inside - inside.mean(axis=0)
        return out

    def form(self, V: Vector) -> Vector:
        inside = V[:, self.free]
        inside -= inside.mean(axis=1)[:, None]
        return np.asarray(inside @ inside.T)


class _GroupShrinking:
    """t I + (1 - t) e e' in every group with t > 0, the identity in no group, and 0 elsewhere."""

    def __init__(self, u: Vector, labels: Any, sizes: Vector, diagonal: Vector) -> None:
        alive = np.flatnonzero(diagonal)
        order = alive[np.argsort(labels[alive], kind="stable")]  # those in no group come first
        of = labels[order]
        self.order, self.diagonal = order, diagonal[order]
        self.first = int(np.searchsorted(of, 0))
        inside = of[self.first :]
        self.starts = np.flatnonzero(np.diff(inside, prepend=-1))
        self.lengths = np.diff(self.starts, append=inside.size)
        pull = 1.0 - self.diagonal[self.first :]
        self.e = np.sqrt(pull) * u[order[self.first :]] / sizes[inside]  # sqrt(1 - t) e

    def _along(self, A: Vector) -> Vector:
        """Inner products of the rows with sqrt(1 - t) e, a column for each group."""
        if not self.starts.size:
            return np.zeros((len(A), 0))
        return np.add.reduceat(A[:, self.first :] * self.e, self.starts, axis=1)

    def __call__(self, X: Vector) -> Vector:
        A = X[self.order].T
        moved = A * self.diagonal
        moved[:, self.first :] += np.repeat(self._along(A), self.lengths, axis=1) * self.e
        out = np.zeros(X.shape)
        out[self.order] = moved.T
        return out

    def form(self, V: Vector) -> Vector:
        A = V[:, self.order]
        along = self._along(A)
        A *= np.sqrt(self.diagonal)
        return np.asarray(A @ A.T + along @ along.T)


def _shrinking(sizes: Vector, threshold: Any) -> Vector:
    """The factors that shrink vectors of these sizes by a threshold, to 0 at most."""
    left = sizes > threshold
    return np.where(left, 1.0 - threshold / np.where(left, sizes, 1.0), np.equal(threshold, 0.0))


def _nonzero(sizes: Vector) -> Vector:
    return np.where(sizes == 0.0, 1.0, sizes)


def _largest(slopes: Vector, lam: Any) -> float:
    """The largest slope over its weight; 0/0 counts as 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.max(np.where(slopes == 0.0, 0.0, slopes / lam), initial=0.0))
