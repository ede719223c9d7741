"""Readers of data files, which are never changed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geartrain.datasets.text import Table, data_file, lines, number, table, whole, wrong

GAS_MINUTES = "gas_sensors_minutes.csv"
GAS_UCI = ("HT_Sensor_dataset.dat", "HT_Sensor_metadata.dat")
GAS_FEATURES = (*(f"R{i}" for i in range(1, 9)), "Temp", "Humidity")
GAS_COLUMNS = 12  # of the data as UCI has it: id, time, and the features


def load_gas_sensors(
    folder: str | Path | None = None,
    *,
    classes: tuple[str, str] = ("banana", "wine"),
    scale: bool = True,
    max_rows: int | None = None,
) -> Table:
    """Two classes of the UCI data set "Gas sensors for home activity monitoring".

    Reads HT_Sensor_dataset.dat and HT_Sensor_metadata.dat (one row per second) if the folder has
    them, and gas_sensors_minutes.csv (means over one minute) otherwise.

    Parameters
    ----------
    folder : path, optional
        Used instead of GEARTRAIN_DATA.
    classes : pair of str
        The classes labelled +1 and -1, out of "banana", "wine" and "background".
    scale : bool
        Whether to map every feature to [0, 1].
    max_rows : int, optional
        At most this many rows, evenly spaced.

    Returns
    -------
    Table
        11 features: time, eight sensors, temperature, humidity.
    """
    unknown = set(classes) - {"banana", "wine", "background"}
    if unknown or len(set(classes)) < 2:
        raise ValueError(f"classes must be two of 'banana', 'wine', 'background', got {classes!r}")
    try:
        paths = [data_file(name, folder) for name in GAS_UCI]
    except FileNotFoundError:
        X, labels = _gas_minutes(data_file(GAS_MINUTES, folder))
        source, time = "gas sensors, means of one minute (UCI 362)", "minute"
    else:
        X, labels = _gas_seconds(*paths)
        source, time = "gas sensors, one row per second (UCI 362)", "time"
    kept = np.flatnonzero(np.isin(labels, classes))
    if max_rows is not None and kept.size > max_rows:
        kept = kept[np.linspace(0, kept.size - 1, max_rows).astype(np.int64)]
    X, y = X[kept], np.where(labels[kept] == classes[0], 1.0, -1.0)
    if scale and kept.size:
        low, high = X.min(axis=0), X.max(axis=0)
        X = (X - low) / np.where(high > low, high - low, 1.0)
    return Table(X, y, (time, *GAS_FEATURES), source)


def _numbers(path: Path, names: tuple[str, ...], text: tuple[str, ...] = ()) -> tuple[Any, Any]:
    """The columns `names` of a CSV file as numbers, and the columns `text` as they are."""
    rows, words = [], []
    for line, fields in table(path, (*names, *text)):
        cells = zip(fields, names, strict=False)
        rows.append([number(cell, path, line, f"the column {name!r}") for cell, name in cells])
        words.append(fields[len(names) :])
    if not rows:
        raise ValueError(f"{path} has no rows")
    return np.array(rows), np.array(words)


def _gas_minutes(path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    X, words = _numbers(path, ("minute", *GAS_FEATURES), ("class",))
    return X, words[:, 0]


def _gas_seconds(data: Path, metadata: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    # The header of the metadata has an empty column that its rows do not have: id, date, class,
    # t0, dt. Rows end in a blank, and the columns of the data are separated by runs of blanks.
    label_of = {}
    for line, text in lines(metadata):
        fields = text.split()
        if line > 1 and fields:
            if len(fields) < 3:
                raise wrong(metadata, line, f"expected id, date and class, got {text[:40]!r}")
            label_of[whole(fields[0], metadata, line, "the id")] = fields[2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about a file without rows
        try:
            values = np.loadtxt(data, skiprows=1, ndmin=2, comments=None)
        except ValueError:
            values = np.empty((0, 0))
    known = np.array(sorted(label_of), dtype=np.float64)
    good = values.shape[1] == GAS_COLUMNS and bool(
        np.isfinite(values).all() and np.isin(values[:, 0], known).all()
    )
    if not good:
        raise _about_wrong_line(data, label_of)
    names = np.array([label_of[int(i)] for i in known])
    return values[:, 1:], names[np.searchsorted(known, values[:, 0])]


def _about_wrong_line(data: Path, label_of: dict[int, str]) -> ValueError:
    """The error about the first line that cannot be read."""
    line = 0
    for line, text in lines(data):
        fields = text.split()
        if line == 1 or not fields:
            continue
        if len(fields) != GAS_COLUMNS:
            what = f"expected {GAS_COLUMNS} columns (id, time, ...), got {len(fields)}"
            return wrong(data, line, what)
        for field in fields:
            number(field, data, line, "every column")
        if float(fields[0]) not in label_of:
            return wrong(data, line, f"the metadata has no id {fields[0]}")
    return wrong(data, line, "the file ends without rows that can be read")


def load_old_faithful(folder: str | Path | None = None) -> Table:
    """Eruptions of Old Faithful: durations and waiting times in minutes, without labels.

    Parameters
    ----------
    folder : path, optional
        Used instead of GEARTRAIN_DATA.

    Returns
    -------
    Table
        272 rows of 2 features.
    """
    names = ("eruptions", "waiting")
    X, _ = _numbers(data_file("faithful.csv", folder), names)
    return Table(X, np.empty(0), names, "Old Faithful")


def load_counts(
    name: str = "text8_word_counts.tsv", folder: str | Path | None = None
) -> tuple[Sequence[str], NDArray[np.int64]]:
    """Names and counts from a file with lines ``name<tab>count``.

    Parameters
    ----------
    name : str
        Name of the file.
    folder : path, optional
        Used instead of GEARTRAIN_DATA.

    Returns
    -------
    names, counts
        In the order of the file.
    """
    path = data_file(name, folder)
    names, counts = [], []
    for line, text in lines(path):
        if not text:
            continue
        word, tab, count = text.rpartition("\t")
        if not tab:
            raise wrong(path, line, f"expected a name, a tab and a count, got {text[:40]!r}")
        names.append(word)
        counts.append(whole(count, path, line, "the count"))
    return names, np.array(counts, dtype=np.int64)
