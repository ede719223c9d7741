r"""BFGS updates: one by one for old pairs, all at once for the newest pairs that agree.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
S, Y       --              steps of length one and changes of a gradient, oldest first
F          --              what a floor of the curvature is measured by: changes of grad g
V          --              all these rows: S, Y, and F where there is a floor
S V'       ``products``    all that the update depends on
B_0        --              the base matrix; B_0 S' = lam S' + share F'
P, N       ``factors``     weights of the rows: the updated matrix is B_0 + V'(P'P - N'N)V
=========  ==============  ==================================================================

For a quadratic, <s_i, y_j> = <s_j, y_i> for all pairs, and one block update [1]_ satisfies all
secant equations. Where the curvature has changed between the pairs, the two differ, and the block
update is worse than useless: combinations of many old steps are short and have a large,
contradictory change of the gradient. Updates one by one [2]_ never combine pairs. So the newest
pairs make one block, as many of them as agree with each other, and older ones are used one by one
before. Close to a solution, where the curvature no longer changes, the block grows.

References
----------
.. [1] W. Gao, D. Goldfarb, RowBlock BFGS methods, SIAM J. Optim. 28 (2018).
.. [2] R. Byrd, J. Nocedal, R. Schnabel, Representations of quasi-Newton matrices and their use in
   limited memory methods, Math. Program. 63 (1994).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from geartrain.methods.pqn.tuning import Tuning
from geartrain.oracles.protocols import Vector
from geartrain.oracles.spectrum import eigh, lapack

_TINY = 1e-300
# What the new part of a step shows is divided by its square, and so is what the pairs disagree by:
# where they agree up to rounding, as those of a quadratic do, a smaller new part is enough, so many
# times the root of the disagreement; and this part at least.
_BETTER, _ROUNDING = 10.0, 1e-3
# A pair is left out of an inverse where <s, y> is below this part of |y|: it is rounding.
_CURVED = 1e-12
# An update is left out where <s, B s> is below this part of <s, y>.
_ROUNDED = 1e-14
# Eigenvalues of small matrices are at least these parts of the largest: of S F', S Y' and S B S'.
_LEAST_F, _LEAST_Y, _LEAST_B = 1e-8, 1e-8, 1e-10


@dataclass(frozen=True)
class Update:
    """B_0 + V'(P'P - N'N)V, with <s, y> raised to `floor` <s, F> at least."""

    products: Vector
    lam: float
    tuning: Tuning
    share: float = 0.0
    floor: float = 0.0  # 0: there is no F

    @cached_property
    def _S(self) -> Vector:
        """S S'."""
        return self.products[:, : len(self.products)]

    @cached_property
    def _Y(self) -> Vector:
        """S Y'."""
        k = len(self.products)
        return self.products[:, k : 2 * k]

    @cached_property
    def _F(self) -> Vector:
        """S F'; S itself stands for F where there is none."""
        k = len(self.products)
        return self.products[:, 2 * k :] if self.floor > 0.0 else self._S

    @cached_property
    def split(self) -> tuple[int, Any]:
        """The number of old pairs, and those of the others that make the block."""
        k = len(self.products)
        least = self.floor * self._F.diagonal() if self.floor > 0.0 else np.zeros(k)
        newest, apart = agreeing(self._Y, least, self.tuning.agree)
        if newest < 2:
            return k, np.zeros(0, dtype=int)
        old = k - newest
        new = min(max(_BETTER * math.sqrt(apart), _ROUNDING), self.tuning.new)
        return old, old + independent(self._S[old:, old:], new)

    @cached_property
    def factors(self) -> tuple[Vector, Vector]:
        """P and N."""
        k, width = self.products.shape
        rows = np.eye(width)
        S, Y, F = rows[:k], rows[k : 2 * k], rows[2 * k :] if self.floor > 0.0 else rows[:k]
        base = self.lam * S + self.share * F if self.share > 0.0 else self.lam * S
        old, block = self.split
        if self.floor > 0.0:
            P, N = self._lifted_one_by_one(Y[:old], F[:old], base[:old])
        else:
            P, N = one_by_one(self.lam * self._S[:old, :old], self._Y[:old, :old], Y, base)
        if not len(block):
            return P, N
        to_rows = self.products[block]  # inner products of the steps of the block with V
        A, M = _symmetric(_part(self._Y, block)), _symmetric(_part(self._F, block))
        top = float(A.diagonal().max())
        L = root(A, M, self.floor or _LEAST_Y * top)
        if L is not None:
            P_new = _solved(L, Y[block])
        else:
            # combinations R of the pairs with R S F' R' = I and R S Y' R' = diag(t)
            w, U = eigh(M)
            if not w[-1] > 0.0:  # the floor tells nothing along these steps
                return P, N
            R = (U / np.sqrt(np.maximum(w, _LEAST_F * w[-1]))).T
            t, U = eigh(_symmetric(R @ A @ R.T))
            R = U.T @ R
            rise = np.maximum(t, self.floor or _LEAST_Y * t[-1])
            P_new = (R @ Y[block] + (rise - t)[:, None] * (R @ F[block])) / np.sqrt(rise)[:, None]
        Bs = base[block]
        if old:
            Bs = Bs + (to_rows @ P.T) @ P - (to_rows @ N.T) @ N
        bend, M = _symmetric(to_rows @ Bs.T), _part(self._S, block)
        L = root(bend, M, _LEAST_B * float(bend.diagonal().max()))
        if L is not None:
            N_new = _solved(L, Bs)
        else:
            w, U = eigh(M)
            R = (U / np.sqrt(np.maximum(w, _LEAST_F * max(w[-1], _TINY)))).T
            t, U = eigh(_symmetric(R @ bend @ R.T))
            if not t[-1] > 0.0:  # B_0 is not positive along these steps
                return P, N
            N_new = (U.T @ (R @ Bs)) / np.sqrt(np.maximum(t, _LEAST_B * t[-1]))[:, None]
        return np.concatenate([P, P_new]), np.concatenate([N, N_new])

    def _lifted_one_by_one(self, Y: Vector, F: Vector, base: Vector) -> tuple[Vector, Vector]:
        """P and N of old pairs where there is a floor."""
        P, N, m = np.empty_like(Y), np.empty_like(Y), 0
        for i, to_rows in enumerate(self.products[: len(Y)]):
            along, to_F = float(self._Y[i, i]), float(self._F[i, i])
            lift = max(self.floor * to_F - along, 0.0)
            y = Y[i] + lift / max(to_F, _TINY) * F[i] if lift > 0.0 else Y[i]
            Bs = base[i] + (P[:m] @ to_rows) @ P[:m] - (N[:m] @ to_rows) @ N[:m]
            rise, bend = along + lift, float(to_rows @ Bs)
            if rise > 0.0 and bend > _ROUNDED * rise:
                P[m], N[m] = y / math.sqrt(rise), Bs / math.sqrt(bend)
                m += 1
        return P[:m], N[:m]

    def inverse(self, Y_Y: Vector) -> Callable[[Vector, Vector], tuple[Vector, Vector]] | None:
        """(S q, Y q) -> weights of S and of Y in H q - q/lam, H the inverse; Y Y' is given.

        None where <s, y> of the block is raised, E is singular, or there is a floor.

        With E = S Y' of the block, A its symmetric part and H_old the inverse before,
        H = (I - S'E'^{-1}Y) H_old (I - Y'E^{-1}S) + S'E'^{-1}A E^{-1}S; H_old is [2]_ with the
        upper triangle R of S Y' of the old pairs.
        """
        old, b = self.split
        lam, cross = self.lam, self._Y
        E = _part(cross, b)
        A = _symmetric(E)
        least = _LEAST_Y * float(A.diagonal().max(initial=0.0))
        if self.floor > 0.0 or (len(b) and root(A, _part(self._S, b), least) is None):
            return None
        curved = cross.diagonal() > _CURVED * np.sqrt(np.maximum(Y_Y.diagonal(), 0.0))
        o = np.flatnonzero(curved[:old])
        R, along, mixed = _part(cross, o), cross.diagonal()[o], cross[o][:, b]
        LU, pivots, singular = lapack().dgetrf(E) if len(b) else (E, b, 0)
        if singular:
            return None
        solve, triangle = lapack().dgetrs, lapack().dtrtrs

        def weights(S_q: Vector, Y_q: Vector) -> tuple[Vector, Vector]:
            a, c = np.zeros(len(S_q)), np.zeros(len(S_q))
            if len(b):
                a[b] = solve(LU, pivots, S_q[b])[0]
            if len(o):
                a[o] = triangle(R, S_q[o] - mixed @ a[b])[0]
            Y_z = (Y_q - Y_Y @ a) / lam  # z = (q - Y'a)/lam
            if len(o):
                c[o] = triangle(R, along * a[o] - Y_z[o], trans=1)[0]
            if len(b):
                c[b] = solve(LU, pivots, A @ a[b] - Y_z[b] - c[o] @ mixed, trans=1)[0]
            return c, -a / lam

        return weights


def agreeing(cross: Vector, least: Vector, agree: float) -> tuple[int, float]:
    """How many of the newest pairs agree with each other, and by how much they disagree."""
    k, along = len(cross), cross.diagonal()
    size = np.sqrt(np.where(along > 0.0, along, 1.0))
    apart = np.abs(cross - cross.T) / (size[:, None] * size)
    ends = ((apart > agree) & _upper(k)).any(axis=1) | (along <= 0.0) | (along < least)
    newest = int(ends[::-1].argmax()) if ends.any() else k
    return newest, float(apart[k - newest :, k - newest :].max(initial=0.0))


@lru_cache(maxsize=64)
def _upper(k: int) -> Any:
    """Where the column is larger than the row."""
    return np.triu(np.ones((k, k), dtype=bool), 1)


def compact(S: Vector, Y: Vector, cross: Vector, base: Vector) -> Vector:
    """T of limited-memory BFGS from B_0, in coordinates; `cross` is S Y', `base` is B_0 S."""
    P, N = one_by_one(base @ S.T, cross, Y, base)
    return P.T @ P - N.T @ N


def one_by_one(bend: Vector, cross: Vector, Y: Vector, base: Vector) -> tuple[Vector, Vector]:
    """P and N of limited-memory BFGS: the update is P'P - N'N, by rows of any kind.

    `bend` is S B_0 S', `cross` is S Y', `base` is B_0 S'. Pairs are left out where <s, y> <= 0, or
    where <s, B s> is rounding. P'P = Y'D^{-1}Y with D = diag(<s, y>), C N = B_0 S' + L D^{-1} Y
    with C C' = S B_0 S' + L D^{-1} L', L the part of S Y' below the diagonal; the pivots of C are
    <s, B s>.
    """
    k, along = len(bend), cross.diagonal()
    Y, base = Y[:k], base[:k]
    good = along > 0.0
    if good.all() and k:
        below = np.tril(cross, -1)
        L = below / along
        C, info = lapack().dpotrf(bend + L @ below.T, lower=1, clean=1)
        poor = C.diagonal() ** 2 <= _ROUNDED * along
        if info:
            poor[info - 1] = True
        if not poor.any():
            return Y / np.sqrt(along)[:, None], _solved(C, base + L @ Y)
        good[int(poor.argmax())] = False
    if not good.any():
        return np.zeros((0, Y.shape[1])), np.zeros((0, Y.shape[1]))
    return one_by_one(_part(bend, good), _part(cross, good), Y[good], base[good])


def independent(gram: Vector, new: float) -> Any:
    """Which of the steps of length one are independent, from the newest, the last, to the oldest.

    A step of which less than the part `new` is new is left out.
    """
    kept = np.arange(len(gram))[::-1]
    while len(kept):
        L, info = lapack().dpotrf(_part(gram, kept), lower=1, clean=0)
        poor = L.diagonal() <= new
        if info:
            poor[info - 1] = True
        if not poor.any():
            break
        kept = np.delete(kept, int(poor.argmax()))
    return kept[::-1]


def root(A: Vector, M: Vector, least: float) -> Vector | None:
    """Cholesky's factor of A where A - `least` M is positive definite."""
    if lapack().dpotrf(A - least * M, lower=1, clean=0)[1]:
        return None
    L, info = lapack().dpotrf(A, lower=1, clean=1)
    return None if info else L


def _solved(L: Vector, rows: Vector) -> Vector:
    """L^{-1} times the rows."""
    return lapack().dtrtrs(L, rows, lower=1)[0]


def _part(A: Vector, which: Any) -> Vector:
    """The rows and columns of A that are chosen."""
    return A[which][:, which]


def _symmetric(A: Vector) -> Vector:
    return 0.5 * (A + A.T)
