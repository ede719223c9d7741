"""What the laws share: runs on a known problem, means over seeds, exponents, a table on disk."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from geartrain.oracles.protocols import Vector
from geartrain_lab import harness
from geartrain_lab.harness import Solver, Task

Row = tuple[Any, ...]


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
    return float(np.polyfit(np.log(constants), np.log(calls), 1)[0]) + 0.0


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Row]) -> None:
    """A table with a header."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def arguments(doc: str | None, argv: Sequence[str] | None, quick: str, out: str = "") -> Any:
    """The options of a law: ``--quick``, and ``--out`` for its files where it writes some."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    if out:
        parser.add_argument("--out", type=Path, default=Path("out") / out)
    parser.add_argument("--quick", action="store_true", help=quick)
    return parser.parse_args(argv)
