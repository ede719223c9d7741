"""Logs: a line of numbers per outer iteration, and how they are read again."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import warnings
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:  # SciPy's part of it takes a while
    from geartrain.core.result import Intermediate


class _Log(ABC):
    """A file with one line per iteration; a new run replaces it.

    A resumed run goes on in its file: lines of iterations that are made again are dropped. Where
    the file cannot be written, there is one warning, and the run goes on.
    """

    inside_iterations = False  # one line per iteration

    def __init__(self, path: Any) -> None:
        self.path = Path(path)
        self._file: TextIO | None = None
        self._broken = False

    def __call__(self, intermediate_result: Intermediate) -> None:
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
            told = f"the log {self.path} could not be written, the run goes on without: {error}"
            with contextlib.suppress(RuntimeWarning):  # under -W error; the run goes on
                warnings.warn(told, RuntimeWarning, stacklevel=2)

    def close(self) -> None:
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
    """A row of comma-separated values per outer iteration, with a line of names above.

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
    """A line of JSON per outer iteration; what is not known is null.

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


def as_row(seen: Intermediate) -> dict[str, Any]:
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
