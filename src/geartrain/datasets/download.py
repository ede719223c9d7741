"""The gas sensors from their source: downloaded once, verified, kept in a cache."""

from __future__ import annotations

import io
import os
import urllib.request
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from geartrain.datasets.files import GAS_UCI

UCI_ARCHIVE = (
    "https://archive.ics.uci.edu/static/public/362/gas+sensors+for+home+activity+monitoring.zip"
)
INDUCTIONS = {"banana": 33, "wine": 36, "background": 31}


def fetch_gas_sensors(
    cache: str | Path | None = None, *, url: str = UCI_ARCHIVE, timeout: float = 20.0
) -> Path:
    """Folder with HT_Sensor_dataset.dat and HT_Sensor_metadata.dat, downloaded if need be.

    Parameters
    ----------
    cache : path, optional
        By default ``geartrain/gas-sensors`` in the user's cache folder.
    url : str
        The archive of UCI data set 362.
    timeout : float
        Seconds to wait for an answer.

    Returns
    -------
    Path
        The folder; nothing is kept in it unless both files were verified.
    """
    if cache is None:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        cache = Path(base) / "geartrain" / "gas-sensors"
    folder = Path(cache)
    if all((folder / name).is_file() for name in GAS_UCI):
        return folder
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer:
            archive = answer.read()
    except OSError as error:
        raise OSError(f"{url} cannot be reached ({error})") from error
    try:
        found = dict(_members(archive))
    except zipfile.BadZipFile as error:
        raise ValueError(f"{url} did not answer with a zip archive") from error
    for name in GAS_UCI:
        if name not in found:
            raise ValueError(f"{url} holds no {name}")
    _verify(*(found[name] for name in GAS_UCI))
    folder.mkdir(parents=True, exist_ok=True)
    for name in GAS_UCI:
        part = folder / f"{name}.part"
        part.write_bytes(found[name])
        part.replace(folder / name)
    return folder


def _members(archive: bytes) -> Iterator[tuple[str, bytes]]:
    """Name and content of the files in a zip archive, those of archives inside it included."""
    with zipfile.ZipFile(io.BytesIO(archive)) as bundle:
        for entry in bundle.namelist():
            content = bundle.read(entry)
            if entry.endswith(".zip"):
                yield from _members(content)
            else:
                yield Path(entry).name, content


def _verify(data: bytes, metadata: bytes) -> None:
    """Raise unless the files are what UCI describes: 100 inductions, 12 columns."""
    fields = [line.split() for line in metadata.decode().splitlines()[1:]]
    seen = Counter(row[2] for row in fields if len(row) >= 3)
    if seen != INDUCTIONS:
        raise ValueError(f"{GAS_UCI[1]} lists the inductions {dict(seen)}, not {INDUCTIONS}")
    first = data.decode().split("\n", 2)[1].split()
    if len(first) != 12:
        raise ValueError(f"{GAS_UCI[0]} has {len(first)} columns, not 12")
