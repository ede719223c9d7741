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

import numpy as np

from geartrain.geometry import Geometry
from geartrain.methods.pqn.evaluation import CURVED, Step
from geartrain.methods.pqn.low_rank import LowRank
from geartrain.methods.pqn.memory import Memory
from geartrain.methods.pqn.secants import updated
from geartrain.methods.pqn.tuning import Tuning
from geartrain.oracles.protocols import Vector

KEEP, SHRUNK, PLAIN = "keep", "shrunk", "plain"
# <s, y_f> of the models that start from H_g is at least this part of <s, y_g>.
_FLATTEST = 1.0 / 64.0
# A squared error below this part of its terms has lost digits, and is computed from vectors.
_CANCELLED = 1e-6


@dataclass(frozen=True)
class Share:
    """a, b of least sum \\|y_f - a y_g - b s\\|^2 over the steps, older ones discounted."""

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
            tuple(0.7 * old + new / ff for old, new in zip(self.A, A, strict=True)),  # type: ignore[arg-type]
            tuple(0.7 * old + new / ff for old, new in zip(self.c, c, strict=True)),  # type: ignore[arg-type]
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
        k = len(self.memory)
        if not k:
            return LowRank(lam, geometry=self.geometry)
        basis = self.memory.basis
        s, y_h, y_g = basis.X[:k], basis.X[k : 2 * k], basis.X[2 * k :]
        if name == KEEP and self.convex:
            r = 2 * k  # the first coordinates: y_g has no part in it
            s, y_h = s[:, :r], y_h[:, :r]
            T = updated(s, y_h, lam * s, lam, s, 0.0, self.tuning)
        elif name == PLAIN:
            y = y_h + y_g
            lam = _newest(s, y, lam)
            T = updated(s, y, lam * s, lam, s, 0.0, self.tuning)
        else:
            T = updated(s, y_h + y_g, a * y_g + lam * s, lam, y_g, _FLATTEST, self.tuning)
        return LowRank(lam, basis, T, self.geometry)

    def error(self, B: LowRank, part: float, step: Step, products: Vector) -> float:
        """|y - B s|, y the change of the gradient of f without this part of g."""
        (ss, sh, sg), (_, hh, hg), (_, _, gg) = step.own.tolist()
        rest = 1.0 - part
        yy, ys = hh + 2.0 * rest * hg + rest * rest * gg, sh + rest * sg
        terms = [yy, -2.0 * B.lam * ys, B.lam * (B.lam * ss)]
        if B.basis is not None:
            z = B.basis.coordinates(products)[: len(B.T)]
            with np.errstate(over="ignore", invalid="ignore"):  # the vectors tell it then
                u = B.T @ z[:, 0]
                terms += [
                    -2.0 * float((z[:, 1] + rest * z[:, 2]) @ u),
                    2.0 * B.lam * float(z[:, 0] @ u),
                    float(u @ u),
                ]
        square = sum(terms)
        if square > _CANCELLED * sum(map(abs, terms)) and math.isfinite(square):
            return math.sqrt(square)
        y = step.y_h + rest * step.y_g if rest > 0.0 else step.y_h
        return self.geometry.norm(y - B(step.s))


def _newest(s: Vector, y: Vector, lam: float) -> float:
    """|y|^2/<s, y> of the newest pair along which f bends."""
    for u, v in zip(s[::-1], y[::-1], strict=True):
        along, square = float(u @ v), float(v @ v)
        if along > CURVED * math.sqrt(square):
            return square / along
    return lam
