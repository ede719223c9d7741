"""Stock callbacks for ``minimize(..., callback=[...])``.

`Checkpoint` saves the run, `Progress` shows a line, `CSVLog` and `JSONLLog` write a row an outer
iteration (`geartrain.watch` plots such a file while it grows), `TensorBoard` writes scalars. A
callback with a method ``close`` has it called at the end of the run.
"""

from __future__ import annotations

import csv
import io
import json
import math
import sys
import warnings
from abc import ABC, abstractmethod
from pathlib import Path
from time import perf_counter
from typing import Any, TextIO

from geartrain.core.checkpoint import Checkpoint
from geartrain.core.stopping import AnyOf, Calls, Gap, Gradient, Rule, Seconds

__all__ = ["CSVLog", "Checkpoint", "JSONLLog", "Progress", "TensorBoard"]

_BAR = 20


class Progress:
    """A line that tells how far a run is: bar, f or ``|grad f|``, calls of each oracle, time left.

    The bar is an estimate: gradients are taken to shrink as quickly as they did so far, and
    budgets to be used up evenly.

    Parameters
    ----------
    rule : rule, optional
        The stopping rule, for bar and time left.
    stream : file, optional
        Standard error if not given.
    every : float
        Seconds between two lines.
    """

    def __init__(
        self, rule: Rule | None = None, stream: TextIO | None = None, every: float = 0.5
    ) -> None:
        self.rule, self.stream, self.every = rule, stream, every
        self._first_norm = math.nan
        self._first_seconds = 0.0
        self._next = -math.inf
        self._line = ""

    def __call__(self, intermediate_result: Any) -> None:
        """Show a line, if it is time."""
        seen = intermediate_result
        if math.isnan(self._first_norm):
            self._first_norm, self._first_seconds = seen.grad_norm, seen.seconds
        shown, self._line = self._line, self.line(seen)
        now = perf_counter()
        if now >= self._next:
            self._next = now + self.every
            self._print(self._line.ljust(len(shown)))

    def close(self) -> None:
        """Show the last line and end it."""
        if self._line:
            self._print(self._line + "\n")
        self._line = ""

    def line(self, seen: Any) -> str:
        """The line for what a callback sees."""
        done = self._done(self.rule, seen)
        calls = " ".join(f"{k} {v}" for k, v in seen.calls.items() if v)
        if math.isnan(seen.grad_norm):
            what = "" if math.isnan(seen.fun) else f"f {seen.fun:.9g}  "
        else:
            what = f"|grad f| {seen.grad_norm:.2e}  "
        bar, left = "", ""
        if done > 0.0:
            full = int(_BAR * done)
            bar = f"[{'#' * full}{'.' * (_BAR - full)}] "
            elapsed = seen.seconds - (self._first_seconds if self._by_gradient else 0.0)
            left = f", about {_duration(elapsed * (1.0 - done) / done)} left"
        return f"{bar}{seen.nit:6d}  {what}{calls}  {_duration(seen.seconds)}{left}"

    _by_gradient = False  # whether the part that is done counts from the first line

    def _done(self, rule: Any, seen: Any) -> float:
        """Part of the run that is done, between 0 and 1; 0 where nothing is known."""
        if isinstance(rule, AnyOf):
            parts = [(self._done(r, seen), self._by_gradient) for r in rule.rules]
            done, self._by_gradient = max(parts)
            return done
        self._by_gradient = False
        done = 0.0
        if isinstance(rule, Calls):
            done = max(seen.calls.get(k, 0) / most for k, most in rule.budget.items())
        elif isinstance(rule, Seconds):
            done = seen.seconds / rule.limit
        elif isinstance(rule, Gradient) or (isinstance(rule, Gap) and rule.mu is not None):
            self._by_gradient = True
            first, now = self._first_norm, seen.grad_norm
            if isinstance(rule, Gradient):
                target = max(rule.rel * first, rule.abs)
            else:
                target = math.sqrt(2.0 * rule.eps * (rule.mu or 0.0))
            if 0.0 < target < first and 0.0 < now < first:
                done = math.log(first / now) / math.log(first / target)
        return min(done, 1.0)

    def _print(self, text: str) -> None:
        stream = sys.stderr if self.stream is None else self.stream
        print(f"\r{text}", end="", file=stream, flush=True)


def _duration(seconds: float) -> str:
    if seconds < 100.0:
        return f"{seconds:.1f} s"
    minutes = seconds / 60.0
    return f"{minutes:.0f} min" if minutes < 100.0 else f"{minutes / 60.0:.1f} h"


class _Log(ABC):
    """A file that gets a line an iteration; it starts anew with a new run.

    A resumed run goes on in its file: lines of iterations that are done again are dropped. Where
    the file cannot be written, there is one warning, and the run goes on.
    """

    inside_iterations = False  # one line per iteration

    def __init__(self, path: Any) -> None:
        self.path = Path(path)
        self._file: TextIO | None = None
        self._broken = False

    def __call__(self, intermediate_result: Any) -> None:
        """Write a line."""
        if self._broken:
            return
        row = as_row(intermediate_result)
        try:
            if self._file is None:
                self._open(row)
            assert self._file is not None
            self._file.write(self._line(row))
            self._file.flush()
        except OSError as error:
            self._broken = True
            warnings.warn(
                f"the log could not be written, the run goes on without: {error}",
                RuntimeWarning,
                stacklevel=2,
            )

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError:  # a full disk; the warning was given
                self._broken = True

    def _open(self, row: dict[str, Any]) -> None:
        kept = []
        if row["nit"] > 0 and self.path.exists():
            kept = [r for r in read_log(self.path) if r["nit"] < row["nit"]]
        self._file = self.path.open("w", encoding="utf-8", newline="")
        self._file.write(self._head(row) + "".join(map(self._line, kept)))

    @abstractmethod
    def _head(self, row: dict[str, Any]) -> str:
        """What stands above the rows."""

    @abstractmethod
    def _line(self, row: dict[str, Any]) -> str:
        """One row as a line."""


class CSVLog(_Log):
    """A row of comma-separated values an outer iteration, with a line of names above.

    Parameters
    ----------
    path : str or path
        The file; a new run replaces it, a resumed one goes on in it.
    """

    def _head(self, row: dict[str, Any]) -> str:
        return self._csv(list(row))

    def _line(self, row: dict[str, Any]) -> str:
        return self._csv([repr(v) for v in row.values()])

    @staticmethod
    def _csv(cells: list[str]) -> str:
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerow(cells)
        return out.getvalue()


class JSONLLog(_Log):
    """A line of JSON an outer iteration; what is not known is null.

    Parameters
    ----------
    path : str or path
        The file; a new run replaces it, a resumed one goes on in it.
    """

    def _head(self, row: dict[str, Any]) -> str:
        return ""

    def _line(self, row: dict[str, Any]) -> str:
        known = {k: v if math.isfinite(v) else None for k, v in row.items()}
        return json.dumps(known) + "\n"


def as_row(seen: Any) -> dict[str, Any]:
    """What a callback sees, as the columns of a log."""
    numbers = {
        "nit": int(seen.nit),
        "seconds": float(seen.seconds),
        "fun": float(seen.fun),
        "grad_norm": float(seen.grad_norm),
    }
    return {**numbers, **{k: int(v) for k, v in seen.calls.items()}}


def read_log(path: Any) -> list[dict[str, Any]]:
    """Rows of a CSV or JSONL log; a last line that is not complete yet is left out."""
    text = Path(path).read_text(encoding="utf-8")
    lines = text[: text.rfind("\n") + 1].splitlines()
    if not lines:
        return []
    try:
        if lines[0].startswith("{"):
            rows = [json.loads(line) for line in lines]
            rows = [{k: math.nan if v is None else v for k, v in row.items()} for row in rows]
        else:
            lines[0].split(",").index("nit")
            rows = [{k: _number(v) for k, v in row.items()} for row in csv.DictReader(lines)]
        for row in rows:
            row["nit"] = int(row["nit"])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{path} is not a log of gt.callbacks.CSVLog or JSONLLog") from None
    return rows


def _number(text: str) -> float:
    return int(text) if text.lstrip("-").isdigit() else float(text)


class TensorBoard:
    """Scalars for TensorBoard: f, ``|grad f|``, seconds and calls by outer iteration.

    Needs tensorboardX, or torch with tensorboard.

    Parameters
    ----------
    folder : str or path
        Where TensorBoard looks (its ``--logdir``).
    """

    inside_iterations = False

    def __init__(self, folder: Any) -> None:
        self._writer = _summary_writer()(str(folder))

    def __call__(self, intermediate_result: Any) -> None:
        """Add the scalars of an iteration."""
        row = as_row(intermediate_result)
        step = row.pop("nit")
        for name, value in row.items():
            if math.isfinite(value):
                self._writer.add_scalar(name.replace(".", "/"), value, step)

    def close(self) -> None:
        """Write what is left."""
        self._writer.flush()


def _summary_writer() -> Any:
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ImportError(
                "TensorBoard needs tensorboardX (pip install tensorboardX) or torch with "
                "tensorboard"
            ) from None
    return SummaryWriter
