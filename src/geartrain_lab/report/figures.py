"""PNG and SVG figures by matplotlib, from tables only."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from geartrain_lab.report import curves
from geartrain_lab.report.curves import Curve
from geartrain_lab.report.style import OBSERVED, PALETTE, colour, dashed
from geartrain_lab.tables import COUNTS, DENSITY_EPS, SVM_COUNTS, with_costs

GAP = "f - f*"


def _new(rows: int, columns: int, size: tuple[float, float]) -> tuple[Any, Any]:
    """A figure that needs no screen."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained", dpi=110)
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False)


def _save(figure: Any, folder: Path, name: str) -> list[Path]:
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # found once, not for every format
    paths = []
    for ending in ("png", "svg"):
        path = folder / f"{name}.{ending}"
        unfinished = path.with_name(f".part-{path.name}")
        figure.savefig(unfinished)
        os.replace(unfinished, path)
        paths.append(path)
    return paths


def _draw(axes: Any, lines: list[Curve], x: str, y: str, *, log: str = "xy") -> None:
    for c in lines:
        style = "--" if dashed(c.method) else "-"
        axes.plot(c.x, c.y, style, color=colour(c.method), lw=1.6, label=c.method)
        if c.low is not None:
            known = np.isfinite(c.high)
            axes.fill_betweenx(
                c.y[known], c.low[known], c.high[known], color=colour(c.method), alpha=0.2, lw=0
            )
    if "x" in log:
        axes.set_xscale("log")
    if "y" in log:
        axes.set_yscale("log")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.3)


def _legend(figure: Any, axes: Any, columns: int) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)


def svm_convergence(table: Any, folder: Path) -> list[Path]:
    """f - f* against component gradients, gradients of h, seconds."""
    figure, axes = _new(1, 3, (13.0, 4.6))
    costs = with_costs(table)
    axis_titles = {**SVM_COUNTS, "seconds": "seconds"}
    for ax, (column, title) in zip(axes[0], axis_titles.items(), strict=True):
        _draw(ax, curves.convergence(costs, column), title, GAP)
    figure.suptitle(f"Kernel SVM: {table.data.iloc[0]}, {table.case.iloc[0]}")
    _legend(figure, axes[0][0], 4)
    return _save(figure, folder, "kernel_svm")


def svm_gamma(svm: Any, spectra: Any, folder: Path) -> list[Path]:
    """The spectrum of K and the counts for several gamma."""
    figure, axes = _new(1, 3, (13.0, 4.6))
    first = axes[0][0]
    for line, paint in zip(curves.spectrum(spectra), PALETTE, strict=False):
        first.loglog(line.x, line.y, color=paint, lw=1.6, label=line.method)
    first.set_xlabel("index of the eigenvalue")
    first.set_ylabel("eigenvalue of K/m")
    first.grid(alpha=0.3)
    first.legend(frameon=False)
    for ax, (column, words) in zip(axes[0][1:], SVM_COUNTS.items(), strict=True):
        for c in curves.by_gamma(svm, column):
            style = "o--" if dashed(c.method) else "o-"
            ax.loglog(c.x, c.y, style, color=colour(c.method), lw=1.6, label=c.method)
            if c.low is not None:
                ax.fill_between(c.x, c.low, c.high, color=colour(c.method), alpha=0.2, lw=0)
        ax.set_xlabel("gamma")
        ax.set_ylabel(f"{words} to 1e-3")
        ax.grid(alpha=0.3)
    figure.suptitle(f"Kernel SVM for several gamma: {svm.data.iloc[0]}")
    _legend(figure, axes[0][1], 5)
    return _save(figure, folder, "kernel_svm_gamma")


def density_time(table: Any, folder: Path) -> list[Path]:
    """f - f* against seconds: from the start, and from 0.5 s on as in the paper."""
    figure, axes = _new(1, 2, (11.0, 4.8))
    lines = curves.convergence(table, "seconds")
    _draw(axes[0][0], lines, "seconds", GAP)
    late = [_from(c, 0.5) for c in lines]
    _draw(axes[0][1], [c for c in late if len(c.x)], "seconds, from 0.5 s on", GAP, log="y")
    figure.suptitle(f"Log-density: {table.data.iloc[0]}")
    _legend(figure, axes[0][0], 5)
    return _save(figure, folder, "log_density_time")


def _from(c: Curve, start: float) -> Curve:
    kept = c.x >= start
    low, high = (None if q is None else q[kept] for q in (c.low, c.high))
    return Curve(c.method, c.x[kept], c.y[kept], low, high)


def density_calls(table: Any, folder: Path) -> list[Path]:
    """The three-dimensional figure, its clipped projections, and the same unclipped."""
    figure, axes = _new(2, 3, (15.0, 8.0))
    grid = axes[0, 0].get_gridspec()
    grid.set_width_ratios((1.35, 1.0, 1.0))
    for ax in axes[:, 0]:
        ax.remove()
    space = figure.add_subplot(grid[:, 0], projection="3d")
    space.set_box_aspect((1.0, 1.0, 1.0), zoom=0.92)
    for line in curves.in_space(table):
        style = "--" if dashed(line.method) else "-"
        logs = [np.log10(v) for v in (line.x, line.y, line.z)]
        space.plot(*logs, style, color=colour(line.method), label=line.method)
    for name, words in (("x", "gradients of h"), ("y", "gradients of g"), ("z", GAP)):
        getattr(space, f"set_{name}label")(f"log10 {words}")
    space.view_init(22, -58)
    costs = with_costs(table)
    for j, (column, words) in enumerate(COUNTS.items(), 1):
        _draw(axes[0, j], curves.clipped(table, column), words, GAP, log="y")
        axes[0, j].set_title("the paper's three, clipped as there", fontsize=10)
        _draw(axes[1, j], curves.convergence(costs, column, DENSITY_EPS), words, GAP)
        axes[1, j].set_title("all methods, not clipped", fontsize=10)
    figure.suptitle(
        f"Log-density: {table.data.iloc[0]}; n partial derivatives are one gradient, "
        "curves end at f - f* = 1e-6"
    )
    _legend(figure, axes[1, 1], 5)
    return _save(figure, folder, "log_density_calls")


def densities(table: Any, folder: Path) -> list[Path]:
    """Fitted densities against the data."""
    cases = list(dict.fromkeys(table.case))
    figure, axes = _new(1, len(cases), (4.6 * len(cases), 4.4))
    for ax, case in zip(axes[0], cases, strict=True):
        part = table[table.case == case]
        axis = part.axis.iloc[0]
        if len(part) > 100:
            few = {"rasterized": True}  # tens of thousands of points would make a huge SVG
            ax.loglog(part.position, part.fitted, ".", c=PALETTE[0], ms=1, label="fitted", **few)
            ax.loglog(part.position, part.observed, ".", c=OBSERVED, ms=4, label="observed", **few)
        else:
            width = 0.9 * (part.position.iloc[1] - part.position.iloc[0])
            ax.bar(part.position, part.observed, width, color="#cccccc", label="observed")
            style = "o" if axis == "character" else "-"
            ax.plot(part.position, part.fitted, style, color=PALETTE[0], label="fitted")
            if axis == "character":
                ax.set_xticks(part.position, [p[:1] if p != "blank" else "_" for p in part.point])
        ax.set_xlabel(axis)
        ax.set_ylabel("probability")
        ax.set_title(part.data.iloc[0], fontsize=8)
        ax.legend(frameon=False)
    return _save(figure, folder, "densities")
