"""Base densities with heavy tails on the line, and how observations are prepared for them.

A two-piece Student t has a mode and, on either side of it, a scale s and degrees of freedom nu:
its density is proportional to (1 + t^2/nu)^(-(nu + 1)/2), t = (y - mode)/s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import optimize, special

from geartrain.estimators.arrays import Array

NU, NU_LEAST, NU_MOST = 8.0, 0.5, 30.0  # centre of the prior of nu, and its bounds
SD_NU = 1.0  # prior: ln nu is normal around ln NU
SKEW = 0.3  # prior: ln(s_1/s_2) is Cauchy of this scale
SCALES = 0.02, 1e3  # bounds of s
COPIES = 64  # points over which equal values are spread, at most
FAR = 1e150  # in robust standard deviations: squares do not overflow
CONSTANT = 1e-3  # share of its size over which a single value is spread; 1/2 at least


@dataclass(frozen=True)
class Units:
    """y = (2^-exponent z - centre)/scale: no difference or ratio overflows."""

    exponent: int
    centre: float
    scale: float

    def standard(self, z: Array) -> Array:
        """Y of z."""
        with np.errstate(over="ignore"):
            y = (np.ldexp(z, -self.exponent) - self.centre) / self.scale
        return np.clip(y, -1e300, 1e300)

    def original(self, y: Array) -> Array:
        """Z of y; the largest number instead of an infinite one."""
        with np.errstate(over="ignore"):
            z = np.ldexp(self.centre + self.scale * y, self.exponent)
        return np.nan_to_num(z)

    @property
    def log_scale(self) -> float:
        """Logarithm of dz/dy."""
        return float(np.log(self.scale) + self.exponent * np.log(2.0))


class Base(Protocol):
    """A density q0 in standard units, with its distribution function F0."""

    @property
    def parameters(self) -> int:
        """How many were fitted."""

    def log_density(self, y: Array) -> Array:
        """The logarithm of q0."""

    def cdf(self, y: Array) -> Array:
        """F0."""

    def ppf(self, u: Array) -> Array:
        """The inverse of F0."""


@dataclass(frozen=True)
class Indices:
    """The indices 0, ..., p - 1, all alike; F0 is that of cells of width 1 around them."""

    p: int
    parameters = 0

    def log_density(self, y: Array) -> Array:
        known = (y >= 0) & (y < self.p) & (y == np.round(y))
        return np.where(known, -np.log(self.p), -np.inf)

    def cdf(self, y: Array) -> Array:
        return np.clip((y + 0.5) / self.p, 0.0, 1.0)

    def ppf(self, u: Array) -> Array:
        return np.minimum(np.floor(self.p * u), self.p - 1.0)


@dataclass(frozen=True)
class TwoPieceT:
    """Two-piece Student t."""

    mode: float
    scales: tuple[float, float]
    nus: tuple[float, float]
    parameters: int

    @property
    def halves(self) -> tuple[float, float]:
        """Integrals over both sides."""
        left, right = (_half(s, nu) for s, nu in zip(self.scales, self.nus, strict=True))
        return left, right

    @property
    def left(self) -> float:
        """Probability of the left side."""
        return self.halves[0] / sum(self.halves)

    def log_density(self, y: Array) -> Array:
        t = y - self.mode
        s, nu = (np.where(t < 0, *pair) for pair in (self.scales, self.nus))
        tail = -(nu + 1.0) * np.log(np.hypot(1.0, t / (s * np.sqrt(nu))))
        return tail - np.log(sum(self.halves))

    def cdf(self, y: Array) -> Array:
        t = y - self.mode
        low = special.stdtr(self.nus[0], np.minimum(t, 0.0) / self.scales[0])
        high = special.stdtr(self.nus[1], -np.maximum(t, 0.0) / self.scales[1])
        return np.where(t < 0, 2 * self.left * low, 1.0 - 2 * (1.0 - self.left) * high)

    def ppf(self, u: Array) -> Array:
        low = special.stdtrit(self.nus[0], np.clip(u / (2 * self.left), 0.0, 0.5))
        high = special.stdtrit(self.nus[1], np.clip((1 - u) / (2 * (1 - self.left)), 0.0, 0.5))
        t = np.where(u < self.left, self.scales[0] * low, -self.scales[1] * high)
        return self.mode + t


def _half(s: float, nu: float) -> float:
    return float(0.5 * s * np.sqrt(nu) * special.beta(0.5 * nu, 0.5))


def prepared(z: Array, weights: Array) -> tuple[Units, Array, Array]:
    """Units from the median and the quartiles; the values in them, ties spread; their weights.

    Everything depends on the different values and the sums of their weights alone, so that a
    weight is a number of repetitions.
    """
    exponent = max(int(np.frexp(np.abs(z).max())[1]), -1000)
    v, place = np.unique(np.ldexp(z, -exponent), return_inverse=True)
    c = np.bincount(place, weights)
    if v.size == 1:
        half = max(0.25 * 2.0**-exponent, 0.5 * CONSTANT * abs(v[0]))
        v, c = v + np.array([-half, half]), np.repeat(0.5 * c, 2)
    low, centre, high = np.quantile(v, [0.25, 0.5, 0.75], weights=c, method="inverted_cdf")
    # Where ties leave no distance between the quartiles: the mean distance from the median.
    scale = (high - low) / 1.349 or float(c @ np.abs(v - centre) / c.sum())
    y, w = _spread(v, c)
    units = Units(exponent, float(centre), float(scale))
    return units, np.clip((y - centre) / scale, -FAR, FAR), w


def _spread(v: Array, c: Array) -> tuple[Array, Array]:
    """A value of weight c > 1 evenly over its cell: halfway to the nearer neighbour on both sides."""
    gaps = np.diff(v)
    reach = 0.5 * np.minimum(np.r_[gaps[0], gaps], np.r_[gaps, gaps[-1]])
    copies = np.clip(np.ceil(c), 1, COPIES).astype(np.int64)
    number = np.arange(copies.sum()) - np.repeat(np.cumsum(copies) - copies, copies)
    share = (2.0 * number + 1.0) / np.repeat(copies, copies) - 1.0
    return np.repeat(v, copies) + np.repeat(reach, copies) * share, np.repeat(c / copies, copies)


def log_posterior(theta: Array, y: Array, w: Array) -> tuple[float, Array]:
    """Negative, per observation, with its gradient; theta = (mode, ln s_1, ln s_2, ln nu_1, ln nu_2)."""
    m = w.sum()
    s, nu = np.exp(theta[1:3]), np.exp(theta[3:])
    share = np.array([_half(*pair) for pair in zip(s, nu, strict=True)])
    value = np.log(share.sum())
    share /= share.sum()
    gradient = np.zeros(5)
    for j, side in enumerate((y < theta[0], y >= theta[0])):
        t, weight = (y[side] - theta[0]) / s[j], w[side] / m
        q = t * t / nu[j]
        logs, pull = weight @ np.log1p(q), weight @ (q / (1.0 + q))
        value += 0.5 * (nu[j] + 1.0) * logs
        gradient[0] -= (nu[j] + 1.0) / (nu[j] * s[j]) * (weight @ (t / (1.0 + q)))
        gradient[1 + j] = share[j] - (nu[j] + 1.0) * pull
        rate = special.digamma(0.5 * nu[j]) - special.digamma(0.5 * (nu[j] + 1.0))
        gradient[3 + j] = 0.5 * nu[j] * logs - 0.5 * (nu[j] + 1.0) * pull
        gradient[3 + j] += share[j] * (0.5 + 0.5 * nu[j] * rate)
    from_centre, skew = theta[3:] - np.log(NU), (theta[1] - theta[2]) / SKEW
    value += (0.5 * from_centre @ from_centre / SD_NU**2 + np.log1p(skew * skew)) / m
    gradient[3:] += from_centre / SD_NU**2 / m
    gradient[1:3] += np.array([1.0, -1.0]) * 2.0 * skew / (1.0 + skew * skew) / SKEW / m
    return float(value), gradient


def fitted(y: Array, w: Array) -> TwoPieceT:
    """The largest posterior from a start in the middle and one at either end."""
    ends = np.quantile(y, [0.02, 0.98], weights=w, method="inverted_cdf")
    middle = np.log(NU)
    starts = (
        [0.0, 0.0, 0.0, middle, middle],
        [ends[0], -1.5, 0.5, middle, middle],
        [ends[1], 0.5, -1.5, middle, middle],
    )
    bounds: Any = [(y.min(), y.max()), *2 * [np.log(SCALES)], *2 * [np.log((NU_LEAST, NU_MOST))]]
    options = {"maxiter": 500, "ftol": 1e-13, "gtol": 1e-9}
    runs = [
        optimize.minimize(
            log_posterior, start, (y, w), "L-BFGS-B", jac=True, bounds=bounds, options=options
        )
        for start in starts
    ]
    theta = min(runs, key=lambda run: run.fun).x
    (s1, s2), (nu1, nu2) = np.exp(theta[1:3]), np.exp(theta[3:])
    return TwoPieceT(float(theta[0]), (s1, s2), (nu1, nu2), 5)


def by_moments(y: Array, w: Array) -> TwoPieceT:
    """Mean and standard deviation of y, with the thinnest tails: wide where y has clusters."""
    p = w / w.sum()
    mean = float(p @ y)
    s = float(np.sqrt(p @ (y - mean) ** 2))
    return TwoPieceT(mean, (s, s), (NU_MOST, NU_MOST), 2)
