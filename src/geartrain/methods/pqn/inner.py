r"""Inner runs: the minimiser of a model, about.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
phi        `Phi`           <c, v> + 1/2 <v - p, (B + mu I)(v - p)> + a g(v) + psi(v)
c          --              grad h(p) + (1 - a) grad g(p)
a          ``part``        of g that the model keeps
s, y_g     ``pairs``       steps of inner runs and the changes of grad g along them, which serve
                           one run after the other
=========  ==============  ==================================================================

psi = 0: L-BFGS from the model's own matrix (`geartrain.methods.pqn.inner_smooth`), or conjugate
gradients where g is a quadratic with a proximal step (`geartrain.methods.pqn.inner_quadratic`).
Other psi: proximal quasi-Newton steps (`geartrain.methods.pqn.inner_prox`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from geartrain.geometry import Geometry
from geartrain.methods.pqn.evaluation import Point, TermEvaluator
from geartrain.methods.pqn.low_rank import LowRank
from geartrain.methods.pqn.memory import RowBlock
from geartrain.methods.pqn.rows import table
from geartrain.oracles.protocols import Vector

Pairs = Sequence[tuple[Vector, Vector]]
# (v, |grad phi(v)|) -> whether the run may end here
Leave = Callable[[Vector, float], bool]


@dataclass(frozen=True, eq=False)
class InnerPairs(Sequence[tuple[Vector, Vector]]):
    """Pairs with their inner products, which serve the next run, too."""

    rows: Vector  # s_1, y_g1, s_2, y_g2, ...: oldest first
    gram: Vector
    Z: Vector | None = None  # of the first rows with the rows s, y_h of a memory of this age
    age: int = 0
    block: RowBlock | None = field(default=None, metadata={"saved": False})

    @staticmethod
    def of(pairs: Pairs, n: int, geometry: Geometry) -> InnerPairs:
        """These pairs, of vectors of length n."""
        if isinstance(pairs, InnerPairs):
            return pairs
        rows = np.array(pairs).reshape(-1, n)
        return InnerPairs(rows, table(rows, rows, geometry) if len(rows) else np.zeros((0, 0)))

    def chosen(self, which: Any) -> InnerPairs:
        """Some of the pairs."""
        rows = np.stack([2 * which, 2 * which + 1], axis=1).ravel()
        Z = None if self.Z is None else self.Z[rows[rows < len(self.Z)]]
        return InnerPairs(self.rows[rows], self.gram[rows][:, rows], Z, self.age)

    def __len__(self) -> int:
        return len(self.rows) // 2

    def __getitem__(self, i: Any) -> Any:
        return tuple(zip(self.rows[::2], self.rows[1::2], strict=True))[i]


@dataclass(frozen=True)
class Phi:
    """The model."""

    terms: TermEvaluator
    p: Point
    B: LowRank
    mu: float
    part: float
    inside: bool = True  # p is in the domain of psi


@dataclass(frozen=True)
class InnerOutcome:
    """Outcome of an inner run."""

    v: Vector
    known_g: tuple[float, Vector] | None  # value and gradient of g at v, where they are known
    residual: float  # |grad phi|, or the shortest known subgradient
    pairs: Pairs
    w: Vector | None = None  # element of dpsi(v)
    prox_steps: int = 0
