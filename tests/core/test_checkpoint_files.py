"""The files of checkpoints: bad ones fail clearly, good ones are what the run was."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import geartrain as gt
from geartrain.core import checkpoint as module
from geartrain.core.checkpoint import CheckpointError, dumps, loads, read
from runs import NEVER, same, sums

pytestmark = pytest.mark.same_everywhere  # files


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    h, g = sums()
    path = tmp_path_factory.mktemp("good") / "run.gtck"
    gt.minimize(h, g, method="pqn", stop=NEVER, max_iter=4, checkpoint=path)
    return path.read_bytes()


def refused(path, data, match=""):
    """Resuming from `data` is refused clearly, and the file stays as it is."""
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=match) as caught:
        gt.resume(path, *sums())
    assert str(path) in str(caught.value) and len(str(caught.value)) < 600
    assert path.read_bytes() == data


def forged(good, change):
    """`good` with its JSON changed by a function, and the right checksum."""
    with np.load(io.BytesIO(good), allow_pickle=False) as members:
        arrays = dict(members)
    header = arrays.pop(module.HEADER).tobytes()
    file = io.BytesIO()
    new = np.frombuffer(change(header), np.uint8)
    np.savez(file, **{module.HEADER: new}, **arrays)
    body = file.getvalue()[:-2] + good[-34:-32]
    return body + hashlib.sha256(body).digest()


def with_field(path, value):
    """A change of the JSON: one field of the run has another value."""

    def change(header):
        made = json.loads(header)
        node = made["tree"]
        for name in path[:-1]:
            node = node["fields"][name]
        assert path[-1] in node["fields"]
        node["fields"][path[-1]] = value
        return json.dumps(made).encode()

    return change


def test_bad_files(tmp_path, good):
    path = tmp_path / "run.gtck"
    refused(path, b"", "not a checkpoint of geartrain")
    refused(path, b"\x93NUMPY\x01\x00" + bytes(300), "not a checkpoint of geartrain")
    newer = forged(good, lambda header: header.replace(b'"format":2', b'"format":3'))
    refused(path, newer, r"newer geartrain \(format 3, this one reads 2\)")
    refused(path, good[:-1], "damaged")
    refused(path, good + b"x", "damaged")
    refused(path, good[:70], "damaged")
    refused(path, forged(good, lambda header: header[:-8]), "makes no sense")
    known = b"geartrain.methods.pqn.method:ProximalQuasiNewton"
    evil = forged(good, lambda header: header.replace(known, b"subprocess:Popen"))
    refused(path, evil, "'subprocess:Popen', which this geartrain has not")
    older = forged(good, lambda header: header.replace(b'"iteration"', b'"iterations"'))
    refused(path, older, "written by another version")
    refused(path, dumps({"run": 1}), "does not hold a run")
    missing = tmp_path / "missing.gtck"
    with pytest.raises(FileNotFoundError):
        gt.resume(missing, *sums())


@pytest.mark.parametrize(
    "path",
    [
        ("given",),
        ("every",),
        ("fingerprint",),
        ("heard",),
        ("run",),
        *(("run", name) for name in ("method", "state", "calls", "oracle_seconds", "x0", "best")),
        *(("run", name) for name in ("rows", "notes", "seed", "initial_values", "best_values")),
    ],
    ids=".".join,
)
def test_a_forged_field_is_refused(tmp_path, good, path):
    """A right checksum does not make it a run."""
    for value in (None, "x", {"list": []}, {"dict": [["h", "x"]]}):
        bad = forged(good, with_field(path, value))
        refused(tmp_path / "run.gtck", bad, "checkpoint|problem")


@given(data=st.data())
@settings(max_examples=40)
def test_fuzz_behind_the_checksum(good, data):
    """A wrong tree with the right checksum: the error, or an object of this package."""
    new = data.draw(st.binary(max_size=3) | st.sampled_from([b"[", b"{}", b"1e999", b'"a"', b"-"]))
    part, cut = data.draw(st.floats(0.0, 1.0)), data.draw(st.integers(0, 30))

    def change(header):
        at = int(part * len(header))
        return header[:at] + new + header[at + cut :]

    try:
        out = loads(forged(good, change))
    except CheckpointError:
        return
    assert (
        out is None
        or isinstance(out, (bool, int, float, str, tuple, list, dict, np.ndarray, np.generic))
        or type(out).__module__.startswith("geartrain.")
    )


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from([np.float64(0.1), np.int64(-3), np.bool_(True), np.float32(0.1)])
    | st.sampled_from(
        [
            np.arange(6.0).reshape(2, 3),
            np.asfortranarray(np.arange(6.0).reshape(2, 3)),
            np.zeros((0, 3)),
            np.arange(5)[::2],
            np.array([np.nan, -0.0, np.inf]),
            np.ones(2, bool),
            np.array([1.5], dtype=">f8"),
            np.float32([1.5]),
        ]
    )
)
TREES = st.recursive(
    LEAVES,
    lambda t: (
        st.lists(t, max_size=3)
        | st.lists(t, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3), t, max_size=3)
        | t.map(lambda v: gt.methods.Restarted(v, gt.methods.GradientTest()))
    ),
    max_leaves=8,
)


def identical(a, b):
    if isinstance(a, (np.ndarray, np.generic)):
        assert type(a) is type(b) and a.dtype.newbyteorder("=") == b.dtype and a.shape == b.shape
        assert a.astype(b.dtype).tobytes() == b.tobytes()
        if a.flags.contiguous or a.flags.f_contiguous:
            assert a.flags.c_contiguous == b.flags.c_contiguous
    elif isinstance(a, float):
        assert (type(b) is float and np.float64(a).tobytes() == np.float64(b).tobytes()) or a != a
    elif isinstance(a, (list, tuple)):
        assert type(a) is type(b) and len(a) == len(b)
        for p, q in zip(a, b, strict=True):
            identical(p, q)
    elif isinstance(a, dict):
        identical(list(a.items()), list(b.items()))
    elif isinstance(a, gt.methods.Restarted):
        assert type(b) is gt.methods.Restarted and b.rule == a.rule
        identical(a.method, b.method)
    else:
        assert type(a) is type(b) and a == b


@given(TREES)
@settings(max_examples=80)
def test_round_trip(value):
    identical(value, loads(dumps(value)))


def test_tables_keep_their_kinds():
    rows = tuple((float(i), i, np.nan if i else -0.0) for i in range(5))
    out = loads(dumps(rows))
    assert [tuple(map(type, r)) for r in out] == [(float, int, float)] * 5
    identical(rows, out)
    identical(((2**70, 1),), loads(dumps(((2**70, 1),))))


@dataclass(frozen=True)
class MyMethod(gt.SAE):
    """A method of the user's own."""


def test_a_foreign_method_is_refused_at_the_start(pair, tmp_path):
    path = tmp_path / "run.gtck"
    asked = []
    h = gt.Term(grad=lambda x: asked.append(1) or pair[0].grad(x), n=12, L=1.0)
    with pytest.raises(CheckpointError, match=r"cannot be saved: .*MyMethod is not a dataclass of"):
        gt.minimize(h, pair[1], method=MyMethod(), checkpoint=path)
    with pytest.raises(CheckpointError, match="MyMethod is not a dataclass of geartrain"):
        gt.minimize(
            h,
            pair[1],
            method=gt.methods.Restarted(MyMethod(), gt.methods.GradientTest()),
            checkpoint=path,
        )
    assert not asked and not path.exists()


def test_a_file_that_is_no_checkpoint_is_not_overwritten(pair, tmp_path):
    path = tmp_path / "thesis.tex"
    path.write_text("years of work")
    with pytest.raises(CheckpointError, match="exists and is not a checkpoint"):
        gt.minimize(*pair, method="sae", checkpoint=path)
    assert path.read_text() == "years of work"
    for wrong in (3, True, ["run.gtck"]):
        with pytest.raises(TypeError, match="checkpoint must be a path"):
            gt.minimize(*pair, checkpoint=wrong)
    with pytest.raises(TypeError, match="one checkpoint, not several"):
        gt.minimize(*pair, checkpoint="a", callback=gt.callbacks.Checkpoint("b"))
    with pytest.raises(ValueError, match="every must be at least 0"):
        gt.callbacks.Checkpoint("a", every=-1)


def test_a_full_disk_does_not_end_the_run(pair, tmp_path, monkeypatch):
    path = tmp_path / "run.gtck"
    place = gt.callbacks.Checkpoint(path, every=0)
    gt.minimize(*pair, method="sae", max_iter=3, checkpoint=place)
    data = path.read_bytes()

    def full(file):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(RuntimeWarning, match="run goes on without: .*No space left") as told:
        res = gt.minimize(*pair, method="sae", tol=1e-3, checkpoint=place)
    assert res.success and len(told) == 1
    assert path.read_bytes() == data and list(tmp_path.iterdir()) == [path]
    monkeypatch.undo()
    assert gt.resume(path, *pair, max_iter=1).nit == 4


def test_a_folder_that_is_not_there_is_an_error_before_the_first_call(pair, tmp_path):
    asked = []
    h = gt.Term(grad=lambda x: asked.append(1) or pair[0].grad(x), n=12, L=1.0)
    with pytest.raises(CheckpointError, match=r"cannot be written to .*run\.gtck: .*No such file"):
        gt.minimize(h, pair[1], method="sae", checkpoint=tmp_path / "no" / "run.gtck")
    assert not asked


def test_files_that_a_kill_has_left_are_removed(pair, tmp_path):
    path = tmp_path / "run.gtck"
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left = [f"run.gtck.{ended.pid}-3.tmp", f"run.gtck.{os.getpid()}-999999.tmp"]
    running = f"run.gtck.{os.getppid()}-1.tmp"
    others = ["run.gtck.mine.tmp", f"other.gtck.{ended.pid}-3.tmp", running]
    for name in (*left, *others):
        (tmp_path / name).write_bytes(b"half")
    gt.minimize(*pair, method="sae", max_iter=2, checkpoint=path)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*others, "run.gtck"])
    (tmp_path / left[0]).write_bytes(b"half")
    gt.resume(path, *pair, max_iter=1)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*others, "run.gtck"])


def test_a_checkpoint_is_written_at_the_start_and_as_often_as_asked(pair, tmp_path, monkeypatch):
    written = []
    real = module.write
    monkeypatch.setattr(module, "write", lambda *a: (written.append(a), real(*a)))
    monkeypatch.setattr(module, "_SPARE", 0.0)
    path = tmp_path / "run.gtck"
    gt.minimize(*pair, method="sae", max_iter=5, stop=NEVER, checkpoint=path)
    assert [loads(data).run.iteration for _, data in written] == [0, 5]
    written.clear()
    place = gt.callbacks.Checkpoint(path, every=0)
    gt.minimize(*pair, method="sae", max_iter=5, stop=NEVER, callback=[place])
    assert [loads(data).run.iteration for _, data in written] == [0, 1, 2, 3, 4, 5, 5]
    assert read(path).every == 0.0 and repr(place).endswith("every=0)")


def test_checkpoints_are_not_counted_and_change_nothing(pair, tmp_path):
    plain = gt.minimize(*pair, method="pqn", tol=1e-4)
    place = gt.callbacks.Checkpoint(tmp_path / "run.gtck", every=0)
    saved = gt.minimize(*pair, method="pqn", tol=1e-4, checkpoint=place)
    same(plain, saved)


@pytest.mark.filterwarnings("error")
def test_under_w_error_a_failing_checkpoint_does_not_end_the_run(pair, tmp_path, monkeypatch):
    def full(file):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    res = gt.minimize(*pair, method="sae", checkpoint=tmp_path / "run.gtck", tol=1e-3)
    assert res.success
    told = [note for _, note in res.history.notes]
    (note,) = told
    assert f"{tmp_path / 'run.gtck'} could not be written, the run goes on without" in note


def test_two_runs_on_one_path_are_told_and_never_share_a_file(pair, tmp_path, monkeypatch):
    """One run starts another one on its own checkpoint; every file that is read is whole."""
    path = tmp_path / "run.gtck"
    place = gt.callbacks.Checkpoint(path, every=0)
    monkeypatch.setattr(module, "_SPARE", 0.0)
    temporary = []
    real = os.replace
    monkeypatch.setattr(os, "replace", lambda a, b: (temporary.append(a), real(a, b)))
    inside = []

    def callback(intermediate_result):
        assert read(path).run.iteration >= 0
        if intermediate_result.nit == 2:
            inside.append(gt.minimize(*pair, method="fgm", max_iter=3, checkpoint=place))

    with pytest.warns(RuntimeWarning, match="another run writes to .*run.gtck, too") as told:
        res = gt.minimize(*pair, method="sae", max_iter=5, checkpoint=place, callback=callback)
    assert len(told) == 1 and len(inside) == 1
    assert any("another run" in note for _, note in res.history.notes)
    assert len(set(temporary)) == len(temporary) and list(tmp_path.iterdir()) == [path]


def test_numpy_reads_the_file(good):
    """Without pickle, and without the library."""
    with np.load(io.BytesIO(good), allow_pickle=False) as members:
        assert json.loads(members[module.HEADER].tobytes())["format"] == 2
        assert all(members[name].dtype.kind in "biuf" for name in members.files)
