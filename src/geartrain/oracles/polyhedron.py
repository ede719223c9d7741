r"""The projection onto C = {v : l <= A v <= r, lo <= v <= hi}.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
A          ``A``           rows of norm 1, dense or sparse
K          --              A with the rows of I below: C is low <= K v <= up
y          ``y``           multipliers of K: v = u - K'y; positive at an upper side, negative at a
                           lower one
W          ``active``      what is met with equality: -1 at low, 1 at up, 0 for the others
F          ``free``        the variables that are not at a bound in W
t          ``error``       \|K v - clip(K v + y, low, up)\|, where the part of y for the bounds is
                           u - v less A' times the others: 0 at the projection and nowhere else,
                           whatever W was used
rho        ``rho``         penalty of the augmented Lagrangian
=========  ==============  ==================================================================

With W known, v is the projection onto a face, by one factorisation: A_WF' = Q R, or, for a large
sparse A, the LU factors of A_WF A_WF'. A call begins with the W of the call before, which mostly is
right, and corrects it where the signs of y or the sides of v tell so: the primal-dual active set
method [1]_, which takes one or two rounds, but may run in a circle. Then the augmented Lagrangian

    1/2 \|v - u\|^2 + rho/2 dist^2(K v + y/rho, [low, up])

is minimised over v by semismooth Newton steps, and y becomes rho times the part beyond the ends
[2]_. At a vertex where more rows meet than there are variables y is not unique: there a set of
independent rows with multipliers of the right signs is looked for, as a problem of non-negative
least squares [3]_. What is accepted is told by t.

Answers depend on u and on the W of the call before and on nothing else, to the last bit: factors
are computed anew for another face, never updated.

References
----------
.. [1] M. Hintermueller, K. Ito, K. Kunisch, The primal-dual active set strategy as a semismooth
   Newton method, SIAM J. Optim. 13 (2002).
.. [2] X. Li, D. Sun, K.-C. Toh, A highly efficient semismooth Newton augmented Lagrangian method
   for solving lasso problems, SIAM J. Optim. 28 (2018).
.. [3] C. Lawson, R. Hanson, Solving least squares problems, Prentice-Hall (1974), chapter 23.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.oracles.spectrum import lapack
from geartrain.oracles.vectors import Vector, norm

# The error t that is accepted, over the size of u and v; that in the end; what is taken for 0.
ACCURACY, _ENOUGH, _ROUNDING = 1e-12, 1e-9, 1e-14
# Rounds of the active set; of the augmented Lagrangian; Newton steps in one of these.
_ROUNDS, _OUTER, _NEWTON = 8, 16, 60
# The penalty at the start, its growth and its end; Armijo's constant.
_RHO, _GROWTH, _LARGEST, _ARMIJO = 10.0, 4.0, 1e7, 1e-4
# Below this error, independent rows are looked for; variables and active rows at most.
_NEAR, _FEW = 1e-6, 3000
# Rows depend on each other where less than this part of one is new; what is added to A_WF A_WF'.
_DEPENDENT, _SHIFT = 1e-10, 1e-13
# Rounding of the changes of the augmented Lagrangian, and of points.
_LEVEL = 1e-15
_FACES = 4  # factors that are kept


class NotProjected(NonFiniteAnswer):
    """No projection was found: C is empty, or its numbers are too far apart."""


@dataclass(frozen=True, eq=False)
class Polyhedron:
    """The set C."""

    A: Any
    low: Vector  # of the rows and of the variables
    up: Vector
    least: Any  # the sides that there are, in int8: from -1 or 0, or 1 for what is always active,
    most: Any  # to 0 or 1

    @staticmethod
    def of(A: Any, low: Vector, up: Vector) -> Polyhedron:
        """By rows of norm 1 and the sides of rows and variables."""
        m, equal = A.shape[0], low == up
        if not sparse.issparse(A):  # sparse faces need not be independent
            among, free = np.flatnonzero(equal[:m]), np.flatnonzero(~equal[m:])
            used = _orthonormal(A[np.ix_(among, free)].T)[2]
            equal[:m] = False
            equal[among[used]] = True
        below, above = (low > -math.inf).view(np.int8), (up < math.inf).view(np.int8)
        return Polyhedron(A, low, up, np.where(equal, np.int8(1), -below), above)

    @property
    def m(self) -> int:
        return int(self.A.shape[0])

    def product(self, v: Vector) -> Vector:
        return np.concatenate([self.A @ v, v])

    def tangent(self, v: Vector, near: float) -> Polyhedron:
        """The cone of the directions that do not leave C at v.

        Rows are active where their side is as `near`, over their scale, bounds where v is at them,
        and equalities everywhere.
        """
        size, Kv, near_it = norm(v), self.product(v), np.zeros(self.low.size)
        near_it[: self.m] = near
        equal = self.least > 0
        at_low = Kv <= self.low + near_it * np.maximum(size, np.abs(finite(self.low)))
        at_up = Kv >= self.up - near_it * np.maximum(size, np.abs(finite(self.up)))
        at_low, at_up = at_low | equal, at_up | equal
        low, up = np.where(at_low, 0.0, -math.inf), np.where(at_up, 0.0, math.inf)
        least = np.where(self.least > 0, self.least, -at_low.view(np.int8))
        return Polyhedron(self.A, low, up, least, at_up.view(np.int8))

    def beyond(self, x: Vector) -> Vector:
        """How far every row of K x is outside: below 0 under its lower side."""
        Kx = self.product(x)
        return Kx - self.clipped(Kx)

    def clipped(self, s: Vector) -> Vector:
        return np.minimum(np.maximum(s, self.low), self.up)


def finite(b: Vector) -> Vector:
    """With 0 in place of infinities."""
    return np.where(np.isfinite(b), b, 0.0)


@dataclass(frozen=True, eq=False)
class Projection:
    """A projection with its multipliers."""

    v: Vector
    y: Vector
    active: Any
    error: float  # t over the size of the numbers
    size: float


class Faces:
    """Factors of the faces of all sets with the same A; the newest are kept."""

    def __init__(self, A: Any) -> None:
        self.A, self._kept = A, dict[bytes, Any]()

    def __call__(self, active: Any) -> Any:
        """The face of the active rows and the free variables."""
        on = active != 0
        key = on.tobytes()
        face = self._kept.pop(key, None)
        if face is None:
            kind, m = SparseFace if sparse.issparse(self.A) else DenseFace, self.A.shape[0]
            face = kind(self.A, np.flatnonzero(on[:m]), np.flatnonzero(~on[m:]))
            if len(self._kept) >= _FACES:
                del self._kept[next(iter(self._kept))]
        self._kept[key] = face
        return face


class DenseFace:
    """{v : A_W v = b, v fixed outside of F}, by A_WF' = Q R."""

    def __init__(self, A: Any, W: Any, free: Any) -> None:
        self.free = free
        self.Q, R, used = _orthonormal(A[np.ix_(W, free)].T)
        self.rows = W[used]  # a largest set of rows that do not depend on each other
        self.A = A[self.rows]
        self.inverse = lapack().dtrtri(R)[0] if used.size else R

    def put(self, v: Vector, b: Vector) -> Vector | None:
        """Move v, in place, to the nearest point of the face; the multipliers of `rows`."""
        b, y = b[self.rows], np.zeros(self.rows.size)
        for _ in range(2 if b.size else 0):  # the second one for rounding
            t = (self.A @ v - b) @ self.inverse
            v[self.free] -= self.Q @ t
            y += self.inverse @ t
        return y

    def __call__(self, X: Vector) -> Vector:
        """The projection of the columns of X onto the directions of the face."""
        out, inside = np.zeros(X.shape), X[self.free]
        out[self.free] = inside - self.Q @ (self.Q.T @ inside)
        return out

    def form(self, V: Vector) -> Vector:
        inside = V[:, self.free]
        normal = inside @ self.Q
        return np.asarray(inside @ inside.T - normal @ normal.T)


def _orthonormal(M: Vector) -> tuple[Vector, Vector, Any]:
    """Q, R and the columns of M that they are made of: those that do not depend on others."""
    if not M.size:
        return np.zeros((len(M), 0)), np.zeros((0, 0)), np.zeros(0, dtype=int)
    qr, order, tau = lapack().dgeqp3(M)[:3]
    sizes = np.abs(qr.diagonal())
    rank = int(np.count_nonzero(sizes > _DEPENDENT * sizes[0]))
    Q = lapack().dorgqr(qr[:, :rank], tau[:rank])[0]
    return Q, np.triu(qr[:rank, :rank]), order[:rank] - 1


class SparseFace:
    """The same by the LU factors of A_WF A_WF' + a small multiple of I, for a sparse A."""

    def __init__(self, A: Any, W: Any, free: Any) -> None:
        self.free, self.rows, self.A = free, W, A[W]
        self.AF = self.A[:, free]
        self.solve = _solver(self.AF @ self.AF.T, _SHIFT) if W.size else np.copy

    def put(self, v: Vector, b: Vector) -> Vector:
        b, y = b[self.rows], np.zeros(self.rows.size)
        for _ in range(3 if b.size else 0):  # the others for rounding and the multiple of I
            t = self.solve(self.A @ v - b)
            v[self.free] -= self.AF.T @ t
            y += t
        return y

    def __call__(self, X: Vector) -> Vector:
        out, inside = np.zeros(X.shape), X[self.free]
        out[self.free] = inside - self.AF.T @ self.solve(self.AF @ inside)
        return out

    def form(self, V: Vector) -> Vector:
        inside = V[:, self.free]
        normal = self.AF @ inside.T
        return np.asarray(inside @ inside.T - normal.T @ self.solve(normal))


def _solver(S: Any, shift: float) -> Any:
    """The function t -> (S + shift I)^-1 t of a positive semidefinite S, dense or sparse."""
    if sparse.issparse(S):
        from scipy.sparse.linalg import splu  # here, because importing it takes a while

        shifted = sparse.csc_matrix(S + shift * sparse.eye(S.shape[0]))
        options = {"SymmetricMode": True}
        return splu(shifted, "MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options).solve
    S.flat[:: len(S) + 1] += shift
    C, failed = lapack().dpotrf(S, lower=1)
    if failed:
        raise NotProjected("a matrix of the projection is not positive definite")
    return lambda t: lapack().dpotrs(C, t, lower=1)[0]


class Projector:
    """Projections onto C, each of which begins with the active set of the one before."""

    def __init__(self, C: Polyhedron, faces: Faces, active: Any = None) -> None:
        self.C, self.faces = C, faces
        self.active = np.zeros(C.low.size, np.int8) if active is None else active

    def __call__(self, u: Vector) -> Projection:
        if not norm(u) < math.inf:
            raise NonFiniteAnswer("a point with NaN or infinity has no projection")
        found = self._by_faces(u)
        if not found.error <= ACCURACY:
            found = self._by_lagrangian(u)
        self.active = found.active
        return found

    def _by_faces(self, u: Vector) -> Projection:
        """Rounds of the primal-dual active set method; the last one."""
        found = self._on_face(u, self.active)
        for _ in range(_ROUNDS - 1):
            if found.error <= ACCURACY:
                break
            # Beyond its side, or at its side and held there.
            C, t = self.C, _ROUNDING * found.size
            s = C.product(found.v) + found.y
            active = (s > C.up + t).view(np.int8) - (s < C.low - t).view(np.int8)
            if np.array_equal(active, found.active):
                break
            found = self._on_face(u, active)
        return found

    def _on_face(self, u: Vector, active: Any) -> Projection:
        """The nearest point of a face of C, and how far it is from the projection."""
        C, m = self.C, self.C.m
        active = np.minimum(np.maximum(active, C.least), C.most)
        side = np.where(active < 0, C.low, C.up)
        v = np.where(active[m:] == 0, u, side[m:])
        face = self.faces(active)
        y = np.zeros(m)
        y[face.rows] = face.put(v, side[:m])
        return self._checked(u, v, y, active)

    def _checked(self, u: Vector, v: Vector, y: Vector, active: Any) -> Projection:
        """v, exactly within the bounds, with its error; y is that of the rows."""
        C, m = self.C, self.C.m
        size = norm(u) + norm(v)
        near = _ROUNDING * size
        v = np.minimum(np.maximum(v, C.low[m:]), C.up[m:])
        cut = (v > C.up[m:] - near).view(np.int8) - (v < C.low[m:] + near).view(np.int8)
        if cut.any():  # these are at their bounds now
            v = np.where(cut < 0, C.low[m:], np.where(cut > 0, C.up[m:], v))
            active = active.copy()
            active[m:] = np.where(cut == 0, active[m:], cut)
        y, Kv = np.concatenate([y, u - y @ C.A - v]), C.product(v)
        error = norm(Kv - C.clipped(Kv + y))
        relative = error / size if size > 0.0 else math.inf
        return Projection(v, y, active, relative if error > 0.0 else 0.0, size)

    def _better(self, u: Vector, best: Projection, active: Any) -> Projection:
        found = self._on_face(u, active)
        return found if found.error < best.error else best

    def _by_lagrangian(self, u: Vector) -> Projection:
        """By the augmented Lagrangian, from multipliers 0."""
        C, m, rho = self.C, self.C.m, _RHO
        v, y = u, np.zeros(C.low.size)
        best = self._checked(u, v, y[:m], np.zeros(C.low.size, np.int8))
        for _ in range(_OUTER):
            v, part = _newton(C, u, v, y / rho, rho)
            y = rho * part
            active = np.sign(y).astype(np.int8)
            tried = [self._on_face(u, active), self._checked(u, v, y[:m], active), best]
            best = min(tried, key=lambda found: found.error)
            if ACCURACY < best.error < _NEAR and u.size <= _FEW:
                near = 10.0 * best.error * best.size
                best = self._better(u, best, _least_distance(C, u, near, best.v))
            if best.error <= ACCURACY:
                return best
            rho = min(_GROWTH * rho, _LARGEST)
        if u.size <= _FEW:
            found = self._on_face(u, _least_distance(C, u))
            y = _multipliers(C, u - found.v, found.v)
            tried = [best, found, self._checked(u, found.v, y, found.active)]
            best = min(tried, key=lambda found: found.error)
        if best.error <= _ENOUGH:
            return best
        raise NotProjected(f"the projection onto the set is right to {best.error:.1e} only")


def _least_distance(C: Polyhedron, u: Vector, near: float = 1e300, v: Any = None) -> Any:
    """W as an independent set, by multipliers of the right signs; `near` are sides to look at.

    The shortest s with G s >= h is made of the rows of G that have a positive weight in the
    non-negative least squares solution of [G'; h'] t = (0, 1) [3]_, here for s = v - u, after the
    equalities are eliminated, whose multipliers may have any sign.
    """
    from scipy.optimize import nnls  # here, because importing it takes a while

    active = np.zeros(C.low.size, np.int8)
    always, Kv = C.least > 0, C.product(u if v is None else v)
    above = np.flatnonzero((Kv >= C.up - near) & (C.up < math.inf) & ~always)
    below = np.flatnonzero((Kv <= C.low + near) & (C.low > -math.inf) & ~always)
    if above.size + below.size > _FEW:
        return active
    at, side = np.append(above, below), np.repeat([1.0, -1.0], [above.size, below.size])
    equal = np.flatnonzero(always)
    Q, R, used = _orthonormal(_rows(C, equal).T)
    Ku = C.product(u)
    if used.size:
        first = equal[used]
        Ku += C.product(Q @ lapack().dtrtrs(R, C.up[first] - Ku[first], trans=1)[0])
    G = -side[:, None] * _rows(C, at)
    G -= (G @ Q) @ Q.T
    h = side * (Ku[at] - np.where(side > 0.0, C.up[at], C.low[at]))
    new = np.linalg.norm(G, axis=1) > _DEPENDENT**0.5  # the others are equalities, too
    at, side, G, h = at[new], side[new], G[new], h[new]
    if not at.size or not h.max() > 0.0:
        return active
    try:
        t = nnls(np.vstack([G.T, h / np.abs(h).max()]), np.append(np.zeros(u.size), 1.0))[0]
    except RuntimeError:  # too many steps
        return active
    active[at[t > 0.0]] = side[t > 0.0]
    return active


def _multipliers(C: Polyhedron, w: Vector, v: Vector) -> Vector:
    """Those of rows, with the right signs, for which w is nearest to the normal cone at v."""
    from scipy.optimize import nnls

    cone = C.tangent(v, ACCURACY)
    above, below = np.flatnonzero(cone.up == 0.0), np.flatnonzero(cone.low == 0.0)
    at, side = np.append(above, below), np.repeat([1.0, -1.0], [above.size, below.size])
    y = np.zeros(C.low.size)
    if at.size:
        with contextlib.suppress(RuntimeError):  # too many steps
            np.add.at(y, at, side * nnls((side[:, None] * _rows(C, at)).T, w)[0])
    return y[: C.m]


def _rows(C: Polyhedron, which: Any) -> Vector:
    rows, of_A = np.zeros((which.size, C.A.shape[1])), which < C.m
    A = C.A[which[of_A]]
    rows[of_A] = A.toarray() if sparse.issparse(A) else A
    rows[np.flatnonzero(~of_A), which[~of_A] - C.m] = 1.0
    return rows


def _newton(C: Polyhedron, u: Vector, v: Vector, y: Vector, rho: float) -> tuple[Vector, Vector]:
    """The minimiser of the augmented Lagrangian with y over rho; the part beyond the sides."""
    m = C.m

    def beyond(v: Vector) -> Vector:
        s = C.product(v) + y
        return s - C.clipped(s)

    part = beyond(v)
    enough = _ROUNDING * (norm(u) + norm(v) + norm(part)) * math.sqrt(rho)
    for _ in range(_NEWTON):
        grad = v - u + rho * (part[:m] @ C.A + part[m:])
        if norm(grad) <= enough:
            break
        D = np.where(part[m:] != 0.0, 1.0 + rho, 1.0)
        step, W = -grad / D, np.flatnonzero(part[:m])
        if W.size:  # by the formula of Sherman, Morrison and Woodbury
            AW = C.A[W]
            S = (AW.multiply(1.0 / D).tocsr() if sparse.issparse(AW) else AW / D) @ AW.T
            step -= (AW.T @ _solver(S, 1.0 / rho)(AW @ step)) / D
        slope, noise = float(grad @ step), _LEVEL * norm(v - u) * norm(step)
        while True:  # the change of the value, without the numbers that cancel
            after = beyond(v + step)
            change = float((v - u + 0.5 * step) @ step)
            change += 0.5 * rho * float((after - part) @ (after + part))
            if change <= _ARMIJO * slope + noise:
                break
            step, slope, noise = 0.5 * step, 0.5 * slope, 0.5 * noise
            if norm(step) <= _LEVEL * (norm(v) + norm(u)):
                return v, part
        v, part = v + step, after
    return v, part
