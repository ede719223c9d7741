"""A law: how the calls of both terms grow with one constant, beside what is stated."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from geartrain.oracles.protocols import Vector
from geartrain_lab import harness
from geartrain_lab.chart import PALETTE, Chart, Curve
from geartrain_lab.harness import Solver, Task
from geartrain_lab.static import sheet

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Sweep:
    """One constant grows while the others stay."""

    constant: str
    levels: Sequence[float] | Vector
    fixed: Mapping[str, Any]
    stated: str = ""  # the exponents, in words
    axis: Callable[..., float] | None = None  # what takes the place of the level in the exponents


@dataclass(frozen=True)
class Law:
    """Sweeps over random problems.

    `measure` goes from a method, the constants by name and a seed to the calls of both terms. The
    small form has one seed, and the first three levels where no `quick` sweeps are given.
    """

    title: str
    terms: tuple[str, str]
    methods: Sequence[str]
    sweeps: Sequence[Sweep]
    measure: Callable[..., Sequence[float]]
    seeds: Sequence[int] = (0, 1, 2)
    quick: Sequence[Sweep] = ()

    def run(self, name: str, out: Path, quick: bool) -> None:
        """Measure, print, and write the table and the picture."""
        chosen, seeds = self.sweeps, self.seeds
        if quick:
            short = [replace(sweep, levels=sweep.levels[:3]) for sweep in self.sweeps]
            chosen, seeds = self.quick or short, seeds[:1]
        h, g = self.terms
        print(f"{self.title}: calls of {h} / of {g}, and their exponents in what grows")
        rows, charts = [], []
        for sweep in chosen:
            others = ", ".join(f"{k} = {_told(v)}" for k, v in sweep.fixed.items())
            stated = f"; stated: {sweep.stated}" if sweep.stated else ""
            print(f"{sweep.constant}: {', '.join(map(_told, sweep.levels))} ({others}{stated})")
            curves: tuple[list[Curve], list[Curve]] = ([], [])
            for method, paint in zip(self.methods, cycle(PALETTE), strict=False):
                found = self.points(sweep, method, seeds)
                rows += [(sweep.constant, others, method, *row) for row in found]
                level, *calls = zip(*found, strict=True)
                slopes = [round(exponent(level, of), 2) + 0.0 for of in calls]  # no -0.00
                cells = "".join(f"{f'{a:.0f} / {b:.0f}':>18}" for _, a, b in found)
                print(f"  {method:28}{cells}{slopes[0]:>9.2f}{slopes[1]:>7.2f}", flush=True)
                for panel, of in zip(curves, calls, strict=True):
                    panel.append(Curve(method, level, of, colour=paint, mark="marked"))
            charts += [
                Chart(f"{term} ({others})", sweep.constant, f"calls of {term}", panel)
                for term, panel in zip(self.terms, curves, strict=True)
            ]
        head = ("constant", "others", "method", "level", *self.terms)
        write_csv(out / f"{name}_law.csv", head, rows)
        (picture,) = sheet(out, f"{name}_law", self.title, charts, 2, ["png"])
        print(f"picture: {picture}")

    def points(self, sweep: Sweep, method: str, seeds: Sequence[int]) -> list[Row]:
        """Level and calls of both terms, for every level."""
        out = []
        for level in sweep.levels:
            constants = {**sweep.fixed, sweep.constant: level}
            calls = geometric_means([self.measure(method, seed=s, **constants) for s in seeds])
            if sweep.axis is not None:
                (level,) = geometric_means([[sweep.axis(seed=s, **constants)] for s in seeds])
            out.append((level, *calls))
        return out


def _told(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def calls_to(problem: Any, eps: float, method: Any, **options: Any) -> Any:
    """Calls of a run until f - f* <= eps; a run that does not get there is an error.

    The problem has the terms `h` and `g` and the minimum `f_star`.
    """
    seed = options.pop("seed", 0)
    task = Task("", problem.h, problem.g, f_star=problem.f_star, options=options)
    solver = Solver(str(method), lambda task, _: method, seeds=[seed])
    reached, _ = harness.run([task], [solver], (eps,)).to_dict("records")
    if reached["end"]:
        raise RuntimeError(f"{method} did not reach f - f* <= {eps:g}: {reached['end']}")
    return reached


def geometric_means(rows: Sequence[Any]) -> Vector:
    """Geometric mean of every column."""
    return np.exp(np.log(np.asarray(rows, dtype=float)).mean(axis=0))


def exponent(constants: Sequence[float] | Vector, calls: Sequence[float] | Vector) -> float:
    """Slope of the line through the points in log-log scale."""
    return float(np.polyfit(np.log(constants), np.log(calls), 1)[0])


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Row]) -> None:
    """A table with a header."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
