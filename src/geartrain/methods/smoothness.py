"""The smoothness constant of a term, checked against gradients that a method knows anyway."""

from __future__ import annotations

from typing import NamedTuple

from geartrain.geometry import Geometry
from geartrain.oracles.protocols import Vector
from geartrain.problem import EPS

# How far a measured curvature must exceed L before L is called wrong. Rounding is taken off before.
_SLACK = 1.01
# A constant that is wrong is replaced by this multiple of the curvature that was measured.
_RAISE = 1.5


class Smoothness(NamedTuple):
    """The constant to go on with, and a note where it had to be raised."""

    L: float
    note: str


def checked(
    L: float, step: Vector, change: Vector, size: float, geometry: Geometry, name: str = "h"
) -> Smoothness:
    """L, or a larger constant if two gradients of the term `name` disprove it.

    The gradients have norms of at most about `size`, their points differ by `step`, and they
    themselves by `change`.
    """
    seen = curvature(step, change, size, geometry)
    if seen <= _SLACK * L:
        return Smoothness(L, "")
    told = f"{name} shows curvature {seen:.3g} > L_{name} = {L:.3g}: raised"
    return Smoothness(_RAISE * seen, told)


def curvature(step: Vector, change: Vector, size: float, geometry: Geometry) -> float:
    """|change| / |step|, without what rounding may add to gradients of norm `size`."""
    length = geometry.norm(step)
    if length == 0.0:
        return 0.0
    return max(geometry.norm(change) - 32.0 * EPS * size, 0.0) / length
