"""Problems round a solution: x* and a subgradient of psi there are chosen first.

=========  =================================================================================
symbol     meaning
=========  =================================================================================
unit       size of x, from 1e-12 to 1e3: picofarads, kilometres; 1e-28 to 1e-20 in one kind
level      size of f; slopes have the size level/unit, curvatures level/unit^2
x*         the solution, with zeros, bounds, low rank or few jumps as psi wants it
w          an element of dpsi(x*)
=========  =================================================================================

One quadratic among the smooth terms gets the linear part that makes their gradients at x* sum up
to -w. Everything is long double up to the last step, in which the data of the terms are rounded;
so f(x*) is an upper bound of f* and nearly equal to it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import nnls

import geartrain as gt
from hostile import reference as ref
from hostile.reference import EPS, LD, SAFETY, ld, size

ROUGH = LD(1e-11)  # of directions that are known by rounded points of a sphere or a subspace


class NonSmooth:
    """psi in long double: its value, where it is finite, and its least subgradient."""

    rough = LD(0)  # part of |d| that may be rounding in the least subgradient

    def value(self, x: Any) -> Any:
        return LD(0)

    def inside(self, x: Any) -> bool:
        """Whether x is in the domain, up to what projections cannot do better."""
        return True

    def project(self, x: Any) -> Any:
        return x

    def least(self, x: Any, d: Any) -> Any:
        """The shortest element of d + dpsi(x)."""
        raise NotImplementedError

    def shift(self, x: Any) -> Any:
        """How far rounding may move points of a set out of it."""
        return LD(0)

    def noise(self, x: Any) -> Any:
        """Rounding error of a value."""
        return SAFETY * len(x) * EPS * abs(self.value(x))

    def blur(self, x: Any, d: Any) -> Any:
        """Rounding error of the least subgradient."""
        return SAFETY * len(x) * EPS * size(d) + self.rough * size(d)


@dataclass
class Nothing(NonSmooth):
    """psi = 0."""

    def least(self, x: Any, d: Any) -> Any:
        return d

    def blur(self, x: Any, d: Any) -> Any:
        return LD(0)


@dataclass
class Norm1(NonSmooth):
    """sum lam_i |x_i|."""

    lam: Any

    def value(self, x: Any) -> Any:
        return np.sum(self.lam * np.abs(x))

    def least(self, x: Any, d: Any) -> Any:
        shrunk = np.sign(d) * np.maximum(np.abs(d) - self.lam, 0)
        return np.where(x != 0, d + self.lam * np.sign(x), shrunk)

    def blur(self, x: Any, d: Any) -> Any:
        return SAFETY * EPS * (size(d) + size(self.lam))


@dataclass
class Bounds(NonSmooth):
    """lower <= x <= upper."""

    lower: Any
    upper: Any

    def inside(self, x: Any) -> bool:
        return bool((x >= self.lower).all() and (x <= self.upper).all())

    def project(self, x: Any) -> Any:
        return np.clip(x, self.lower, self.upper)

    def least(self, x: Any, d: Any) -> Any:
        d = np.where(x <= self.lower, np.minimum(d, 0), d)
        return np.where(x >= self.upper, np.maximum(d, 0), d)


@dataclass
class Probabilities(NonSmooth):
    """x >= 0, sum x = radius."""

    radius: float

    def inside(self, x: Any) -> bool:
        return bool((x >= 0).all() and abs(x.sum() - self.radius) <= self.shift(x))

    def shift(self, x: Any) -> Any:
        return 8 * len(x) * EPS * self.radius

    def project(self, x: Any) -> Any:
        falling = np.sort(x)[::-1]
        over = (np.cumsum(falling) - self.radius) / np.arange(1, len(x) + 1)
        return np.maximum(x - over[np.flatnonzero(falling > over)[-1]], 0)

    def least(self, x: Any, d: Any) -> Any:
        """The shorter one of those with and without entries that are rounding of the sum."""
        rounded = np.where(x <= self.shift(x), 0, x)
        return min((self._at(x, d), self._at(rounded, d)), key=size)

    def _at(self, x: Any, d: Any) -> Any:
        """d - m, or min(d - m, 0) where x = 0, for the best of all m at which that may change."""
        zeros = np.flatnonzero(x == 0)
        found = None
        for kept in range(len(zeros) + 1):
            taken = np.append(np.flatnonzero(x > 0), zeros[np.argsort(d[zeros])[:kept]]).astype(int)
            m = d[taken].sum() / len(taken)
            out = np.where(x > 0, d - m, np.minimum(d - m, 0))
            if found is None or size(out) < size(found):
                found = out
        return found


@dataclass
class Rows(NonSmooth):
    """lower <= A x <= upper, with the bounds of the variables as the last rows of A.

    Rows are met up to 1e-9 of their scale, and bounds exactly, as the library states. Multipliers
    are found by non-negative least squares in double precision.
    """

    A: Any
    lower: Any
    upper: Any
    n_rows: int  # that are no bounds

    rough = LD(1e-9)

    def _room(self, x: Any, b: Any) -> Any:
        """1e-9 of the scale of the rows, 0 for bounds."""
        lengths = np.sqrt(np.sum(self.A * self.A, axis=1))
        room = LD(1e-9) * np.maximum(lengths * size(x), np.abs(np.where(np.isfinite(b), b, 0)))
        return np.where(np.arange(len(b)) < self.n_rows, room, 0)

    def inside(self, x: Any) -> bool:
        Ax = self.A @ x
        low, up = (self._room(x, b) for b in (self.lower, self.upper))
        return bool((Ax >= self.lower - low).all() and (Ax <= self.upper + up).all())

    def shift(self, x: Any) -> Any:
        return LD(1e-9) * size(x)

    def project(self, x: Any) -> Any:
        """The shortest s with G s >= h, by Lawson and Hanson's least distance programming."""
        unit = np.sqrt(np.sum(self.A * self.A, axis=1))
        A, lower, upper = self.A / unit[:, None], self.lower / unit, self.upper / unit
        G, h = np.vstack([A, -A]), np.append(lower - A @ x, A @ x - upper)
        G, h = G[np.isfinite(h)], h[np.isfinite(h)]
        top = np.max(h, initial=LD(0))
        if top <= 0:
            return x
        E = np.vstack([G.T, h[None, :] / top]).astype(np.float64)
        t = nnls(E, np.append(np.zeros(len(x)), 1.0))[0]
        G, h, s = G[t > 0], h[t > 0], np.zeros(len(x), dtype=LD)
        nearest = ld(np.linalg.pinv(G.astype(np.float64)))
        for _ in range(4):  # the shortest s with G s = h, refined
            s = s + nearest @ (h - G @ s)
        bounds = slice(self.n_rows, None)
        first = np.flatnonzero(self.A[bounds].any(axis=0))
        out = x + s
        out[first] = np.clip(out[first], self.lower[bounds], self.upper[bounds])
        return out

    def least(self, x: Any, d: Any) -> Any:
        """The shorter one of those with the rows that are met to 1e-12 and to 1e-9."""
        return min((self._at(x, d, LD(1e-3)), self._at(x, d, LD(1.0))), key=size)

    def _at(self, x: Any, d: Any, part: Any) -> Any:
        Ax = self.A @ x
        up = Ax >= self.upper - part * self._room(x, self.upper)
        low = Ax <= self.lower + part * self._room(x, self.lower)
        G = np.vstack([self.A[up], -self.A[low]])
        if not len(G) or not size(d):
            return d
        G = G / np.sqrt(np.sum(G * G, axis=1))[:, None]
        t = nnls(np.asarray(G.T, dtype=np.float64), np.asarray(-d / size(d), dtype=np.float64))[0]
        return d + size(d) * (t @ G)


@dataclass
class Sphere(NonSmooth):
    """|x - center| <= radius."""

    center: Any
    radius: float
    rough = ROUGH

    def _far(self) -> Any:
        return self.radius + size(self.center)

    def inside(self, x: Any) -> bool:
        return bool(size(x - self.center) <= self.radius + LD(1e-12) * self._far())

    def project(self, x: Any) -> Any:
        length = size(x - self.center)
        if length <= self.radius:
            return x
        return self.center + (x - self.center) * (self.radius / length)

    def least(self, x: Any, d: Any) -> Any:
        away = x - self.center
        length = size(away)
        if length < self.radius - LD(1e-12) * self._far():
            return d
        e = away / length
        return d + max(LD(0), -(d @ e)) * e


@dataclass
class Groups(NonSmooth):
    """lam sum of the norms of pairs of coordinates."""

    lam: Any

    def _pairs(self, v: Any) -> Any:
        return v.reshape(-1, 2)

    def value(self, x: Any) -> Any:
        return self.lam * sum(size(pair) for pair in self._pairs(x))

    def least(self, x: Any, d: Any) -> Any:
        out = []
        for v, slope in zip(self._pairs(x), self._pairs(d), strict=True):
            length, steep = size(v), size(slope)
            if length > 0:
                out.append(slope + self.lam * v / length)
            else:
                out.append(slope * max(LD(0), 1 - self.lam / steep) if steep > 0 else slope)
        return np.concatenate(out)

    def blur(self, x: Any, d: Any) -> Any:
        return SAFETY * EPS * len(x) * (size(d) + self.lam)


def svd(M: Any) -> Any:
    """By one-sided Jacobi rotations, for a matrix with no more columns than rows."""
    U, V = ld(M).copy(), np.eye(M.shape[1], dtype=LD)
    for _ in range(60):
        turned = False
        for i, j in itertools.combinations(range(M.shape[1]), 2):
            a, b, c = U[:, i] @ U[:, i], U[:, j] @ U[:, j], U[:, i] @ U[:, j]
            if abs(c) <= LD(1e-18) * np.sqrt(a * b) or c == 0:
                continue
            turned = True
            zeta = (b - a) / (2 * c)
            t = (LD(1) if zeta >= 0 else LD(-1)) / (abs(zeta) + np.sqrt(1 + zeta * zeta))
            cos = 1 / np.sqrt(1 + t * t)
            turn = np.array([[cos, cos * t], [-cos * t, cos]], dtype=LD)
            U[:, [i, j]], V[:, [i, j]] = U[:, [i, j]] @ turn, V[:, [i, j]] @ turn
        if not turned:
            break
    s = np.array([size(column) for column in U.T], dtype=LD)
    order = np.argsort(-s)
    s = s[order]
    return U[:, order] / np.where(s > 0, s, 1), s, V[:, order].T


@dataclass
class Nuclear(NonSmooth):
    """lam times the sum of the singular values of a matrix with no more columns than rows."""

    shape: tuple[int, int]
    lam: Any
    rough = ROUGH

    def value(self, x: Any) -> Any:
        return self.lam * svd(x.reshape(self.shape))[1].sum()

    def least(self, x: Any, d: Any) -> Any:
        """The shorter one of those for the ranks that rounding leaves open."""
        U, s, V = svd(x.reshape(self.shape))
        ranks = {int(np.sum(s > tiny * s[0])) for tiny in (LD(1e-15), LD(1e-12))}
        return min((self._of_rank(U[:, :r], V[:r], d) for r in ranks), key=size)

    def _of_rank(self, U: Any, V: Any, d: Any) -> Any:
        D = d.reshape(self.shape) + self.lam * U @ V
        free = D - U @ (U.T @ D)
        free = free - (free @ V.T) @ V
        left, s, right = svd(free)
        return (D - free + (left * np.maximum(s - self.lam, 0)) @ right).ravel()

    def blur(self, x: Any, d: Any) -> Any:
        """A rounded x turns the singular vectors of its smallest singular value by EPS s_1/s_r."""
        s = svd(x.reshape(self.shape))[1]
        turned = EPS * s[0] / min((t for t in s if t > LD(1e-15) * s[0]), default=LD(1))
        return ROUGH * (size(d) + self.lam) + turned * self.lam


@dataclass
class Variation(NonSmooth):
    """lam sum |x_{i+1} - x_i|."""

    lam: Any

    def value(self, x: Any) -> Any:
        return self.lam * np.abs(np.diff(x)).sum()

    def least(self, x: Any, d: Any) -> Any:
        """d + D'z with z_i = lam sign(jump), or |z_i| <= lam where there is none: all faces."""
        jumps = np.sign(np.diff(x))
        free = np.flatnonzero(jumps == 0)
        D = np.diff(np.eye(len(x), dtype=LD), axis=0)
        found = None
        for face in itertools.product((-1, 0, 1), repeat=len(free)):
            z = self.lam * jumps
            z[free] = self.lam * ld(face)
            open_ = free[np.array(face, dtype=int) == 0]
            if len(open_):
                E = D[open_]
                z[open_] = ref.solve(E @ E.T, -E @ (d + D.T @ z))
                if (np.abs(z[open_]) > self.lam).any():
                    continue
            out = d + D.T @ z
            if found is None or size(out) < size(found):
                found = out
        return found

    def blur(self, x: Any, d: Any) -> Any:
        return SAFETY * EPS * len(x) * (size(d) + self.lam)


@dataclass
class Chosen:
    """A psi, the solution, and the subgradient there."""

    term: Callable[[], Any]
    psi: NonSmooth
    x: Any
    w: Any


def _part(d: Any, *shape: int) -> Any:
    """Between -1 and 1, and exactly at an end now and then: degenerate solutions."""
    u = ld(d.rng.uniform(-1.0, 1.0, shape))
    return np.where(d.rng.random(shape) < 0.1, np.sign(u), u)


def _l1(d: Any, unit: float, slope: float) -> Chosen:
    lam = slope * (d.power(-1, 1) if d.rng.random() < 0.5 else 10 ** d.rng.uniform(-1, 1, d.n))
    x = ld(unit * d.normal() * (d.rng.random(d.n) < 0.5))
    w = ld(lam) * np.where(x != 0, np.sign(x), _part(d, d.n))
    return Chosen(lambda: gt.L1(lam), Norm1(ld(np.broadcast_to(lam, d.n))), x, w)


def _box(d: Any, unit: float, slope: float) -> Chosen:
    lower = unit * (d.normal() - 1.0)
    upper = lower + unit * np.abs(d.normal())
    return _bounded(d, lower, upper, slope, lambda: gt.Box(lower, upper))


def _nonnegative(d: Any, unit: float, slope: float) -> Chosen:
    lower, upper = np.zeros(d.n), np.full(d.n, np.inf)
    return _bounded(d, lower, upper, slope, gt.NonNegative, unit)


def _bounded(d: Any, lower: Any, upper: Any, slope: float, make: Any, unit: float = 1.0) -> Chosen:
    where = d.rng.integers(3, size=d.n)
    within = d.rng.uniform(0.1, 0.9, d.n)
    between = lower + (within * (upper - lower) if np.isfinite(upper).all() else unit * within)
    where = np.where(np.isfinite(upper), where, np.minimum(where, 1))
    x = np.choose(where, [lower, between, upper])
    pull = ld(slope * np.abs(d.normal()) * (d.rng.random(d.n) < 0.8))
    w = np.choose(where, [-pull, 0 * pull, pull])
    return Chosen(make, Bounds(ld(lower), ld(upper)), ld(x), w)


def _simplex(d: Any, unit: float, slope: float) -> Chosen:
    radius = unit * d.pick(1.0, d.power(-1, 1))
    keep = d.rng.random(d.n) < 0.6
    keep[int(d.rng.integers(d.n))] = True
    x = ld(d.rng.random(d.n) * keep)
    x = x / x.sum() * LD(radius)
    down = ld(slope * np.abs(d.normal()))
    w = LD(slope * d.normal(1)[0]) - np.where(keep, 0, down)
    return Chosen(lambda: gt.Simplex(radius), Probabilities(LD(radius)), x, w)


def _rows(d: Any, unit: float, slope: float) -> Chosen:
    """Rows with lengths from 1e-3 to 1e3, some of them equal to others, and bounds of some x_i."""
    x, m = ld(unit * d.normal()), int(d.rng.integers(1, 2 * d.n + 1))
    A = d.rng.standard_normal((m, d.n)) * 10 ** d.rng.uniform(-3, 3, (m, 1))
    A[m // 2 :] = np.where(d.rng.random((m - m // 2, 1)) < 0.2, A[: m - m // 2], A[m // 2 :])
    bounded = np.flatnonzero(d.rng.random(d.n) < 0.5)
    rows = np.vstack([A, np.eye(d.n)[bounded]])
    at, lengths = np.asarray(ld(rows) @ x, dtype=np.float64), np.linalg.norm(rows, axis=1)
    where = d.pick(np.arange(4), np.arange(1, 4))[d.rng.integers(3, size=len(rows))]
    where[m:] = np.minimum(where[m:], 2)  # 0 inside, 1 at the lower side, 2 at the upper, 3 at both
    beside = unit * lengths * np.abs(d.rng.standard_normal(len(rows)))
    far = np.where(d.rng.random(len(rows)) < 0.3, np.inf, beside)
    lower = np.where(np.isin(where, (1, 3)), at, at - far)
    upper = np.where(np.isin(where, (2, 3)), at, at + far)
    y = np.abs(d.rng.standard_normal(len(rows))) * (d.rng.random(len(rows)) < 0.8)
    y = y * slope / lengths * np.choose(where, [0.0, -1.0, 1.0, -1.0])
    lo, hi = np.full(d.n, -np.inf), np.full(d.n, np.inf)
    lo[bounded], hi[bounded] = lower[m:], upper[m:]
    make = lambda: gt.Linear(A, lower[:m], upper[:m], bounds=gt.Box(lo, hi))  # noqa: E731
    return Chosen(make, Rows(ld(rows), ld(lower), ld(upper), m), x, ld(y) @ ld(rows))


def _ball(d: Any, unit: float, slope: float) -> Chosen:
    radius, center = unit * d.power(-1, 1), unit * d.pick(np.zeros(d.n), d.normal())
    e = ld(d.normal())
    e = e / size(e)
    edge = bool(d.rng.random() < 0.7)
    x = ld(center) + LD(radius) * e * (LD(1) if edge else LD(0.5))
    w = LD(slope * abs(d.normal(1)[0])) * e * LD(edge)
    return Chosen(lambda: gt.Ball(radius, center), Sphere(ld(center), LD(radius)), x, w)


def _groups(d: Any, unit: float, slope: float) -> Chosen:
    d.n = 2 * int(d.rng.integers(1, 4))
    lam = slope * d.power(-1, 1)
    x, w = [], []
    for _ in range(d.n // 2):
        e = ld(d.normal(2))
        e = e / size(e)
        alive = d.rng.random() < 0.5
        x.append(np.asarray(LD(unit * alive) * e * LD(d.power(-1, 1)), dtype=np.float64))
        length = size(x[-1])
        w.append(LD(lam) * (ld(x[-1]) / length if alive else _part(d, 1)[0] * e))
    point = ld(np.concatenate(x))
    return Chosen(lambda: gt.GroupL1(2, lam), Groups(LD(lam)), point, np.concatenate(w))


def _nuclear(d: Any, unit: float, slope: float) -> Chosen:
    shape = d.pick((2, 2), (3, 2), (3, 1))
    d.n = shape[0] * shape[1]
    lam = slope * d.power(-1, 1)
    U, _, V = svd(ld(d.normal(*shape)))
    rank = int(d.rng.integers(shape[1] + 1))
    s = ld(unit * 10.0 ** d.rng.uniform(-1.0, 1.0, shape[1]))
    s[rank:] = 0
    t = np.where(np.arange(shape[1]) < rank, LD(1), _part(d, shape[1]))
    x, w = (U * s) @ V, LD(lam) * (U * t) @ V
    return Chosen(lambda: gt.NuclearNorm(shape, lam), Nuclear(shape, LD(lam)), x.ravel(), w.ravel())


def _variation(d: Any, unit: float, slope: float) -> Chosen:
    d.n = int(d.rng.integers(2, 6))
    lam = slope * d.power(-1, 1)
    x = ld(unit * np.cumsum(d.normal() * (d.rng.random(d.n) < 0.5)))
    jumps = np.sign(np.diff(x))
    z = LD(lam) * np.where(jumps != 0, jumps, _part(d, d.n - 1))
    w = -np.diff(z, prepend=LD(0), append=LD(0))
    return Chosen(lambda: gt.TotalVariation(lam), Variation(LD(lam)), x, w)


def _none(d: Any, unit: float, slope: float) -> Chosen:
    return Chosen(lambda: None, Nothing(), ld(unit * d.normal()), np.zeros(d.n, dtype=LD))


PSIS = {
    "l1": _l1,
    "box": _box,
    "non-negative": _nonnegative,
    "simplex": _simplex,
    "linear": _rows,
    "ball": _ball,
    "groups": _groups,
    "nuclear": _nuclear,
    "variation": _variation,
    "smooth": _none,
}


class Prox:
    """psi of a user's: a proximal operator and nothing else."""

    def __init__(self, term: Any) -> None:
        self.prox = term.prox


class ProxAndValue(Prox):
    """With values."""

    def __init__(self, term: Any) -> None:
        super().__init__(term)
        self.value = term.value


@dataclass
class Piece:
    """A smooth term."""

    make: Callable[[], Any]
    ref: ref.Function


def _scaled(weight: float, make: Callable[[], Any], function: Any) -> Piece:
    return Piece(lambda: weight * make(), weight * function)


def _smooth(d: Any, unit: float, level: float) -> Piece:
    """A convex term of some kind; some are the user's own, without values or constants."""
    kind = d.pick("quadratic", "logistic", "same rows", "log-sum-exp", "user", "gradients only")
    share = level * d.power(-2, 2)
    if kind in ("quadratic", "user", "gradients only"):
        Q = d.spectrum(d.power(0, 5), share / unit**2)
        b = share / unit * d.normal()
        function = ref.Quadratic(Q, b)
        if kind == "quadratic":
            return Piece(lambda: gt.Quadratic(Q, b), function)
        constants = {} if d.rng.random() < 0.3 else {"L": 1.001 * share / unit**2}
        if kind == "user":
            return Piece(lambda: gt.Term(ref.rounded(function), n=d.n, **constants), function)
        slopes = lambda x: ref.rounded(function)(x)[1]  # noqa: E731
        return Piece(lambda: gt.Term(grad=slopes, n=d.n, **constants), function)
    if kind == "log-sum-exp":
        A = d.normal(4, d.n) / unit
        c = A.mean(axis=0)
        return _scaled(share, lambda: gt.LogSumExp(A, c), ref.LogSumExp(A, c))
    A = d.normal(8, d.n) / unit
    if kind == "same rows":
        A = np.tile(A[:1], (8, 1))
    y = np.where(d.normal(8) > 0.0, 1.0, -1.0)
    return _scaled(share, lambda: gt.LinearModel(A, y, loss="logistic"), ref.Logistic(A, y))


@dataclass
class Planted:
    """What a planted case has beside h and g."""

    psi: NonSmooth
    solution: Any
    term: Callable[[], Any]  # psi, or None
    more: list[Piece] = field(default_factory=list)  # h2, h3 of a list of h


def planted(
    psi: str | None, low: float = -12.0, high: float = 3.0
) -> Callable[[Any], dict[str, Any]]:
    """The cases of one psi, or of any, with units between two powers of ten."""

    def make(d: Any) -> dict[str, Any]:
        unit, level = d.power(low, high), d.power(-4, 4)
        kind = d.pick(*PSIS) if psi is None else psi
        chosen = PSIS[kind](d, unit, level / unit)
        n_h = d.pick(1, 1, 1, 1, 2, 3)
        pieces = [_smooth(d, unit, level) for _ in range(n_h)]
        alone = kind != "smooth" and d.rng.random() < 0.4
        if not alone:
            pieces.append(_smooth(d, unit, level))
        # One of them is the quadratic that makes x* the solution.
        which = int(d.rng.integers(len(pieces)))
        others = [p.ref for k, p in enumerate(pieces) if k != which]
        Q = d.spectrum(d.power(0, 5), level * d.power(-2, 2) / unit**2)
        slope = sum((p.grad(chosen.x) for p in others), np.zeros(d.n, dtype=LD))
        b = np.asarray(ld(Q) @ chosen.x + slope + chosen.w, dtype=np.float64)
        ends = np.linalg.eigvalsh(Q)
        function = ref.Quadratic(Q, b, mu=float(max(ends[0] - 1e-12 * ends[-1], 0.0)))
        if d.rng.random() < 0.3:
            L = d.pick(None, 1.001 * ends[-1])
            term: Any = lambda: gt.Term(ref.rounded(function), n=d.n, L=L)  # noqa: E731
        else:
            term = lambda: gt.Quadratic(Q, b)  # noqa: E731
        pieces[which] = Piece(term, function)
        h, more = pieces[0], pieces[1:n_h]
        g = Piece(lambda: None, ref.Constant()) if alone else pieces[-1]
        make_psi = chosen.term
        style = d.pick("own", "own", "prox", "prox and value") if kind != "smooth" else "own"
        if style != "own":
            wrap = Prox if style == "prox" else ProxAndValue
            make_psi = lambda: wrap(chosen.term())  # noqa: E731
        near = np.asarray(chosen.x, dtype=np.float64)
        start = d.pick(
            np.zeros(d.n),
            near,
            near + unit * d.normal(),
            near + unit * d.power(-6, 6) * d.normal(),
        )
        ref_h = sum((p.ref for p in more), h.ref)
        return {
            "h": h.make,
            "g": g.make,
            "ref_h": ref_h,
            "ref_g": g.ref,
            "start": start,
            "planted": Planted(chosen.psi, chosen.x, make_psi, more),
            "detail": f"{n_h} h{'' if alone else ' and g'}, psi {style}, unit {unit:.0e}",
        }

    return make


KINDS = {f"planted {kind}": planted(kind) for kind in PSIS}
KINDS["planted tiny"] = planted(None, -28.0, -20.0)
