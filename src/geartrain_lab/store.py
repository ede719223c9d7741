"""Tables on disk: one per curve, as CSV and Parquet, written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def pandas() -> Any:
    """Pandas, or the sentence that says how to get it."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("reproduce needs pandas: pip install geartrain[sklearn,plot]") from error
    return pd


PageTable = dict[str, Any]


def page_table(head: list[str], rows: Iterable[Sequence[str]]) -> PageTable:
    """A table of the documentation, cell by cell as it is printed."""
    return {"head": head, "rows": [list(row) for row in rows]}


def config_hash(config: dict[str, Any]) -> str:
    """A short hash of everything that a table depends on."""
    text = json.dumps(config, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def data_hash(*arrays: Any) -> str:
    """A short hash of the data themselves."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:12]


def machine() -> str:
    """Processor, system and versions, in one line."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        pass
    return (
        f"{model}, {os.cpu_count()} cores, {platform.system()}, "
        f"Python {platform.python_version()}, NumPy {np.__version__}"
    )


def writable_folder(path: str | Path, option: str) -> Path:
    """A folder that exists and takes files; a sentence that names the option if it cannot be."""
    if not str(path).strip():
        raise ValueError(f"{option} is empty; give the path of a folder")
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OSError(f"{option} {folder} cannot be written: {error.strerror or error}") from error
    return folder


def writable_file(path: str | Path, option: str) -> Path:
    """A path at which a file can be written; a sentence that names the option if it cannot be."""
    file = Path(path)
    if not str(path).strip() or file.is_dir():
        raise ValueError(f"{option} must be the path of a file, got {str(path)!r}")
    writable_folder(file.parent, option)
    if file.exists() and not os.access(file, os.W_OK):
        raise OSError(f"{option} {file} cannot be written: it is read-only")
    return file


class Store:
    """A folder of tables, each with the hash of its configuration in the column ``config``."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = writable_folder(folder, "the folder of tables")

    def get(self, name: str, config: str) -> Any | None:
        """The table of that name if it was made with this configuration, else None."""
        path = self.folder / f"{name}.parquet"
        if not (path.is_file() and path.with_suffix(".csv").is_file()):
            return None
        try:
            table = pandas().read_parquet(path)
        except (OSError, ValueError):  # not a table that was written here
            return None
        made_with = set(table.get("config", ()))
        return table if made_with == {config} else None

    def put(self, name: str, config: str, table: Any) -> Any:
        """Write both files, the Parquet file last, since `get` reads that one."""
        table = table.assign(config=config)
        self._replace(f"{name}.csv", lambda path: table.to_csv(path, index=False))
        self._replace(f"{name}.parquet", lambda path: table.to_parquet(path, index=False))
        return table

    def _replace(self, name: str, write: Callable[[Path], None]) -> None:
        target = self.folder / name
        unfinished = target.with_name(f".{name}.part")
        write(unfinished)
        os.replace(unfinished, target)
