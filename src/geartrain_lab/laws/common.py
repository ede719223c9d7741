"""What the laws share: runs on a known problem, means over seeds, exponents, a table on disk."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import geartrain as gt
from geartrain.datasets import KnownProblem
from geartrain.oracles.protocols import Vector
from geartrain_lab.interrupts import run_whole

Row = tuple[Any, ...]


def calls_to(problem: KnownProblem, eps: float, method: Any, **options: Any) -> dict[str, int]:
    """Calls of a run until f - f* <= eps; a run that does not get there is an error."""
    stop = gt.stop.Value(problem.f_star + eps)
    res = run_whole(problem.h, problem.g, method=method, stop=stop, **options)
    if not res.success:
        raise RuntimeError(f"{method} did not reach f - f* <= {eps:g}: {res.message}")
    return res.calls


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
