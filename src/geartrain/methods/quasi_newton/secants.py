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

import numpy as np

from geartrain.methods.quasi_newton.factors import bfgs, orthonormal
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
    """Coefficients of S, Y, B_0 S and F in terms of the rows V, a row for each pair."""

    G: Vector
    S: Vector
    Y: Vector
    base: Vector
    F: Vector
    flattest: float = 0.0  # least <s, y>/<s, F>; 0: y is only to be curved
    lam: float = math.nan  # B_0 = lam I and V = (S, Y), where it is so

    def matrix(self) -> Vector:
        """M of the updated matrix."""
        G, k = self.G, len(self.S)
        cross = self.S @ G @ self.Y.T
        floor = self.flattest * np.einsum("ij,ij->i", self.S @ G, self.F)
        apart = disagreement(cross)
        newest = agreeing(cross, floor, apart)
        old = k if newest < 2 else k - newest
        M = np.zeros_like(G)
        if old and math.isfinite(self.lam):
            at = np.append(np.arange(old), np.arange(k, k + old))
            M[at[:, None], at] = bfgs(G[:old, :old], cross[:old, :old], self.lam, _ROUNDED)
        else:
            for i in range(old):
                self._update(M, i, float(cross[i, i]), float(floor[i]))
        return M if newest < 2 else self._block(M, old, least_new(apart[old:, old:]))

    def _update(self, M: Vector, i: int, along: float, least: float) -> None:
        """One pair, in place."""
        s, y, Bs = self.S[i] @ self.G, self.Y[i], self.base[i] + M @ (self.G @ self.S[i])
        if along < least and least > 0.0:
            y = y + (self.flattest - along * self.flattest / least) * self.F[i]
            along = least
        sBs = float(s @ Bs)
        if along > 0.0 and sBs > _ROUNDED * along:
            M += np.outer(y / along, y) - np.outer(Bs / sBs, Bs)

    def _block(self, M: Vector, first: int, least: float) -> Vector:
        """With one block update for the pairs from `first` on; `least` as in `orthonormal`."""
        G = self.G
        T = orthonormal(self.S[first:] @ G @ self.S[first:].T, _NEW, least)
        S, Y, F, base = (T @ rows[first:] for rows in (self.S, self.Y, self.F, self.base))
        # combinations with S F' = I and S Y' = diag(t)
        w, U = eigh(_symmetric(S @ G @ F.T))
        if w[-1] <= 0.0:
            return M
        R = (U / np.sqrt(np.maximum(w, _LEAST_F * w[-1]))).T
        t, U = eigh(_symmetric(R @ S @ G @ Y.T @ R.T))
        R = U.T @ R
        S, Y, F, base = R @ S, R @ Y, R @ F, R @ base
        along = np.maximum(t, self.flattest or _LEAST_Y * t[-1])
        Y = Y + (along - t)[:, None] * F
        BS = base + S @ G @ M
        e, U = eigh(_symmetric(BS @ G @ S.T))
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
    curved = (along > 0.0) & (along >= floor)
    newest = 0
    while newest < k:
        i = k - 1 - newest
        if not curved[i] or apart[i, i:].max() > _AGREE:
            break
        newest += 1
    return newest


def _symmetric(A: Vector) -> Vector:
    return 0.5 * (A + A.T)
