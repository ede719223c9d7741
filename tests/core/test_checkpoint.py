"""Checkpoints: resumed runs are the uninterrupted ones, whatever happened; files fail clearly."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import geartrain as gt
from geartrain.core import checkpoint as module
from geartrain.core.checkpoint import CheckpointError, dumps, loads, read
from geartrain.core.status import Status
from geartrain.methods.registry import INNER, METHODS

HERE = Path(__file__).parent
NEVER = gt.stop.Gradient(rel=1e-300)
SUMS = ("katyusha", "l-katyusha", "varag")
STEPPED = sorted(set(METHODS) - {"lbfgs"})


def sums():
    """A pair that answers everything: gradients, components, partial derivatives, values."""
    rng = np.random.default_rng(7)
    A = rng.standard_normal((30, 8))
    y = np.sign(A[:, 0] + 0.3)
    g = gt.LinearModel(A, y, loss="logistic", l2=0.05)
    return gt.Quadratic(np.diag(np.linspace(0.1, 1.0, 8)), np.ones(8)), g


def failing_after(term, calls, error):
    """`term`, whose gradient raises `error` once, after so many calls."""
    left = [calls]

    def grad(x):
        left[0] -= 1
        if left[0] == 0:
            raise error
        return term.grad(x)

    return gt.Term(grad=grad, value=term.value, n=term.n, L=term.L, mu=term.mu)


def same(a, b):
    """Two results of the same run: everything but the clock is equal to the last bit."""
    np.testing.assert_array_equal(a.x, b.x)
    assert a.calls == b.calls and a.nit == b.nit and a.status is b.status
    np.testing.assert_array_equal([a.fun, a.grad_norm], [b.fun, b.grad_norm])
    assert a.history.notes == b.history.notes
    for column in set(a.history) - {"seconds"}:
        assert a.history[column].dtype == b.history[column].dtype
        np.testing.assert_array_equal(a.history[column], b.history[column])


# Going on -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", STEPPED)
def test_resume_is_the_uninterrupted_run(tmp_path, method):
    h, g = sums()
    path = tmp_path / "run.gtck"
    points: list[np.ndarray] = []
    whole = gt.minimize(h, g, method=method, stop=NEVER, max_iter=9, seed=3, callback=points.append)
    gt.minimize(h, g, method=method, stop=NEVER, max_iter=4, seed=3, checkpoint=path)
    resumed: list[np.ndarray] = []
    second = gt.resume(path, h, g, max_iter=5, callback=resumed.append)
    same(whole, second)
    np.testing.assert_array_equal(points[5:], resumed)
    assert second.plan.startswith("continued")
    # the finished run was saved, too
    again = gt.resume(path, h, g)
    same(whole, again)


@pytest.mark.parametrize("inner", sorted(INNER))
def test_resume_with_every_inner_method(tmp_path, inner):
    h, g = sums()
    if inner == "exact":
        g = gt.Quadratic(np.diag(np.linspace(1.0, 9.0, 8)))
    path = tmp_path / "run.gtck"
    options = {"method": "afb", "inner": inner, "stop": NEVER, "seed": 11}
    whole = gt.minimize(h, g, max_iter=6, **options)
    gt.minimize(h, g, max_iter=2, checkpoint=path, **options)
    same(whole, gt.resume(path, h, g, max_iter=4))


@pytest.mark.parametrize(
    "prices", [{"h.grad": 40.0, "g.grad": 1.0}, {"h.grad": 1.0, "g.grad": 9.0}]
)
@pytest.mark.parametrize("by", ["checkpoint", "state"])
def test_resume_of_a_planned_run(pair, tmp_path, prices, by):
    """The exchange of the terms and the change of the method are part of the run."""
    path = tmp_path / "run.gtck"
    whole = gt.minimize(*pair, prices=prices, stop=NEVER, max_iter=12)
    first = gt.minimize(*pair, prices=prices, stop=NEVER, max_iter=3, checkpoint=path)
    if by == "checkpoint":
        second = gt.resume(path, *pair, max_iter=9)
    else:
        second = gt.minimize(*pair, state=first.state, stop=NEVER, max_iter=9)
    if "method changed" in str(whole.history.notes):
        np.testing.assert_array_equal(whole.history["f"][:4], second.history["f"][:4])
    else:
        same(whole, second)
    assert second.plan == whole.plan


@pytest.mark.parametrize("error", [RuntimeError("the simulator broke down"), KeyboardInterrupt()])
@pytest.mark.parametrize("method", ["sae", "afb", "sae-qn", "fgm"])
def test_resume_after_an_error_in_an_oracle(pair, tmp_path, method, error):
    """The half of an iteration that the error cost is not on the bill of the resumed run."""
    h, g = pair
    path = tmp_path / "run.gtck"
    plain = failing_after(h, -1, error)
    whole = gt.minimize(plain, g, method=method, tol=1e-3)
    assert whole.success
    for calls in (2, 5, 9):
        broken = failing_after(h, calls, error)
        if isinstance(error, KeyboardInterrupt):
            first = gt.minimize(broken, g, method=method, tol=1e-3, checkpoint=path)
            assert first.status is Status.INTERRUPTED
        else:
            with pytest.raises(RuntimeError) as caught:
                gt.minimize(broken, g, method=method, tol=1e-3, checkpoint=path)
            assert caught.value.partial_result.status is Status.FAILED
        same(whole, gt.resume(path, broken, g))


def test_resume_after_an_oracle_that_fails_at_random(pair, tmp_path):
    h, g = pair
    path = tmp_path / "run.gtck"
    rng = np.random.default_rng(4)

    def grad(x):
        if rng.random() < 0.2:
            raise ConnectionError("no answer")
        return h.grad(x)

    flaky = gt.Term(grad=grad, value=h.value, n=h.n, L=h.L, mu=h.mu)
    steady = gt.Term(grad=h.grad, value=h.value, n=h.n, L=h.L, mu=h.mu)
    whole = gt.minimize(steady, g, method="fgm", tol=1e-3)
    failures, res = 0, None
    while res is None:
        try:
            if path.exists():
                res = gt.resume(path, flaky, g)
            else:
                res = gt.minimize(flaky, g, method="fgm", tol=1e-3, checkpoint=path)
        except ConnectionError:
            failures += 1
    assert failures > 5
    same(whole, res)


def test_a_failing_rule_is_asked_again(pair, tmp_path):
    """afb asks for the gradient in its stopping rule; an error there loses no iteration."""
    h, g = pair
    path = tmp_path / "run.gtck"
    whole = gt.minimize(failing_after(h, -1, None), g, method="afb", tol=0.02)
    for calls in range(2, whole.calls["h.grad"] + 1):
        broken = failing_after(h, calls, OSError("gone"))
        with pytest.raises(OSError, match="gone"):
            gt.minimize(broken, g, method="afb", tol=0.02, checkpoint=path)
        same(whole, gt.resume(path, broken, g))


def test_seed_constants_rule_and_limit_are_kept(tmp_path):
    h, g = sums()
    path = tmp_path / "run.gtck"
    options = {"method": "sae", "inner": "katyusha", "L_h": 2.5, "mu": 0.01, "seed": 5}
    rule = gt.stop.any_of(
        gt.stop.Value(-1e9), gt.stop.Calls({"h.grad": 60}), gt.stop.Seconds(1e6), NEVER
    )

    def stop_here(intermediate_result):
        return intermediate_result.nit == 3

    whole = gt.minimize(h, g, stop=rule, **options)
    gt.minimize(h, g, stop=rule, checkpoint=path, callback=stop_here, **options)
    assert repr(read(path).rule) == repr(rule)
    second = gt.resume(path, h, g)
    same(whole, second)
    assert second.status is Status.BUDGET and second.constants == whole.constants
    limited = gt.minimize(h, g, max_iter=7, stop=NEVER, checkpoint=path, callback=stop_here)
    assert limited.nit == 3 and gt.resume(path, h, g).nit == 7


def test_a_finished_run_goes_on_under_a_new_rule(pair, tmp_path):
    path = tmp_path / "run.gtck"
    first = gt.minimize(*pair, method="sae", tol=1e-2, checkpoint=path)
    assert gt.resume(path, *pair).nit == first.nit
    better = gt.resume(path, *pair, tol=1e-4)
    same(better, gt.minimize(*pair, method="sae", tol=1e-4))


def test_a_rule_of_the_users_own_is_given_again(pair, tmp_path):
    class Mine:
        def check(self, look):
            return Status.CONVERGED if look.calls["h.grad"] > 20 else None

    path = tmp_path / "run.gtck"
    gt.minimize(*pair, method="sae", stop=Mine(), max_iter=2, checkpoint=path)
    with pytest.raises(CheckpointError, match="stopping rule was your own; give it again as stop="):
        gt.resume(path, *pair)
    second = gt.resume(path, *pair, stop=Mine(), max_iter=100)
    same(gt.minimize(*pair, method="sae", stop=Mine()), second)


def test_a_method_that_cannot_be_stepped_says_so(pair, tmp_path):
    path = tmp_path / "run.gtck"
    first = gt.minimize(*pair, method="lbfgs", tol=1e-4, max_iter=4, checkpoint=path)
    second = gt.resume(path, *pair, max_iter=100)
    said = "ScipyLBFGS cannot be stepped: started again from the last point"
    assert said in second.plan and (4, said) in second.history.notes
    assert second.success and second.nit > 4
    assert second.calls["h.grad"] > first.calls["h.grad"]
    assert gt.resume(path, *pair).nit == second.nit
    np.testing.assert_array_equal(second.history["f"][:5], first.history["f"])


# Killed -------------------------------------------------------------------------------------

JOB = """
import os, sys, time
import numpy as np
import geartrain as gt
rng = np.random.default_rng(1)
A = rng.standard_normal((40, 10))
g = gt.LinearModel(A, np.sign(A[:, 0]), loss="logistic", l2=0.01)
slow = gt.Quadratic(np.diag(np.linspace(0.05, 1.0, 10)), np.ones(10))
def grad(x):
    time.sleep(0.001)
    return slow.grad(x)
h = gt.Term(grad=grad, value=slow.value, n=10, L=1.0)
path, answer = sys.argv[1:]
place = gt.callbacks.Checkpoint(path, every=0)
print("ready", flush=True)
if os.path.exists(path):
    res = gt.resume(path, h, g)
else:
    res = gt.minimize(h, g, method="sae", inner="agm", tol=1e-4, seed=2, checkpoint=place)
calls = str(sorted(res.calls.items()))
text = " ".join([res.x.tobytes().hex(), str(res.nit), calls, res.status.name])
with open(answer + ".part", "w") as file:
    file.write(text)
os.replace(answer + ".part", answer)
"""


def run_job(folder, kill_after=None):
    """The answer of the job, or None if it was killed before, and the seconds of the run."""
    answer = folder / "answer"
    answer.unlink(missing_ok=True)
    command = [sys.executable, "-c", JOB, str(folder / "run.gtck"), str(answer)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as job:
        assert job.stdout is not None and job.stdout.readline() == b"ready\n"
        start = time.perf_counter()
        if kill_after is not None:
            time.sleep(kill_after)
            job.send_signal(signal.SIGKILL)
        job.wait()
        seconds = time.perf_counter() - start
    return answer.read_text() if answer.exists() else None, seconds


def kills(folder, moments):
    """Kill a job at `moments` random moments, resuming in between; compare the answers."""
    (folder / "whole").mkdir()
    expected, length = run_job(folder / "whole")
    assert expected is not None and expected.endswith("CONVERGED")
    rng = np.random.default_rng(8)
    done, killed = 0, 0
    while killed < moments:
        job = folder / str(done)
        job.mkdir()
        answer = None
        while answer is None and killed < moments:
            answer, _ = run_job(job, kill_after=rng.uniform(0.0, length))
            killed += 1
        answer = run_job(job)[0] if answer is None else answer
        assert answer == expected
        done += 1


def test_killed_at_random_moments(tmp_path):
    kills(tmp_path, 6)


@pytest.mark.long
def test_killed_at_fifty_random_moments(tmp_path):
    kills(tmp_path, 50)


# Files --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    h, g = sums()
    path = tmp_path_factory.mktemp("good") / "run.gtck"
    gt.minimize(h, g, method="sae-qn", stop=NEVER, max_iter=4, checkpoint=path)
    return path.read_bytes()


def refused(path, data, match=""):
    """Resuming from `data` is refused clearly, and the file stays as it is."""
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=match) as caught:
        gt.resume(path, *sums())
    assert str(path) in str(caught.value) and len(str(caught.value)) < 600
    assert path.read_bytes() == data


def signed(body):
    import hashlib

    return body + hashlib.sha256(body).digest()


def test_bad_files(tmp_path, good):
    path = tmp_path / "run.gtck"
    refused(path, b"", "not a checkpoint of geartrain")
    refused(path, b"\x93NUMPY\x01\x00" + bytes(300), "not a checkpoint of geartrain")
    newer = good.replace(b"geartrain checkpoint 1\n", b"geartrain checkpoint 2\n")
    refused(path, newer, r"newer geartrain \(format 2, this one reads 1\)")
    refused(path, good[:-1], "damaged")
    refused(path, good + b"x", "damaged")
    refused(path, good[:23], "damaged")
    head = good.index(b"\n", 30) + 1
    refused(path, signed(good[: head + 8]), "makes no sense")
    refused(path, signed(good[:-32] + bytes(8)), "bytes of arrays, expected")
    evil = good[:-32].replace(b"geartrain.methods.sae_qn:SAEQN", b"subprocess:Popen")
    refused(path, signed(evil), "'subprocess:Popen', which this geartrain has not")
    older = good[:-32].replace(b'"iteration"', b'"iterations"')
    refused(path, signed(older), "written by another version")
    refused(path, dumps({"run": 1}), "does not hold a run")
    missing = tmp_path / "missing.gtck"
    with pytest.raises(FileNotFoundError):
        gt.resume(missing, *sums())


@given(data=st.data())
@settings(max_examples=300)
def test_fuzz_of_damaged_files(good, data):
    """Truncations, flipped bits, overwritten stretches: nothing but the error."""
    kind = data.draw(st.sampled_from(["cut", "flip", "splice", "random"]))
    if kind == "cut":
        bad = good[: data.draw(st.integers(0, len(good) - 1))]
    elif kind == "flip":
        at = data.draw(st.integers(0, 8 * len(good) - 1))
        bad = bytearray(good)
        bad[at // 8] ^= 1 << at % 8
        bad = bytes(bad)
    elif kind == "splice":
        at = data.draw(st.integers(0, len(good) - 1))
        new = data.draw(st.binary(min_size=1, max_size=40))
        bad = good[:at] + new + good[at:]
    else:
        bad = data.draw(st.sampled_from([b"", module.MAGIC, module.MAGIC + b"1\n"]))
        bad += data.draw(st.binary(max_size=200))
    with pytest.raises(CheckpointError):
        loads(bad)


@given(data=st.data())
@settings(max_examples=300)
def test_fuzz_behind_the_checksum(good, data):
    """A wrong tree with the right checksum: the error, or an object of this package."""
    body = good[:-32]
    end = body.index(b"\n", 30)
    at = data.draw(st.integers(23, end - 1))
    new = data.draw(st.binary(max_size=3) | st.sampled_from([b"[", b"{}", b"1e999", b'"a"', b"-"]))
    cut = data.draw(st.integers(0, 30))
    try:
        out = loads(signed(body[:at] + new + body[at + cut :]))
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
        | t.map(lambda v: gt.Restarted(v, gt.GradientTest()))
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
    elif isinstance(a, gt.Restarted):
        assert type(b) is gt.Restarted and b.rule == a.rule
        identical(a.method, b.method)
    else:
        assert type(a) is type(b) and a == b


@given(TREES)
@settings(max_examples=200)
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
        gt.minimize(h, pair[1], method=gt.Restarted(MyMethod(), gt.GradientTest()), checkpoint=path)
    assert not asked and not path.exists()


def test_another_problem_is_refused(tmp_path):
    h, g = sums()
    path = tmp_path / "run.gtck"
    gt.minimize(h, g, method="sae", max_iter=3, stop=NEVER, checkpoint=path)
    data = path.read_bytes()
    other_y = gt.LinearModel(g.A, -g.y, loss="logistic", l2=0.05)
    other_l2 = gt.LinearModel(g.A, g.y, loss="logistic", l2=0.06)
    small = gt.Quadratic(np.eye(7)), gt.Quadratic(np.eye(7))
    callables = gt.Term(h.value_and_grad, n=8, L=1.0)
    for pair in [(h, other_y), (h, other_l2), (g, h), small, (callables, g), (2.0 * h, g)]:
        with pytest.raises(CheckpointError, match=r"a run on another problem: . was"):
            gt.resume(path, *pair)
        assert path.read_bytes() == data
    # constants that were computed in the meantime do not matter, nor does a second copy
    copy = gt.LinearModel(g.A.copy(), g.y.copy(), loss="logistic", l2=0.05)
    assert copy.L_coord is not None
    assert gt.resume(path, h, copy, max_iter=2).nit == 5
    plain = gt.Term(h.value_and_grad, n=8, L=1.0)
    gt.minimize(plain, g, method="sae", max_iter=2, checkpoint=path)
    with pytest.raises(CheckpointError, match="h was Term"):
        gt.resume(path, gt.Term(h.value_and_grad, n=8, L=2.0), g)


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


def test_a_folder_that_is_not_there_does_not_end_the_run(pair, tmp_path):
    with pytest.warns(RuntimeWarning, match="could not be written") as told:
        res = gt.minimize(*pair, method="sae", checkpoint=tmp_path / "no" / "run.gtck", tol=1e-3)
    assert res.success and len(told) == 1


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
    plain = gt.minimize(*pair, method="sae-qn", tol=1e-4)
    place = gt.callbacks.Checkpoint(tmp_path / "run.gtck", every=0)
    saved = gt.minimize(*pair, method="sae-qn", tol=1e-4, checkpoint=place)
    same(plain, saved)


def test_what_is_stored_is_the_run(pair, tmp_path):
    path = tmp_path / "run.gtck"
    res = gt.minimize(*pair, method="afb", max_iter=5, stop=NEVER, checkpoint=path)
    stored = read(path).run
    expected = replace(res.state, seconds=stored.seconds, oracle_seconds=stored.oracle_seconds)
    identical(stored.rows[-1][1:], expected.rows[-1][1:])
    assert dumps(replace(stored, rows=())) == dumps(replace(expected, rows=()))
