"""Base densities on the line, and how observations are prepared for them.

A two-piece Student t has a mode and, on either side of it, a scale s and degrees of freedom nu:
its density is proportional to (1 + t^2/nu)^(-(nu + 1)/2), t = (y - mode)/s.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import optimize, special

from geartrain.compiled.records import Array

NU, NU_LEAST, NU_MOST = 8.0, 0.5, 30.0  # prior: ln nu is N(ln NU, 1), between these bounds
SKEW = 0.3  # prior: ln(s_1/s_2) is Cauchy of this scale
SCALES = 0.02, 1e3  # bounds of s
COPIES = 64  # points over which equal values are spread, at most
FAR = 1e150  # in robust standard deviations: squares do not overflow
STEP = 1e-4  # of differences, in the units of theta or in standard deviations of it
CONSTANT = 1e-3  # share of its size by which a single value is spread; 1/2 at least


@dataclass(frozen=True)
class Units:
    """y = (2^-exponent z - centre)/scale, without overflow."""

    exponent: int = 0
    centre: float = 0.0
    scale: float = 1.0

    def standard(self, z: Array) -> Array:
        """Z in these units."""
        with np.errstate(over="ignore"):
            y = (np.ldexp(z, -self.exponent) - self.centre) / self.scale
        return np.clip(y, -1e300, 1e300)

    def original(self, y: Array) -> Array:
        """The inverse; the largest number in place of infinity."""
        with np.errstate(over="ignore"):
            return np.nan_to_num(np.ldexp(self.centre + self.scale * y, self.exponent))

    @property
    def log_scale(self) -> float:
        """Logarithm of dz/dy."""
        return float(np.log(self.scale) + self.exponent * np.log(2.0))


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

    def variance(self, y: Array) -> Array:
        return np.zeros(y.shape)


@dataclass(frozen=True)
class TwoPieceT:
    """Two-piece Student t with theta = (mode, ln s_1, ln s_2, ln nu_1, ln nu_2).

    `parameters` says how many were fitted; the covariance of theta is `root` times its transpose.
    """

    theta: Array
    parameters: int
    root: Array

    mode = property(lambda self: float(self.theta[0]))
    s = property(lambda self: np.exp(self.theta[1:3]))
    nu = property(lambda self: np.exp(self.theta[3:]))

    def log_density(self, y: Array) -> Array:
        t, side = y - self.mode, (y >= self.mode).astype(int)
        ratio = np.hypot(1.0, t / (self.s * np.sqrt(self.nu))[side])
        return -(self.nu[side] + 1.0) * np.log(ratio) - np.log(halves(self.s, self.nu).sum())

    @property
    def _twice(self) -> Array:
        """Twice the probabilities of the sides."""
        return 2.0 * halves(self.s, self.nu) / halves(self.s, self.nu).sum()

    def cdf(self, y: Array) -> Array:
        left, right = self._twice
        low = special.stdtr(self.nu[0], np.minimum(y - self.mode, 0.0) / self.s[0])
        high = special.stdtr(self.nu[1], np.minimum(self.mode - y, 0.0) / self.s[1])
        return np.where(y < self.mode, left * low, 1.0 - right * high)

    def ppf(self, u: Array) -> Array:
        left, right = self._twice
        low = special.stdtrit(self.nu[0], np.clip(u / left, 0.0, 0.5))
        high = special.stdtrit(self.nu[1], np.clip((1.0 - u) / right, 0.0, 0.5))
        return self.mode + np.where(u < 0.5 * left, self.s[0] * low, -self.s[1] * high)

    def variance(self, y: Array) -> Array:
        """Of the log-density, by its differences along the columns of the root."""
        ends = (
            [replace(self, theta=self.theta + e * r) for e in (STEP, -STEP)] for r in self.root.T
        )
        slopes = [(up.log_density(y) - down.log_density(y)) / (2.0 * STEP) for up, down in ends]
        return np.square(slopes).sum(axis=0)


Base = TwoPieceT | Indices


def halves(s: Array, nu: Array) -> Array:
    """Integrals of (1 + t^2/nu)^(-(nu + 1)/2) over the sides."""
    return 0.5 * s * np.sqrt(nu) * special.beta(0.5 * nu, 0.5)


def quantiles(values: Array, weights: Array, shares: list[float]) -> Array:
    """Of weighted values, none of which is interpolated."""
    return np.quantile(values, shares, weights=weights, method="inverted_cdf")


def prepared(z: Array, weights: Array) -> tuple[Units, Array, Array]:
    """Units from the median and the quartiles; the values in them, ties spread; their weights.

    Everything depends on the different values and the sums of their weights alone, so that a
    weight is a number of repetitions.
    """
    exponent = max(int(np.frexp(np.abs(z).max())[1]), -1000)
    v, place = np.unique(np.ldexp(z, -exponent), return_inverse=True)
    c = np.bincount(place, weights)
    if v.size == 1:
        half = max(np.ldexp(0.25, -exponent), 0.5 * CONSTANT * abs(v[0]))
        v, c = v + np.array([-half, half]), np.repeat(0.5 * c, 2)
    low, centre, high = quantiles(v, c, [0.25, 0.5, 0.75])
    # Where ties leave no distance between the quartiles: the mean distance from the median.
    scale = (high - low) / 1.349 or c @ np.abs(v - centre) / c.sum()
    # A value of weight c > 1 evenly over its cell: halfway to the nearer neighbour on both sides.
    gaps = np.diff(v)
    reach = 0.5 * np.minimum(np.r_[gaps[0], gaps], np.r_[gaps, gaps[-1]])
    copies = np.clip(np.ceil(c), 1, COPIES).astype(np.int64)
    number = np.arange(copies.sum()) - np.repeat(np.cumsum(copies) - copies, copies)
    share = (2.0 * number + 1.0) / np.repeat(copies, copies) - 1.0
    y = (np.repeat(v - centre, copies) + np.repeat(reach, copies) * share) / scale
    units = Units(exponent, float(centre), float(scale))
    return units, np.clip(y, -FAR, FAR), np.repeat(c / copies, copies)


def negative_log_posterior(theta: Array, y: Array, w: Array) -> tuple[float, Array]:
    """Of the base theta, per observation, with its gradient."""
    m, mode, s, nu = w.sum(), theta[0], np.exp(theta[1:3]), np.exp(theta[3:])
    side = (y >= mode).astype(int)
    t = (y - mode) / s[side]
    q = t * t / nu[side]
    logs, pull, push = (
        np.bincount(side, w / m * term, minlength=2)
        for term in (np.log1p(q), q / (1.0 + q), t / (1.0 + q))
    )
    area = halves(s, nu)
    share = area / area.sum()
    off, skew = theta[3:] - np.log(NU), (theta[1] - theta[2]) / SKEW
    prior = 0.5 * off @ off + np.log1p(skew * skew)
    value = np.log(area.sum()) + 0.5 * (nu + 1.0) @ logs + prior / m
    tilt = 2.0 * skew / (1.0 + skew * skew) / SKEW
    rate = 0.5 + 0.5 * nu * (special.digamma(0.5 * nu) - special.digamma(0.5 * nu + 0.5))
    by_mode = -(nu + 1.0) / (nu * s) @ push
    by_s = share - (nu + 1.0) * pull + np.array([tilt, -tilt]) / m
    by_nu = share * rate + 0.5 * nu * logs - 0.5 * (nu + 1.0) * pull + off / m
    return float(value), np.concatenate([[by_mode], by_s, by_nu])


def candidates(y: Array, w: Array) -> list[Base]:
    """The base of the largest posterior, and one that is wide where y has clusters.

    The first is sought from the middle and from either end. The second has the mean and the
    standard deviation of y, and the thinnest tails.
    """
    low, high = quantiles(y, w, [0.02, 0.98])
    starts = np.array([[0.0, 0.0, 0.0], [low, -1.5, 0.5], [high, 0.5, -1.5]])
    bounds: Any = [(y.min(), y.max()), *2 * [np.log(SCALES)], *2 * [np.log((NU_LEAST, NU_MOST))]]
    options = {"maxiter": 500, "ftol": 1e-13, "gtol": 1e-9}
    kind: Any = {"method": "L-BFGS-B", "jac": True, "bounds": bounds, "options": options}
    runs = [
        optimize.minimize(negative_log_posterior, [*start, *2 * [np.log(NU)]], (y, w), **kind)
        for start in starts
    ]
    theta = min(runs, key=lambda run: run.fun).x
    share = w / w.sum()
    log_s = 0.5 * np.log(share @ (y - share @ y) ** 2)
    wide = np.array([share @ y, log_s, log_s, np.log(NU_MOST), np.log(NU_MOST)])
    free = [low < t < high for t, (low, high) in zip(theta, bounds, strict=True)]
    moments = np.array([[1.0, 0, 0, 0, 0], [0, 1, 1, 0, 0]]).T
    return [
        TwoPieceT(theta, 5, _root(theta, y, w, np.eye(5)[:, free])),
        TwoPieceT(wide, 2, _root(wide, y, w, moments)),
    ]


def _root(theta: Array, y: Array, w: Array, directions: Array) -> Array:
    """Of the covariance along `directions` by Laplace's method; no deviation is above 1."""
    ends = (
        [negative_log_posterior(theta + e * d, y, w)[1] for e in (STEP, -STEP)]
        for d in directions.T
    )
    H = np.array([directions.T @ (up - down) / (2.0 * STEP) for up, down in ends])
    values, vectors = np.linalg.eigh(H.reshape(2 * directions.shape[1:]))
    return directions @ vectors / np.sqrt(np.maximum(w.sum() * values, 1.0))
