r"""The models of a trial point: of h with g kept, of f without a part of g, and of f.

=========  ==============  ==================================================================
model      keeps of g      matrix
=========  ==============  ==================================================================
keep       1               block BFGS of h from lam I; where h is not convex, what the update of
                           H_g + lam I to the curvature of f adds to H_g
shrunk     a               what the update of a H_g + b I to the curvature of f adds to a H_g;
                           a, b fit the changes of the gradients
plain      0               block BFGS of f from |y|^2/<s, y> of the newest pair: L-BFGS
=========  ==============  ==================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from geartrain.geometry import Geometry
from geartrain.methods.pqn.evaluation import CURVED, Step
from geartrain.methods.pqn.low_rank import FLAT, FLAT_OFF, SPAN, Inverse, LowRank, RowBasis
from geartrain.methods.pqn.memory import Memory
from geartrain.methods.pqn.secants import Update
from geartrain.methods.pqn.tuning import Tuning
from geartrain.oracles.protocols import Vector
from geartrain.oracles.spectrum import lapack

KEEP, SHRUNK, PLAIN = "keep", "shrunk", "plain"
# <s, y_f> of the models that start from H_g is at least this part of <s, y_g>.
_FLATTEST = 1.0 / 64.0
# A squared error below this part of the terms in it is rounding, and is computed from vectors.
_CANCELLED = 1e-12
_TINY = 1e-300
# The error of a model whose numbers have overflown.
_USELESS = 1e100


@dataclass(frozen=True)
class Share:
    """a, b of least sum |y_f - a y_g - b s|^2 over the steps, older ones discounted."""

    A: tuple[float, float, float] = (0.0, 0.0, 0.0)  # <y_g, y_g>, <y_g, s>, <s, s>
    c: tuple[float, float] = (0.0, 0.0)  # <y_g, y_f>, <s, y_f>

    def after(self, step: Step) -> Share:
        """With one more step."""
        (ss, sh, sg), (_, hh, hg), (_, _, gg) = step.own.tolist()
        ff = hh + 2.0 * hg + gg
        if not 0.0 < ff < math.inf:
            return self
        A, c = (gg, sg, ss), (hg + gg, sh + sg)
        return Share(
            tuple(0.7 * old + new / ff for old, new in zip(self.A, A, strict=True)),
            tuple(0.7 * old + new / ff for old, new in zip(self.c, c, strict=True)),
        )

    @property
    def parts(self) -> tuple[float, float]:
        """a and b; 1 and 0 where they mean nothing."""
        (gg, gs, ss), (gf, sf) = self.A, self.c
        det = gg * ss - gs * gs
        if not sf > 0.0 or not det > 1e-10 * gg * ss:
            return 1.0, 0.0
        a = min((ss * gf - gs * sf) / det, 1.0)
        return (a, max(sf - a * gs, 0.03 * sf) / ss) if a >= 0.02 else (1.0, 0.0)


@dataclass(frozen=True)
class Models:
    """The matrices at one trial point, each made when it is first wanted."""

    memory: Memory
    lam: float  # curvature of h where the pairs tell nothing
    scale: float  # that of f, before the first pair
    share: tuple[float, float]  # a and b of the shrunk model
    convex: bool  # h is taken to be
    geometry: Geometry
    tuning: Tuning
    _made: dict[str, LowRank] = field(default_factory=dict)

    def part(self, name: str) -> float:
        """The part of g that the model keeps."""
        return {KEEP: 1.0, SHRUNK: self.share[0], PLAIN: 0.0}[name]

    def __getitem__(self, name: str) -> LowRank:
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def _make(self, name: str) -> LowRank:
        a, lam = self.part(name), self.lam
        if name == SHRUNK:
            lam = self.share[1] or lam
        elif name == PLAIN:
            lam = self.scale
        memory, t = self.memory, self.tuning
        if not len(memory):
            return LowRank(lam, geometry=self.geometry)
        (S_S, S_h, S_g), (_, h_h, h_g), (_, g_h, g_g) = memory.gram
        S_S = S_S.copy()
        S_S.flat[:: len(memory) + 1] += SPAN  # as in the basis
        if name == KEEP and self.convex:
            update = Update(np.concatenate([S_S, S_h], axis=1), lam, t)
            return Updated(update, memory.basis(2), self.geometry)
        if name == PLAIN:
            S_Y, Y_Y = S_h + S_g, h_h + h_g + g_h + g_g
            update = Update(np.concatenate([S_S, S_Y], axis=1), _newest(S_Y, Y_Y, lam), t)
            return Updated(update, memory.basis(3), self.geometry, Y_Y)
        update = Update(np.concatenate([S_S, S_h + S_g, S_g], axis=1), lam, t, a, _FLATTEST)
        return Updated(update, memory.basis(3), self.geometry)

    def error(self, B: LowRank, part: float, step: Step, products: Vector) -> float:
        """|y - B s|, y the change of the gradient of f without this part of g."""
        (ss, sh, sg), (_, hh, hg), (_, _, gg) = step.own.tolist()
        rest = 1.0 - part
        yy, ys = hh + 2.0 * rest * hg + rest * rest * gg, sh + rest * sg
        square, size = yy - 2.0 * B.lam * ys + B.lam * (B.lam * ss), yy + B.lam * (B.lam * ss)
        if B.basis is not None:
            with np.errstate(over="ignore", invalid="ignore"):  # the vectors tell it then
                z, gram = products[B.basis.which], B.basis.gram
                c = B.weights(z[:, 0])
                square += float(c @ (2.0 * (B.lam * z[:, 0] - z[:, 1] - rest * z[:, 2]) + gram @ c))
                size += float(np.abs(c) @ np.sqrt(gram.diagonal())) ** 2
        if square > _CANCELLED * size and math.isfinite(square):
            return math.sqrt(square)
        y = step.y_h + rest * step.y_g if rest > 0.0 else step.y_h
        error = self.geometry.norm(y - B(step.s))
        return error if error < _USELESS else _USELESS  # also where it is not a number


class Updated(LowRank):
    """The matrix of a model: what the updates make of lam I, by the weights of the rows.

    Parameters
    ----------
    update : Update
        Of the rows s, y, where y is y_h or, with three kinds of rows in the basis, y_h + y_g; and
        of y_g where there is a floor.
    basis : RowBasis
    geometry : Geometry
    Y_Y : matrix, optional
        Inner products of the rows y, where the inverse is asked for.
    """

    def __init__(
        self, update: Update, basis: RowBasis, geometry: Geometry, Y_Y: Vector | None = None
    ) -> None:
        super().__init__(update.lam, basis, None, geometry)
        self.update, self.span, self.Y_Y = update, basis, Y_Y

    @cached_property
    def factors(self) -> tuple[Vector, Vector]:
        """P and N, which weigh the rows in the order of the basis."""
        P, N = self.update.factors
        k = len(self.update.products)
        return (P, N) if len(self.span.which) == 2 * k else (_of_three(P, k), _of_three(N, k))

    @cached_property
    def T(self) -> Vector:
        """In the coordinates of the basis."""
        P, N = (A @ self.span.X for A in self.factors)
        return P.T @ P - N.T @ N

    def weights(self, z: Vector) -> Vector:
        """c with W'TW v = V'c, from z; a row for each, where there are several."""
        P, N = self.factors
        return (z @ P.T) @ P - (z @ N.T) @ N

    @cached_property
    def _products(self) -> tuple[Vector, Vector, Vector]:
        """P V V' P', P V V' N', N V V' N'."""
        P, N = self.factors
        of_P, of_N = P @ self.span.gram, N @ self.span.gram
        return of_P @ P.T, of_P @ N.T, of_N @ N.T

    def inverse(self, mu: float) -> Inverse:
        """Of the matrix, its negative eigenvalues set to 0, plus mu I.

        By the formula of Woodbury for V'P'PV, then for -V'N'NV, where the matrix is definite.
        """
        if mu == 0.0 and self.Y_Y is not None:
            direct = self.update.inverse(self.Y_Y)
            if direct is not None:
                return Inverse(self.lam, self.basis, _with_both(direct), self.geometry)
        a = self.lam + mu
        P, N = self.factors
        if not len(P):  # along no step of the memory the curvature is known
            return Inverse(max(a, _TINY))
        P_P, P_N, N_N = self._products
        size = a + float(P_P.diagonal().max(initial=0.0))
        L, failed = _root(a * np.eye(len(P)) + P_P)
        if failed or not a > FLAT_OFF * size:
            return super().inverse(mu)
        solve = lapack().dpotrs
        E_P_N = solve(L, P_N, lower=1)[0]
        F, failed = _root(np.eye(len(N)) - (N_N - P_N.T @ E_P_N) / a)
        if failed or not float(F.diagonal().min(initial=1.0)) ** 2 * a > FLAT * size:
            return super().inverse(mu)

        def weights(z: Vector) -> Vector:
            p = solve(L, P @ z, lower=1)[0]
            n = solve(F, N @ z - p @ P_N, lower=1)[0] / a
            return (n @ N - (p + E_P_N @ n) @ P) / a

        return Inverse(a, self.basis, weights, self.geometry)


def _with_both(direct: Callable[[Vector, Vector], tuple[Vector, Vector]]) -> Any:
    """From the weights of s and y = y_h + y_g those of s, y_h and y_g."""

    def weights(z: Vector) -> Vector:
        s, y_h, y_g = z.reshape(3, -1)
        of_s, of_y = direct(s, y_h + y_g)
        return np.concatenate([of_s, of_y, of_y])

    return weights


def _root(A: Vector) -> tuple[Vector, int]:
    """Cholesky's factor, and whether there is none."""
    L, info = lapack().dpotrf(A, lower=1, clean=0)
    return L, info


def _of_three(A: Vector, k: int) -> Vector:
    """Weights of s, y_h, y_g from those of s, y_h + y_g and, where there is a floor, y_g."""
    of_y = A[:, k : 2 * k]
    return np.concatenate(
        [A[:, : 2 * k], of_y + A[:, 2 * k :] if A.shape[1] > 2 * k else of_y], axis=1
    )


def _newest(S_Y: Vector, Y_Y: Vector, lam: float) -> float:
    """|y|^2/<s, y> of the newest pair along which f bends."""
    for along, square in zip(S_Y.diagonal()[::-1], Y_Y.diagonal()[::-1], strict=True):
        if along > CURVED * math.sqrt(max(square, 0.0)):
            return float(square / along)
    return lam
