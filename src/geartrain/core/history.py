"""What was recorded: one row per outer iteration."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from geartrain.core import html
from geartrain.core.contracts import State
from geartrain.oracles.answer_cache import PaidValues
from geartrain.oracles.protocols import AnyTerm, Asked, Vector
from geartrain.oracles.questions import counted_in_words
from geartrain.problem import Sum

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


# Columns of a history in the words of an axis, and which of them belong on a logarithmic axis.

_COLUMNS = {
    "seconds": "seconds",
    "iter": "outer iterations",
    "f": "$f(x)$",
    "grad_norm": r"$\|\nabla f(x)\|$",
    "L": "$L$",
    "A": "$A_k$",
    "ms_ratio": "Monteiro-Svaiter ratio",
}
# Positive columns whose orders of magnitude matter.
LOGARITHMIC = ("grad_norm", "L", "A")


def label(column: str) -> str:
    """The title of an axis for a column of the history."""
    name, _, kind = column.rpartition(".")
    if name and (counted := counted_in_words(kind)):
        return f"{counted} of {f'${name}$' if len(name) == 1 else name}"
    return _COLUMNS.get(column, column)


# The columns ``f`` and ``grad_norm`` of the history, and what filling them costs.
#
# A number that the run knows is recorded in any case: the method may know it, the stopping rule
# may have asked for it, and values that came with the gradients of all terms at a point are
# remembered. Numbers that are not known are evaluated on request, ``minimize(..., record="f")``.
# These evaluations are not counted, and a note of the history says how many there were.

RECORDABLE = ("f", "grad_norm")


def as_record(record: Any) -> tuple[str, ...]:
    """The argument ``record`` of `minimize` as a tuple of columns."""
    if record is None:
        return ()
    names = tuple(record) if isinstance(record, (tuple, list, set)) else (record,)
    if not set(map(str, names)) <= set(RECORDABLE):
        raise ValueError(f"record must be 'f', 'grad_norm' or both as a tuple, got {record!r:.60}")
    return names


class Recorder:
    """Completes the numbers of a row.

    The terms are asked without being counted; in the columns `record` no number may be missing.
    """

    def __init__(self, problem: Sum, paid: PaidValues, record: tuple[str, ...] = ()) -> None:
        self._problem, self._paid = problem, paid
        self._evaluations = dict.fromkeys(record, 0)
        if "f" in record and problem.monitor is None:
            raise TypeError("record='f' needs terms that give values")
        if "grad_norm" in record:
            self._gradients = [self._gradient_of(oracle.term) for oracle in problem.oracles]

    @staticmethod
    def _gradient_of(term: AnyTerm) -> Callable[[Vector], Vector]:
        asked = Asked(term)
        if not hasattr(asked, "grad"):
            raise TypeError(f"record='grad_norm' needs terms that give gradients, got {term!r}")
        return asked.grad

    def numbers(self, state: State, f: float, grad_norm: float) -> tuple[float, float]:
        """f and |grad f| at the point of `state`, of which the run knows `f` and `grad_norm`."""
        x = state.point
        if math.isnan(f):
            f = self._paid.total(self._paid.known(x), x)
        if math.isnan(f) and "f" in self._evaluations and self._problem.monitor is not None:
            f = self._problem.monitor(x)
            self._evaluations["f"] += 1
        if math.isnan(grad_norm) and "grad_norm" in self._evaluations:
            gradient = np.sum([grad(x) for grad in self._gradients], axis=0)
            gradient = self._problem.subgradient(x, gradient, state.grad_psi)
            grad_norm = self._problem.geometry.norm(gradient)
            self._evaluations["grad_norm"] += 1
        return f, grad_norm

    @property
    def note(self) -> str:
        """How often the terms were asked for the record; empty if they were not."""
        parts = [f"{name} {count} times" for name, count in self._evaluations.items() if count]
        if not parts:
            return ""
        return f"evaluated for the record, not counted: {', '.join(parts)}"
