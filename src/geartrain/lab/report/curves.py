"""What both kinds of figures draw, taken from the tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from geartrain.lab.experiments import log_density
from geartrain.lab.tables import DENSITY_EPS, SVM_EPS, to_reach, with_costs

FLOOR = 1e-12  # gaps below are rounding errors

SVM_AXES = {
    "components": "component gradients of g",
    "h.grad": "gradients of h",
    "seconds": "seconds",
}
# The three methods of the paper's figure.
TRIO = (log_density.SAE_OURS.label, log_density.FCD.label, log_density.FGM.label)


@dataclass(frozen=True)
class Curve:
    """A method's polyline."""

    method: str
    x: Any
    y: Any
    z: Any = None


def convergence(
    table: Any, x: str, y: str = "gap", *, start: float = 0.0, positive: bool = True
) -> list[Curve]:
    """Column `y` over column `x` from `start` on, one curve a method.

    With `positive`, for logarithmic axes, gaps are cut off at the floor and points at x = 0 left
    out.
    """
    out = []
    for method in dict.fromkeys(table.method):
        run = table[(table.method == method) & (table[x] >= start)]
        if positive:
            run = run[run[x] > 0]
        values = run[y].to_numpy(float)
        out.append(
            Curve(method, run[x].to_numpy(float), np.maximum(values, FLOOR) if positive else values)
        )
    return out


def in_space(density: Any) -> list[Curve]:
    """F - f* over calls of h and of g; every curve ends at the common accuracy."""
    table = with_costs(density)
    out = []
    for method in dict.fromkeys(table.method):
        run = until(table[table.method == method], DENSITY_EPS)
        run = run[(run["h calls"] > 0) & (run["g calls"] > 0)]
        gaps = np.maximum(run.gap.to_numpy(float), FLOOR)
        out.append(
            Curve(method, run["h calls"].to_numpy(float), run["g calls"].to_numpy(float), gaps)
        )
    return out


def until(run: Any, eps: float) -> Any:
    """Rows up to the first with f - f* <= eps."""
    there = np.flatnonzero(run.gap.to_numpy() <= eps)
    return run.iloc[: there[0] + 1] if there.size else run


def clipped(density: Any, column: str) -> list[Curve]:
    """The paper's projection of its three methods, clipped at the least calls among them."""
    table = with_costs(density)
    runs = [until(table[table.method == name], DENSITY_EPS) for name in TRIO]
    least = min(float(run[column].max()) for run in runs)
    return [
        Curve(
            name,
            np.minimum(run[column].to_numpy(float), least)[: _count(run[column], least)],
            np.maximum(run.gap.to_numpy(float), FLOOR)[: _count(run[column], least)],
        )
        for name, run in zip(TRIO, runs, strict=True)
    ]


def _count(calls: Any, least: float) -> int:
    """Rows up to the limit, and at least one."""
    return max(1, int((calls.to_numpy(float) <= least).sum()))


def by_gamma(svm: Any, column: str) -> list[Curve]:
    """Calls to 1e-3 over gamma, for the methods that were run for every gamma and got there."""
    cases = list(dict.fromkeys(svm.case))
    gammas = [float(case.split()[-1]) for case in cases]
    out = []
    for method in dict.fromkeys(svm.method):
        amounts = []
        for case in cases:
            rows = svm[(svm.case == case) & (svm.method == method)]
            amounts.append(
                None if rows.empty else to_reach(with_costs(rows), method, column, SVM_EPS)
            )
        if all(a is not None and a.reached for a in amounts):
            out.append(Curve(method, np.array(gammas), np.array([a.value for a in amounts if a])))
    return out


def spectrum(spectra: Any) -> list[Curve]:
    """Eigenvalues of K/m for every gamma, cut off at rounding errors."""
    out = []
    for gamma in dict.fromkeys(spectra.gamma):
        part = spectra[spectra.gamma == gamma]
        out.append(
            Curve(
                f"gamma = {gamma:g}",
                part["index"].to_numpy(float),
                np.maximum(part.eigenvalue.to_numpy(float), 1e-18),
            )
        )
    return out
