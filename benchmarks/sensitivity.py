"""Which tuning constants matter: each is halved and doubled alone, and the cost is measured again.

Every frozen dataclass of the library whose name ends in "Tuning" is found and taken apart. The
constants of the methods are judged by the bill of ``auto`` at price ratios 10 and 100 on random
problems from number 10,000 on, which nobody uses to choose them; those of the estimators by the
seconds of `KernelSVC` fits on points that are drawn here. The table is sorted by the largest
effect: a constant whose change moves nothing could be dropped, one that moves a lot deserves care.

    python benchmarks/sensitivity.py [--quick] [--only methods|estimators]
"""

from __future__ import annotations

import argparse
import importlib
import math
import pkgutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from time import perf_counter
from typing import Any

import numpy as np

import geartrain as gt
from geartrain.estimators import KernelSVC
from geartrain_lab.benches.profile import LIMITS, auto_at, outcomes
from geartrain_lab.harness import Solver
from geartrain_lab.problems.random_convex import problems

UNUSED = 10_000  # number of the first problem: development takes the small numbers
RHOS = (10, 100)
Costs = Callable[[], np.ndarray]


def tunings(package: str) -> list[type]:
    """The tunings of a package."""
    found: dict[type, None] = {}
    for info in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        for value in vars(importlib.import_module(info.name)).values():
            if isinstance(value, type) and value.__name__.endswith("Tuning"):
                found[value] = None
    return list(found)


def scaled(value: Any, factor: float) -> Any:
    """`value` times `factor`; a share above one half is moved half-way to 1 instead of doubled."""
    if isinstance(value, tuple):
        return tuple(scaled(part, factor) for part in value)
    if isinstance(value, int) and not isinstance(value, bool):
        return max(1, round(value * factor))
    if isinstance(value, float):
        share = factor > 1.0 and 0.5 < value < 1.0
        return 1.0 - (1.0 - value) / factor if share else value * factor
    return value


@contextmanager
def changed(tuning: type, name: str, value: Any) -> Iterator[None]:
    """The library with another default of one constant.

    A tuning is made anew from its defaults, or used by way of an instance that is shared by the
    modules: both are changed, and put back.
    """
    init: Any = tuning.__init__
    before = init.__defaults__
    position = [field.name for field in fields(tuning)].index(name)
    modules = [m for key, m in sys.modules.items() if key.startswith("geartrain.")]
    shared = [v for m in modules for v in vars(m).values() if type(v) is tuning]
    old = before[position]
    try:
        init.__defaults__ = (*before[:position], value, *before[position + 1 :])
        for instance in shared:
            object.__setattr__(instance, name, value)
        yield
    finally:
        init.__defaults__ = before
        for instance in shared:
            object.__setattr__(instance, name, old)


def _auto(rho: int, most: dict[str, int]) -> Solver:
    prices = {"h.grad": float(rho), "g.grad": 1.0}
    return Solver(
        auto_at(rho),
        lambda task, _: "auto",
        lambda task: {"prices": prices},
        lambda task, rows: gt.stop.Calls(most),
    )


def bills(count: int) -> Costs:
    """The bills of `auto`; that of a run that was cut off is the largest possible."""
    drawn = [p for p in problems("development", count, start=UNUSED) if p.n <= 200]
    most = {**LIMITS, "h.grad": 300}
    solvers = [_auto(rho, most) for rho in RHOS]
    rhos = np.array(RHOS, dtype=float)

    def costs() -> np.ndarray:
        out = []
        for problem in drawn:
            found = outcomes(problem, solvers)
            bills = rhos * found.N_h.to_numpy() + found.N_g.to_numpy()
            out.append(np.where(np.isfinite(bills), bills, rhos * 300.0 + LIMITS["g.grad"]))
        return np.concatenate(out)

    return costs


def seconds(sizes: tuple[int, ...], repeats: int = 3) -> Costs:
    """Seconds of fits on points in two noisy rings, the best of some repeats."""
    rng = np.random.default_rng(3)
    data = []
    for m in sizes:
        angle, y = rng.uniform(0.0, 2.0 * np.pi, m), rng.choice([-1.0, 1.0], m)
        radius = 1.0 + 0.4 * y + 0.3 * rng.standard_normal(m)
        data.append((np.c_[radius * np.cos(angle), radius * np.sin(angle)], y))

    def costs() -> np.ndarray:
        out = []
        for X, y in data:
            for C in (0.1, 10.0):
                spent = math.inf
                for _ in range(repeats):
                    start = perf_counter()
                    KernelSVC(C=C, gamma=1.0).fit(X, y)
                    spent = min(spent, perf_counter() - start)
                out.append(spent)
        return np.array(out)

    return costs


def effects(tuning: type, costs: Costs) -> list[tuple[float, str]]:
    """A line for each constant and change, with its effect."""
    usual = costs()
    out = []
    for field in fields(tuning):
        for factor in (0.5, 2.0):
            value = scaled(field.default, factor)
            if value == field.default:
                continue
            with changed(tuning, field.name, value):
                ratios = costs() / usual
            mean, low, high = np.exp(np.mean(np.log(ratios))), ratios.min(), ratios.max()
            line = f"{field.name:18}{field.default!s:>12.12} -> {value!s:<12.12}"
            out.append((abs(math.log(mean)), f"{line}{mean:8.3f}{low:8.2f}{high:8.2f}"))
            print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return sorted(out, reverse=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few problems, in minutes")
    parser.add_argument("--only", choices=["methods", "estimators"])
    args = parser.parse_args()
    measures = {
        "methods": bills(22 if args.quick else 110),
        "estimators": seconds((600,) if args.quick else (1500, 6000)),
    }
    for package, costs in measures.items():
        for tuning in tunings(f"geartrain.{package}") if args.only in (None, package) else ():
            print(f"\n{tuning.__module__}.{tuning.__name__}: cost over the cost with the default")
            print(f"{'constant':18}{'default -> changed':28}{'mean':>8}{'least':>8}{'most':>8}")
            for _, line in effects(tuning, costs):
                print(line)


if __name__ == "__main__":
    main()
