r"""L-BFGS on f as a whole, by gradients alone and in any geometry."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from geartrain.methods.base import State
from geartrain.methods.inner.lbfgs import LBFGS
from geartrain.methods.inner.lbfgs import LBFGSState as RunState
from geartrain.oracles.protocols import Vector
from geartrain.problem import Model, Sum

# phi is f when its quadratic has this weight.
_NOTHING = 1e-300


@dataclass(frozen=True, kw_only=True)
class LBFGSWholeState(State):
    """State of `LBFGSWhole`."""

    run: RunState  # with f in the place of g

    @property
    def point(self) -> Vector:
        return self.run.v

    @property
    def grad(self) -> Vector:
        return self.run.grad_g

    @property
    def stalled(self) -> bool:  # type: ignore[override]
        """Whether the line search found no step: rounding."""
        return self.run.failed


@dataclass(frozen=True)
class LBFGSWhole:
    r"""The inner method L-BFGS on f = h + g: phi with f in the place of g and no quadratic.

    Algorithm: that of `geartrain.inner.LBFGS`, [1]_. ``method="lbfgs"`` is this one in a geometry
    other than the Euclidean one, where SciPy's does not work.

    Guarantee: as for `geartrain.ScipyLBFGS`. Every evaluation is one gradient of h and one of g: no
    separation.

    Parameters
    ----------
    lbfgs : LBFGS
        With its memory.

    References
    ----------
    .. [1] J. Nocedal, S. Wright, Numerical Optimization, 2nd ed. (2006), Algorithm 7.4.
    """

    lbfgs: LBFGS = field(default_factory=LBFGS)

    needs: ClassVar[tuple[str, ...]] = ("grad",)
    many_terms: ClassVar[bool] = True
    any_geometry: ClassVar[bool] = True

    def _model(self, problem: Sum) -> Model:
        L_h, L_g = problem.L_h.value, problem.L_g.value
        L = None if L_h is None or L_g is None else L_h + L_g
        return Model(problem.whole, np.zeros(problem.n), _NOTHING, L, geometry=problem.geometry)

    def init(self, problem: Sum, x0: Vector) -> LBFGSWholeState:
        return LBFGSWholeState(run=self.lbfgs.init(self._model(problem), x0, None))

    def step(self, problem: Sum, state: LBFGSWholeState) -> LBFGSWholeState:
        return LBFGSWholeState(run=self.lbfgs.step(self._model(problem), state.run))
