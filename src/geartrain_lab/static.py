"""PNG and SVG figures by matplotlib."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from geartrain_lab.chart import GAP, Chart, Curve

_WIDTH, _HEIGHT = 4.4, 4.4  # of a chart, in inches


def sheet(
    folder: Path,
    name: str,
    title: str,
    charts: Sequence[Chart],
    columns: int,
    endings: Sequence[str] = ("png", "svg"),
) -> list[Path]:
    """Draw charts side by side, with one legend below; the files written."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = -(-len(charts) // columns)
    size = (_WIDTH * columns, _HEIGHT * rows + 0.4)
    figure = Figure(figsize=size, layout="constrained", dpi=110)
    FigureCanvasAgg(figure)  # needs no screen
    keys: dict[str, Any] = {}
    for k, chart in enumerate(charts, 1):
        projection = {"projection": "3d"} if chart.in_space else {}
        ax = figure.add_subplot(rows, columns, k, **projection)
        (_draw_space if chart.in_space else _draw)(ax, chart)
        ax.set_title(chart.title, fontsize=9)
        handles, labels = ax.get_legend_handles_labels()
        keys |= dict(zip(labels, handles, strict=True))
    figure.suptitle(title)
    figure.legend(keys.values(), keys, loc="outside lower center", ncols=6, frameon=False)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # found once, not for every format
    paths = [folder / f"{name}.{ending}" for ending in endings]
    for path in paths:
        unfinished = path.with_name(f".part-{path.name}")
        figure.savefig(unfinished)
        os.replace(unfinished, path)
    return paths


def _draw(ax: Any, chart: Chart) -> None:
    for c in chart.curves:
        if c.mark == "bar":
            ax.bar(c.x, c.y, 0.9 * (c.x[1] - c.x[0]), color=c.paint, alpha=0.6, label=c.name)
            continue
        way = "steps-post" if c.mark == "step" else "default"
        ax.plot(c.x, c.y, _style(c), ds=way, color=c.paint, lw=1.6, ms=4, label=c.name)
        if c.low is not None:
            known = np.isfinite(c.high)
            along, between = (c.x, ax.fill_between) if chart.upright else (c.y, ax.fill_betweenx)
            between(along[known], c.low[known], c.high[known], color=c.paint, alpha=0.2, lw=0)
    if chart.goal is not None:
        ax.axhline(chart.goal, color="0.5", lw=0.8, ls=":")
    if "x" in chart.log:
        ax.set_xscale("log")
    if "y" in chart.log:
        ax.set_yscale("log")
    if chart.ticks:
        ax.set_xticks(
            range(1, len(chart.ticks) + 1), ["_" if t == "blank" else t[:1] for t in chart.ticks]
        )
    ax.set_xlabel(chart.x)
    ax.set_ylabel(re.sub(r"<sup>(.*?)</sup>", r"$^{\1}$", chart.y))
    ax.grid(alpha=0.3)


def _style(c: Curve) -> str:
    if c.mark == "dot":
        return "."
    return ("o" if c.mark == "marked" else "") + ("--" if c.dashed else "-")


def _draw_space(ax: Any, chart: Chart) -> None:
    ax.set_box_aspect((1.0, 1.0, 1.0), zoom=0.85)
    for c in chart.curves:
        logs = [np.log10(v) for v in (c.x, c.y, c.z)]
        ax.plot(*logs, _style(c), color=c.paint, label=c.name)
    for name, words in (("x", chart.x), ("y", chart.y), ("z", GAP)):
        getattr(ax, f"set_{name}label")(f"log10 {words}")
    ax.view_init(22, -58)
