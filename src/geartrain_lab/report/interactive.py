"""The figures of the page, drawn by plotly in the reader's browser.

A group is a set of figures that stand side by side and share one legend, which the page writes.
Colours of text, axes and background are the page's: they follow its light or dark scheme.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from geartrain_lab.chart import GAP, Chart, Curve, translucent
from geartrain_lab.tables import facts

_LOG = {"type": "log", "exponentformat": "power", "dtick": 1}


@dataclass(frozen=True)
class Key:
    """An entry of a legend."""

    name: str
    colour: str
    mark: str = "line"  # or "dash", "dot", "ring", "bar"
    meaning: str = ""  # shown when the pointer rests on it


@dataclass(frozen=True)
class Panel:
    """One figure and the title above it."""

    title: str
    figure: Any


@dataclass(frozen=True)
class Group:
    """Figures that share a legend."""

    panels: Sequence[Panel]
    keys: Sequence[Key]


def graph() -> Any:
    """Plotly's graph objects, or the sentence that says how to get them."""
    try:
        import plotly.graph_objects as go
    except ImportError as error:
        raise ImportError("the report needs plotly: pip install geartrain[plot]") from error
    return go


def _figure(traces: Iterable[Any], **layout: Any) -> Any:
    figure = graph().Figure(list(traces))
    margin = {"l": 58, "r": 16, "t": 14, "b": 46}
    usual = {"template": "none", "showlegend": False, "height": 340, "margin": margin}
    figure.update_layout(**{**usual, **layout})
    return figure


def _axis(title: str, log: bool = False, **more: Any) -> dict[str, Any]:
    # plotly adds the space that tick labels need; titles keep a distance of their own.
    scale = _LOG if log else {}
    return {"title": {"text": title, "standoff": 8}, "automargin": True, **scale, **more}


def _short(values: Any) -> list[float]:
    """Five significant digits, which is more than a screen shows."""
    return [float(f"{v:.5g}") for v in np.asarray(values, dtype=float)]


def group(drawn: Sequence[Chart], table: Any = None) -> Group:
    """The charts with their legend; the methods of `table` have their meanings in it."""
    keys: dict[str, Key] = {}
    for c in (c for chart in drawn for c in chart.curves):
        mark = {"marked": "line"}.get(c.mark, c.mark)
        if c.dashed:  # the other form of a method in the same colour
            mark = "ring" if c.mark == "dot" else "dash"
        meaning = ""
        if table is not None:
            meaning = facts(table[table.method == c.name])["meaning"]
        keys.setdefault(c.name, Key(c.name, c.paint, mark, meaning))
    panels = [
        Panel(chart.title + " (drag to turn)" * chart.in_space, _drawn(chart)) for chart in drawn
    ]
    return Group(panels, list(keys.values()))


def _drawn(chart: Chart) -> Any:
    if chart.in_space:
        return _in_space(chart)
    traces = [_band(c, chart.upright) for c in chart.curves if c.low is not None]
    traces += [_trace(c, chart.ticks) for c in chart.curves]
    goal = {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": chart.goal,
        "y1": chart.goal,
        "line": {"width": 1, "dash": "2px,3px"},
    }
    # Powers of ten that would crowd the axis are left out.
    ys = [v for c in chart.curves for v in c.y if v > 0.0]
    wide = "y" in chart.log and ys and max(ys) > 1e10 * min(ys)
    return _figure(
        traces,
        shapes=[goal] if chart.goal else [],
        xaxis=_axis(chart.x, "x" in chart.log),
        yaxis=_axis(chart.y, "y" in chart.log, **({"dtick": 3} if wide else {})),
    )


def _trace(c: Curve, ticks: Sequence[str]) -> Any:
    go = graph()
    common = {
        "x": list(ticks) or _short(c.x),
        "y": _short(c.y),
        "name": c.name,
        "meta": c.name,
        **({"text": list(c.labels)} if c.labels else {}),
    }
    if c.mark == "bar":
        return go.Bar(**common, marker={"color": c.paint, "opacity": 0.6})
    mode = {"line": "lines", "dot": "markers", "marked": "lines+markers"}[c.mark]
    line = {"width": 2, "color": c.paint, "dash": "6px,4px" if c.dashed else "solid"}
    size = 9 if len(c.x) == 1 else 7 if c.mark == "marked" or ticks else 5
    marker = {"color": c.paint, "size": size}
    if c.dashed:
        marker |= {"symbol": "circle-open", "line": {"width": 2}}
    return go.Scatter(**common, mode=mode, line=line, marker=marker)


def _band(c: Curve, upright: bool) -> Any:
    known = np.isfinite(c.high)
    along = c.x if upright else c.y
    there_and_back = np.r_[along[known], along[known][::-1]]
    around = np.r_[c.low[known], c.high[known][::-1]]
    x, y = (there_and_back, around) if upright else (around, there_and_back)
    return graph().Scatter(
        x=_short(x),
        y=_short(y),
        fill="toself",
        fillcolor=translucent(c.paint, 0.22),
        line={"width": 0},
        mode="lines",
        hoverinfo="skip",
        meta=c.name,
    )


def _in_space(chart: Chart) -> Any:
    """A figure to be turned with the mouse."""
    traces = [
        graph().Scatter3d(
            x=_short(c.x),
            y=_short(c.y),
            z=_short(c.z),
            name=c.name,
            meta=c.name,
            mode="lines",
            line={"color": c.paint, "width": 5, "dash": "dash" if c.dashed else "solid"},
        )
        for c in chart.curves
    ]
    # The floor lies below the last accuracy: its label would meet those of the corner.
    gaps = [math.log10(z) for c in chart.curves for z in (min(c.z), max(c.z))]
    scene = {
        "xaxis": {"title": {"text": chart.x}, **_LOG},
        "yaxis": {"title": {"text": chart.y}, **_LOG},
        "zaxis": {"title": {"text": GAP}, "range": [min(gaps) - 0.4, max(gaps) + 0.1], **_LOG},
        "camera": {"eye": {"x": 1.5, "y": -1.5, "z": 0.6}, "center": {"z": -0.12}},
    }
    return _figure(traces, height=480, margin={"l": 0, "r": 0, "t": 0, "b": 0}, scene=scene)
