r"""Losses of one prediction, computed without overflow, and bounds on their curvature.

With z the prediction, y the label or target and t = y z the margin:

===============  ==========================================  =================
name             loss                                        curvature at most
===============  ==========================================  =================
logistic         ln(1 + exp(-t))                             1/4
squared          (z - y)^2 / 2                               1
smoothed_hinge   mu ln(1 + exp((1 - t)/mu))                  1/(4 mu)
huber            r^2/2 if |r| <= delta, else
                 delta (|r| - delta/2), r = z - y            1
squared_hinge    max(0, 1 - t)^2                             2
poisson          exp(z) - y z, for counts y >= 0             none
gamma            y exp(-z) + z, for targets y > 0            none
===============  ==========================================  =================
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np

from geartrain.oracles.protocols import Vector


def _sigmoid(t: Vector) -> Vector:
    """1/(1 + exp(-t)), accurate in both tails."""
    from scipy.special import expit  # here, because importing it takes a while

    return expit(t)


@dataclass(frozen=True)
class Loss(ABC):
    """A convex loss ``loss(y, z)``; derivatives are with respect to the prediction z."""

    name: ClassVar[str]
    labels: ClassVar[bool] = False  # y is a label -1/+1, not a real target
    targets: ClassVar[str] = ""  # what y must be: "positive", "not negative", or any real number
    lower_bound: ClassVar[float | None] = None  # of all values, where one is known

    @property
    @abstractmethod
    def curvature(self) -> float:
        """Upper bound of the second derivative; infinity where there is none."""

    @abstractmethod
    def value(self, y: Vector, z: Vector) -> Vector:
        """Of every prediction."""

    @abstractmethod
    def derivative(self, y: Vector, z: Vector) -> Vector:
        """In the prediction."""

    @abstractmethod
    def second(self, y: Vector, z: Vector) -> Vector:
        """The second derivative in the prediction; at a kink one of the two limits."""


@dataclass(frozen=True)
class Logistic(Loss):
    """``ln(1 + exp(-y z))``."""

    name = "logistic"
    labels = True
    lower_bound = 0.0
    curvature = 0.25

    def value(self, y: Vector, z: Vector) -> Vector:
        return np.logaddexp(0.0, -y * z)

    def derivative(self, y: Vector, z: Vector) -> Vector:
        return -y * _sigmoid(-y * z)

    def second(self, y: Vector, z: Vector) -> Vector:
        return _sigmoid(z) * _sigmoid(-z)


@dataclass(frozen=True)
class Squared(Loss):
    """``(z - y)^2 / 2``."""

    name = "squared"
    lower_bound = 0.0
    curvature = 1.0

    def value(self, y: Vector, z: Vector) -> Vector:
        return 0.5 * (z - y) ** 2

    def derivative(self, y: Vector, z: Vector) -> Vector:
        return z - y

    def second(self, y: Vector, z: Vector) -> Vector:
        return np.ones_like(z)


@dataclass(frozen=True)
class SmoothedHinge(Loss):
    """``mu ln(1 + exp((1 - y z)/mu))``, which differs from the hinge by at most ``mu ln 2``."""

    mu: float = 0.1
    name = "smoothed_hinge"
    labels = True
    lower_bound = 0.0

    @property
    def curvature(self) -> float:
        return 0.25 / self.mu

    def value(self, y: Vector, z: Vector) -> Vector:
        return self.mu * np.logaddexp(0.0, (1.0 - y * z) / self.mu)

    def derivative(self, y: Vector, z: Vector) -> Vector:
        return -y * _sigmoid((1.0 - y * z) / self.mu)

    def second(self, y: Vector, z: Vector) -> Vector:
        t = (1.0 - y * z) / self.mu
        return _sigmoid(t) * _sigmoid(-t) / self.mu


@dataclass(frozen=True)
class Huber(Loss):
    """Quadratic for residuals up to `delta`, linear beyond."""

    delta: float = 1.0
    name = "huber"
    lower_bound = 0.0
    curvature = 1.0

    def value(self, y: Vector, z: Vector) -> Vector:
        size = np.abs(z - y)
        capped = np.minimum(size, self.delta)
        return capped * (size - 0.5 * capped)

    def derivative(self, y: Vector, z: Vector) -> Vector:
        return np.clip(z - y, -self.delta, self.delta)

    def second(self, y: Vector, z: Vector) -> Vector:
        return np.where(np.abs(z - y) <= self.delta, 1.0, 0.0)


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """``max(0, 1 - y z)^2``."""

    name = "squared_hinge"
    labels = True
    lower_bound = 0.0
    curvature = 2.0

    def value(self, y: Vector, z: Vector) -> Vector:
        return np.maximum(0.0, 1.0 - y * z) ** 2

    def derivative(self, y: Vector, z: Vector) -> Vector:
        return -2.0 * y * np.maximum(0.0, 1.0 - y * z)

    def second(self, y: Vector, z: Vector) -> Vector:
        return np.where(y * z < 1.0, 2.0, 0.0)


@dataclass(frozen=True)
class Poisson(Loss):
    """``exp(z) - y z``: the negative log-likelihood of counts y with the mean exp(z)."""

    name = "poisson"
    targets = "not negative"
    curvature = math.inf

    def value(self, y: Vector, z: Vector) -> Vector:
        return np.exp(z) - y * z

    def derivative(self, y: Vector, z: Vector) -> Vector:
        return np.exp(z) - y

    def second(self, y: Vector, z: Vector) -> Vector:
        return np.exp(z)


@dataclass(frozen=True)
class Gamma(Loss):
    """``y exp(-z) + z``: that of Gamma variables y with the mean exp(z), up to their shape."""

    name = "gamma"
    targets = "positive"
    curvature = math.inf

    def value(self, y: Vector, z: Vector) -> Vector:
        return y * np.exp(-z) + z

    def derivative(self, y: Vector, z: Vector) -> Vector:
        return 1.0 - y * np.exp(-z)

    def second(self, y: Vector, z: Vector) -> Vector:
        return y * np.exp(-z)


@dataclass(frozen=True, eq=False)
class WeightedLoss(Loss):
    """A loss times one weight per row; y and z are those of all rows."""

    plain: Loss
    weights: Vector

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.plain.name

    @property
    def labels(self) -> bool:  # type: ignore[override]
        return self.plain.labels

    @property
    def lower_bound(self) -> float | None:  # type: ignore[override]
        return self.plain.lower_bound

    @property
    def curvature(self) -> float:
        return self.plain.curvature * float(self.weights.max())

    def value(self, y: Vector, z: Vector) -> Vector:
        return self.weights * self.plain.value(y, z)

    def derivative(self, y: Vector, z: Vector) -> Vector:
        return self.weights * self.plain.derivative(y, z)

    def second(self, y: Vector, z: Vector) -> Vector:
        return self.weights * self.plain.second(y, z)


COMPILED = (Logistic, Squared, SmoothedHinge, Huber, SquaredHinge)  # known to the kernels
LOSSES: dict[str, type[Loss]] = {cls.name: cls for cls in (*COMPILED, Poisson, Gamma)}


def make_loss(loss: str | Loss, **params: float) -> Loss:
    """The loss of that name with checked parameters, or the loss itself."""
    if isinstance(loss, Loss):
        return loss
    if loss not in LOSSES:
        raise ValueError(f"unknown loss {loss!r}; choose one of {', '.join(LOSSES)}")
    cls = LOSSES[loss]
    allowed = [field.name for field in fields(cls)]
    for name, value in params.items():
        if name not in allowed:
            hint = f"parameters of loss {loss!r}: {', '.join(allowed)}; " if allowed else ""
            raise TypeError(
                f"LinearModel has no argument {name!r}; {hint}arguments of every LinearModel: A, "
                "y, loss, l2, intercept, sample_weight"
            )
        if not (np.isfinite(value) and value > 0):
            raise ValueError(f"{name} of loss {loss!r} must be a positive number, got {value}")
    return cls(**params)
