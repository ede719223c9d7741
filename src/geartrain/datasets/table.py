"""Tables of data, and the folder in which their files are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

DATA_VARIABLE = "GEARTRAIN_DATA"


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
