"""The extrapolation sequence shared by accelerated gradient methods."""

from __future__ import annotations

import math


def next_theta(theta: float, q: float) -> tuple[float, float]:
    r"""Nesterov's variable momentum for the inverse condition number q.

    ``theta_+`` solves theta_+^2 = (1 - theta_+) theta^2 + q theta_+, and the momentum is
    theta (1 - theta) / (theta^2 + theta_+) (Nesterov, Lectures on Convex Optimization, 2018,
    scheme (2.2.19)). With q = 0 it is the sequence of the convex case; with theta = sqrt(q) it
    is the constant (1 - sqrt q)/(1 + sqrt q).

    Returns
    -------
    theta_+, momentum
    """
    b = q - theta * theta
    theta_next = 0.5 * (b + math.sqrt(b * b + 4.0 * theta * theta))
    return theta_next, theta * (1.0 - theta) / (theta * theta + theta_next)
