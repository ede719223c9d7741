"""PNG and SVG figures by matplotlib, from tables only."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from geartrain.lab.report import curves
from geartrain.lab.report.curves import SVM_AXES, Curve
from geartrain.lab.report.style import PALETTE, colour, dashed

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
    for line in lines:
        style = "--" if dashed(line.method) else "-"
        axes.plot(line.x, line.y, style, color=colour(line.method), lw=1.6, label=line.method)
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
    """F - f* against component gradients, gradients of h, seconds."""
    figure, axes = _new(1, 3, (13.0, 4.6))
    costs = curves.with_costs(table)
    for ax, (column, title) in zip(axes[0], SVM_AXES.items(), strict=True):
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
    first.set_xlabel("index")
    first.set_ylabel("eigenvalue of K/m")
    first.grid(alpha=0.3)
    first.legend(frameon=False)
    for ax, column in zip(axes[0][1:], ("components", "h.grad"), strict=True):
        _draw(ax, curves.by_gamma(svm, column), "gamma", f"{SVM_AXES[column]} to 1e-3")
        for line in ax.get_lines():
            line.set_marker("o")
    figure.suptitle(f"Kernel SVM for several gamma: {svm.data.iloc[0]}")
    _legend(figure, axes[0][1], 5)
    return _save(figure, folder, "kernel_svm_gamma")


def density_time(table: Any, folder: Path) -> list[Path]:
    """F against seconds, whole and from 0.5 s on, and f - f*."""
    figure, axes = _new(1, 3, (13.0, 4.8))
    for ax, start in zip(axes[0], (0.0, 0.5), strict=False):
        lines = curves.convergence(table, "seconds", "f", start=start, positive=False)
        words = "seconds" if start == 0.0 else "seconds, from 0.5 s on"
        _draw(ax, lines, words, "f", log="")
        ax.ticklabel_format(axis="y", useOffset=False)
        ax.set_xlim(left=start)
    late = [y for line in lines for y in line.y]
    if late:
        low = min(late)
        axes[0][1].set_ylim(low - 0.02 * (np.quantile(late, 0.9) - low), np.quantile(late, 0.9))
    _draw(axes[0][2], curves.convergence(table, "seconds"), "seconds", GAP)
    figure.suptitle(f"Log-density: {table.data.iloc[0]}")
    _legend(figure, axes[0][0], 5)
    return _save(figure, folder, "log_density_time")


def density_calls(table: Any, folder: Path) -> list[Path]:
    """The three-dimensional figure, its clipped projections, and the same unclipped."""
    figure, axes = _new(2, 3, (15.0, 8.0))
    grid = axes[0, 0].get_gridspec()
    grid.set_width_ratios((1.35, 1.0, 1.0))
    for ax in axes[:, 0]:
        ax.remove()
    space = figure.add_subplot(grid[:, 0], projection="3d")
    space.set_box_aspect((1.0, 1.0, 1.0), zoom=0.92)
    lines = curves.in_space(table)
    for line in lines:
        style = "--" if dashed(line.method) else "-"
        logs = [np.log10(v) for v in (line.x, line.y, line.z)]
        space.plot(*logs, style, color=colour(line.method), label=line.method)
    for name, words in (("x", "calls of grad h"), ("y", "calls of grad g"), ("z", GAP)):
        getattr(space, f"set_{name}label")(f"log10 {words}")
    space.view_init(22, -58)
    for j, (column, words) in enumerate((("h calls", "grad h"), ("g calls", "grad g"))):
        _draw(axes[0, j + 1], curves.clipped(table, column), f"calls of {words}", GAP, log="y")
        axes[0, j + 1].set_title("the paper's three, clipped as there", fontsize=10)
        flat = [Curve(c.method, (c.x, c.y)[j], c.z) for c in lines]
        _draw(axes[1, j + 1], flat, f"calls of {words}", GAP)
        axes[1, j + 1].set_title("all methods, not clipped", fontsize=10)
    figure.suptitle(
        f"Log-density: {table.data.iloc[0]}; n partial derivatives are one call, "
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
        numeric = case == "Old Faithful"
        if len(part) > 100:
            few = {"rasterized": True}  # tens of thousands of points would make a huge SVG
            ax.loglog(part.position, part.fitted, ".", c=PALETTE[0], ms=1, label="fitted", **few)
            ax.loglog(part.position, part.observed, ".", c="#999999", ms=4, label="observed", **few)
            ax.set_xlabel("rank")
        else:
            width = 0.9 * (part.position.iloc[1] - part.position.iloc[0])
            ax.bar(part.position, part.observed, width, color="#cccccc", label="observed")
            style = "-" if numeric else "o"
            ax.plot(part.position, part.fitted, style, color=PALETTE[0], label="fitted")
            if numeric:
                ax.set_xlabel("minutes")
            else:
                ax.set_xticks(part.position, [p[:1] if p != "blank" else "_" for p in part.point])
        ax.set_ylabel("probability")
        ax.set_title(part.data.iloc[0], fontsize=8)
        ax.legend(frameon=False)
    return _save(figure, folder, "densities")
