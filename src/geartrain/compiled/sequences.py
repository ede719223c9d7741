"""Draws and weights of the coordinate methods, computed one after the other."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from geartrain.compiled.jit import njit
from geartrain.oracles.protocols import Vector


@njit(cache=True)
def draw(cumulative: Vector, guide: NDArray[np.int64], uniform: Vector) -> NDArray[np.int64]:
    """Invert the distribution function with a guide table: O(1) per draw in expectation."""
    index = np.empty(uniform.size, dtype=np.int64)
    for t in range(uniform.size):
        x = uniform[t]
        i = guide[int(x * guide.size)]
        while cumulative[i] <= x:
            i += 1
        index[t] = i
    return index


@njit(cache=True)
def estimating_sequence(
    A: float, B: float, S: float, sigma: float, steps: int
) -> tuple[Vector, Vector, Vector, float, float]:
    """Weights of Nesterov and Stich: kappa, beta and a/B_+ of every step, and the last A and B."""
    kappa, beta, push = np.empty(steps), np.empty(steps), np.empty(steps)
    for t in range(steps):
        # S^2 a^2 = (A + a)(B + sigma a), the larger root; S^2 = sigma only if n = 1 and g = 0
        c2, c1 = max(S * S - sigma, 1e-12 * S * S), B + sigma * A
        a = (c1 + math.sqrt(c1 * c1 + 4.0 * c2 * A * B)) / (2.0 * c2)
        A += a
        B += sigma * a
        al, be = a / A, sigma * a / B
        kappa[t] = (1.0 - al) / (1.0 - al * be)
        beta[t] = be
        push[t] = a / B
        if A > 1e100:  # only the ratios of A, B and a matter
            A, B = A * 1e-100, B * 1e-100
    return kappa, beta, push, A, B


@njit(cache=True)
def thetas(theta: float, size: int) -> Vector:
    """The sequence theta_+ = (sqrt(theta^4 + 4 theta^2) - theta^2)/2 from the given first one."""
    out = np.empty(size)
    for t in range(size):
        out[t] = theta
        square = theta * theta
        theta = 0.5 * (math.sqrt(square * square + 4.0 * square) - square)
    return out
