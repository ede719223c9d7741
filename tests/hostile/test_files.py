"""Damaged checkpoints and malformed data files: a sentence, or what the file says, and no third.

The data files are judged by parsers written here, which share no code with the library: a file is
read if and only if it is well formed, and then to the same numbers.
"""

from __future__ import annotations

import math
import re
import traceback
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import geartrain as gt
from geartrain import datasets
from geartrain.core.checkpoint import CheckpointError
from hostile import judge
from hostile.judge import watchdog
from runs import NEVER, sums

pytestmark = pytest.mark.same_everywhere  # text that is read

# Checkpoints ------------------------------------------------------------------------------

METHODS = ("sae", "pqn", "afb", "fgm", "katyusha", "lbfgs")


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """The files of some methods, by name."""
    folder = tmp_path_factory.mktemp("good")
    out = {}
    for method in METHODS:
        path = folder / f"{method}.gtck"
        gt.minimize(*sums(), method=method, stop=NEVER, max_iter=4, checkpoint=path)
        out[method] = path.read_bytes()
    return out


def damaged(good: bytes, other: bytes, rng: np.random.Generator) -> bytes:
    """`good` with one damage, never `good` itself."""
    kind, at = int(rng.integers(7)), int(rng.integers(len(good)))
    span = int(rng.integers(1, 200))
    out = bytearray(good)
    if kind == 0:
        out = out[:at]
    elif kind == 1:
        out[at] ^= 1 << int(rng.integers(8))
    elif kind == 2:
        out[at : at + span] = bytes(len(out[at : at + span]))
    elif kind == 3:
        out[at : at + span] = rng.bytes(len(out[at : at + span]))
    elif kind == 4:
        out += rng.bytes(span)
    elif kind == 5:
        out = out[:at] + other[at:]
    else:
        del out[at : at + span]
    return bytes(out) if bytes(out) not in (good, other) else damaged(good, other, rng)


@pytest.mark.parametrize("count", [60, pytest.param(850, marks=pytest.mark.long)])
def test_damaged_checkpoints_are_refused(tmp_path, checkpoints, count):
    rng = np.random.default_rng(850)
    path = tmp_path / "run.gtck"
    for k in range(count):
        method, other = METHODS[k % len(METHODS)], METHODS[(k + 1) % len(METHODS)]
        data = damaged(checkpoints[method], checkpoints[other], rng)
        path.write_bytes(data)
        with pytest.raises(CheckpointError) as caught:
            gt.resume(path, *sums())
        assert str(path) in str(caught.value) and len(str(caught.value)) < 600
        assert path.read_bytes() == data


# Data files -------------------------------------------------------------------------------

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
WHOLE = re.compile(r"\+?\d+", re.ASCII)
LARGEST = 10**7  # an index beyond may be refused, and must not cost memory
MEMORY = 30e6  # bytes, for files of a few hundred


def number(text: str) -> float:
    """A finite number in the plain notation."""
    if not NUMBER.fullmatch(text) or not math.isfinite(float(text)):
        raise ValueError
    return float(text)


def libsvm(text: str) -> tuple[np.ndarray, dict[tuple[int, int], float]]:
    """Labels and entries of a well-formed file: indices from 1, increasing within a row."""
    labels: list[float] = []
    entries: dict[tuple[int, int], float] = {}
    for line in text.split("\n"):
        fields = line.removesuffix("\r").split("#", 1)[0].split()
        if not fields:
            continue
        last = 0
        for field in fields[1:]:
            index, value = field.split(":")
            if not WHOLE.fullmatch(index) or int(index) <= last:
                raise ValueError
            last = int(index)
            entries[len(labels), last - 1] = number(value)
        labels.append(number(fields[0]))
    return np.array(labels), entries


TOKENS = (
    "nan", "inf", "-inf", "1e400", "1_0", "0x10", "1,5", "--1", "", ":", "1:", ":1", "1:2:3", "0:1",
    "-3:1", "2:1 2:1", "5:1 2:1", "20000000:1", "100000000:1", "99999999999999999999:1", "3:nan",
    "3:inf", "3:1_0", "3: 1", "1.0:2", "٣:1", "3:٣", "\x00", "#", "qid:1", "+1", "\t",
    "1e3:1", "7:1e-320", "7:-0.0", "+7:1", "\ufeff1",
)  # fmt: skip


def some_libsvm(rng: np.random.Generator) -> bytes:
    """A file of a few lines, mostly with something odd in it."""
    lines = []
    for _ in range(int(rng.integers(0, 5))):
        columns = np.sort(rng.choice(9, int(rng.integers(0, 5)), replace=False)) + 1
        fields = [f"{rng.choice([-1, 1])}", *(f"{j}:{rng.standard_normal():.3g}" for j in columns)]
        if rng.random() < 0.4:
            token = TOKENS[int(rng.integers(len(TOKENS)))]
            at = int(rng.integers(len(fields) + 1))
            fields[at : at + int(rng.integers(2))] = [token]
        lines.append(" ".join(fields))
    data = (str(rng.choice(["\n", "\r\n"])).join(lines) + "\n").encode()
    if rng.random() < 0.1:
        at = int(rng.integers(len(data)))
        data = data[:at] + rng.bytes(3) + data[at:]
    return data


def read(load, path):
    """What the library makes of a file, within little memory and time; or its error."""
    tracemalloc.start()
    try:
        with watchdog():
            return load(path), None
    except Exception as error:
        return None, error
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < MEMORY, f"{peak / 1e6:.0f} MB for {path.read_bytes()!r}"


def stated(error, path, line=True):
    """Whether an error is a sentence of the library's that names the file, and the line."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    assert isinstance(error, ValueError), error
    assert not isinstance(error, UnicodeError), error
    assert frame.lineno is not None
    ours = Path(frame.filename).is_relative_to(judge.LIBRARY)
    assert ours and judge.is_raise(frame.filename, frame.lineno), error
    assert path.name in str(error), error
    assert not line or re.search(r"line \d+", str(error)), error


@pytest.mark.parametrize("count", [150, pytest.param(3000, marks=pytest.mark.long)])
def test_libsvm_files(tmp_path, monkeypatch, count):
    monkeypatch.setattr(judge, "HANG", 5.0)
    rng = np.random.default_rng(3000)
    path = tmp_path / "fuzz.libsvm"
    accepted = 0
    for _ in range(count):
        data = some_libsvm(rng)
        path.write_bytes(data)
        table, error = read(datasets.load_libsvm, path)
        try:
            labels, entries = libsvm(data.decode())
        except ValueError:
            assert error is not None, f"accepted: {data!r}"
            stated(error, path, line=b"\n" in data)
            continue
        top = max((j for _, j in entries), default=0)
        if error is not None:
            assert top >= LARGEST or not labels.size, f"refused: {data!r}: {error}"
            stated(error, path, line=top >= LARGEST)
            continue
        accepted += 1
        np.testing.assert_array_equal(table.y, labels)
        found = table.X.tocoo()
        rows, columns = (np.asarray(index).tolist() for index in found.coords)
        assert dict(zip(zip(rows, columns, strict=True), found.data, strict=True)) == entries
        assert table.X.shape == (labels.size, top + 1 if entries else 0)
    assert 0.2 * count < accepted < 0.9 * count


def cells(rng: np.random.Generator, head: list[str], last: list[str]) -> bytes:
    """A table with a header, mostly with something odd in it."""
    rows = [list(head)]
    for _ in range(int(rng.integers(0, 5))):
        row = [f"{rng.standard_normal():.3g}" for _ in head]
        row[len(row) - len(last) :] = last
        if rng.random() < 0.3:
            at = int(rng.integers(len(row) - len(last)))
            odd = [["nan"], ["inf"], ["1_0"], [""], ["x"], [], ["1", "2"], ["1e400"], ["٣"]]
            row[at : at + 1] = odd[int(rng.integers(len(odd)))]
        rows.append(row)
    if rng.random() < 0.15:
        del rows[0][int(rng.integers(len(head)))]
    return ("\n".join(",".join(row) for row in rows) + "\n").encode()


def whole_table(text: str, head: list[str], used: slice) -> list[list[float]]:
    """The numbers of a well-formed table: the header, and full rows; those used are finite."""
    lines = [line.split(",") for line in text.splitlines() if line]
    if lines[0] != head or any(len(row) != len(head) for row in lines):
        raise ValueError
    return [[number(cell) for cell in row[used]] for row in lines[1:]]


GAS = ["id", "minute", *(f"R{i}" for i in range(1, 9)), "Temp", "Humidity", "class"]
TABLES = {
    "gas_sensors_minutes.csv": (GAS, ["banana"], slice(1, -1)),
    "faithful.csv": (["", "eruptions", "waiting"], [], slice(1, None)),
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("count", [60, pytest.param(600, marks=pytest.mark.long)])
def test_tables(tmp_path, name, count):
    head, words, used = TABLES[name]
    path = tmp_path / name
    rng = np.random.default_rng(600)

    def load(path):
        if name == "faithful.csv":
            return datasets.load_old_faithful(path.parent)
        return datasets.load_gas_sensors(path.parent, scale=False)

    accepted = 0
    for _ in range(count):
        data = cells(rng, head, words)
        path.write_bytes(data)
        table, error = read(load, path)
        try:
            expected = whole_table(data.decode(), head, used)
        except ValueError:
            assert error is not None, f"accepted: {data!r}"
            stated(error, path, line=data.count(b"\n") > 1)
            continue
        if error is not None:
            assert not expected, f"refused: {data!r}: {error}"
            stated(error, path, line=False)
            continue
        accepted += 1
        np.testing.assert_array_equal(table.X, np.reshape(expected, table.X.shape))
    assert accepted > 0.1 * count


COUNT_LINES = (
    "the\t3", "of\t0", "a b\t7", "x\t-1", "x", "x\t", "x\t1.5", "x\tnan", "x\t1_0", "\t3",
    "x\ty\t4", "x\t٣", "x\t99999999999999999999", "",
)  # fmt: skip


@pytest.mark.parametrize("count", [100, pytest.param(600, marks=pytest.mark.long)])
def test_counts(tmp_path, count):
    """Lines ``name<tab>count`` with whole counts that are not negative."""
    rng = np.random.default_rng(601)
    path = tmp_path / "counts.tsv"
    accepted = 0
    for _ in range(count):
        lines = [
            COUNT_LINES[int(k)]
            for k in rng.choice(len(COUNT_LINES), int(rng.integers(1, 3)), p=_mostly_good())
        ]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        read_out, error = read(lambda p: datasets.load_counts(p.name, p.parent), path)
        pairs = [line.rsplit("\t", 1) for line in lines if line]
        good = all(len(p) == 2 and re.fullmatch(r"[0-9]{1,18}", p[1]) for p in pairs)
        if not good:
            assert error is not None, f"accepted: {lines}"
            stated(error, path)
            continue
        assert error is None, f"refused: {lines}: {error}"
        accepted += 1
        assert list(read_out[0]) == [p[0] for p in pairs]
        assert list(read_out[1]) == [int(p[1]) for p in pairs]
    assert accepted > 0.2 * count


def _mostly_good() -> np.ndarray:
    weights = np.array([6.0, 6.0, 6.0, *[1.0] * (len(COUNT_LINES) - 3)])
    return weights / weights.sum()
