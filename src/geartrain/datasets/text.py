"""Data files: where they are, and text read line by line, with errors that name the line."""

from __future__ import annotations

import csv
import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

DATA_VARIABLE = "GEARTRAIN_DATA"
# Numbers in plain notation: Python would also take 1_0, nan, inf and digits of other scripts.
# Possessive quantifiers (++) keep the time linear in the length of a line.
NUMBER = r"[+-]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?"
_NUMBER = re.compile(NUMBER, re.ASCII)
_WHOLE = re.compile(r"\d{1,18}", re.ASCII)


@dataclass(frozen=True)
class Table:
    """Points, labels and their origin."""

    X: Any  # array or CSR (m, n)
    y: NDArray[Any]
    feature_names: Sequence[str]
    source: str  # for captions


def data_file(name: str, folder: str | Path | None = None) -> Path:
    """Path of a data file in `folder`, or in the folder that GEARTRAIN_DATA names.

    Parameters
    ----------
    name : str
        Name of the file.
    folder : path, optional
        Used instead of the variable.

    Returns
    -------
    Path
        The path of an existing file.
    """
    place = folder if folder is not None else os.environ.get(DATA_VARIABLE)
    if not place:
        raise FileNotFoundError(
            f"{name} is needed: set the environment variable {DATA_VARIABLE} to the folder that "
            "contains it"
        )
    path = Path(place) / name
    if not path.is_file():
        raise FileNotFoundError(
            f"{name} is not in {place}; put it there, or set {DATA_VARIABLE} to another folder"
        )
    return path


def wrong(path: Path, line: int, what: str) -> ValueError:
    """The error about one line of a file."""
    return ValueError(f"{path}, line {line}: {what}")


def shown(text: str) -> str:
    """`text` for a message, shortened."""
    return repr(text if len(text) <= 40 else text[:37] + "...")


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file with their numbers from 1, without the ends of the lines."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError:
                raise wrong(path, number, "this is not text in UTF-8") from None
            yield number, text.removesuffix("\n").removesuffix("\r")


def is_number(text: str) -> bool:
    """Whether `text` is a finite number in plain notation."""
    return _NUMBER.fullmatch(text) is not None and math.isfinite(float(text))


def number(text: str, path: Path, line: int, what: str) -> float:
    """`text` as a finite number; `what` it is, for the message."""
    if not is_number(text):
        raise wrong(path, line, f"{what} must be a finite number, got {shown(text)}")
    return float(text)


def whole(text: str, path: Path, line: int, what: str) -> int:
    """`text` as a whole number that is not negative; `what` it is, for the message."""
    if not _WHOLE.fullmatch(text):
        raise wrong(path, line, f"{what} must be a whole number from 0 on, got {shown(text)}")
    return int(text)


def table(path: Path, needed: tuple[str, ...]) -> Iterator[tuple[int, list[str]]]:
    """The needed columns of a CSV file with a header, row by row, with the numbers of the lines."""
    reader = csv.reader(text for _, text in lines(path))
    try:
        header = next(reader, [])
        missing = [name for name in needed if name not in header]
        if missing:
            raise wrong(path, 1, f"the header has no column {', '.join(map(repr, missing))}")
        places = [header.index(name) for name in needed]
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                what = f"the row has {len(row)} fields, the header has {len(header)}"
                raise wrong(path, reader.line_num, what)
            yield reader.line_num, [row[place] for place in places]
    except csv.Error as error:
        raise wrong(path, reader.line_num, f"this is not CSV ({error})") from error
