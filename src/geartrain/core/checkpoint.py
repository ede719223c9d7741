r"""Checkpoints: a run on disk, so that `geartrain.resume` goes on where it was.

The file is one that ``numpy.savez`` writes and ``numpy.load(path, allow_pickle=False)`` reads:

===========================  =====================================================================
``geartrain_checkpoint``     bytes of JSON, ``{"format": ..., "tree": ...}``
``0``, ``1``, ...            arrays
comment of the archive       SHA-256 of all before it
===========================  =====================================================================

The tree is a `Saved`. Its leaves are null, booleans, numbers and strings; every other node is an
object with one of the keys ``array`` and ``scalar`` (the number of an array), ``table`` (columns of
a tuple of rows), ``tuple``, ``list``, ``dict``, ``enum`` (class and member), or ``class`` and
``fields``. A class is looked up among the dataclasses and enumerations that geartrain has defined;
nothing is imported and no other code is run on behalf of a file.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import math
import os
import sys
import types
import typing
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from glob import escape
from io import BytesIO
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from geartrain.core.run_state import RunState
from geartrain.oracles.validation import as_nonnegative

HEADER = "geartrain_checkpoint"
FORMAT = 2
_DIGEST = 32
# The time between two files is at least this multiple of what writing one takes.
_SPARE = 20.0
_NUMBERS = itertools.count()  # of the temporary files of this process
_WRITING: set[Path] = set()  # those that are being written


class CheckpointError(ValueError):
    """A checkpoint that cannot be written for this run, or not be read."""


@dataclass(frozen=True)
class GivenConstants:
    """Constants that were given to `minimize`."""

    L_h: float | list | dict[str, float | None] | None
    L_g: float | None
    mu: float | None


@dataclass(frozen=True)
class Saved:
    """What a checkpoint holds."""

    run: RunState
    rule: Any  # the stopping rule, or None if it is not geartrain's own
    max_iter: int
    given: GivenConstants
    every: float
    fingerprint: dict[str, str]
    heard: dict[str, tuple[str, tuple[Any, ...], Any]]  # see `geartrain.core.resume_check`


class Checkpoint:
    """Where and how often a run is saved; give it as ``minimize(..., checkpoint=...)``.

    The file is replaced in one move: a crash leaves the old or the new one, never a half. A run
    is saved as it was after its last complete outer iteration: at the first, then every so many
    seconds, and at the end, also when the end is Ctrl-C or an error in an oracle. A place where no
    file can be written is an error before the first call. Where that happens later (a full disk),
    there is one warning, and the run goes on.

    Parameters
    ----------
    path : str or path
        The file; an older checkpoint there is replaced, any other file is an error.
    every : float
        Seconds between two files; 0 saves as often as that takes less than a twentieth of the
        time, which larger numbers do not exceed either.

    Examples
    --------
    >>> import geartrain as gt
    >>> gt.callbacks.Checkpoint("run.gtck", every=60)
    Checkpoint('run.gtck', every=60)
    """

    def __init__(self, path: Any, every: float = 30.0) -> None:
        self.path = Path(path)
        self.every = as_nonnegative(every, "every")
        self.heard: dict[str, Any] = {}  # by the run that is resumed

    @classmethod
    def of(cls, given: Any) -> Checkpoint:
        """A checkpoint as it is, or one at a path."""
        if isinstance(given, Checkpoint):
            return given
        if not isinstance(given, (str, os.PathLike)):
            raise TypeError(
                f"checkpoint must be a path or gt.callbacks.Checkpoint(path), got {given!r:.60}"
            )
        return cls(given)

    def __repr__(self) -> str:
        return f"Checkpoint({str(self.path)!r}, every={self.every:g})"


class Saver:
    """Writes the checkpoints of one run.

    A method that cannot be stored is an error.
    """

    def __init__(self, path: Path, method: Any, known: dict[str, Any]) -> None:
        self.path, self.known = path, known  # the fields of `Saved` but the run
        try:
            dumps(method)
        except CheckpointError as error:
            raise CheckpointError(
                f"this run cannot be saved: {error}; leave out checkpoint=, and continue from "
                "res.state"
            ) from None
        try:
            dumps(known["rule"])
        except CheckpointError:  # a rule of the user's own is given again with `resume`
            self.known = {**known, "rule": None}
        self._due = -math.inf
        self._warned: set[str] = set()
        self._written: tuple[int, ...] | None = None  # the file that this run has written last
        _check_place(self.path)
        remove_left_behind(self.path)

    def save(self, run: Callable[[], RunState], now: bool = False) -> tuple[str, ...]:
        """Write what `run` gives, if it is time; what there is to tell, each thing once."""
        start = monotonic()
        if start < self._due and not now:
            return ()
        told = []
        try:
            there = _identity(self.path)
            if self._written is not None and there not in (None, self._written):
                told.append(
                    f"another run writes to {self.path}, too: give every run a checkpoint of its "
                    "own"
                )
            write(self.path, dumps(Saved(run(), **self.known)))
            self._written = _identity(self.path)
        except (OSError, CheckpointError) as error:
            told.append(
                f"the checkpoint {self.path} could not be written, the run goes on without: {error}"
            )
        end = monotonic()
        self._due = end + max(self.known["every"], _SPARE * (end - start))
        return tuple(text for text in told if self._is_new(text))

    def _is_new(self, text: str) -> bool:
        kind = text[:20]
        if kind in self._warned:
            return False
        self._warned.add(kind)
        with contextlib.suppress(RuntimeWarning):  # under -W error; the run goes on
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        return True


def _identity(path: Path) -> tuple[int, ...] | None:
    """What tells one file at `path` from the next."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


# Files ------------------------------------------------------------------------------------


def _check_place(path: Path) -> None:
    """Raise a `CheckpointError` unless a checkpoint can be written to `path`."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        start = file.read(100)
        if start and not _is_checkpoint(start):
            raise CheckpointError(f"{path} exists and is not a checkpoint; it would be overwritten")
    temporary = _temporary(path)
    try:
        temporary.touch()
        temporary.unlink()
    except OSError as error:
        raise CheckpointError(f"a checkpoint cannot be written to {path}: {error}") from None


def _temporary(path: Path) -> Path:
    """A file beside `path` that no other run uses."""
    return path.with_name(f"{path.name}.{os.getpid()}-{next(_NUMBERS)}.tmp")


def remove_left_behind(path: Path) -> None:
    """Remove the temporary files of processes that were killed while they wrote to `path`."""
    for file in path.parent.glob(f"{escape(path.name)}.*-*.tmp"):
        writer = file.name.removeprefix(f"{path.name}.").partition("-")[0]
        if writer.isdigit() and file not in _WRITING and not _runs_elsewhere(int(writer)):
            with contextlib.suppress(OSError):
                file.unlink()


def _runs_elsewhere(process: int) -> bool:
    """Whether another process of that number may be in the middle of a file."""
    # Windows does not remove open files. In a container, a process gets its old number again.
    if process == os.getpid() or os.name == "nt":
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's
        pass
    return True


def write(path: Path, data: bytes) -> None:
    """Replace the file at `path` in one move that survives a crash of the machine."""
    temporary = _temporary(path)
    _WRITING.add(temporary)
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    finally:
        _WRITING.discard(temporary)
    with contextlib.suppress(OSError):  # Windows has no handles of folders
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read(path: Any) -> Saved:
    """The checkpoint at `path`, or a `CheckpointError` that says what is wrong with it."""
    try:
        saved = loads(Path(path).read_bytes())
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from error.__cause__
    if not _fits(saved, Saved) or saved.run.state is None:
        raise CheckpointError(f"{path}: this checkpoint does not hold a run")
    return saved


def _fits(value: Any, kind: Any) -> bool:
    """Whether `value` is of the type `kind`, with all the fields of dataclasses."""
    of, inside = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return True
    if of in (typing.Union, types.UnionType):
        return any(_fits(value, one) for one in inside)
    if of is dict:
        return isinstance(value, dict) and all(
            _fits(k, inside[0]) and _fits(v, inside[1]) for k, v in value.items()
        )
    if of is tuple:
        if not isinstance(value, tuple):
            return False
        kinds = inside[:1] * len(value) if inside[-1] is Ellipsis else inside
        return len(value) == len(kinds) and all(map(_fits, value, kinds))
    if kind is float:
        return isinstance(value, (int, float))
    parts = typing.get_type_hints(kind) if is_dataclass(kind) else {}
    return isinstance(value, of or kind) and all(
        _fits(getattr(value, name), part) for name, part in parts.items()
    )


# Format -----------------------------------------------------------------------------------


def dumps(value: Any) -> bytes:
    arrays: list[np.ndarray] = []
    tree = _encode(value, arrays, {})
    header = json.dumps({"format": FORMAT, "tree": tree}, separators=(",", ":")).encode()
    file = BytesIO()
    members: dict[str, Any] = {HEADER: np.frombuffer(header, np.uint8)}
    members |= {str(place): array for place, array in enumerate(arrays)}
    np.savez(file, **members)  # none of them holds objects, see `_encode`
    # The last two bytes are the length of the comment: the checksum of all before it.
    body = file.getvalue()[:-2] + _DIGEST.to_bytes(2, "little")
    return body + hashlib.sha256(body).digest()


def loads(data: bytes) -> Any:
    """The inverse of `dumps`; a `CheckpointError` whatever else `data` is."""
    if not _is_checkpoint(data):
        raise CheckpointError("not a checkpoint of geartrain")
    if hashlib.sha256(data[:-_DIGEST]).digest() != data[-_DIGEST:]:
        raise CheckpointError("the checkpoint is damaged (its checksum is wrong)")
    try:
        with np.load(BytesIO(data), allow_pickle=False) as members:
            arrays = dict(members)
        header = json.loads(arrays.pop(HEADER).tobytes())
        if header["format"] > FORMAT:
            raise CheckpointError(
                f"written by a newer geartrain (format {header['format']}, this one reads {FORMAT})"
            )
        return _decode(header["tree"], [_native(arrays[str(i)]) for i in range(len(arrays))])
    except CheckpointError:
        raise
    except Exception as error:  # whatever a made-up tree provokes
        raise CheckpointError(f"the checkpoint makes no sense ({error!r:.200})") from error


def _is_checkpoint(data: bytes) -> bool:
    """Whether the first member of a zip archive is the header; the beginning of a file is enough.

    The name of a member begins 30 bytes after its start.
    """
    name = f"{HEADER}.npy".encode()
    return data.startswith(b"PK") and data[30 : 30 + len(name)] == name


def _native(array: np.ndarray) -> np.ndarray:
    if not _has_place(array):
        raise CheckpointError(f"the checkpoint holds an array of {array.dtype}, which has no place")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _has_place(value: np.ndarray | np.generic) -> bool:
    return value.dtype.kind in "biuf" and value.dtype.itemsize <= 8


def _encode(value: Any, arrays: list[np.ndarray], places: dict[int, int]) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        if not _has_place(value):
            raise CheckpointError(f"an array of {value.dtype} has no place in a checkpoint")
        if id(value) not in places:  # states share arrays; `arrays` keeps the id from being reused
            places[id(value)] = len(arrays)
            arrays.append(value if isinstance(value, np.ndarray) else np.asarray(value))
        kind = "array" if isinstance(value, np.ndarray) else "scalar"
        return {kind: places[id(value)]}
    if type(value) is tuple and _is_table(value):
        columns = (np.array(column) for column in zip(*value, strict=True))
        return {"table": [_encode(column, arrays, places) for column in columns]}
    if type(value) in (tuple, list):
        return {type(value).__name__: [_encode(v, arrays, places) for v in value]}
    if isinstance(value, Enum) and _class(name := _name(type(value))) is not None:
        return {"enum": [name, value.name]}
    if isinstance(value, dict):
        pairs = value.items()
        return {"dict": [[_encode(p, arrays, places) for p in pair] for pair in pairs]}
    name = _name(type(value))
    if _class(name) is None:
        raise CheckpointError(
            f"{type(value).__module__}.{type(value).__qualname__} is not a dataclass of geartrain, "
            "and no other objects are stored"
        )
    parts = {f.name: _encode(getattr(value, f.name), arrays, places) for f in _saved(value)}
    return {"class": name, "fields": parts}


def _is_table(value: tuple[Any, ...]) -> bool:
    """Rows of numbers, each column of one kind: the history."""
    kinds = {tuple(map(type, row)) if type(row) is tuple else () for row in value}
    if len(kinds) != 1:
        return False
    (kind,) = kinds
    return (
        bool(kind)
        and set(kind) <= {int, float}
        and all(-(2**63) <= v < 2**63 for row in value for v in row if type(v) is int)
    )


def _decode(node: Any, arrays: list[np.ndarray]) -> Any:
    if not isinstance(node, dict):
        if isinstance(node, list):
            raise CheckpointError("the checkpoint makes no sense (a bare list)")
        return node
    kind = next(iter(node))
    inside = node[kind]
    if kind == "array":
        return arrays[inside]
    if kind == "scalar":
        return arrays[inside][()]
    if kind == "dict":
        return {_decode(k, arrays): _decode(v, arrays) for k, v in inside}
    if kind == "table":
        columns = [_decode(c, arrays).tolist() for c in inside]
        return tuple(zip(*columns, strict=True))
    if kind in ("tuple", "list"):
        items = [_decode(v, arrays) for v in inside]
        return tuple(items) if kind == "tuple" else items
    name = inside[0] if kind == "enum" else inside
    cls = _class(name)
    if cls is None:
        raise CheckpointError(f"the checkpoint holds a {name!r}, which this geartrain has not")
    if kind == "enum":
        return cls[inside[1]]
    if {f.name for f in _saved(cls)} != node["fields"].keys():
        raise CheckpointError(
            f"the checkpoint holds a {inside!r} with other fields: written by another version"
        )
    return cls(**{k: _decode(v, arrays) for k, v in node["fields"].items()})


def _saved(of: Any) -> list[Any]:
    """The fields of a dataclass that are stored: all but those marked as not."""
    return [f for f in fields(of) if f.metadata.get("saved", True)]


def _name(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _class(name: str) -> Any:
    """The dataclass or enumeration of geartrain of that name, if there is one."""
    where, _, what = name.partition(":")
    if not where.startswith("geartrain."):
        return None
    cls = getattr(sys.modules.get(where), what, None)
    if not isinstance(cls, type) or _name(cls) != name:
        return None
    return cls if is_dataclass(cls) or issubclass(cls, Enum) else None
