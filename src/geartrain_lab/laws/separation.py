"""The separation law: how often each term is asked when one constant grows.

Random quadratics f = h + g with mu > 0 whose h and g are badly conditioned in different directions.
Where g is asked for partial derivatives, L_g-bar, the squared mean of sqrt(L_i) over the
coordinates, takes the place of L_g, and calls of g are partial derivatives, n for a gradient. Where
g is a mean of m squared losses they are gradients of summands, m for a gradient, and m L_h is at
most L_g-hat.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import geartrain as gt
from geartrain.datasets import KnownProblem
from geartrain_lab.laws.law import Law, Sweep, calls_to
from geartrain_lab.problems import opposed_finite_sum, opposed_quadratics

EPS, COMPONENT_EPS = 1e-8, 1e-6
STATED = "g 0.5 +- 0.1, and h at most 0.1 where it separates"
WHOLE = ("ags", "fgm")  # they have no inner method


def full(
    method: str, *, L_h: float, L_g: float, mu: float, seed: int, n: int = 120
) -> tuple[float, float]:
    """Gradients of h and of g."""
    problem = opposed_quadratics(n, L_h=L_h, L_g=L_g, mu=mu, seed=seed)
    options: dict[str, Any] = {"L_h": L_h, "L_g": L_g, "mu": mu, "max_iter": 10**7}
    inner = "auto" if method in WHOLE else "agm"
    calls = calls_to(problem, EPS, method, inner=inner, **options)
    return calls["h.grad"], calls["g.grad"]


def coordinate(method: str, *, n: int, L_g: float, mu: float, seed: int) -> tuple[float, float]:
    """Gradients of h, and partial derivatives of g or its values, of a method(inner method)."""
    outer, _, inner = method.rstrip(")").partition("(")
    problem = _spread_out(n, L_g, mu, seed)
    g = problem.g
    if method in VALUES:  # central differences are exact for a quadratic, so M3 = 0
        values = gt.Term(value=g.value, n=n, L=g.L, L_coord=g.L_coord, mu=g.mu, M3=0.0)
        problem = KnownProblem(problem.h, values, problem.x_star, problem.f_star)
    options: dict[str, Any] = {"inner": inner} if inner else {}
    calls = calls_to(problem, COMPONENT_EPS, outer, mu=mu, seed=seed, **options)
    asked_g = calls["g.coord"] + n * calls["g.grad"] + calls["g.value"]
    return calls["h.grad"] + calls["h.coord"] / n, asked_g


def _L_g_bar(*, n: int, L_g: float, mu: float, seed: int) -> float:
    return float(np.mean(np.sqrt(_spread_out(n, L_g, mu, seed).g.L_coord)) ** 2)


def _spread_out(n: int, L_g: float, mu: float, seed: int) -> KnownProblem:
    return opposed_quadratics(n, L_h=1.0, L_g=L_g, mu=mu, seed=seed, x_star_scale=n**-0.5)


def finite_sum(method: str, *, m: int, L_g_hat: float, mu: float, seed: int) -> tuple[float, float]:
    """Gradients of h, and gradients of summands of g."""
    problem = opposed_finite_sum(m, L_h=1.0, L_g_hat=L_g_hat, mu=mu, seed=seed)
    made = FINITE_SUM[method]()
    calls = calls_to(problem, COMPONENT_EPS, made, L_h=1.0, mu=mu, seed=seed)
    return calls["h.grad"], calls["g.component"] + m * calls["g.grad"]


def _restarted(make: Callable[..., Any]) -> Any:
    return gt.methods.Restarted(make(inner=gt.Katyusha()), gt.methods.GradientTest())


VALUES = ("afb(coordinate-differences)", "afb(directional)")
FINITE_SUM: dict[str, Callable[[], Any]] = {
    "SAE, Katyusha": lambda: _restarted(gt.SAE),
    "R-SAE, Katyusha": lambda: gt.methods.RSAE(inner=gt.Katyusha()),
    "SC-SAE, Katyusha": lambda: gt.methods.SCSAE(inner=gt.Katyusha()),
    "AFB, Katyusha": lambda: _restarted(gt.methods.AFB),
}
_EACH = ("nesterov-stich", "acd")
IN_L_H = "h 0.5 +- 0.12"


def _in_both(highest_L_g: int, L_g: float, highest_L_h: int) -> tuple[Sweep, Sweep]:
    return (
        Sweep("L_g", np.logspace(1, highest_L_g, highest_L_g), {"L_h": 1.0, "mu": 1e-3}, STATED),
        Sweep("L_h", np.logspace(-1, highest_L_h, 4), {"L_g": L_g, "mu": 1e-3}, IN_L_H),
    )


SEPARATION = Law(
    "The separation law",
    ("h", "g"),
    ("r-sae", "sc-sae", "afb", *WHOLE),
    _in_both(5, 1e5, 4),
    full,
    quick=_in_both(4, 1e3, 2),
)
# The law holds where L_g-bar exceeds L_h = 1.
COORDINATE = Law(
    "The separation law with partial derivatives",
    ("h", "g"),
    (*(f"r-sae({i})" for i in _EACH), *(f"afb({i})" for i in (*_EACH, "approx")), "acd"),
    (
        Sweep("L_g", np.logspace(3, 6, 4), {"n": 64, "mu": 1e-3}, STATED, _L_g_bar),
        Sweep("n", (32, 64, 128, 256), {"L_g": 1e3, "mu": 1e-3}, "g 1, and h at most 0.1"),
    ),
    coordinate,
)
VALUES_ONLY = Law(
    "The separation law with values of g only",
    ("h", "g"),
    VALUES,
    (
        Sweep("L_g", np.logspace(2, 4, 5), {"n": 12, "mu": 1e-2}, STATED, _L_g_bar),
        Sweep("n", (6, 12, 24, 48), {"L_g": 1e2, "mu": 1e-2}, "g 1, and h at most 0.1"),
    ),
    coordinate,
)
SUMMANDS = Law(
    "The separation law for finite sums",
    ("h", "g_k"),
    tuple(FINITE_SUM),
    (
        Sweep("L_g_hat", np.geomspace(1e4, 1e6, 5), {"m": 100, "mu": 1e-2}, "g 0.5 +- 0.15"),
        Sweep("m", (50, 100, 200, 400), {"L_g_hat": 1e5, "mu": 1e-2}, "g 0.5"),
    ),
    finite_sum,
)
