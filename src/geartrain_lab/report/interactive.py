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

from geartrain_lab.report import curves
from geartrain_lab.report.curves import Curve
from geartrain_lab.report.style import (
    G_COLOUR,
    H_COLOUR,
    OBSERVED,
    PALETTE,
    colour,
    dashed,
    translucent,
)
from geartrain_lab.spread import Spread
from geartrain_lab.tables import COUNTS, DENSITY_EPS, SVM_COUNTS, SVM_EPS, facts, with_costs

GAP = "f \N{MINUS SIGN} f*"
_LOG = {"type": "log", "exponentformat": "power", "dtick": 1}


@dataclass(frozen=True)
class Key:
    """An entry of a legend."""

    name: str
    colour: str
    mark: str = "line"  # or "dash", "dot", "bar"
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


def _keys(table: Any, methods: Iterable[str] | None = None) -> list[Key]:
    """Legend of the methods of a table, or of some of them."""
    out = []
    for method in dict.fromkeys(table.method if methods is None else methods):
        meaning = facts(table[table.method == method])["meaning"]
        out.append(Key(method, colour(method), "dash" if dashed(method) else "line", meaning))
    return out


def _line(curve: Curve, **more: Any) -> Any:
    style = {"color": colour(curve.method), "dash": "6px,4px" if dashed(curve.method) else "solid"}
    return graph().Scatter(
        x=_short(curve.x),
        y=_short(curve.y),
        name=curve.method,
        mode=more.pop("mode", "lines"),
        line={"width": 2, **style},
        meta=curve.method,
        **more,
    )


def _band(x: Any, y: Any, method: str) -> Any:
    return graph().Scatter(
        x=_short(x),
        y=_short(y),
        fill="toself",
        fillcolor=translucent(colour(method), 0.22),
        line={"width": 0},
        mode="lines",
        hoverinfo="skip",
        meta=method,
    )


def _convergence(
    title: str, lines: list[Curve], x: str, eps: float | None, log: bool = True
) -> Panel:
    traces = []
    for c in lines:
        if c.low is not None:
            known = np.isfinite(c.high)
            xs = np.r_[c.low[known], c.high[known][::-1]]
            traces.append(_band(xs, np.r_[c.y[known], c.y[known][::-1]], c.method))
    traces += [_line(c) for c in lines]
    goal = {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": eps,
        "y1": eps,
        "line": {"width": 1, "dash": "2px,3px"},
    }
    shapes = [goal] if eps else []
    axes = {"xaxis": _axis(x, log), "yaxis": _axis(GAP, log=True)}
    return Panel(title, _figure(traces, shapes=shapes, **axes))


def asked(panels: Sequence[tuple[str, Any, float]]) -> Group:
    """Gradients of h and of g that every method took: one panel per (title, table, eps)."""
    drawn = [_dumbbells(title, curves.asked(table, eps), eps) for title, table, eps in panels]
    keys = [Key("gradients of h", H_COLOUR, "dot"), Key("gradients of g", G_COLOUR, "dot")]
    return Group(drawn, keys)


@dataclass(frozen=True)
class _Row:
    """A method, and what it asked."""

    method: str
    h: Spread
    g: Spread

    @property
    def same(self) -> bool:
        """Whether both terms were asked equally often, to the eye."""
        return 0.97 <= self.h.low[1] / self.g.low[1] <= 1.03

    @property
    def together(self) -> str:
        """The label of two dots that fall together."""
        h, g = _number(self.h), _number(self.g)
        return f"{h} each" if h == g else f"{h} and {g}"


def _dumbbells(title: str, asked: list[tuple[str, Spread, Spread]], eps: float) -> Panel:
    rows = sorted((_Row(*row) for row in asked), key=lambda row: row.h.low[1])
    between = [
        graph().Scatter(
            x=[row.h.low[1], row.g.low[1]],
            y=[row.method, row.method],
            mode="lines",
            line={"color": "rgba(128,128,128,0.4)", "width": 4},
            hoverinfo="skip",
        )
        for row in rows
    ]
    dots = [
        _dots(rows, [row.g for row in rows], [row.h for row in rows], "gradients of g", G_COLOUR),
        _dots(rows, [row.h for row in rows], [row.g for row in rows], "gradients of h", H_COLOUR),
    ]
    ends = [s.low[1] for row in rows for s in (row.h, row.g)]
    low, high = math.log10(min(ends)), math.log10(max(ends))
    x = _axis(
        f"gradients until {GAP} ≤ {_power(eps)}",
        log=True,
        range=[low - 0.2 * (high - low), high + 0.05 * (high - low)],
    )
    y = {"type": "category", "autorange": "reversed", "automargin": True, "showgrid": False}
    margin = {"l": 58, "r": 106, "t": 8, "b": 46}  # labels of the largest stand in the margin
    height = 38 * len(rows) + 76
    return Panel(title, _figure([*between, *dots], height=height, margin=margin, xaxis=x, yaxis=y))


def _dots(
    rows: list[_Row], mine: list[Spread], others: list[Spread], words: str, paint: str
) -> Any:
    """The dots of one term with their numbers; a triangle where the number is a lower bound."""
    outer = paint == G_COLOUR  # drawn first, and as a ring where both dots fall together
    labels, places, symbols = [], [], []
    for row, s, other in zip(rows, mine, others, strict=True):
        labels.append(_number(s) if not row.same else row.together if outer else "")
        right = row.same or s.low[1] >= other.low[1]
        places.append("middle right" if right else "middle left")
        symbols.append("circle" if math.isfinite(s.median) else "triangle-right")
    return graph().Scatter(
        x=[s.low[1] for s in mine],
        y=[row.method for row in rows],
        name=words,
        meta=words,
        mode="markers+text",
        marker={"color": paint, "size": 15 if outer else 10, "symbol": symbols, "opacity": 1.0},
        text=labels,
        textposition=places,
        textfont={"size": 12},
        cliponaxis=False,
        error_x={
            "type": "data",
            "array": [_whisker(s, 1) for s in mine],
            "arrayminus": [_whisker(s, -1) for s in mine],
            "color": paint,
            "thickness": 1.5,
            "width": 3,
        },
        hovertext=[f"{row.method}: {s} {words}" for row, s in zip(rows, mine, strict=True)],
        hoverinfo="text",
    )


def _number(s: Spread) -> str:
    """The median, or the lower bound that is known of it."""
    number = f"{s.low[1]:,.0f}" if s.low[1] >= 10.0 else f"{s.low[1]:.3g}"
    return number if math.isfinite(s.median) else f"> {number}"


def _whisker(s: Spread, side: int) -> float:
    """Length from the median to a quartile, 0 where there is none."""
    end = s.quartiles[0 if side < 0 else 1]
    return max(0.0, side * (end - s.low[1])) if s.runs > 1 and math.isfinite(end) else 0.0


def _power(eps: float) -> str:
    return f"10<sup>{round(math.log10(eps))}</sup>"


def svm_counts(table: Any) -> Group:
    """f - f* against gradients of summands of g and gradients of h."""
    costs = with_costs(table)
    panels = [
        _convergence(words.capitalize(), curves.convergence(costs, column), words, SVM_EPS)
        for column, words in SVM_COUNTS.items()
    ]
    return Group(panels, _keys(table))


def density_counts(table: Any) -> Group:
    """f - f* against gradients of h and of g, n partial derivatives being one gradient."""
    costs = with_costs(table)
    panels = [
        _convergence(
            words.capitalize(),
            curves.convergence(costs, column, DENSITY_EPS / 10),
            words,
            DENSITY_EPS,
        )
        for column, words in COUNTS.items()
    ]
    return Group(panels, _keys(table))


def seconds(table: Any, eps: float) -> Group:
    """f - f* against seconds."""
    lines = curves.convergence(table, "seconds")
    return Group(
        [_convergence("Seconds on this machine", lines, "seconds", eps)],
        _keys(table),
    )


def spectrum(spectra: Any) -> Group:
    """Eigenvalues of K/m for every gamma."""
    go = graph()
    lines = curves.spectrum(spectra)
    traces = [
        go.Scatter(
            x=_short(c.x), y=_short(c.y), name=c.method, meta=c.method, line={"color": paint}
        )
        for c, paint in zip(lines, PALETTE, strict=False)
    ]
    layout = {
        "xaxis": _axis("index of the eigenvalue", log=True),
        "yaxis": _axis("eigenvalue of K/m", log=True, dtick=3),
    }
    keys = [Key(c.method, paint) for c, paint in zip(lines, PALETTE, strict=False)]
    return Group([Panel("Spectrum of the kernel matrix", _figure(traces, **layout))], keys)


def gamma(table: Any) -> Group:
    """Counts to 1e-3 for every gamma."""
    panels, methods = [], []
    for column, words in SVM_COUNTS.items():
        lines = curves.by_gamma(table, column)
        traces = []
        for c in lines:
            if c.low is not None:
                band = np.r_[c.low, c.high[::-1]]
                traces.append(_band(np.r_[c.x, c.x[::-1]], band, c.method))
        traces += [_line(c, mode="lines+markers", marker={"size": 7}) for c in lines]
        methods += [c.method for c in lines]
        layout = {
            "xaxis": _axis("kernel parameter gamma", log=True),
            "yaxis": _axis(f"{words} to {_power(SVM_EPS)}", log=True),
        }
        panels.append(Panel(words.capitalize(), _figure(traces, **layout)))
    return Group(panels, _keys(table, methods))


def density_space(table: Any) -> Group:
    """f - f* over the calls of both terms, to be turned with the mouse."""
    go = graph()
    lines = curves.in_space(table)
    traces = [
        go.Scatter3d(
            x=_short(c.x),
            y=_short(c.y),
            z=_short(c.z),
            name=c.method,
            meta=c.method,
            mode="lines",
            line={
                "color": colour(c.method),
                "width": 5,
                "dash": "dash" if dashed(c.method) else "solid",
            },
        )
        for c in lines
    ]
    # The floor lies below the last accuracy: its label would meet those of the corner.
    gaps = [math.log10(z) for c in lines for z in (min(c.z), max(c.z))]
    scene = {
        "xaxis": {"title": {"text": "gradients of h"}, **_LOG},
        "yaxis": {"title": {"text": "gradients of g"}, **_LOG},
        "zaxis": {"title": {"text": GAP}, "range": [min(gaps) - 0.4, max(gaps) + 0.1], **_LOG},
        "camera": {"eye": {"x": 1.5, "y": -1.5, "z": 0.6}, "center": {"z": -0.12}},
    }
    figure = _figure(traces, height=480, margin={"l": 0, "r": 0, "t": 0, "b": 0}, scene=scene)
    return Group(
        [Panel("Both counts at once (drag to turn)", figure)],
        _keys(table, [c.method for c in lines]),
    )


def density_clipped(table: Any) -> Group:
    """The paper's two projections, clipped as there."""
    panels = []
    for column, words in COUNTS.items():
        lines = curves.clipped(table, column)
        panels.append(_convergence(f"{words.capitalize()}, clipped", lines, words, None, log=False))
    return Group(panels, _keys(table, curves.TRIO))


def densities(table: Any) -> Group:
    """Observed and fitted densities."""
    panels = [_density(table[table.case == case]) for case in dict.fromkeys(table.case)]
    return Group(panels, [Key("observed", OBSERVED, "bar"), Key("fitted", PALETTE[0], "dot")])


def _density(part: Any) -> Panel:
    go = graph()
    title, axis = part.data.iloc[0], part.axis.iloc[0]
    long, numeric = len(part) > 100, axis not in ("character", "rank of the word")
    if long:  # ranks evenly spaced on the logarithmic axis are enough to see
        part = part.iloc[spread_out(len(part), 600)]
    x = list(part.point) if not (long or numeric) else _short(part.position)
    paint = {"color": OBSERVED, "opacity": 0.6}
    common = {"x": x, "y": _short(part.observed), "name": "observed", "meta": "observed"}
    observed = (
        go.Scatter(**common, mode="markers", text=list(part.point), marker={**paint, "size": 5})
        if long
        else go.Bar(**common, marker=paint)
    )
    fitted = go.Scatter(
        x=x,
        y=_short(part.fitted),
        name="fitted",
        meta="fitted",
        mode="lines" if numeric else "markers",
        text=list(part.point),
        line={"color": PALETTE[0], "width": 2},
        marker={"color": PALETTE[0], "size": 4 if long else 7},
    )
    layout = {"xaxis": _axis(axis, log=long), "yaxis": _axis("probability", log=long)}
    return Panel(title, _figure([observed, fitted], **layout))


def spread_out(size: int, most: int) -> list[int]:
    """About `most` of the numbers 0 .. size - 1, evenly spaced in the logarithm."""
    return sorted({round(size ** (j / most)) - 1 for j in range(most + 1)})
