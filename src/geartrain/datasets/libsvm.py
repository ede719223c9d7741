"""Reader of files in the format of LIBSVM."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import overload

import numpy as np
from scipy import sparse

from geartrain.datasets.text import NUMBER, Table, data_file, is_number, lines, shown, wrong
from geartrain.oracles.validation import as_whole

# The largest index that SciPy's sparse matrices store in 32 bits. Memory follows the entries, but
# whoever uses the matrix needs vectors of this length.
LARGEST_INDEX = 2**31 - 1
_INDEX = re.compile(r"\+?\d++", re.ASCII)
# Not possessive as a whole: Python 3.11.2 takes half a field for a whole one then.
_ROW = re.compile(rf"{NUMBER}(?: \+?\d{{1,10}}+:{NUMBER})*", re.ASCII)


class Numbered(Sequence[str]):
    """The names x1, x2, ..., made when they are asked for."""

    def __init__(self, n: int) -> None:
        self._range = range(1, n + 1)

    def __len__(self) -> int:
        return len(self._range)

    @overload
    def __getitem__(self, k: int) -> str: ...
    @overload
    def __getitem__(self, k: slice) -> tuple[str, ...]: ...
    def __getitem__(self, k: int | slice) -> str | tuple[str, ...]:
        found = self._range[k]
        return tuple(map("x{}".format, found)) if isinstance(found, range) else f"x{found}"


def load_libsvm(
    name: str | Path, *, n_features: int | None = None, folder: str | Path | None = None
) -> Table:
    """Read a file in the format of LIBSVM: ``label index:value ...``, with indices from 1.

    Indices must increase within a row, and all numbers must be finite. Memory follows the number of
    entries, not the largest index.

    Parameters
    ----------
    name : str or path
        A path, or the name of a file in the data folder.
    n_features : int, optional
        Number of columns; by default the largest index.
    folder : path, optional
        Used instead of GEARTRAIN_DATA.

    Returns
    -------
    Table
        X in CSR form, y as in the file.
    """
    path = Path(name) if Path(name).is_file() else data_file(str(name), folder)
    largest = LARGEST_INDEX
    if n_features is not None:
        largest = min(largest, as_whole(n_features, "n_features", 1))
    labels, values, columns = array("d"), array("d"), array("q")
    starts, numbers = array("q", [0]), array("q")  # of the rows: first entry, line
    for number, line in lines(path):
        fields = line.split("#", 1)[0].split()
        if not fields:
            continue
        row = " ".join(fields)
        if not _ROW.fullmatch(row):
            raise wrong(path, number, _reason(fields))
        pieces = row.replace(":", " ").split(" ")
        labels.append(float(pieces[0]))
        columns.extend(map(int, pieces[1::2]))
        values.extend(map(float, pieces[2::2]))
        starts.append(len(columns))
        numbers.append(number)
    if not labels:
        raise ValueError(f"{path} has no rows")
    indices, indptr = np.frombuffer(columns, np.int64), np.frombuffer(starts, np.int64)
    data, y = np.frombuffer(values), np.frombuffer(labels)

    def refuse(entries: np.ndarray, what: str) -> None:
        if entries.size:
            row = int(np.searchsorted(indptr, entries[0], side="right")) - 1
            raise wrong(path, numbers[row], what.format(indices[entries[0]]))

    refuse(np.flatnonzero(indices < 1), "indices start at 1, got {}")
    too_large = f"the index {{}} is larger than {largest}"
    if n_features is not None:
        too_large = f"the index {{}} is more than n_features={n_features}"
    refuse(np.flatnonzero(indices > largest), too_large)
    falls = np.flatnonzero(np.diff(indices) <= 0) + 1
    refuse(falls[~np.isin(falls, indptr)], "indices must increase within a row, but {} does not")
    refuse(np.flatnonzero(~np.isfinite(data)), "the value of the index {} is too large")
    if not np.isfinite(y).all():
        raise wrong(path, numbers[int(np.argmin(np.isfinite(y)))], "the label is too large")
    width = int(indices.max(initial=0)) if n_features is None else largest
    kind = np.int32 if data.size <= LARGEST_INDEX else np.int64
    parts = (data, (indices - 1).astype(kind), indptr.astype(kind))
    X = sparse.csr_array(parts, shape=(y.size, width))
    return Table(X, y, Numbered(width), path.name)


def _reason(fields: list[str]) -> str:
    """What is wrong with a row, field by field."""
    if not is_number(fields[0]):
        return f"the label must be a finite number, got {shown(fields[0])}"
    for field in fields[1:]:
        index, *value = field.split(":")
        if len(value) != 1:
            return f"expected 'label index:value ...', got {shown(field)}"
        if not _INDEX.fullmatch(index):
            return f"indices must be whole numbers from 1 on, got {shown(index)}"
        if not is_number(value[0]):
            return f"values must be finite numbers, got {shown(field)}"
        if int(index[:20]) > LARGEST_INDEX:
            return f"the index {shown(index)} is larger than {LARGEST_INDEX}"
    return f"expected 'label index:value ...', got {shown(' '.join(fields))}"
