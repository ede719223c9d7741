r"""BFGS updates: one by one for old pairs, all at once for the newest pairs that agree.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
S, Y       ``S, Y``        steps of length one and changes of a gradient, oldest first
F          ``F``           what a floor of the curvature is measured by: S, or changes of grad g
B_0        --              the base matrix; ``base`` is B_0 S
T          (returned)      the updated matrix is B_0 + T
=========  ==============  ==================================================================

All rows are given by their coordinates in an orthonormal basis.

For a quadratic, <s_i, y_j> = <s_j, y_i> for all pairs, and one block update [1]_ satisfies all
secant equations. Where the curvature has changed between the pairs, the two differ, and the block
update is worse than useless: combinations of many old steps are short and have a large,
contradictory change of the gradient. Updates one by one [2]_ never combine pairs. So the newest
pairs make one block, as many of them as agree with each other, and older ones are used one by one
before. Close to a solution, where the curvature no longer changes, the block grows.

References
----------
.. [1] W. Gao, D. Goldfarb, Block BFGS methods, SIAM J. Optim. 28 (2018).
.. [2] R. Byrd, J. Nocedal, R. Schnabel, Representations of quasi-Newton matrices and their use in
   limited memory methods, Math. Program. 63 (1994).
"""

from __future__ import annotations

import math

import numpy as np

from geartrain.methods.pqn.tuning import Tuning
from geartrain.oracles.protocols import Vector
from geartrain.oracles.spectrum import eigh, lapack

_TINY = 1e-300
# What the new part of a step shows is divided by its square, and so is what the pairs disagree by:
# where they agree up to rounding, as those of a quadratic do, a smaller new part is enough, so many
# times the root of the disagreement; and this part at least.
_BETTER, _ROUNDING = 10.0, 1e-3
# An update is left out where <s, B s> is below this part of <s, y>.
_ROUNDED = 1e-14
# Eigenvalues of a small matrix are at least these parts of the largest: of F, of Y, of B_0.
_LEAST_F, _LEAST_Y, _LEAST_B = 1e-8, 1e-8, 1e-10


def updated(
    S: Vector, Y: Vector, base: Vector, lam: float, F: Vector, floor: float, tuning: Tuning
) -> Vector:
    """T, with <s, y> raised to `floor` <s, F> at least; B_0 = lam I where `floor` is 0."""
    k, r = S.shape
    cross = S @ Y.T
    along, to_F = cross.diagonal(), np.einsum("ij,ij->i", S, F)
    newest, apart = agreeing(cross, floor * to_F, tuning.agree)
    old = k if newest < 2 else k - newest
    if floor == 0.0:
        T = compact(S[:old], Y[:old], cross[:old, :old], lam * S[:old])
    else:
        T = np.zeros((r, r))
        for i in range(old):
            lift = max(floor * to_F[i] - along[i], 0.0)
            y = Y[i] + lift / max(to_F[i], _TINY) * F[i] if lift > 0.0 else Y[i]
            Bs, rise = base[i] + T @ S[i], along[i] + lift
            bend = float(S[i] @ Bs)
            if rise > 0.0 and bend > _ROUNDED * rise:
                T += np.outer(y, y / rise) - np.outer(Bs, Bs / bend)
    if old == k:
        return 0.5 * (T + T.T)
    new = min(max(_BETTER * math.sqrt(apart), _ROUNDING), tuning.new)
    R = independent(S[old:], new)
    # combinations R of the newest pairs with R S F' R' = I ...
    if floor > 0.0:
        w, U = eigh(_symmetric(R @ S[old:] @ F[old:].T @ R.T))
        R = (U / np.sqrt(np.maximum(w, _LEAST_F * max(w[-1], _TINY)))).T @ R
    # ... and R S Y' R' = diag(t)
    t, U = eigh(_symmetric(R @ cross[old:, old:] @ R.T))
    R = U.T @ R
    rise = np.maximum(t, floor or _LEAST_Y * t[-1])
    y = R @ Y[old:] + (rise - t)[:, None] * (R @ F[old:])
    s = R @ S[old:]
    Bs = R @ base[old:] + s @ T
    bend, U = eigh(_symmetric(Bs @ s.T))
    Bs = U.T @ Bs
    return _symmetric(T + (y.T / rise) @ y - (Bs.T / np.maximum(bend, _LEAST_B * bend[-1])) @ Bs)


def agreeing(cross: Vector, least: Vector, agree: float) -> tuple[int, float]:
    """How many of the newest pairs agree with each other, and by how much they disagree."""
    k, along = len(cross), cross.diagonal()
    size = np.sqrt(np.where(along > 0.0, along, 1.0))
    apart = np.abs(cross - cross.T) / (size[:, None] * size)
    ends = (np.triu(apart) > agree).any(axis=1) | ~((along > 0.0) & (along >= least))
    newest = int(ends[::-1].argmax()) if ends.any() else k
    return newest, float(apart[k - newest :, k - newest :].max(initial=0.0))


def compact(S: Vector, Y: Vector, cross: Vector, base: Vector) -> Vector:
    """T of limited-memory BFGS from B_0; `cross` is S Y', `base` is B_0 S.

    Pairs are left out where <s, y> <= 0, or where <s, B s> is rounding. T = Y'D^{-1}Y - Z'Z with
    D = diag(<s, y>), C C' = S B_0 S' + L D^{-1} L', C Z = B_0 S + L D^{-1} Y, L the part of S Y'
    below the diagonal; the pivots of C are <s, B s>.
    """
    along = cross.diagonal()
    good = along > 0.0
    if good.all() and len(S):
        L = np.tril(cross, -1) / along
        C, info = lapack().dpotrf(base @ S.T + L @ np.tril(cross, -1).T, lower=1, clean=1)
        poor = C.diagonal() ** 2 <= _ROUNDED * along
        if info:
            poor[info - 1] = True
        if not poor.any():
            Z = lapack().dtrtrs(C, base + L @ Y, lower=1)[0]
            return (Y.T / along) @ Y - Z.T @ Z
        good[int(poor.argmax())] = False
    if not good.any():
        return np.zeros((S.shape[1],) * 2)
    return compact(S[good], Y[good], cross[np.ix_(good, good)], base[good])


def independent(S: Vector, new: float) -> Vector:
    """Orthonormal combinations of the steps, from the newest, which is the last, to the oldest.

    A step of which less than the part `new` is new is left out.
    """
    k, r = S.shape
    R, Q, kept = np.zeros((k, k)), np.zeros((k, r)), 0
    for i in range(k - 1, -1, -1):
        s, c = S[i], np.zeros(k)
        c[i] = 1.0
        for _ in range(2):  # twice is enough
            a = Q[:kept] @ s
            s, c = s - a @ Q[:kept], c - a @ R[:kept]
        size = math.sqrt(float(s @ s))
        if size > new:
            R[kept], Q[kept] = c / size, s / size
            kept += 1
    return R[:kept]


def _symmetric(A: Vector) -> Vector:
    return 0.5 * (A + A.T)
