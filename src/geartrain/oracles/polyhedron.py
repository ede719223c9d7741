r"""The projection onto C = {v : l <= A v <= r, lo <= v <= hi}.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
A          ``A``           rows of norm 1, dense or sparse
y, z       ``y``, ``z``    multipliers of rows and of bounds: v = u - A'y - z; positive at an
                           upper side, negative at a lower one
W          ``rows``        the rows that are met with equality: -1 at l, 1 at r, 0 for the others
F          ``variables``   0 for the free variables; -1 for those at lo, 1 for those at hi
t          ``error``       max(\|v - clip(u - A'y, lo, hi)\|, \|A v - clip(A v + y, l, r)\|): 0 at the
                           projection and nowhere else, whatever W and F were used
rho        ``rho``         penalty of the augmented Lagrangian
=========  ==============  ==================================================================

With W and F known, v is the projection onto a face, by one factorisation: A_WF' = Q R, or, for a
large sparse A, the LU factors of A_WF A_WF'. A call begins with W and F of the call before, which
mostly are right, and corrects them where the signs of y, z or the sides of v tell so: the primal-
dual active set method [1]_, which takes one or two rounds, but may run in a circle. Then the
augmented Lagrangian

    1/2 \|v - u\|^2 + rho/2 dist^2(A v + y/rho, [l, r]) + rho/2 dist^2(v + z/rho, [lo, hi])

is minimised over v by semismooth Newton steps, and y, z are rho times the parts beyond the ends
[2]_. At a vertex with more active rows than variables y is not unique: there the answer of the
augmented Lagrangian is accepted by t, and its face need not be known.

Answers depend on u and on W, F of the call before and on nothing else, to the last bit: factors are
computed anew for another face, never updated.

References
----------
.. [1] M. Hintermueller, K. Ito, K. Kunisch, The primal-dual active set strategy as a semismooth
   Newton method, SIAM J. Optim. 13 (2002).
.. [2] X. Li, D. Sun, K.-C. Toh, A highly efficient semismooth Newton augmented Lagrangian method for
   solving lasso problems, SIAM J. Optim. 28 (2018).
.. [3] C. Lawson, R. Hanson, Solving least squares problems, Prentice-Hall (1974), chapter 23.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.oracles.spectrum import lapack
from geartrain.oracles.vectors import Vector, norm

# The error t that is accepted, over the size of u, v and y; and what is taken for 0 beside them.
ACCURACY, _ROUNDING = 1e-12, 1e-14
# Rounds of the active set; of the augmented Lagrangian; Newton steps in one of these.
_ROUNDS, _OUTER, _NEWTON = 8, 30, 60
# The penalty at the start, its growth and its end; Armijo's constant, and the shortest step.
_RHO, _GROWTH, _LARGEST, _ARMIJO, _SHORTEST = 10.0, 4.0, 1e7, 1e-4, 1e-6
# Rows depend on each other where less than this part of one is new; what is added to A_WF A_WF'.
_DEPENDENT, _SHIFT = 1e-10, 1e-13
# Below this error, multipliers of all that is active are looked for.
_NEAR = 1e-6
_FACES = 4  # factors that are kept


class NotProjected(NonFiniteAnswer):
    """No projection was found: C is empty, or its numbers are too far apart."""


@dataclass(frozen=True, eq=False)
class Polyhedron:
    """The set C, by rows of norm 1."""

    A: Any
    l: Vector  # noqa: E741
    r: Vector
    lo: Vector
    hi: Vector
    equal: Any  # equalities that are active on all faces: a largest independent set of them

    @staticmethod
    def of(A: Any, l: Vector, r: Vector, lo: Vector, hi: Vector) -> Polyhedron:  # noqa: E741
        """By rows of norm 1 and bounds."""
        equal = l == r
        if not sparse.issparse(A):  # sparse faces need not be independent
            among, free = np.flatnonzero(equal), np.flatnonzero(lo < hi)
            used = _orthonormal(A[np.ix_(among, free)].T)[2]
            equal = np.zeros(l.size, dtype=bool)
            equal[among[used]] = True
        return Polyhedron(A, l, r, lo, hi, equal)

    def tangent(self, v: Vector, near: float) -> Polyhedron:
        """The cone of the directions that do not leave C at v; what is as `near` is active."""
        t, Av = near * norm(v), self.A @ v
        at_l = Av <= self.l + np.maximum(t, near * np.abs(finite(self.l)))
        at_r = Av >= self.r - np.maximum(t, near * np.abs(finite(self.r)))
        at_lo, at_hi = v <= self.lo + t, v >= self.hi - t
        return replace(
            self,
            l=np.where(at_l, 0.0, -math.inf),
            r=np.where(at_r, 0.0, math.inf),
            lo=np.where(at_lo, 0.0, -math.inf),
            hi=np.where(at_hi, 0.0, math.inf),
        )

    def beyond(self, x: Vector) -> Vector:
        """How far every row of A x is outside."""
        Ax = self.A @ x
        return np.maximum(np.maximum(self.l - Ax, Ax - self.r), 0.0)


@dataclass(frozen=True, eq=False)
class Active:
    """W and F: what a projection hands to the next one."""

    rows: Any  # of int8
    variables: Any


@dataclass(frozen=True, eq=False)
class Projection:
    """A projection with its multipliers."""

    v: Vector
    y: Vector
    z: Vector
    active: Active
    error: float = math.inf  # t over the size of the numbers


class Faces:
    """Factors of the faces of all sets with the same A; the newest are kept."""

    def __init__(self, A: Any) -> None:
        self.A, self._kept = A, dict[tuple[bytes, bytes], Any]()

    def __call__(self, active: Active) -> Any:
        """The face of the active rows and the free variables."""
        W, free = active.rows != 0, active.variables == 0
        key = W.tobytes(), free.tobytes()
        face = self._kept.pop(key, None)
        if face is None:
            kind = SparseFace if sparse.issparse(self.A) else DenseFace
            face = kind(self.A, np.flatnonzero(W), np.flatnonzero(free))
            if len(self._kept) >= _FACES:
                del self._kept[next(iter(self._kept))]
        self._kept[key] = face
        return face


class DenseFace:
    """{v : A_W v = b, v fixed outside of F}, by A_WF' = Q R."""

    def __init__(self, A: Any, W: Any, free: Any) -> None:
        self.free, self.m = free, len(A)
        AF = A[np.ix_(W, free)]
        self.Q, self.R, used = _orthonormal(AF.T)
        self.rows = W[used]  # a largest set of rows that do not depend on each other
        self.A = A[self.rows]

    def put(self, v: Vector, b: Vector) -> Vector:
        """Move v, in place, to the nearest point of the face; the multipliers of the move."""
        y, free, R = np.zeros(self.m), self.free, self.R
        if not self.rows.size:
            return y
        b, solve = b[self.rows], lapack().dtrtrs
        for _ in range(2):  # the second one for rounding
            t = solve(R, self.A @ v - b, trans=1)[0]
            v[free] -= self.Q @ t
            y[self.rows] += solve(R, t)[0]
        return y

    def __call__(self, X: Vector) -> Vector:
        """The projection of the columns of X onto the directions of the face."""
        out, inside = np.zeros(X.shape), X[self.free]
        out[self.free] = inside - self.Q @ (self.Q.T @ inside)
        return out

    def form(self, V: Vector) -> Vector:
        """V J V'."""
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
        self.free, self.rows, self.m = free, W, A.shape[0]
        self.A = A[W]
        self.AF = self.A[:, free]
        self.solve = _solver(self.AF @ self.AF.T, _SHIFT) if W.size else None

    def put(self, v: Vector, b: Vector) -> Vector:
        """Move v, in place, to the nearest point of the face; the multipliers of the move."""
        y = np.zeros(self.m)
        if self.solve is None:
            return y
        b = b[self.rows]
        for _ in range(3):  # the others for rounding and for the multiple of I
            t = self.solve(self.A @ v - b)
            v[self.free] -= self.AF.T @ t
            y[self.rows] += t
        return y

    def __call__(self, X: Vector) -> Vector:
        """The projection of the columns of X onto the directions of the face."""
        out, inside = np.zeros(X.shape), X[self.free]
        out[self.free] = inside
        if self.solve is not None:
            out[self.free] -= self.AF.T @ self.solve(self.AF @ inside)
        return out

    def form(self, V: Vector) -> Vector:
        """V J V'."""
        inside = V[:, self.free]
        out = inside @ inside.T
        if self.solve is None:
            return np.asarray(out)
        normal = self.AF @ inside.T
        return np.asarray(out - normal.T @ self.solve(normal))


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
    """Projections onto C, each of which begins with the active set of the one before.

    Parameters
    ----------
    C : Polyhedron
    faces : Faces
        With the same A.
    active : Active, optional
        To begin with.
    """

    def __init__(self, C: Polyhedron, faces: Faces, active: Active | None = None) -> None:
        self.C, self.faces = C, faces
        if active is None:
            active = Active(np.zeros(C.l.size, np.int8), np.zeros(C.lo.size, np.int8))
        self.active = active

    def __call__(self, u: Vector) -> Projection:
        """The projection of u."""
        if not np.isfinite(u).all():
            raise NonFiniteAnswer("a point with NaN or infinity has no projection")
        found = self._by_faces(u)
        if not found.error <= ACCURACY:
            found = self._by_lagrangian(u)
        self.active = found.active
        return found

    def _by_faces(self, u: Vector) -> Projection:
        """Rounds of the primal-dual active set method; the last one."""
        found = self._on_face(u, self._sides(self.active))
        for _ in range(_ROUNDS - 1):
            if found.error <= ACCURACY:
                break
            before = found.active
            found = self._on_face(u, self._corrected(u, found))
            if np.array_equal(found.active.rows, before.rows) and np.array_equal(
                found.active.variables, before.variables
            ):
                break
        return found

    def _sides(self, active: Active) -> Active:
        """Without the sides that C does not have; equalities are always active."""
        C = self.C
        rows = np.where(active.rows > 0, C.r < math.inf, False) * np.int8(1)
        rows -= np.where(active.rows < 0, C.l > -math.inf, False) * np.int8(1)
        fixed = np.where(active.variables > 0, C.hi < math.inf, False) * np.int8(1)
        fixed -= np.where(active.variables < 0, C.lo > -math.inf, False) * np.int8(1)
        rows[C.equal] = 1
        fixed[C.lo == C.hi] = 1
        return Active(rows, fixed)

    def _on_face(self, u: Vector, active: Active) -> Projection:
        """The nearest point of a face, and how far it is from the projection."""
        C, rows, fixed = self.C, active.rows, active.variables
        v = np.where(fixed < 0, C.lo, np.where(fixed > 0, C.hi, u))
        y = self.faces(active).put(v, np.where(rows < 0, C.l, C.r))
        return self._checked(u, v, y, active)

    def _checked(self, u: Vector, v: Vector, y: Vector, active: Active) -> Projection:
        """v, exactly within the bounds, with its error."""
        C = self.C
        v = np.clip(v, C.lo, C.hi)
        Av, t = C.A @ v, u - C.A.T @ y
        size = _top(u) + _top(v) + _top(y)
        error = max(
            _top(v - np.clip(t, C.lo, C.hi)), _top(Av - np.clip(Av + y, C.l, C.r)), 0.0
        )
        return Projection(v, y, t - v, active, error / size if size > 0.0 else 0.0)

    def _corrected(self, u: Vector, found: Projection) -> Active:
        """Active are what is beyond its side, and what is at its side and held by y or z."""
        C, y = self.C, found.y
        t = _ROUNDING * (_top(u) + _top(found.v) + _top(y))
        s, x = C.A @ found.v + y, found.v + found.z
        rows = (s > C.r + t) * np.int8(1) - (s < C.l - t) * np.int8(1)
        fixed = (x > C.hi + t) * np.int8(1) - (x < C.lo - t) * np.int8(1)
        return self._sides(Active(rows, fixed))

    def _by_lagrangian(self, u: Vector) -> Projection:
        """By the augmented Lagrangian, from multipliers 0."""
        C, rho = self.C, _RHO
        v, y, z = np.clip(u, C.lo, C.hi), np.zeros(C.l.size), np.zeros(u.size)
        best: Projection | None = None
        for _ in range(_OUTER):
            v, a, b = _newton(C, u, v, y / rho, z / rho, rho)
            y, z = rho * a, rho * b
            active = self._sides(_signs(y, z))
            for found in (self._on_face(u, active), self._checked(u, v, y, active)):
                if best is None or found.error < best.error:
                    best = found
            if ACCURACY < best.error < _NEAR:
                found = self._on_face(u, self._sides(_independent(C, u, best)))
                best = found if found.error < best.error else best
            if best.error <= ACCURACY:
                return best
            rho = min(_GROWTH * rho, _LARGEST)
        raise NotProjected(f"the projection onto the set is right to {best.error:.1e} only")


def _independent(C: Polyhedron, u: Vector, found: Projection) -> Active:
    """Rows and bounds that do not depend on each other and hold v, where many meet at v.

    They are those of the multipliers of the right signs of all that is active at v for which
    A'y + z is nearest to u - v, by the method of Lawson and Hanson, which keeps an independent set
    [3]_; equalities, whose multipliers may have any sign, are eliminated first.
    """
    from scipy.optimize import nnls  # here, because importing it takes a while

    v, t = found.v, 10.0 * found.error * (_top(u) + _top(found.v) + _top(found.y))
    rows, fixed = np.zeros(C.l.size, np.int8), np.zeros(v.size, np.int8)
    Av, I = C.A @ v, np.eye(v.size)
    sides = [
        (rows, 1, C.A, np.flatnonzero((Av >= C.r - t) & ~C.equal)),
        (rows, -1, C.A, np.flatnonzero((Av <= C.l + t) & ~C.equal)),
        (fixed, 1, I, np.flatnonzero(v >= C.hi - t)),
        (fixed, -1, I, np.flatnonzero(v <= C.lo + t)),
    ]
    normals = [sign * _dense(K[at]) for _, sign, K, at in sides]
    M = np.column_stack([*normals[0], *normals[1], *normals[2], *normals[3], u - v])
    Q = _orthonormal(_dense(C.A[np.flatnonzero(C.equal)]).T)[0]
    M -= Q @ (Q.T @ M)
    weights = nnls(M[:, :-1], M[:, -1])[0]
    for side, sign, _, at in sides:
        used, weights = weights[: at.size], weights[at.size :]
        side[at[used > 0.0]] = sign
    return Active(rows, fixed)


def _dense(K: Any) -> Vector:
    return K.toarray() if sparse.issparse(K) else K


def _signs(y: Vector, z: Vector) -> Active:
    return Active(np.sign(y).astype(np.int8), np.sign(z).astype(np.int8))


def _newton(
    C: Polyhedron, u: Vector, v: Vector, y: Vector, z: Vector, rho: float
) -> tuple[Vector, Vector, Vector]:
    """The minimiser of the augmented Lagrangian with y, z over rho; the parts beyond the ends."""
    scale = _ROUNDING * (norm(u) + norm(v)) * math.sqrt(rho)

    def parts(v: Vector) -> tuple[Vector, Vector, float]:
        s, x = C.A @ v + y, v + z
        a, b = s - np.clip(s, C.l, C.r), x - np.clip(x, C.lo, C.hi)
        return a, b, 0.5 * float((v - u) @ (v - u)) + 0.5 * rho * float(a @ a + b @ b)

    a, b, value = parts(v)
    for _ in range(_NEWTON):
        grad = v - u + rho * (C.A.T @ a + b)
        if norm(grad) <= scale:
            break
        D = np.where(b != 0.0, 1.0 + rho, 1.0)
        step, W = -grad / D, np.flatnonzero(a)
        if W.size:  # by the formula of Sherman, Morrison and Woodbury
            AW = C.A[W]
            S = (AW.multiply(1.0 / D).tocsr() if sparse.issparse(AW) else AW / D) @ AW.T
            step -= (AW.T @ _solver(S, 1.0 / rho)(AW @ step)) / D
        part, slope = 1.0, float(grad @ step)
        while part > _SHORTEST:
            after = parts(v + part * step)
            if after[2] <= value + _ARMIJO * part * slope + 1e-15 * value:
                break
            part *= 0.5
        else:
            break
        v = v + part * step
        a, b, value = after
    return v, a, b


def finite(b: Vector) -> Vector:
    """With 0 in place of infinities."""
    return np.where(np.isfinite(b), b, 0.0)


def _top(x: Vector) -> float:
    return float(np.abs(x).max(initial=0.0))
