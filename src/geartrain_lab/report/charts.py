"""What the figures show, taken from the tables; `static` and `interactive` draw it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from geartrain_lab import tables
from geartrain_lab.chart import GAP, OBSERVED, PALETTE, Chart, Curve
from geartrain_lab.experiments import log_density
from geartrain_lab.spread import Spread
from geartrain_lab.tables import COUNTS, DENSITY_EPS, SVM_COUNTS, SVM_EPS, amount, with_costs

FLOOR = 1e-12  # gaps below are rounding errors
_LEVELS = 16  # points of a curve per decade of f - f*
_MANY = 600  # points of a density that has tens of thousands
# The methods of the paper's own projections, with our setting of SAE.
TRIO = (log_density.R_SAE.label, log_density.FCD.label, log_density.FGM.label)
PAPER = log_density.SAE_PAPER.label


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
    """Levels of f - f* from the start of the runs to what half of them reach, on a log scale."""
    top = max(float(gaps[0]) for gaps, _ in passages)
    ends = sorted(float(gaps[-1]) for gaps, _ in passages)
    bottom = max(until, ends[len(ends) // 2])
    if bottom >= top:
        return np.array([top])
    count = max(8, 1 + round(_LEVELS * math.log10(top / bottom)))
    return np.geomspace(top, bottom, count)


def _quartiles(reached: Any) -> tuple[Any, Any, Any]:
    """Lower quartile, median and upper quartile along the runs."""
    pairs = [Spread.of((v, v) for v in row) for row in reached]
    return tuple(np.array([s.high[j] for s in pairs]) for j in range(3))  # type: ignore[return-value]


def svm_counts(table: Any) -> list[Chart]:
    """f - f* against gradients of summands of g and gradients of h."""
    return _counts(table, SVM_COUNTS, SVM_EPS, FLOOR)


def density_counts(table: Any) -> list[Chart]:
    """f - f* against gradients of h and of g, n partial derivatives being one gradient."""
    return _counts(table, COUNTS, DENSITY_EPS, DENSITY_EPS / 10)


def _counts(table: Any, columns: dict[str, str], eps: float, until: float) -> list[Chart]:
    costs = with_costs(table)
    return [
        Chart(words.capitalize(), words, GAP, convergence(costs, column, until), goal=eps)
        for column, words in columns.items()
    ]


def seconds(table: Any, eps: float) -> list[Chart]:
    title = "Seconds on this machine"
    return [Chart(title, "seconds", GAP, convergence(table, "seconds"), goal=eps)]


def density_time(table: Any) -> list[Chart]:
    """The two panels of Figure 3, with a linear axis of time, for the methods in them and R-SAE."""
    shown = [c for c in convergence(table, "seconds") if c.name in (*TRIO, PAPER)]
    charts = []
    for start in (0.0, 0.5):
        late = [_where(c, c.x >= start) for c in shown]
        curves = [c for c in late if len(c.x)]
        title = f"Starting {start:g} s"
        charts.append(Chart(title, "seconds", GAP, curves, goal=DENSITY_EPS, log="y"))
    return charts


def _where(c: Curve, kept: Any) -> Curve:
    low, high = (None if q is None else q[kept] for q in (c.low, c.high))
    return replace(c, x=c.x[kept], y=c.y[kept], low=low, high=high)


def density_space(table: Any) -> list[Chart]:
    """f - f* over calls of h and of g, down to the common accuracy; medians over seeds."""
    costs = with_costs(table)
    over_g = {c.name: c for c in convergence(costs, "g calls", DENSITY_EPS)}
    lines = []
    for c in convergence(costs, "h calls", DENSITY_EPS):
        g = over_g[c.name]
        levels, i, j = np.intersect1d(c.y, g.y, return_indices=True)
        order = np.argsort(-levels)
        lines.append(Curve(c.name, c.x[i][order], g.x[j][order], z=levels[order]))
    x, y = COUNTS.values()
    return [Chart("Both counts at once", x, y, lines)]


def density_clipped(table: Any) -> list[Chart]:
    """The paper's projections of its three methods, clipped at the least calls among them."""
    costs = with_costs(table)
    charts = []
    for column, words in COUNTS.items():
        found = [c for c in convergence(costs, column, DENSITY_EPS) if c.name in TRIO]
        least = min(float(c.x.max()) for c in found)
        lines = []
        for c in (_where(c, c.x <= least) for c in found):
            if len(c.x):  # the last level reached holds on to the edge of the figure
                low, high = (None if q is None else np.append(q, least) for q in (c.low, c.high))
                x, y = np.append(c.x, least), np.append(c.y, c.y[-1:])
                lines.append(replace(c, x=x, y=y, low=low, high=high))
        charts.append(Chart(f"{words.capitalize()}, clipped", words, GAP, lines, log="y"))
    return charts


def gamma(svm: Any) -> list[Chart]:
    """Counts to 1e-3 over gamma, for the methods that got there for every gamma."""
    cases = list(dict.fromkeys(svm.case))
    gammas = np.array([tables.facts(svm[svm.case == case])["gamma"] for case in cases])
    charts = []
    for column, words in SVM_COUNTS.items():
        lines = []
        for method in dict.fromkeys(svm.method):
            runs = [svm[(svm.case == case) & (svm.method == method)] for case in cases]
            amounts = [
                None if rows.empty else amount(with_costs(rows), method, column, SVM_EPS)
                for rows in runs
            ]
            known = [a for a in amounts if a is not None and math.isfinite(a.high[2])]
            if len(known) == len(cases):
                low, middle, high = (np.array([a.high[j] for a in known]) for j in range(3))
                line = Curve(method, gammas, middle, low, high, mark="marked")
                several = known[0].runs > 1
                lines.append(line if several else replace(line, low=None, high=None))
        y = f"{words} to {power(SVM_EPS)}"
        charts.append(Chart(words.capitalize(), "kernel parameter gamma", y, lines, upright=True))
    return charts


def power(eps: float) -> str:
    """A power of ten, as plotly writes it."""
    return f"10<sup>{round(math.log10(eps))}</sup>"


def spectrum(spectra: Any) -> list[Chart]:
    """Eigenvalues of K/m for every gamma, cut off at rounding errors."""
    lines = []
    for (value, part), paint in zip(spectra.groupby("gamma"), PALETTE, strict=False):
        x = part["index"].to_numpy(float)
        y = np.maximum(part.eigenvalue.to_numpy(float), 1e-18)
        lines.append(Curve(f"gamma = {value:g}", x, y, colour=paint))
    title = "Spectrum of the kernel matrix"
    return [Chart(title, "index of the eigenvalue", "eigenvalue of K/m", lines)]


def densities(table: Any) -> list[Chart]:
    return [_density(table[table.case == case]) for case in dict.fromkeys(table.case)]


def _density(part: Any) -> Chart:
    title, axis = part.data.iloc[0], part.axis.iloc[0]
    long, numeric = len(part) > 100, axis not in ("character", "rank of the word")
    if long:  # ranks evenly spaced on the logarithmic axis are enough to see
        part = part.iloc[spread_out(len(part), _MANY)]
    x, points = part.position.to_numpy(float), list(part.point)
    over, under = ("dot" if long else "bar"), ("line" if numeric else "dot")
    observed = Curve("observed", x, part.observed, colour=OBSERVED, mark=over, labels=points)
    fitted = Curve("fitted", x, part.fitted, colour=PALETTE[0], mark=under, labels=points)
    ticks = points if not (long or numeric) else ()
    return Chart(title, axis, "probability", [observed, fitted], "xy" if long else "", ticks=ticks)


def asked(title: str, table: Any, eps: float) -> Chart:
    """Gradients of both terms until f - f* <= eps, a dot for each method that gets there."""
    costs, dots = with_costs(table), []
    for method in dict.fromkeys(table.method):
        h, g = (amount(costs, method, column, eps) for column in COUNTS)
        if h is not None and g is not None and math.isfinite(h.median + g.median):
            dots.append(Curve(method, [h.median], [g.median], mark="dot"))
    x, y = (f"{words} to {power(eps)}" for words in COUNTS.values())
    return Chart(title, x, y, dots)


def spread_out(size: int, most: int) -> list[int]:
    """About `most` of the numbers 0 .. size - 1, evenly spaced in the logarithm."""
    return sorted({round(size ** (j / most)) - 1 for j in range(most + 1)})
