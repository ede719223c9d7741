"""What a comparison gives back."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from geartrain.core import html
from geartrain.oracles.ledger import given_price

CANNOT_RUN = "CANNOT RUN"
_FORMAT = "geartrain comparison 1"


@dataclass(frozen=True, eq=False)
class ComparedRun:
    """One run of a comparison."""

    method: str  # its name in the table
    seed: int
    status: str  # name of a `geartrain.core.status.Status`, or CANNOT RUN
    message: str
    f: float = math.nan  # at x
    grad_norm: float = math.nan  # |grad f(x)|, where known
    iterations: int = 0
    calls: dict[str, int] = field(default_factory=dict)
    columns: tuple[str, ...] = ()  # of the history
    rows: Any = field(default_factory=lambda: np.zeros((0, 0)))  # the history
    x: Any = field(default_factory=lambda: np.zeros(0))  # the best point

    @property
    def seconds(self) -> float:
        """Seconds of the method, records not included."""
        return float(self.column("seconds")[-1]) if len(self.rows) else math.nan

    def column(self, name: str) -> Any:
        """A column of the history."""
        return self.rows[:, self.columns.index(name)]


class Comparison:
    """Runs of several methods on one problem, as a table and as a figure.

    Parameters
    ----------
    trials : list of ComparedRun
        The runs.
    f_star : float, optional
        The minimum of f; if not given, the smallest value in the runs.
    prices : dict, optional
        What a call costs, for the column "bill".

    Attributes
    ----------
    trials : tuple of ComparedRun
        The runs with their histories and points.
    methods : tuple of str
        The methods in the order in which they were given.
    f_star : float
        The value that is subtracted from f.
    f_star_source : str
        Where it is from: "given" or "the smallest value of these runs".
    """

    def __init__(
        self,
        trials: Sequence[ComparedRun],
        f_star: float | None = None,
        prices: Mapping[str, float] | None = None,
    ) -> None:
        self.trials = tuple(trials)
        self.methods = tuple(dict.fromkeys(trial.method for trial in trials))
        self.prices = None if prices is None else dict(prices)
        found = [v for t in trials if len(t.rows) for v in (t.f, *t.column("f")) if v == v]
        self.f_star_source = "the smallest value of these runs" if f_star is None else "given"
        self.f_star = min(found, default=math.nan) if f_star is None else float(f_star)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of calls that were made, such as ``"h.grad"``."""
        keys = dict.fromkeys(key for trial in self.trials for key in trial.calls)
        return tuple(k for k in keys if any(t.calls.get(k, 0) for t in self.trials))

    # Tables -----------------------------------------------------------------------------

    def _records(self) -> list[dict[str, Any]]:
        """One row per run."""
        rows = []
        for t in self.trials:
            ran = t.status != CANNOT_RUN
            row: dict[str, Any] = {
                "method": t.method,
                "seed": t.seed,
                "status": t.status,
                "f": t.f,
                "gap": t.f - self.f_star,
                "grad_norm": t.grad_norm,
                "iterations": t.iterations if ran else math.nan,
                "seconds": t.seconds,
            }
            if self.prices is not None:
                row["bill"] = _bill(t.calls, self.prices) if ran else math.nan
            row |= {key: t.calls.get(key, 0) if ran else math.nan for key in self.kinds}
            rows.append(row)
        return rows

    def to_pandas(self, runs: bool = False) -> Any:
        """The table as a pandas DataFrame.

        Parameters
        ----------
        runs : bool
            One row per run; by default one row per method with medians over the seeds.

        Returns
        -------
        DataFrame
            With the columns status, f, gap (f - f*), grad_norm, iterations, seconds, bill (if
            prices were given) and one per kind of call.
        """
        pd = _pandas("to_pandas")
        if runs:
            return pd.DataFrame(self._records())
        rows = [
            {"method": method, "status": self._status(method)}
            | {c: _median(self._numbers(method, c)) for c in self._columns()}
            for method in self.methods
        ]
        return pd.DataFrame(rows).set_index("method")

    def _columns(self) -> list[str]:
        bill = [] if self.prices is None else ["bill"]
        return ["f", "gap", "grad_norm", "iterations", "seconds", *bill, *self.kinds]

    def _numbers(self, method: str, column: str) -> list[float]:
        """A column of the runs of one method, as far as known."""
        rows = (row for row in self._records() if row["method"] == method)
        return [float(row[column]) for row in rows if row[column] == row[column]]

    def _status(self, method: str) -> str:
        """How the runs of a method ended; with numbers if not all ended alike."""
        ends = [t.status for t in self.trials if t.method == method]
        names = dict.fromkeys(ends)
        if len(names) == 1:
            return ends[0]
        return ", ".join(f"{ends.count(name)} of {len(ends)} {name}" for name in names)

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """The head and the cells of the table for people: medians with their spread."""
        bill = [] if self.prices is None else ["bill"]
        columns = ["gap", "seconds", *bill, *self.kinds]
        body = [
            [m, self._status(m), *(_with_spread(self._numbers(m, c)) for c in columns)]
            for m in self.methods
        ]
        return ["method", "status", "f - f*", *columns[1:]], body

    @property
    def _caption(self) -> str:
        seeds = len({t.seed for t in self.trials})
        spread = f"; medians of {seeds} seeds (smallest to largest)" if seeds > 1 else ""
        return f"f* = {self.f_star:.12g}, {self.f_star_source}{spread}"

    def __repr__(self) -> str:
        head, body = self._cells()
        widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
        lines = []
        for row in (head, *body):
            first, *rest = (cell.rjust(w) for cell, w in zip(row, widths, strict=True))
            lines.append("  ".join([first.strip().ljust(widths[0]), *rest]))
        reasons = {t.method: t.message for t in self.trials if t.status == CANNOT_RUN}
        told = [f"{method}: {reason}" for method, reason in reasons.items()]
        return "\n".join([*lines, self._caption, *told])

    def _repr_html_(self) -> str:
        return html.table(*self._cells(), self._caption)

    def to_latex(self) -> str:
        """The table in LaTeX, with the rules of the package booktabs.

        Returns
        -------
        str
            A ``tabular`` environment; medians over the seeds, with their spread in parentheses.
        """
        head, body = self._cells()
        frame = _pandas("to_latex").DataFrame(body, columns=head)
        aligned = "ll" + "r" * (len(head) - 2)
        tabular = frame.to_latex(index=False, escape=True, column_format=aligned)
        return f"% needs \\usepackage{{booktabs}}; {self._caption}\n{tabular}"

    def to_csv(self, path: Any) -> None:
        """Write one row per run as comma-separated values.

        Parameters
        ----------
        path : str or path
            The file.
        """
        self.to_pandas(runs=True).to_csv(path, index=False)

    # Files ------------------------------------------------------------------------------

    def save(self, path: Any) -> None:
        """Write everything, histories and points included, for `load`.

        Parameters
        ----------
        path : str or path
            The file: a NumPy archive (.npz) of plain arrays and one JSON text, without pickle.
        """
        arrays: dict[str, Any] = {}
        about = []
        for i, trial in enumerate(self.trials):
            told = {f.name: getattr(trial, f.name) for f in fields(trial)}
            arrays[f"rows_{i}"], arrays[f"x_{i}"] = told.pop("rows"), told.pop("x")
            about.append(told)
        given = self.f_star if self.f_star_source == "given" else None
        header = {"format": _FORMAT, "f_star": given, "prices": self.prices, "trials": about}
        with Path(path).open("wb") as file:
            np.savez_compressed(file, header=np.array(json.dumps(header)), **arrays)

    @classmethod
    def load(cls, path: Any) -> Comparison:
        """Read what `save` has written.

        Parameters
        ----------
        path : str or path
            The file.

        Returns
        -------
        Comparison
            The same as before.
        """
        try:
            with np.load(path, allow_pickle=False) as archive:
                header = json.loads(str(archive["header"]))
                if header["format"] != _FORMAT:
                    raise ValueError(f"its format is {header['format']!r}")
                trials = [
                    ComparedRun(
                        **(told | {"columns": tuple(told["columns"])}),
                        rows=archive[f"rows_{i}"],
                        x=archive[f"x_{i}"],
                    )
                    for i, told in enumerate(header["trials"])
                ]
        except (ValueError, KeyError, TypeError, EOFError) as error:
            raise ValueError(f"{path} is not a comparison of geartrain: {error}") from error
        return cls(trials, header["f_star"], header["prices"])

    def plot(self, x: str | None = None, ax: Any = None) -> Any:
        """Draw f - f* against the calls of each kind and against seconds.

        The lines are the smallest values so far; over several seeds they are medians, and the
        bands reach from the smallest to the largest.

        Parameters
        ----------
        x : str, optional
            A kind of call, "seconds" or "iter", for one panel only.
        ax : matplotlib axes, optional
            Where to draw it.

        Returns
        -------
        matplotlib figure, or axes if `x` is given
            For example ``table.plot().savefig("comparison.pdf")``.
        """
        from geartrain.comparison.figure import draw, draw_all

        return draw_all(self) if x is None else draw(self, x, ax)


def _median(numbers: list[float]) -> float:
    return float(np.median(numbers)) if numbers else math.nan


def _with_spread(numbers: list[float]) -> str:
    """The median, and the smallest and the largest number if they differ."""
    if not numbers:
        return "-"
    low, high = _short(min(numbers)), _short(max(numbers))
    middle = _short(_median(numbers))
    return middle if low == high else f"{middle} ({low} to {high})"


def _short(number: float) -> str:
    whole = number == int(number) and abs(number) < 1e9 if math.isfinite(number) else False
    return str(int(number)) if whole else f"{number:.3g}"


def _pandas(caller: str) -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError(f"{caller} needs pandas: pip install geartrain[plot]") from error
    return pandas


def _bill(calls: Mapping[str, int], prices: Mapping[str, float]) -> float:
    """What the calls cost; those without a price are not on the bill."""
    parts = (count * given_price(key, prices) for key, count in calls.items() if count)
    return sum(part for part in parts if not math.isnan(part))
