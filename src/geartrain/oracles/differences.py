r"""Derivatives from values by central differences, with steps that suit the noise.

========  ==========  ============================================================
symbol    name        meaning
========  ==========  ============================================================
delta     ``noise``   bound on the error of a value
M_3       ``M3``      bound on the third derivative along a coordinate
t         ``step``    (3 delta/M_3)^{1/3}, which minimises delta/t + M_3 t^2/6
========  ==========  ============================================================

The noise is the attribute ``noise`` of the term; a term that states none is assumed to have values
with a relative error of four roundings. M_3 is the attribute ``M3`` of the term; if it states none,
M_3 = L_i/(1 + \|x\|_inf) is used, as if the curvature changed by its own size over the scale of x.
A quadratic may state M3 = 0: central differences are exact for it, and the step is the scale of x.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from geartrain.oracles.vectors import Vector

_ROUNDINGS = 4.0 * float(np.finfo(np.float64).eps)


def difference_steps(
    term: Any, value: Callable[[Vector], float], x: Vector, L: Vector | float
) -> Vector:
    """Steps for the n partial derivatives near x; one value is asked for if no noise is stated."""
    noise = float(term.noise)
    if noise == 0.0:
        noise = _ROUNDINGS * max(abs(value(x)), np.finfo(np.float64).tiny)
    scale = 1.0 + float(np.abs(x).max(initial=0.0))
    third = np.full(x.size, 0.0) + (np.asarray(L) / scale if term.M3 is None else term.M3)
    with np.errstate(divide="ignore"):
        best = np.cbrt(3.0 * noise / third)
    # At most the scale of x, and large enough for x + t to differ from x.
    return np.clip(best, 1e-8 * scale, scale)


def central_gradient(value: Callable[[Vector], float], x: Vector, steps: Vector) -> Vector:
    """An estimate of the gradient at x from 2 n values."""
    point = x.copy()
    grad = np.empty(x.size)
    for i, step in enumerate(steps):
        grad[i] = central_partial(value, point, i, step)
    return grad


def central_partial(value: Callable[[Vector], float], point: Vector, i: int, step: float) -> float:
    """An estimate of the i-th partial derivative from two values; `point` is restored."""
    centre = point[i]
    point[i] = high = centre + step
    up = value(point)
    point[i] = low = centre - step
    down = value(point)
    point[i] = centre
    return (up - down) / (high - low)  # the distance after rounding
