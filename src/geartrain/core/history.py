"""What was recorded: one row per outer iteration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from geartrain.core import html
from geartrain.core.labels import LOGARITHMIC, label

COLUMNS = ("seconds", "iter", "f", "grad_norm", "L", "A", "ms_ratio")
_SHOWN = 5  # rows at both ends in a notebook


class History(Mapping[str, Any]):
    """Columns by name, as arrays: ``history["grad_norm"]``, ``history["h.grad"]``.

    The columns are seconds, iter, f, grad_norm, L, A, ms_ratio and one per kind of call. A number
    that the run does not know is nan: f and grad_norm are complete if they were asked for,
    ``minimize(..., record=("f", "grad_norm"))``. ``len(history.rows)`` is the number of rows;
    `notes` holds what else happened, as ``(iteration, sentence)``.
    """

    def __init__(self, call_keys: tuple[str, ...]) -> None:
        self.columns = (*COLUMNS, *call_keys)
        self.rows: list[tuple[float, ...]] = []
        self.notes: list[tuple[int, str]] = []

    def append(self, row: tuple[float, ...]) -> None:
        """Add a row, in the order of `columns`."""
        self.rows.append(row)

    def __getitem__(self, column: str) -> Any:
        try:
            j = self.columns.index(column)
        except ValueError:
            raise KeyError(f"no column {column!r}; there are {', '.join(self.columns)}") from None
        return np.array([row[j] for row in self.rows])

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def to_pandas(self) -> Any:
        """The same as a pandas DataFrame."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_pandas needs pandas: pip install geartrain[plot]") from error
        return pd.DataFrame(self.rows, columns=list(self.columns))

    def plot(
        self,
        x: str | None = None,
        y: str = "grad_norm",
        ax: Any = None,
        *,
        f_star: float | None = None,
        **line: Any,
    ) -> Any:
        """Draw column `y` against column `x`; rows in which `y` is not known are left out.

        Parameters
        ----------
        x, y : str
            Columns; x is the gradients of the first term if it is not given. Norms and constants
            are drawn on a logarithmic axis, values of f on a linear one.
        ax : matplotlib axes, optional
            Where to draw, for several results in one figure; a new figure if not given.
        f_star : float, optional
            With ``y="f"``: draw f - `f_star` on a logarithmic axis.
        **line
            Of the line: ``label="sae"``, ``color="C1"``, ...

        Returns
        -------
        matplotlib axes
            With its axes labelled; a legend if a label was given.
        """
        if f_star is not None and y != "f":
            raise ValueError(f"f_star belongs to y='f', got y={y!r}")
        if x is None:
            x = next(column for column in self.columns if column.endswith(".grad"))
        across, up = self[x], self[y] - (0.0 if f_star is None else f_star)
        logarithmic = y in LOGARITHMIC or f_star is not None
        shown = np.isfinite(up) & (up > 0.0) if logarithmic else np.isfinite(up)
        if not shown.any():
            hint = f"; minimize(..., record={y!r}) evaluates it" if y in ("f", "grad_norm") else ""
            raise ValueError(f"{y} is not known in any row of this run{hint}")
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError("plot needs matplotlib: pip install geartrain[plot]") from error
        if ax is None:
            ax = plt.subplots(layout="constrained")[1]
        few = {"marker": "o", "markersize": 4} if shown.sum() < 20 else {}
        ax.plot(across[shown], up[shown], **(few | line))
        if logarithmic:
            ax.set_yscale("log")
        ax.set_xlabel(label(x))
        ax.set_ylabel(label(y) if f_star is None else "$f(x) - f^*$")
        if "label" in line:
            ax.legend()
        return ax

    def _repr_html_(self) -> str:
        """The first and the last rows, with the columns that hold anything, and the notes."""
        kept = [c for c in self.columns if c in ("iter", "seconds") or self._is_interesting(c)]
        kept.sort(key=lambda c: c != "iter")
        places = [self.columns.index(c) for c in kept]
        rows = [[html.number(row[j]) for j in places] for row in self.rows]
        if len(rows) > 2 * _SHOWN:
            rows = [*rows[:_SHOWN], ["…"] * len(kept), *rows[-_SHOWN:]]
        shown = html.table(kept, rows, f"History of {len(self.rows)} rows")
        if self.notes:
            shown += html.facts([(f"iteration {k}", text) for k, text in self.notes], "Notes")
        return shown

    def _is_interesting(self, column: str) -> bool:
        numbers = np.asarray(self[column], dtype=float)
        return bool(np.any(np.nan_to_num(numbers) != 0.0))

    def __repr__(self) -> str:
        return f"History({len(self.rows)} rows: {', '.join(self.columns)})"
