"""Smoothness constants: of the sum, and of a term as known gradients confirm or disprove it."""

from __future__ import annotations

from typing import NamedTuple

from geartrain.geometry import Geometry
from geartrain.oracles.protocols import Vector
from geartrain.problem import EPS, Sum

# How far a measured curvature must exceed L before L is called wrong. Rounding is taken off before.
_SLACK = 1.01
# A constant that is wrong is replaced by this multiple of the curvature that was measured.
_RAISE = 1.5


def of_sum(problem: Sum, given: float | None, method: str) -> float:
    """L of h + g: the one that is given, or L_h + L_g."""
    if given is not None:
        return given
    return problem.L_h.need("L_h", method) + problem.L_g.need("L_g", method)


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
