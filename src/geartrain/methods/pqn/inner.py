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

from collections.abc import Callable
from dataclasses import dataclass

from geartrain.methods.pqn.evaluation import Point, TermEvaluator
from geartrain.methods.pqn.low_rank import LowRank
from geartrain.oracles.protocols import Vector

Pairs = tuple[tuple[Vector, Vector], ...]
# (v, grad g(v), |grad phi(v)|) -> whether the run may end here
Leave = Callable[[Vector, Vector, float], bool]


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
    grad_g: Vector  # at v, as the model tells it
    w: Vector | None = None  # element of dpsi(v)
    bent: bool = False  # phi was seen to bend down: it is not convex
    prox_steps: int = 0
