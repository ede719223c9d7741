"""The same figures for the page, by plotly.

One panel a figure, so that a narrow screen can show them below each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from geartrain.lab.report import curves
from geartrain.lab.report.curves import SVM_AXES, Curve
from geartrain.lab.report.style import PALETTE, colour, dashed

GAP = "f - f*"
_LOG = {"type": "log", "exponentformat": "power", "dtick": 1}
_LEGEND_ROW = 21  # pixels


def graph() -> Any:
    """Plotly's graph objects, or the sentence that says how to get them."""
    try:
        import plotly.graph_objects as go
    except ImportError as error:
        raise ImportError("the report needs plotly: pip install geartrain[plot]") from error
    return go


def _layout(figure: Any, title: str, entries: int, **axes: Any) -> Any:
    figure.update_layout(
        meta={"title": title},  # the page writes it above, where the tool bar does not cover it
        template="plotly_white",
        height=400 + _LEGEND_ROW * entries // 2,
        margin={"l": 62, "r": 14, "t": 30, "b": 50},
        legend={"orientation": "h", "y": -0.3, "yanchor": "top", "font": {"size": 12}},
        font={"size": 13},
        **axes,
    )
    return figure


def _lines(lines: Iterable[Curve], mode: str = "lines") -> list[Any]:
    go = graph()
    return [
        go.Scatter(
            x=line.x,
            y=line.y,
            name=line.method,
            mode=mode,
            line={
                "color": colour(line.method),
                "dash": "dash" if dashed(line.method) else "solid",
                "width": 2,
            },
        )
        for line in lines
    ]


def _chart(
    title: str, lines: list[Curve], x: str, y: str, *, log: str = "xy", mode: str = "lines"
) -> Any:
    return _layout(
        graph().Figure(_lines(lines, mode)),
        title,
        len(lines),
        xaxis={"title": {"text": x}, **(_LOG if "x" in log else {})},
        yaxis={"title": {"text": y}, **(_LOG if "y" in log else {})},
    )


def svm(table: Any) -> list[Any]:
    """F - f* against the three costs."""
    costs = curves.with_costs(table)
    return [
        _chart(f"Against {words}", curves.convergence(costs, column), words, GAP)
        for column, words in SVM_AXES.items()
    ]


def gamma(table: Any, spectra: Any) -> list[Any]:
    """The spectrum, and counts for every gamma."""
    go = graph()
    traces = [
        go.Scatter(x=line.x, y=line.y, name=line.method, line={"color": paint, "width": 2})
        for line, paint in zip(curves.spectrum(spectra), PALETTE, strict=False)
    ]
    first = _layout(
        go.Figure(traces),
        "Spectrum of K/m",
        3,
        xaxis={"title": {"text": "index"}, **_LOG},
        yaxis={"title": {"text": "eigenvalue"}, **_LOG, "dtick": 3},
    )
    rest = [
        _chart(
            f"{SVM_AXES[column].capitalize()} to 1e-3",
            curves.by_gamma(table, column),
            "gamma",
            "calls",
            mode="lines+markers",
        )
        for column in ("components", "h.grad")
    ]
    return [first, *rest]


def density_time(table: Any) -> list[Any]:
    """F and f - f* against seconds."""
    out = []
    for start, title in ((0.0, "f from the start"), (0.5, "f from 0.5 s on")):
        lines = curves.convergence(table, "seconds", "f", start=start, positive=False)
        out.append(_chart(title, lines, "seconds", "f", log=""))
    lines = curves.convergence(table, "seconds")
    return [*out, _chart("f - f* against seconds", lines, "seconds", GAP)]


def density_space(table: Any) -> Any:
    """F - f* over calls of both gradients; to be turned."""
    go = graph()
    lines = curves.in_space(table)
    figure = go.Figure(
        [
            go.Scatter3d(
                x=line.x,
                y=line.y,
                z=line.z,
                name=line.method,
                mode="lines",
                line={
                    "color": colour(line.method),
                    "width": 5,
                    "dash": "dash" if dashed(line.method) else "solid",
                },
            )
            for line in lines
        ]
    )
    _layout(figure, "f - f* over calls of both gradients (drag to turn)", len(lines))
    figure.update_layout(
        height=620,
        margin={"l": 0, "r": 0, "t": 30, "b": 0},
        legend={"y": -0.02},
        scene={
            "xaxis": {"title": {"text": "∇h"}, **_LOG},
            "yaxis": {"title": {"text": "∇g"}, **_LOG},
            "zaxis": {"title": {"text": GAP}, **_LOG},
            "camera": {"eye": {"x": 1.85, "y": -1.85, "z": 0.7}, "center": {"z": -0.12}},
        },
    )
    return figure


def density_projections(table: Any) -> list[Any]:
    """The paper's two projections, clipped, and the unclipped ones."""
    out = []
    for column, words in (("h calls", "∇h"), ("g calls", "∇g")):
        lines = curves.clipped(table, column)
        out.append(_chart(f"Calls of {words}, clipped", lines, f"calls of {words}", GAP, log="y"))
    space = curves.in_space(table)
    for j, words in enumerate(("∇h", "∇g")):
        lines = [Curve(c.method, (c.x, c.y)[j], c.z) for c in space]
        out.append(_chart(f"Calls of {words}, all methods", lines, f"calls of {words}", GAP))
    return out


def densities(table: Any) -> list[Any]:
    """Observed and fitted densities."""
    go = graph()
    out = []
    for case in dict.fromkeys(table.case):
        part = table[table.case == case]
        long = len(part) > 100
        if long:  # ranks evenly spaced on the logarithmic axis are enough to see
            part = part.iloc[_spread(len(part), 600)]
        axis = part.position if long or case == "Old Faithful" else part.point
        if long:
            observed = go.Scatter(
                x=axis,
                y=part.observed,
                name="observed",
                mode="markers",
                text=part.point,
                marker={"color": "#aaaaaa", "size": 5},
            )
        else:
            observed = go.Bar(x=axis, y=part.observed, name="observed", marker={"color": "#c8c8c8"})
        fitted = go.Scatter(
            x=axis,
            y=part.fitted,
            name="fitted",
            mode="lines" if case == "Old Faithful" else "markers",
            text=part.point,
            marker={"color": PALETTE[0], "size": 4 if long else 7},
        )
        scale = _LOG if long else {}
        name = {"text8 words": "rank of the word", "Old Faithful": "minutes"}.get(case, "character")
        out.append(
            _layout(
                go.Figure([observed, fitted]),
                case,
                2,
                xaxis={"title": {"text": name}, **scale},
                yaxis={"title": {"text": "probability"}, **scale},
            )
        )
    return out


def _spread(size: int, most: int) -> list[int]:
    """About `most` of the numbers 0 .. size - 1, evenly spaced in the logarithm."""
    return sorted({round(size ** (j / most)) - 1 for j in range(most + 1)})
