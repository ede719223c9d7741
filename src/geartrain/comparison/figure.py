"""The figure of a comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from geartrain.core.history import label

if TYPE_CHECKING:
    from geartrain.comparison.table import ComparedRun, Comparison

# A kind of call that no run made more often than this has no panel: f is asked for once or twice at
# the end of a run.
_FEW = 2
_WIDTH, _HEIGHT = 3.3, 2.8  # of a panel, in inches
_PAD = 0.12  # beside it: labels of ticks may be as wide as this beyond the axis
_COLUMNS = 3
# If one method needs so many times the calls of another, the axis of calls is logarithmic.
_LONG = 10.0


def draw_all(comparison: Comparison) -> Any:
    """One panel per kind of call, one for the seconds, and one legend."""
    plt = _pyplot()
    most = {k: max(t.calls.get(k, 0) for t in comparison.trials) for k in comparison.kinds}
    shown = [*(k for k, count in most.items() if count > _FEW), "seconds"]
    n_rows = -(-len(shown) // _COLUMNS)
    n_columns = min(len(shown), _COLUMNS)
    figure, axes = plt.subplots(
        n_rows,
        n_columns,
        figsize=(_WIDTH * n_columns, _HEIGHT * n_rows + 0.35),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    figure.get_layout_engine().set(w_pad=_PAD)
    for ax, x in zip(axes.flat, shown, strict=False):
        draw(comparison, x, ax, legend=False)
    for ax in axes.flat[len(shown) :]:
        ax.remove()
    for ax in axes[:, 1:].flat:
        ax.set_ylabel("")
    handles, names = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=len(names), frameon=False)
    return figure


def draw(comparison: Comparison, x: str, ax: Any = None, legend: bool = True) -> Any:
    """f - f* against the column `x`, a line per method."""
    if x not in (*comparison.kinds, "seconds", "iter"):
        known = ", ".join((*comparison.kinds, "seconds", "iter"))
        raise KeyError(f"nothing is known about {x!r}; there are {known}")
    if ax is None:
        ax = _pyplot().subplots(figsize=(_WIDTH + 1.0, _HEIGHT + 0.6), layout="constrained")[1]
    for i, method in enumerate(comparison.methods):
        runs = [t for t in comparison.trials if t.method == method and len(t.rows)]
        curves = [curve for t in runs if len((curve := _curve(t, x, comparison.f_star))[0])]
        if curves:
            _line(ax, curves, method, f"C{i}")
    ends = [line.get_xdata()[-1] for line in ax.get_lines()]
    if ends and x != "seconds" and max(ends) > _LONG * min(ends) > 0.0:
        ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel(label(x))
    ax.set_ylabel("$f(x) - f^*$")
    ax.grid(alpha=0.3, linewidth=0.5)
    ax.spines[["top", "right"]].set_visible(False)
    if legend:
        ax.legend(frameon=False)
    return ax


def _curve(trial: ComparedRun, x: str, f_star: float) -> tuple[Any, Any]:
    """The smallest f - f* so far against `x`, where it is positive."""
    across, gap = trial.column(x), np.fmin.accumulate(trial.column("f")) - f_star
    known = gap > 0.0
    if x != "seconds":
        known &= across > 0.0
    return across[known], gap[known]


def _line(ax: Any, curves: list[tuple[Any, Any]], name: str, color: str) -> None:
    if len(curves) == 1:
        ax.plot(*curves[0], label=name, color=color, linewidth=1.5)
        return
    ends = sorted(across[-1] for across, _ in curves)
    grid = np.unique(np.concatenate([across for across, _ in curves]))
    grid = grid[grid <= ends[len(ends) // 2]]
    # A run that has not begun is at x0, and one that has ended stays where it is.
    places = [np.maximum(np.searchsorted(a, grid, side="right") - 1, 0) for a, _ in curves]
    steps = np.array([gap[k] for (_, gap), k in zip(curves, places, strict=True)])
    ax.plot(grid, np.median(steps, axis=0), label=name, color=color, linewidth=1.5)
    ax.fill_between(grid, steps.min(axis=0), steps.max(axis=0), color=color, alpha=0.2, linewidth=0)


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plot needs matplotlib: pip install geartrain[plot]") from error
    return plt
