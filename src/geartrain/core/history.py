"""What was recorded: one row an outer iteration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

COLUMNS = ("seconds", "iter", "f", "grad_norm", "L", "A", "ms_ratio")


class History(Mapping[str, Any]):
    """Columns by name, as arrays: ``history["grad_norm"]``, ``history["h.grad"]``.

    ``len(history.rows)`` is the number of rows; `notes` holds what else happened, as
    ``(iteration, sentence)``.
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

    def plot(self, x: str = "h.grad", y: str = "grad_norm", ax: Any = None) -> Any:
        """Draw column `y` against column `x` in logarithmic scale; returns the axes."""
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError("plot needs matplotlib: pip install geartrain[plot]") from error
        if ax is None:
            ax = plt.subplots()[1]
        ax.semilogy(self[x], self[y])
        ax.set_xlabel(x)
        ax.set_ylabel(y)
        return ax

    def __repr__(self) -> str:
        return f"History({len(self.rows)} rows: {', '.join(self.columns)})"
