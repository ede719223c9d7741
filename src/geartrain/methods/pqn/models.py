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
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from geartrain.geometry import Geometry
from geartrain.methods.pqn.evaluation import Step
from geartrain.methods.pqn.low_rank import FLAT, FLAT_OFF, SPAN, Inverse, LowRank
from geartrain.methods.pqn.memory import Memory
from geartrain.methods.pqn.secants import solved
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


@lru_cache(maxsize=1)
def kernels() -> Any:
    """The compiled arithmetic of the updates."""
    from geartrain.compiled import secant_updates  # here, because importing Numba takes a while

    return secant_updates


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
        a, lam, t = self.part(name), self.lam, self.tuning
        if name == SHRUNK:
            lam = self.share[1] or lam
        elif name == PLAIN:
            lam = self.scale
        if not len(self.memory):
            return LowRank(lam, geometry=self.geometry)
        if name == PLAIN:
            lam = kernels().newest_curvature(self.memory.matrix, lam)
            return Updated(self.memory, lam, self.geometry, t)
        if self.convex:
            return Updated(self.memory, lam, self.geometry, t, with_g=False)
        return Updated(self.memory, lam, self.geometry, t, a, _FLATTEST)

    def error(self, B: LowRank, part: float, step: Step, products: Vector) -> float:
        """|y - B s|, y the change of the gradient of f without this part of g."""
        (ss, sh, sg), (_, hh, hg), (_, _, gg) = step.own.tolist()
        rest = 1.0 - part
        yy, ys = hh + 2.0 * rest * hg + rest * rest * gg, sh + rest * sg
        square, size = yy - 2.0 * B.lam * ys + B.lam * (B.lam * ss), yy + B.lam * (B.lam * ss)
        if B.basis is not None:
            with np.errstate(over="ignore", invalid="ignore"):  # the vectors tell it then
                gram = B.basis.gram
                z = products[: len(gram)]
                c = B.weights(z[:, 0])
                square += float(c @ (2.0 * (B.lam * z[:, 0] - z[:, 1] - rest * z[:, 2]) + gram @ c))
                size += float(np.abs(c) @ np.sqrt(gram.diagonal())) ** 2
        if square > _CANCELLED * size and math.isfinite(square):
            return math.sqrt(square)
        y = step.y_h + rest * step.y_g if rest > 0.0 else step.y_h
        error = self.geometry.norm(y - B(step.s))
        return error if error < _USELESS else _USELESS  # also where it is not a number


class Updated(LowRank):
    """The matrix of a model: what the updates make of lam I, or add to a H_g + lam I.

    BFGS updates: one by one for old pairs, all at once for the newest pairs that agree. For a
    quadratic, <s_i, y_j> = <s_j, y_i> for all pairs, and one block update [1]_ satisfies all secant
    equations. Where the curvature has changed between the pairs, the two differ, and the block
    update is worse than useless: combinations of many old steps are short and have a large,
    contradictory change of the gradient. Updates one by one [2]_ never combine pairs. So the newest
    pairs make one block, as many of them as agree with each other, and older ones are used one by
    one before. Close to a solution, where the curvature no longer changes, the block grows.

    Parameters
    ----------
    memory : Memory
    lam : float
    geometry : Geometry
    tuning : Tuning
    share : float
        a.
    floor : float
        <s, y> is at least this part of <s, y_g>.
    with_g : bool
        y is the change of the gradient of f, and not that of h alone.

    References
    ----------
    .. [1] W. Gao, D. Goldfarb, Block BFGS methods, SIAM J. Optim. 28 (2018).
    .. [2] R. Byrd, J. Nocedal, R. Schnabel, Representations of quasi-Newton matrices and their use
       in limited memory methods, Math. Program. 63 (1994).
    """

    def __init__(
        self,
        memory: Memory,
        lam: float,
        geometry: Geometry,
        tuning: Tuning,
        share: float = 0.0,
        floor: float = 0.0,
        with_g: bool = True,
    ) -> None:
        self.span = memory.basis(3 if with_g else 2)
        super().__init__(lam, self.span, None, geometry)
        self.memory, self.floor, self.tuning = memory, floor, tuning
        self.kind = (with_g, lam, share)
        if not with_g:  # where h is not convex, pairs are refreshed
            self.age = memory.age

    @cached_property
    def update(self) -> Any:
        """(pairs, d, lift, below, root, C): the pairs in use and the factors of their update.

        Where <s, B s> of the block is rounding, all pairs are used one by one.
        """
        cross, squares, first, found, root = self.block
        gram, (_, lam, share) = self.memory.matrix, self.kind
        factorised = kernels().factorised
        pairs, m, old, *factors = factorised(
            gram, cross, squares, first, found, lam, share, self.floor
        )
        if m < 0:
            found, root = found[:0], np.empty((0, 0))
            pairs, m, old, *factors = factorised(
                gram, cross, squares, len(cross), found, lam, share, self.floor
            )
        d, lift, below, C = factors
        return pairs[:m], d[:old], lift[:old], below[:m, :old].copy(), root, C[:m, :m].copy()

    @cached_property
    def block(self) -> Any:
        """The newest pairs that agree, and what tells it."""
        t = self.tuning
        return kernels().block(self.memory.matrix, self.kind[0], self.floor, t.agree, t.new)

    @property
    def all_agree(self) -> bool:
        """Whether all pairs agree, as they do for a quadratic."""
        return self.block[2] == 0

    @cached_property
    def factors(self) -> tuple[Vector, Vector]:
        """P and N, by which the update adds V'(P'P - N'N)V; V are the rows as in the basis.

        P'P = Y'D^{-1}Y and N'N = (base + L D^{-1}Y)'(C C')^{-1}(base + L D^{-1}Y).
        """
        pairs, d, lift, below, root, C = self.update
        with_g, lam, share = self.kind
        k, old, rows = len(self.memory), len(d), np.eye(len(self.span.which))
        Y, base = rows[k + pairs], lam * rows[pairs]
        if with_g:
            F = rows[2 * k + pairs]
            Y, base = Y + F, base + share * F
            Y[:old] += lift[:, None] * F[:old]
        P = np.concatenate([Y[:old] / d[:, None], solved(root, Y[old:])])
        return P, solved(C, base + np.tril(below, -1) @ P[:old])

    @cached_property
    def T(self) -> Vector:
        """In the coordinates of the basis."""
        X = self.span.X
        T = X.T @ self.weights(X.T).T
        return 0.5 * (T + T.T)

    def weights(self, z: Vector) -> Vector:
        """c with W'TW v = V'c, from z; a row for each, where there are several."""
        rows = np.ascontiguousarray(z if z.ndim == 2 else z[None])
        c = np.empty(rows.shape)
        kernels().weights(rows, len(self.memory), *self.kind, *self.update, c)
        return c.reshape(z.shape)

    def inverse(self, mu: float) -> Inverse:
        """Of the matrix, its negative eigenvalues set to 0, plus mu I."""
        gram, k = self.memory.matrix, len(self.memory)
        with_g, lam, share = self.kind

        def direct(z: Vector) -> Vector:
            c = np.empty(len(z))
            if not kernels().inverse_weights(gram, z, lam, *self.block[:4], c):
                return super(Updated, self).inverse(0.0).weights(z)
            return c

        if mu == 0.0 and with_g and share == 0.0:
            return Inverse(lam, self.basis, direct, self.geometry)
        a = lam + mu
        pairs, _, lift, *_ = self.update
        if not len(pairs):  # along no step of the memory the curvature is known
            return Inverse(max(a, _TINY))
        factors = self.shifted(a)
        if factors is None:
            return super().inverse(mu)

        def weights(z: Vector) -> Vector:
            c = np.empty(len(z))
            kernels().shifted_weights(z, a, k, *self.kind, pairs, lift, *factors, c)
            return c

        return Inverse(a, self.basis, weights, self.geometry)

    def shifted(self, a: float) -> tuple[Vector, Vector, Vector] | None:
        """H, W, Z of the inverse of B - B_0 + a I; None where it is too near to a singular one.

        H H' = a D + Y Y', W H' = X = a L - base Y', Z Z' = a S B_0 S' - base base' + W W', which
        are the blocks of a Q - U U' of `geartrain.compiled.secant_updates` and its Schur
        complement.
        """
        pairs, d, lift, _, _, C = self.update
        with_g, lam, share = self.kind
        gram, k, m, old = self.memory.matrix, len(self.memory), len(pairs), len(d)
        if m < k:
            rows = np.concatenate([pairs, k + pairs, 2 * k + pairs])
            gram = gram[rows[:, None], rows]
        (SS, SY, SF), (_, YY, YF), (_, _, FF) = gram.reshape(3, m, 3, m).transpose(0, 2, 1, 3)
        if with_g:
            SY, YF, YY = SY + SF, YF + FF, YY + YF + YF.T + FF
        along = SY.diagonal().copy()
        along[:old] = d * d
        H, block = YY.copy(), SY[old:, old:] * (0.5 * a)
        H[old:, old:] += block
        H[old:, old:] += block.T
        W, Z = -lam * SY, ((a - lam) * lam) * SS
        up = np.append(lift, np.zeros(m - old))
        if lift.any():
            SY = SY + SF * up
            W, H = -lam * SY, H + YF * up + (YF * up).T + FF * (up[:, None] * up)
        if share:
            W -= share * (YF.T + FF * up)
            even = SF.copy()
            even[old:, old:] = 0.5 * (SF + SF.T)[old:, old:]
            Z += (a * share) * even - lam * share * (SF + SF.T) - share * share * FF
        if old:
            W[:, :old] += a * np.tril(SY[:, :old], -1)
        Z.flat[:: m + 1] += (a - lam) * lam * SPAN
        diagonal = YY.diagonal() + up * (2.0 * YF.diagonal() + up * FF.diagonal())
        size = max(a, a + float((diagonal / along).max()))
        H.flat[:: m + 1] = diagonal + a * along
        if not a > FLAT_OFF * size:
            return None
        # Rows for columns: LAPACK's upper factor U of the transpose is the lower one, by rows.
        U, info = lapack().dpotrf(H.T, lower=0, clean=1, overwrite_a=1)
        if info:
            return None
        W = lapack().dtrtrs(U, W.T, lower=0, trans=1, overwrite_b=1)[0].T
        Z += W @ W.T
        V, info = lapack().dpotrf(Z.T, lower=0, clean=1, overwrite_a=1)
        if info or not (V.diagonal() ** 2 > FLAT * size * C.diagonal() ** 2).all():
            return None
        return U.T, W, V.T
