"""What both kinds of figures draw, taken from the tables: medians and quartiles over seeds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from geartrain_lab.experiments import log_density
from geartrain_lab.spread import Spread
from geartrain_lab.tables import DENSITY_EPS, SVM_EPS, amount, with_costs

FLOOR = 1e-12  # gaps below are rounding errors
_LEVELS = 16  # points of a curve per decade of f - f*
# The methods of the paper's own projections, with our setting of SAE.
TRIO = (log_density.R_SAE.label, log_density.FCD.label, log_density.FGM.label)


@dataclass(frozen=True)
class Curve:
    """A method's median curve, and the quartiles where there are several runs.

    `x` holds the amount that the median run took to reach the accuracy `y`; `low` and `high` the
    quartiles of that amount (high is inf where a quarter of the runs did not get there).
    """

    method: str
    x: Any
    y: Any
    low: Any = None
    high: Any = None
    z: Any = None


def convergence(table: Any, x: str, until: float = FLOOR) -> list[Curve]:
    """Amount of `x` to reach every level of f - f*, one curve per method, down to `until`."""
    out = []
    for method in dict.fromkeys(table.method):
        runs = [run for _, run in table[table.method == method].groupby("seed", sort=True)]
        passages = [_first_passage(run, x) for run in runs]
        levels = _levels(passages, until)
        reached = np.array([[at(level) for at in map(_lookup, passages)] for level in levels])
        if not reached.size:
            continue
        low, x_median, high = _quartiles(reached)
        shown = np.isfinite(x_median) & (x_median > 0.0)
        several = len(runs) > 1
        out.append(
            Curve(
                method,
                x_median[shown],
                levels[shown],
                low[shown] if several else None,
                high[shown] if several else None,
            )
        )
    return out


def _first_passage(run: Any, x: str) -> tuple[Any, Any]:
    """Records of f - f* of a run, and the amount of `x` at each."""
    gaps = np.maximum(run.gap.to_numpy(float), FLOOR)
    best = np.minimum.accumulate(gaps)
    records = np.r_[True, best[1:] < best[:-1]]
    return best[records], run[x].to_numpy(float)[records]


def _lookup(passage: tuple[Any, Any]) -> Any:
    """Function level -> amount at the first record at or below it, inf if there is none."""
    gaps, amounts = passage

    def at(level: float) -> float:
        k = int(np.searchsorted(-gaps, -level * (1.0 + 1e-12)))
        return float(amounts[k]) if k < len(amounts) else math.inf

    return at


def _levels(passages: list[tuple[Any, Any]], until: float) -> Any:
    """Levels of f - f* from the start of the runs to the best of them, evenly on a log scale."""
    top = max(float(gaps[0]) for gaps, _ in passages)
    bottom = max(until, min(float(gaps[-1]) for gaps, _ in passages))
    if bottom >= top:
        return np.array([top])
    count = max(2, 1 + round(_LEVELS * math.log10(top / bottom)))
    return np.geomspace(top, bottom, count)


def _quartiles(reached: Any) -> tuple[Any, Any, Any]:
    """Lower quartile, median and upper quartile along the runs."""
    pairs = [Spread.of((v, v) for v in row) for row in reached]
    return tuple(np.array([s.high[j] for s in pairs]) for j in range(3))  # type: ignore[return-value]


def in_space(density: Any) -> list[Curve]:
    """f - f* over calls of h and of g, down to the common accuracy; medians over seeds."""
    table = with_costs(density)
    over_g = {c.method: c for c in convergence(table, "g calls", DENSITY_EPS)}
    out = []
    for c in convergence(table, "h calls", DENSITY_EPS):
        g = over_g[c.method]
        levels, i, j = np.intersect1d(c.y, g.y, return_indices=True)
        order = np.argsort(-levels)
        out.append(Curve(c.method, c.x[i][order], g.x[j][order], z=levels[order]))
    return out


def clipped(density: Any, column: str) -> list[Curve]:
    """The paper's projection of its three methods, clipped at the least calls among them."""
    table = with_costs(density)
    found = [c for c in convergence(table, column, DENSITY_EPS) if c.method in TRIO]
    least = min(float(c.x.max()) for c in found)
    out = []
    for c in found:
        kept = c.x <= least  # and the last level reached holds on to the edge of the figure
        x, y = np.append(c.x[kept], least), np.append(c.y[kept], c.y[kept][-1:])
        low, high = (None if q is None else np.append(q[kept], least) for q in (c.low, c.high))
        if kept.any():
            out.append(Curve(c.method, x, y, low, high))
    return out


def asked(table: Any, eps: float) -> list[tuple[str, Spread, Spread]]:
    """Every method with the gradients of h and of g that it took to reach eps."""
    costs = with_costs(table)
    out = []
    for method in dict.fromkeys(table.method):
        h, g = (amount(costs, method, column, eps) for column in ("h calls", "g calls"))
        if h is not None and g is not None:
            out.append((method, h, g))
    return out


def by_gamma(svm: Any, column: str) -> list[Curve]:
    """Amounts to 1e-3 over gamma, for the methods that got there for every gamma."""
    cases = list(dict.fromkeys(svm.case))
    gammas = np.array([float(case.split()[-1]) for case in cases])
    out = []
    for method in dict.fromkeys(svm.method):
        amounts = []
        for case in cases:
            rows = svm[(svm.case == case) & (svm.method == method)]
            amounts.append(
                None if rows.empty else amount(with_costs(rows), method, column, SVM_EPS)
            )
        known = [a for a in amounts if a is not None and math.isfinite(a.high[2])]
        if len(known) == len(cases):
            low, middle, high = (np.array([a.high[j] for a in known]) for j in range(3))
            several = known[0].runs > 1
            out.append(
                Curve(method, gammas, middle, low if several else None, high if several else None)
            )
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
