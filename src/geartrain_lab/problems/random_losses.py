"""Losses for `geartrain.LinearModel` that only the random problems use.

With r = z - y the residual of a prediction z:

============  =======================================================  =================
name          loss                                                     curvature at most
============  =======================================================  =================
poisson       exp(z) - y z, continued beyond z = 30 by its quadratic   none
              Taylor polynomial, so that values stay finite
power         |r|^p / p with p >= 2                                    none for p > 2
pseudo_huber  delta (sqrt(delta^2 + r^2) - delta)                      1
============  =======================================================  =================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from geartrain.oracles.losses import Loss
from geartrain.oracles.protocols import Vector

_LAST = 30.0  # where exp gives way to its Taylor polynomial


@dataclass(frozen=True)
class TamePoisson(Loss):
    """The negative log-likelihood of counts y with the rate exp(z)."""

    name: ClassVar[str] = "poisson"
    labels: ClassVar[bool] = False

    @property
    def curvature(self) -> float:
        """There is no bound."""
        return math.inf

    @staticmethod
    def _parts(z: Vector) -> tuple[Vector, Vector]:
        """The exponential up to z = 30, and how far z is beyond it."""
        return np.exp(np.minimum(z, _LAST)), np.maximum(z - _LAST, 0.0)

    def value(self, y: Vector, z: Vector) -> Vector:
        rate, beyond = self._parts(z)
        return rate * (1.0 + beyond + 0.5 * beyond**2) - y * z

    def derivative(self, y: Vector, z: Vector) -> Vector:
        rate, beyond = self._parts(z)
        return rate * (1.0 + beyond) - y

    def second(self, y: Vector, z: Vector) -> Vector:
        return self._parts(z)[0]


@dataclass(frozen=True)
class Power(Loss):
    """``|z - y|^p / p``."""

    p: float = 4.0
    name: ClassVar[str] = "power"
    labels: ClassVar[bool] = False

    @property
    def curvature(self) -> float:
        """There is no bound for p > 2."""
        return math.inf

    def value(self, y: Vector, z: Vector) -> Vector:
        return np.abs(z - y) ** self.p / self.p

    def derivative(self, y: Vector, z: Vector) -> Vector:
        r = z - y
        return np.abs(r) ** (self.p - 2.0) * r

    def second(self, y: Vector, z: Vector) -> Vector:
        return (self.p - 1.0) * np.abs(z - y) ** (self.p - 2.0)


@dataclass(frozen=True)
class PseudoHuber(Loss):
    """``delta (sqrt(delta^2 + r^2) - delta)``, quadratic for small r and linear for large r."""

    delta: float = 1.0
    name: ClassVar[str] = "pseudo_huber"
    labels: ClassVar[bool] = False

    @property
    def curvature(self) -> float:
        """The curvature at r = 0."""
        return 1.0

    def value(self, y: Vector, z: Vector) -> Vector:
        """The loss of every prediction; r^2 / (sqrt + delta) loses no digits for small r."""
        r = z - y
        return self.delta * r**2 / (np.hypot(r, self.delta) + self.delta)

    def derivative(self, y: Vector, z: Vector) -> Vector:
        r = z - y
        return self.delta * r / np.hypot(r, self.delta)

    def second(self, y: Vector, z: Vector) -> Vector:
        return (self.delta / np.hypot(z - y, self.delta)) ** 3
