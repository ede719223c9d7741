r"""Models of the curvature that the pairs tell.

=============  ==========================================================================
model          matrix
=============  ==========================================================================
`mixed`        of h, convex: BFGS from lam I, the newest pairs at once and the others one by one
`correction`   of h, which may be non-convex: what updates of H_g + lam I to H_f add to H_g
`careful`      the same from a larger lam
`shrunk`       of f without the part a of g: what updates of a H_g + b I to H_f add to a H_g
`plain`        of f = h + g: limited-memory BFGS, that is, L-BFGS on the sum
=============  ==========================================================================

h = f - f_1 bends up and down, but f is convex: the correction updates H_g + lam I, which is
positive, with pairs of f. lam acts only where the pairs tell nothing. The mixed model, the
correction and the plain model update with old pairs one by one, and with the newest pairs, as far
as they agree with each other, all at once (`geartrain.methods.quasi_newton.secants`). Two
corrections compete, since no rule for lam is right both for shards with much data, where H_g is
nearly H_f, and for those with little, where H_g misses directions. There it also bends too much
along the rows of the shard, which the shrunk model mends
(`geartrain.methods.quasi_newton.shrinkage`).

Each is made of coefficients only: S and Y are unit vectors, their inner products are known.

References
----------
.. [1] J. Nocedal, S. Wright, Numerical Optimization, 2nd ed. (2006), Section 7.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from geartrain.geometry import Geometry
from geartrain.methods.quasi_newton.factors import identity
from geartrain.methods.quasi_newton.low_rank import LowRank, Small
from geartrain.methods.quasi_newton.memory import Memory
from geartrain.methods.quasi_newton.secants import Secants
from geartrain.methods.quasi_newton.step import CURVED
from geartrain.methods.quasi_newton.tuning import Candidate
from geartrain.oracles.protocols import Vector

# The curvature of f is taken to be at least this part of that of g: the mean of 64 convex terms
# bends at least 1/64 as much as one of them.
_FLATTEST = 1.0 / 64.0
# lam of the careful correction over that of the other one.
_CAREFUL = 3.0


@dataclass(frozen=True)
class Shelf:
    """The models of one trial point, each made when it is first asked for."""

    known: Memory  # all pairs
    fresh: Memory  # the same, with the curvature of g measured anew
    lam: float  # curvature of h where the pairs tell nothing
    scale: float  # that of f, before the first pair
    geometry: Geometry
    shares: tuple[float, float] = (1.0, 0.0)  # a and b of the shrunk model; b = 0: lam
    _made: dict[Candidate, LowRank] = field(default_factory=dict)
    _bases: dict[tuple[str, int], tuple[Vector, Vector]] = field(default_factory=dict)

    def __getitem__(self, candidate: Candidate) -> LowRank:
        if candidate not in self._made:
            self._made[candidate] = self._make(*candidate)
        return self._made[candidate]

    def part(self, candidate: Candidate) -> float:
        """The part of g that a model keeps; it stands for the curvature of the rest of f."""
        kind = candidate[0]
        return 0.0 if kind == "plain" else self.shares[0] if kind == "shrunk" else 1.0

    def _make(self, kind: str, size: int) -> LowRank:
        correction = kind in ("correction", "careful", "shrunk")
        memory = self.fresh if correction else self.known
        part, lam = 1.0, self.lam * (_CAREFUL if kind == "careful" else 1.0)
        if kind == "shrunk":
            part, lam = self.shares[0], self.shares[1] or lam
        if not memory.pairs:
            return LowRank(self.scale if kind == "plain" else lam)
        k = min(size, len(memory))
        of = "f" if kind == "plain" else "h, g" if correction else "h"
        if (of, k) not in self._bases:
            self._bases[of, k] = memory.basis(of, k)
        C, G = self._bases[of, k]
        if kind == "plain":
            lam = self._plain_scale(G[:k, k:].diagonal(), G.diagonal()[k:])
        M = secants(G, k, lam, part)
        if not np.isfinite(M).all():  # scales so far apart that products overflow
            return LowRank(lam)
        return LowRank(lam, Small(memory.rows, C, G, 0.5 * (M + M.T), self.geometry))

    def _plain_scale(self, along: Vector, squares: Vector) -> float:
        """<y, y>/<s, y> of the newest pair that shows curvature, for steps of length one."""
        for sy, yy in zip(along[::-1].tolist(), squares[::-1].tolist(), strict=True):
            if sy > CURVED * math.sqrt(max(yy, 0.0)):
                return max(yy / sy, sy)  # <y, y> may underflow
        return self.scale


def secants(G: Vector, k: int, lam: float, part: float = 1.0) -> Vector:
    """Updates of lam I with k steps and changes.

    Of part H_g + lam I, given changes of h and of g.
    """
    rows = identity(len(G))
    S, Y = rows[:k], rows[k : 2 * k]
    if len(G) == 2 * k:
        return Secants(G, Y, lam * S, lam=lam).matrix()
    Y_g = rows[2 * k :]
    return Secants(G, Y + Y_g, part * Y_g + lam * S, Y_g, _FLATTEST).matrix()
