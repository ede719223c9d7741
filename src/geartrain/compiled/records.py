r"""Records that are handed to the compiled loops; Numba is not imported here.

The symbols are those of `geartrain.compiled.coordinate` and `geartrain.compiled.smo`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from geartrain.oracles.protocols import Vector

Array = NDArray[Any]


class Sequences(NamedTuple):
    """The second sequence z of a coordinate method and u = x - z; or their products A z and A u."""

    z: Vector
    u: Vector


class Schedule(NamedTuple):
    """The three numbers of every step of a coordinate method."""

    kappa: Vector  # the derivative is taken at q = z + kappa_t u
    beta: Vector  # the share by which z moves towards q
    a: Vector  # weight of the step of z


class Separable(NamedTuple):
    """psi(v) = sum_i lam_i |v_i| with lower_i <= v_i <= upper_i; empty arrays for psi = 0."""

    lam: Vector
    lower: Vector
    upper: Vector


NOTHING = Separable(np.zeros(0), np.zeros(0), np.zeros(0))


class StepLengths(NamedTuple):
    """Step lengths of a coordinate method by coordinate, and how the quadratic of phi enters."""

    x: Vector  # 1/L_i
    z: Vector  # of z, before the weight a_t
    composite: bool = False  # the quadratic is a composite term (APPROX)
    psi: Separable = NOTHING  # a further composite term (APPROX)


class Dual(NamedTuple):
    """A point of the dual problem of a support vector machine; the solvers change it in place."""

    beta: Vector  # signed dual variables
    F: Vector  # gradient of the smooth part of the dual, F_i = y_i - (K beta)_i
    G: Vector  # at least (K |beta|)_i: times the relative error of K, it bounds the error of F_i
    lo: Vector  # bounds of beta, lo_i <= 0 <= hi_i
    hi: Vector
    kink: float  # the dual contains -kink |beta_i|: epsilon of a regression, 0 for a classifier

    @property
    def free(self) -> NDArray[np.bool_]:
        """Which variables can move in both directions at the same slope."""
        return (self.lo < self.beta) & (self.beta < self.hi) & (self.beta != 0.0)

    def slopes(self) -> tuple[Vector, Vector]:
        """All `rise` and all `fall`, whether beta can move that way or not."""
        if self.kink == 0.0:
            return self.F, self.F
        rise = self.F - np.where(self.beta >= 0.0, self.kink, -self.kink)
        fall = self.F - np.where(self.beta > 0.0, self.kink, -self.kink)
        return rise, fall

    def take(self, W: NDArray[np.int64]) -> Dual:
        """A copy of the part with the indices W."""
        beta, F, G, lo, hi = (array[W] for array in self[:5])
        return Dual(beta, F, G, lo, hi, self.kink)


class KernelRows(NamedTuple):
    """Rows of a kernel matrix for `geartrain.compiled.smo.solve_block`; row k is K[slots[k]]."""

    K: Array  # float32
    slots: NDArray[np.int64]
    known: NDArray[np.bool_]  # which rows are there; the others are computed when first needed
    points: Array  # scaled points by coordinates, a multiple of four; empty if all rows are known
    halves: Array  # half the squared norms of the scaled points
