r"""Records that the coordinate methods hand to their compiled loops; Numba is not imported here.

The symbols are those of `geartrain.compiled.coordinate`.
"""

from __future__ import annotations

from typing import NamedTuple

from geartrain.oracles.protocols import Vector


class Sequences(NamedTuple):
    """The second sequence z and u = x - z; or their products A z and A u."""

    z: Vector
    u: Vector


class Schedule(NamedTuple):
    """The three numbers of every step."""

    kappa: Vector  # the derivative is taken at q = z + kappa_t u
    beta: Vector  # the share by which z moves towards q
    a: Vector  # weight of the step of z


class StepLengths(NamedTuple):
    """Step lengths by coordinate, and how the quadratic of phi enters."""

    x: Vector  # 1/L_i
    z: Vector  # of z, before the weight a_t
    composite: bool = False  # the quadratic is a composite term (APPROX)
