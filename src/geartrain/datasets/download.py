"""The gas sensors from their source: downloaded once, verified, kept in a cache."""

from __future__ import annotations

import http.client
import io
import os
import tempfile
import urllib.request
import zipfile
import zlib
from collections import Counter
from pathlib import Path
from typing import IO

from geartrain.datasets.files import GAS_COLUMNS, GAS_UCI

UCI_ARCHIVE = (
    "https://archive.ics.uci.edu/static/public/362/gas+sensors+for+home+activity+monitoring.zip"
)
INDUCTIONS = {"banana": 33, "wine": 36, "background": 31}
# The archive has 22 MB, the files in it 85 MB. Anything much larger is not this data set.
LARGEST_ARCHIVE, LARGEST_CONTENT = 200_000_000, 800_000_000
DEEPEST = 2  # archives within each other

# What Python raises about an archive that is damaged, encrypted or of an unknown kind.
_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
    ValueError,
)


def fetch_gas_sensors(
    cache: str | Path | None = None, *, url: str = UCI_ARCHIVE, timeout: float = 20.0
) -> Path:
    """Folder with HT_Sensor_dataset.dat and HT_Sensor_metadata.dat, downloaded if necessary.

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
        The folder. It is made only after both files were verified.
    """
    if cache is None:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        cache = Path(base) / "geartrain" / "gas-sensors"
    folder = Path(cache)
    if all((folder / name).is_file() for name in GAS_UCI):
        return folder
    archive = _download(url, timeout)
    try:
        found = _members(archive, DEEPEST, LARGEST_CONTENT)
    except _TooLarge as error:
        raise ValueError(f"{url} is not the archive that is expected: {error}") from error
    except _DAMAGED as error:
        raise ValueError(f"{url} did not answer with a zip archive that can be read") from error
    for name in GAS_UCI:
        if name not in found:
            raise ValueError(f"{url} holds no {name}")
    _verify(url, *(found[name] for name in GAS_UCI))
    _store(folder, found)
    return folder


class _TooLarge(Exception):
    """An archive that holds far more than is expected."""


def _download(url: str, timeout: float) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer:
            archive = _at_most(answer, LARGEST_ARCHIVE)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise OSError(f"{url} cannot be reached ({error})") from error
    if archive is None:
        raise ValueError(f"{url} is larger than {LARGEST_ARCHIVE / 1e6:.0f} MB")
    return archive


def _at_most(file: IO[bytes], limit: int) -> bytes | None:
    """The content of a file, or None if it has more bytes than `limit`."""
    content = bytearray()
    while part := file.read(1 << 20):  # memory grows with what comes, whatever the file promises
        content += part
        if len(content) > limit:
            return None
    return bytes(content)


def _members(archive: bytes, depth: int, limit: int) -> dict[str, bytes]:
    """The wanted files of a zip archive and of the archives in it, at most `limit` bytes."""
    found: dict[str, bytes] = {}
    with zipfile.ZipFile(io.BytesIO(archive)) as bundle:
        for entry in bundle.infolist():
            name = Path(entry.filename).name
            nested = name.endswith(".zip")
            if name not in GAS_UCI and not nested:
                continue
            if nested and depth == 1:
                raise _TooLarge("archives are nested too deeply")
            with bundle.open(entry) as file:
                content = _at_most(file, limit)
            if content is None:
                raise _TooLarge(f"its files have more than {LARGEST_CONTENT / 1e6:.0f} MB")
            limit -= len(content)
            if nested:
                inner = _members(content, depth - 1, limit)
                limit -= sum(map(len, inner.values()))
                found |= inner
            else:
                found[name] = content
    return found


def _verify(url: str, data: bytes, metadata: bytes) -> None:
    """Raise unless the files are as UCI describes them: 100 inductions, 12 columns."""
    fields = [line.split() for line in metadata.decode("utf-8", "replace").splitlines()[1:]]
    seen = dict(Counter(row[2] for row in fields if len(row) >= 3))
    if seen != INDUCTIONS:
        listed = str(seen) if len(seen) < 10 else f"{len(seen)} kinds"
        raise ValueError(f"{GAS_UCI[1]} of {url} lists the inductions {listed}, not {INDUCTIONS}")
    head = data[:10_000].decode("utf-8", "replace").splitlines()
    columns = len(head[1].split()) if len(head) > 1 else 0
    if columns != GAS_COLUMNS:
        raise ValueError(f"{GAS_UCI[0]} of {url} has {columns} columns, not {GAS_COLUMNS}")


def _store(folder: Path, files: dict[str, bytes]) -> None:
    """Write the files inside a part of the folder, then move them to their places."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".part-") as part:
            for name in GAS_UCI:
                (Path(part) / name).write_bytes(files[name])
            for name in GAS_UCI:
                (Path(part) / name).replace(folder / name)
    except OSError as error:
        raise OSError(f"the data cannot be written to {folder} ({error})") from error
