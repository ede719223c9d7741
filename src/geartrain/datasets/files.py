"""Readers of data files; the files are the user's own and are only read."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

DATA_VARIABLE = "GEARTRAIN_DATA"

GAS_MINUTES = "gas_sensors_minutes.csv"
GAS_UCI = ("HT_Sensor_dataset.dat", "HT_Sensor_metadata.dat")
GAS_FEATURES = (*(f"R{i}" for i in range(1, 9)), "Temp", "Humidity")


@dataclass(frozen=True)
class Table:
    """Points, labels and where they are from."""

    X: Any  # array or CSR (m, n)
    y: NDArray[Any]
    feature_names: tuple[str, ...]
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
        Of a file that is there.
    """
    place = folder if folder is not None else os.environ.get(DATA_VARIABLE)
    if not place:
        raise FileNotFoundError(
            f"{name} is needed: set the environment variable {DATA_VARIABLE} to the folder that "
            "has it"
        )
    path = Path(place) / name
    if not path.is_file():
        raise FileNotFoundError(
            f"{name} is not in {place}; put it there, or set {DATA_VARIABLE} to another folder"
        )
    return path


def load_gas_sensors(
    folder: str | Path | None = None,
    *,
    classes: tuple[str, str] = ("banana", "wine"),
    scale: bool = True,
    max_rows: int | None = None,
) -> Table:
    """The UCI set "Gas sensors for home activity monitoring", two classes of it.

    Reads HT_Sensor_dataset.dat and HT_Sensor_metadata.dat (rows of one second) if the folder has
    them, else gas_sensors_minutes.csv (means of one minute).

    Parameters
    ----------
    folder : path, optional
        Used instead of GEARTRAIN_DATA.
    classes : pair of str
        The classes labelled +1 and -1, out of "banana", "wine" and "background".
    scale : bool
        Carry every feature to [0, 1].
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
        source, time = "gas sensors, one row a second (UCI 362)", "time"
    kept = np.flatnonzero(np.isin(labels, classes))
    if max_rows is not None and kept.size > max_rows:
        kept = kept[np.linspace(0, kept.size - 1, max_rows).astype(np.int64)]
    X, y = X[kept], np.where(labels[kept] == classes[0], 1.0, -1.0)
    if scale:
        low, high = X.min(axis=0), X.max(axis=0)
        X = (X - low) / np.where(high > low, high - low, 1.0)
    return Table(X, y, (time, *GAS_FEATURES), source)


def _gas_minutes(path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    X = np.array([[float(row[name]) for name in ("minute", *GAS_FEATURES)] for row in rows])
    return X, np.array([row["class"] for row in rows])


def _gas_seconds(data: Path, metadata: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    # The header of the metadata has an empty column that its rows do not have: id, date, class,
    # t0, dt. Rows end in a blank, the columns of the data are separated by runs of blanks.
    label_of = {}
    for line in metadata.read_text().splitlines()[1:]:
        fields = line.split()
        if len(fields) >= 3:
            label_of[int(fields[0])] = fields[2]
    table = np.loadtxt(data, skiprows=1, ndmin=2)
    if table.shape[1] != 12:
        raise ValueError(f"{data} must have 12 columns (id, time, ...), found {table.shape[1]}")
    names = np.array([label_of.get(int(i), "") for i in range(int(table[:, 0].max()) + 1)])
    return table[:, 1:], names[table[:, 0].astype(np.int64)]


def load_libsvm(
    name: str | Path, *, n_features: int | None = None, folder: str | Path | None = None
) -> Table:
    """A file in the format of LIBSVM: ``label index:value ...``, indices from 1.

    Parameters
    ----------
    name : str or path
        A path, or the name of a file in the data folder.
    n_features : int, optional
        Number of columns; the largest index if not given.
    folder : path, optional
        Used instead of GEARTRAIN_DATA.

    Returns
    -------
    Table
        X in CSR form, y as the file has it.
    """
    path = Path(name) if Path(name).is_file() else data_file(str(name), folder)
    labels, values, columns, starts = [], [], [], [0]
    for number, line in enumerate(path.read_text().splitlines(), 1):
        fields = line.split("#", 1)[0].split()
        if not fields:
            continue
        try:
            labels.append(float(fields[0]))
            for field in fields[1:]:
                index, value = field.split(":")
                columns.append(int(index) - 1)
                values.append(float(value))
        except ValueError as error:
            raise ValueError(
                f"{path}, line {number}: expected 'label index:value ...', got {line[:60]!r}"
            ) from error
        starts.append(len(columns))
    indices = np.array(columns, np.int64)
    if indices.size and indices.min() < 0:
        raise ValueError(f"{path}: indices start at 1, found 0")
    width = int(indices.max()) + 1 if indices.size else 0
    if n_features is not None and n_features < width:
        raise ValueError(f"{path} has {width} features, more than n_features={n_features}")
    shape = (len(labels), width if n_features is None else n_features)
    X = sparse.csr_array((np.array(values), indices, np.array(starts)), shape=shape)
    return Table(X, np.array(labels), tuple(f"x{i}" for i in range(1, shape[1] + 1)), path.name)


def load_old_faithful(folder: str | Path | None = None) -> Table:
    """Eruptions of Old Faithful: durations and waiting times in minutes; no labels.

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
    with data_file("faithful.csv", folder).open(newline="") as file:
        X = np.array([[float(row[name]) for name in names] for row in csv.DictReader(file)])
    return Table(X, np.empty(0), names, "Old Faithful")


def load_counts(
    name: str = "text8_word_counts.tsv", folder: str | Path | None = None
) -> tuple[Sequence[str], NDArray[np.int64]]:
    """Names and counts from a file of lines ``name<tab>count``.

    Parameters
    ----------
    name : str
        Of the file.
    folder : path, optional
        Used instead of GEARTRAIN_DATA.

    Returns
    -------
    names, counts
        In the order of the file.
    """
    lines = data_file(name, folder).read_text(encoding="utf-8").splitlines()
    pairs = [line.rsplit("\t", 1) for line in lines if line]
    return [word for word, _ in pairs], np.array([int(count) for _, count in pairs])
