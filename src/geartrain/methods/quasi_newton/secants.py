r"""BFGS updates: one by one for old pairs, all at once for the newest pairs that agree.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
S, Y       ``S, Y``        steps of length one and changes of a gradient, oldest first
F          ``F``           what a floor of the curvature is measured by: S, or changes of grad g
B_0        --              the base matrix; ``base`` is B_0 S
G          ``G``           inner products of the rows V that all of these combine
M          (returned)      the updated matrix is B_0 + V'MV
=========  ==============  ==================================================================

For a quadratic, <s_i, y_j> = <s_j, y_i> for all pairs, and one block update [1]_ satisfies all
secant equations. Where the curvature has changed between the pairs, the two differ, and the block
update is worse than useless: combinations of many old steps are short and have a large,
contradictory change of the gradient, and its error exceeds |grad f| by powers of ten. Updates one
by one [2]_ never combine pairs. So the newest pairs make one block, as many of them as agree with
each other, and older ones are used one by one before: both methods at their best, with nothing to
choose. Close to a solution, where the curvature no longer changes, the block grows.

References
----------
.. [1] W. Gao, D. Goldfarb, Block BFGS methods, SIAM J. Optim. 28 (2018).
.. [2] J. Nocedal, S. Wright, Numerical Optimization, 2nd ed. (2006), Section 7.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from geartrain.methods.quasi_newton.factors import bfgs, from_diagonal, orthonormal
from geartrain.oracles.protocols import Vector
from geartrain.oracles.spectrum import eigh

# Pairs agree where <s_i, y_j> and <s_j, y_i> differ by at most this part of the geometric mean of
# <s_i, y_i> and <s_j, y_j>. Twice as much costs 4 percent on shards with much data, six times as
# much 5 percent on those with little.
_AGREE = 0.05
# A step is left out of the block where less than this part of it is new. What the new part shows is
# divided by its square, and so is what the pairs disagree by: where they agree up to rounding, as
# those of a quadratic do, less is enough, so many times the root of the disagreement. From 1 to 100
# times is flat. The last number keeps the coefficients free of rounding.
_NEW = 0.05
_BETTER, _ROUNDING = 10.0, 1e-3
# An update is left out where <s, B s> is below this part of <s, y>.
_ROUNDED = 1e-14
# Eigenvalues of a small matrix are at least these parts of the largest: of F, of Y, of B_0.
_LEAST_F, _LEAST_Y, _LEAST_B = 1e-8, 1e-8, 1e-10


@dataclass(frozen=True)
class Secants:
    """Updates with pairs whose steps S are the first of the rows V.

    `Y`, `base` and `F` hold coefficients of Y, B_0 S and F in terms of V, a row for each pair.
    """

    G: Vector
    Y: Vector
    base: Vector
    F: Vector | None = None  # None: S
    flattest: float = 0.0  # least <s, y>/<s, F>; 0: y is only to be curved
    lam: float = math.nan  # B_0 = lam I and V = (S, Y), where it is so

    @cached_property
    def cross(self) -> Vector:
        """S Y'."""
        k = len(self.Y)
        if math.isfinite(self.lam):
            return self.G[:k, k:]
        return self.G[:k] @ self.Y.T

    @cached_property
    def to_F(self) -> Vector:
        """S F'."""
        k = len(self.Y)
        return self.G[:k, :k] if self.F is None else self.G[:k] @ self.F.T

    def matrix(self) -> Vector:
        """M of the updated matrix."""
        G, cross, k = self.G, self.cross, len(self.Y)
        floor = self.flattest * self.to_F.diagonal()
        apart = disagreement(cross)
        newest = agreeing(cross, floor, apart)
        old = k if newest < 2 else k - newest
        M = np.zeros(G.shape)
        if old and math.isfinite(self.lam):
            updated = bfgs(G[:old, :old], cross[:old, :old], self.lam, _ROUNDED)
            S, Y = slice(old), slice(k, k + old)
            M[S, S], M[S, Y] = updated[:old, :old], updated[:old, old:]
            M[Y, S], M[Y, Y] = updated[old:, :old], updated[old:, old:]
        else:
            for i in range(old):
                self._update(M, i, float(cross[i, i]), float(floor[i]))
        return M if newest < 2 else self._block(M, old, least_new(apart[old:, old:]))

    def _update(self, M: Vector, i: int, along: float, least: float) -> None:
        """One pair, in place."""
        s, y, Bs = self.G[i], self.Y[i], self.base[i] + M @ self.G[:, i]
        if self.F is not None and along < least and least > 0.0:
            y = y + (self.flattest - along * self.flattest / least) * self.F[i]
            along = least
        sBs = float(s @ Bs)
        if along > 0.0 and sBs > _ROUNDED * along:
            M += np.outer(y / along, y) - np.outer(Bs / sBs, Bs)

    def _block(self, M: Vector, first: int, least: float) -> Vector:
        """With one block update for the pairs from `first` on; `least` as in `orthonormal`."""
        G, k = self.G, len(self.Y)
        R = orthonormal(G[first:k, first:k], _NEW, least)
        # combinations R of the pairs with S F' = I and S Y' = diag(t)
        if self.F is not None:
            w, U = eigh(_symmetric(R @ self.to_F[first:, first:] @ R.T))
            if w[-1] <= 0.0:
                return M
            R = (U / np.sqrt(np.maximum(w, _LEAST_F * w[-1]))).T @ R
        t, U = eigh(_symmetric(R @ self.cross[first:, first:] @ R.T))
        R = U.T @ R
        S, Y, base = np.zeros((len(R), len(G))), R @ self.Y[first:], R @ self.base[first:]
        S[:, first:k] = R
        F = S if self.F is None else R @ self.F[first:]
        along = np.maximum(t, self.flattest or _LEAST_Y * t[-1])
        Y += (along - t)[:, None] * F
        SG = R @ G[first:k]
        BS = base + SG @ M
        e, U = eigh(_symmetric(BS @ SG.T))
        BS = U.T @ BS
        return M + (Y.T / along) @ Y - (BS.T / np.maximum(e, _LEAST_B * e[-1])) @ BS


def disagreement(cross: Vector) -> Vector:
    """|<s_i, y_j> - <s_j, y_i>| over the geometric mean of <s_i, y_i> and <s_j, y_j>, if positive.

    `cross` holds <s_i, y_j>.
    """
    along = cross.diagonal()
    sizes = np.sqrt(np.where(along > 0.0, along, 1.0))
    return np.abs(cross - cross.T) / (sizes[:, None] * sizes)


def least_new(apart: Vector) -> float:
    """The least part of a step that must be new where the pairs disagree so much."""
    return max(_BETTER * math.sqrt(float(apart.max(initial=0.0))), _ROUNDING)


def agreeing(cross: Vector, floor: Vector, apart: Vector) -> int:
    """How many of the newest pairs agree with each other."""
    k, along = len(cross), cross.diagonal()
    ends = (apart > _AGREE) & from_diagonal(k).T
    last = ends.any(axis=1) | ~((along > 0.0) & (along >= floor))
    return int(last[::-1].argmax()) if last.any() else k


def _symmetric(A: Vector) -> Vector:
    return 0.5 * (A + A.T)
