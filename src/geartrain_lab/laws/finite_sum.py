"""The separation law for finite sums: how often each term is asked when one constant grows.

f = h + g with a quadratic h and as g a mean of m squared losses, badly conditioned in different
directions, mu > 0 in the sum, m L_h <= L_g-hat; solved to f - f* <= 1e-6. Component gradients are
component calls plus m for each full gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import geartrain as gt
from geartrain.oracles.protocols import Vector
from geartrain_lab.laws.common import arguments, calls_to, exponent, geometric_means
from geartrain_lab.problems import opposed_finite_sum

MU, L_H, EPS = 1e-2, 1.0, 1e-6
METHODS: dict[str, Callable[[], Any]] = {
    "SAE, Katyusha": lambda: gt.methods.Restarted(
        gt.SAE(inner=gt.Katyusha()), gt.methods.GradientTest()
    ),
    "R-SAE, Katyusha": lambda: gt.methods.RSAE(inner=gt.Katyusha()),
    "SC-SAE, Katyusha": lambda: gt.methods.SCSAE(inner=gt.Katyusha()),
    "AFB, Katyusha": lambda: gt.methods.Restarted(
        gt.methods.AFB(inner=gt.Katyusha()), gt.methods.GradientTest()
    ),
}


def measure(method: Any, m: int, L_g_hat: float, seeds: Sequence[int]) -> Vector:
    """Geometric means of the gradients of h and of the component gradients of g."""
    rows = []
    for seed in seeds:
        problem = opposed_finite_sum(m, L_h=L_H, L_g_hat=L_g_hat, mu=MU, seed=seed)
        calls = calls_to(problem, EPS, method, L_h=L_H, mu=MU, seed=seed)
        rows.append((calls["h.grad"], calls["g.component"] + m * calls["g.grad"]))
    return geometric_means(rows)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    quick = arguments(__doc__, argv, "one seed").quick
    seeds = (0,) if quick else (0, 1, 2)
    in_L = [(100, L_g_hat) for L_g_hat in np.geomspace(1e4, 1e6, 3 if quick else 5)]
    in_m = [(m, 1e5) for m in (50, 100, 200, 400)]
    rows = []
    for name, make in METHODS.items():
        slopes = []
        for points in (in_L, in_m):
            found = np.array([measure(make(), m, L_g_hat, seeds) for m, L_g_hat in points])
            for (m, L_g_hat), (n_h, n_g) in zip(points, found, strict=True):
                print(
                    f"{name:18} m {m:4d}  L_g-hat {L_g_hat:8.2g}  h {n_h:7.1f}  g_k {n_g:11.0f}",
                    flush=True,
                )
            axis = [point[1] if points is in_L else point[0] for point in points]
            slopes += [exponent(axis, found[:, 0]), exponent(axis, found[:, 1])]
        rows.append((name, slopes))
    print(f"\n{'exponents':18}", end="")
    print(f"{'h in L_g-hat':>14}{'g_k in L_g-hat':>16}{'h in m':>10}{'g_k in m':>10}")
    print(f"{'stated':18}{'<= 0.12':>14}{'0.5 +- 0.15':>16}{'<= 0.12':>10}{'0.5':>10}")
    for name, (a, b, c, d) in rows:
        print(f"{name:18}{a:14.2f}{b:16.2f}{c:10.2f}{d:10.2f}")
