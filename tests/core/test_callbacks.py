"""Stock callbacks."""

from __future__ import annotations

import io

import numpy as np
import pytest
import tqdm.auto
import tqdm.std

import geartrain as gt
from geartrain.callbacks import CSVLog, JSONLLog, Progress
from geartrain.callbacks.logs import as_row, read_log
from geartrain.core.result import Intermediate
from geartrain.core.status import Status
from geartrain.oracles.work_clock import compiling

pytestmark = pytest.mark.same_everywhere  # who is called and when


def seen(nit=3, grad_norm=1e-2, seconds=10.0, fun=1.5, **calls):
    return Intermediate(
        x=np.zeros(2),
        nit=nit,
        fun=fun,
        grad_norm=grad_norm,
        seconds=seconds,
        calls={"h.grad": 7, "g.grad": 0, **calls},
    )


@pytest.mark.parametrize(
    ("rule", "bar"),
    [
        (gt.stop.Gradient(rel=1e-4), "#####     "),  # two of four digits
        (gt.stop.Gradient(abs=1e-8), "##5       "),
        (gt.stop.Gap(0.5e-8, mu=1.0), "#####     "),
        (gt.stop.Calls({"h.grad": 70}), "#         "),
        (gt.stop.Seconds(40.0), "##5       "),
        (gt.stop.any_of(gt.stop.Seconds(1e5), gt.stop.Calls({"h.grad": 14})), "#####     "),
    ],
)
def test_progress_tells_how_much_is_done(rule, bar):
    out = io.StringIO()
    progress = Progress(rule, out, every=0.0)
    progress(seen(0, 1.0, 0.0, **{"h.grad": 0}))
    progress(seen())
    line = out.getvalue().rpartition("\r")[2]
    assert line.startswith(f"|{bar}|") and "<" in line  # elapsed<left
    assert "|grad f| 1.00e-02" in line and "h.grad 7" in line and "g.grad" not in line
    progress.close()
    progress.close()
    last = out.getvalue().rpartition("\r")[2]
    assert "h.grad 7" in last and "<" not in last  # nothing is left
    assert out.getvalue().count("\n") == 1


def test_a_bar_does_not_shrink():
    out = io.StringIO()
    progress = Progress(gt.stop.Gradient(rel=1e-4), out, every=0.0)
    for nit, norm in enumerate([1.0, 1e-2, 0.5, 1e-4]):
        progress(seen(nit, norm))
    _, half, still, full = (line.split("|")[1] for line in out.getvalue().split("\r")[-4:])
    assert half == still == "#####     " and full == "##########"


def test_progress_without_anything_to_go_by():
    out = io.StringIO()
    progress = Progress(gt.stop.Value(0.0), out, every=0.0)
    progress(seen(grad_norm=np.nan))
    assert "     3  f 1.5  h.grad 7 [" in out.getvalue()
    progress(seen(grad_norm=np.nan, fun=np.nan))
    assert "     3  h.grad 7 [" in out.getvalue() and "| " not in out.getvalue()


def test_progress_of_a_run(pair, capsys):
    gt.minimize(*pair, method="sae", tol=1e-3, progress=True)
    err = capsys.readouterr().err
    last = err.rpartition("\r")[2]
    assert last.endswith("\n") and "<" not in last
    assert set(last.split("|")[1]) == {"█"} and "h.grad" in last


def test_progress_ends_its_line_after_an_interruption(pair, capsys):
    def interrupt(intermediate_result):
        if intermediate_result.nit == 2:
            raise KeyboardInterrupt

    res = gt.minimize(*pair, method="sae", tol=1e-9, progress=True, callback=interrupt)
    assert res.status is Status.INTERRUPTED and capsys.readouterr().err.endswith("]\n")


def test_progress_takes_the_bar_for_notebooks_where_no_stream_is_given(pair, monkeypatch):
    made = []

    class Bar(tqdm.std.tqdm):
        def __init__(self, **options):
            super().__init__(**options)
            made.append(self)

    monkeypatch.setattr(tqdm.auto, "tqdm", Bar)
    gt.minimize(*pair, method="sae", tol=1e-3, progress=True)
    assert [bar.n for bar in made] == [1.0]


@pytest.mark.parametrize("kind", [CSVLog, JSONLLog])
def test_logs(pair, tmp_path, kind):
    path = tmp_path / "run.log"
    rows = []
    res = gt.minimize(
        *pair,
        method="sae",
        max_iter=6,
        tol=1e-12,
        callback=[kind(path), lambda intermediate_result: rows.append(as_row(intermediate_result))],
    )
    logged = read_log(path)
    np.testing.assert_equal(logged, rows)
    assert len(logged) == 7 and logged[-1]["h.grad"] == res.calls["h.grad"]
    assert isinstance(logged[0]["nit"], int) and isinstance(logged[0]["h.grad"], int)


@pytest.mark.parametrize("kind", [CSVLog, JSONLLog])
def test_a_resumed_run_goes_on_in_its_log(pair, tmp_path, kind):
    log, path = tmp_path / "run.log", tmp_path / "run.gtck"
    gt.minimize(*pair, method="sae", max_iter=3, tol=1e-12, checkpoint=path, callback=kind(log))
    short = read_log(log)
    text = log.read_text()
    log.write_text(text + text.splitlines(keepends=True)[-1].replace("3", "9", 1))
    gt.resume(path, *pair, max_iter=3, callback=kind(log))
    long = read_log(log)
    assert [r["nit"] for r in long] == [0, 1, 2, 3, 4, 5, 6]
    np.testing.assert_equal(long[:4], short)
    gt.minimize(*pair, method="sae", max_iter=1, callback=kind(log))  # a new run, a new log
    assert [r["nit"] for r in read_log(log)] == [0, 1]


def test_a_log_that_cannot_be_written_does_not_end_the_run(pair, tmp_path):
    log = CSVLog(tmp_path / "no" / "run.csv")
    with pytest.warns(RuntimeWarning, match=r"the log .*run.csv could not be written") as told:
        res = gt.minimize(*pair, method="sae", tol=1e-3, callback=log)
    assert res.success and len(told) == 1


def test_half_a_line_and_foreign_files(tmp_path):
    path = tmp_path / "log"
    path.write_text('{"nit": 0, "fun": null}\n{"nit": 1, "fu')
    rows = read_log(path)
    assert len(rows) == 1 and np.isnan(rows[0]["fun"])
    path.write_text("")
    assert read_log(path) == []
    for foreign in ("once upon a time\nthere was\n", "{}\n", "[1]\n", '{"nit": "x"}\n'):
        path.write_text(foreign)
        with pytest.raises(ValueError, match="is not a log of"):
            read_log(path)


def test_the_bar_says_that_a_loop_is_compiled():
    """While it is, and no longer than the run."""
    from geartrain.compiled.jit import njit

    double = njit(lambda x: 2.0 * x)  # compiled by the first call
    out, seen = io.StringIO(), []

    def value_and_grad(x):
        if not seen:  # the bar is there after the first call
            seen.append(x)
            return float(x @ x), 2.0 * x
        return float(x @ x), double(x)

    progress = Progress(gt.stop.Gradient(rel=1e-9), out, every=0.0)
    h, g = gt.Term(value_and_grad, n=2), gt.Quadratic(np.diag([1.0, 30.0]))
    gt.minimize(h, g, np.ones(2), method="fgm", L_h=2.0, max_iter=9, callback=progress)
    assert "compiling" in out.getvalue()
    assert progress not in compiling.listeners
