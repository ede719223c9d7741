"""Stock callbacks and the plot of a log."""

from __future__ import annotations

import io
import json
import sys
import threading
import types
import urllib.request

import numpy as np
import pytest

import geartrain as gt
from geartrain.callbacks import CSVLog, JSONLLog, Progress, TensorBoard, watching
from geartrain.callbacks.logs import as_row, read_log
from geartrain.core.result import Intermediate

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
    ("rule", "bar", "left"),
    [
        (gt.stop.Gradient(rel=1e-4), 10, "10.0 s"),  # two of four digits in 10 s
        (gt.stop.Gradient(abs=1e-8), 5, "30.0 s"),
        (gt.stop.Gap(0.5e-8, mu=1.0), 10, "10.0 s"),
        (gt.stop.Calls({"h.grad": 70}), 2, "90.0 s"),
        (gt.stop.Seconds(40.0), 5, "30.0 s"),
        (gt.stop.any_of(gt.stop.Seconds(1e5), gt.stop.Calls({"h.grad": 14})), 10, "10.0 s"),
    ],
)
def test_progress_tells_the_time_left(rule, bar, left):
    out = io.StringIO()
    progress = Progress(rule, out, every=0.0)
    progress(seen(0, 1.0, 0.0))
    progress(seen())
    line = out.getvalue().rpartition("\r")[2]
    assert line.startswith("[" + "#" * bar + "." * (20 - bar) + "]")
    assert f"about {left} left" in line
    assert "|grad f| 1.00e-02" in line and "h.grad 7" in line and "g.grad" not in line
    progress.close()
    progress.close()
    last = out.getvalue().rpartition("\r")[2]
    assert last.rstrip().endswith("10.0 s") and "left" not in last  # nothing is left
    assert len(last.rstrip("\n")) >= len(line) and out.getvalue().count("\n") == 1


def test_a_bar_does_not_shrink():
    progress = Progress(gt.stop.Gradient(rel=1e-4))
    progress(seen(0, 1.0, 0.0))
    half = progress.line(seen(3, 1e-2))
    assert progress.line(seen(4, 0.5)).partition("]")[0] == half.partition("]")[0]
    assert progress.line(seen(5, 1e-4)).startswith("[" + "#" * 20 + "]")


def test_progress_without_anything_to_go_by():
    progress = Progress(gt.stop.Value(0.0))
    assert progress.line(seen(grad_norm=np.nan)) == "     3  f 1.5  h.grad 7  10.0 s"
    assert progress.line(seen(grad_norm=np.nan, fun=np.nan)) == "     3  h.grad 7  10.0 s"
    assert "1.7 h" in progress.line(seen(seconds=6000.0))
    assert "5 min" in progress.line(seen(seconds=300.0))


def test_progress_of_a_run(pair, capsys):
    gt.minimize(*pair, method="sae", tol=1e-3, progress=True)
    err = capsys.readouterr().err
    last = err.rpartition("\r")[2]
    assert last.endswith("\n") and "left" not in last
    assert "[####################]" in last and "h.grad" in last


class ZMQInteractiveShell:
    """By this name the kernel of a notebook is known."""


def test_progress_in_a_notebook_is_a_bar(pair, capsys, monkeypatch):
    shown = []

    class Handle:
        def update(self, bar):
            shown.append(bar)

    def display(bar, display_id):
        assert display_id and not shown  # one output, which is replaced afterwards
        shown.append(bar)
        return Handle()

    page = types.SimpleNamespace(HTML=str, display=display)
    kernel = types.SimpleNamespace(get_ipython=ZMQInteractiveShell, display=page)
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    monkeypatch.setitem(sys.modules, "IPython.display", page)
    gt.minimize(*pair, method="sae", tol=1e-3, progress=True)
    assert capsys.readouterr().err == ""
    assert all("<progress " in bar and "h.grad" in bar for bar in shown)
    assert "value='1.000'" in shown[-1] and "left" not in shown[-1]


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
    with pytest.warns(RuntimeWarning, match="the log could not be written") as told:
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


def test_tensorboard(pair, tmp_path, monkeypatch):
    scalars = []

    class SummaryWriter:
        def __init__(self, folder):
            self.folder = folder

        def add_scalar(self, name, value, step):
            scalars.append((name, value, step))

        def flush(self):
            scalars.append("flushed")

    fake = types.ModuleType("tensorboardX")
    fake.SummaryWriter = SummaryWriter
    monkeypatch.setitem(sys.modules, "tensorboardX", fake)
    res = gt.minimize(*pair, method="sae", max_iter=2, callback=TensorBoard(tmp_path))
    assert scalars[-1] == "flushed" and ("h/grad", res.calls["h.grad"], 2) in scalars
    assert all(np.isfinite(s[1]) for s in scalars[:-1])
    for name in ("tensorboardX", "torch", "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match="pip install tensorboardX"):
        TensorBoard(tmp_path)


# watch ----------------------------------------------------------------------------------------


def test_draw():
    rows = [{"nit": k, "seconds": float(k), "grad_norm": 10.0**-k} for k in range(5)]
    lines = watching.draw(rows).splitlines()
    assert lines[0] == f"{'1':>10} |*" and lines[17].endswith("*") and "0.0001 |" in lines[17]
    assert len(lines[17]) == 12 + 72
    assert [line.count("*") for line in lines[:18]].count(1) == 5
    assert "grad_norm  0" in lines[19] and lines[19].endswith("seconds = 4")
    assert lines[20].startswith("nit 4  seconds 4")
    linear = watching.draw([{"x": 0.0, "y": -1.0}, {"x": 1.0, "y": 3.0}], "x", "y")
    assert "3 |" in linear and "-1 |*" in linear
    assert "*" in watching.draw(rows[:1])
    assert watching.draw([]) == "nothing in the log yet"
    unknown = watching.draw([{"nit": 1, "seconds": 1.0, "grad_norm": np.nan}])
    assert "not known in this run; try y='fun'" in unknown
    with pytest.raises(KeyError, match="no column 'f' in the log; there are nit, seconds"):
        watching.draw(rows, y="f")


def test_watch_in_the_terminal(pair, tmp_path, monkeypatch, capsys):
    log = tmp_path / "run.csv"
    steps = iter(["wait", "run", "again", "end"])

    def sleep(seconds):
        assert seconds == 0.25
        step = next(steps)
        if step == "run":
            gt.minimize(*pair, method="sae", max_iter=5, tol=1e-12, callback=CSVLog(log))
        if step == "end":
            raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", sleep)
    gt.callbacks.watch(log, every=0.25)
    out = capsys.readouterr().out
    assert out.count("nothing in the log yet") == 2  # looked at until there is a file
    assert out.count("grad_norm") == 2 and "nit 5" in out  # drawn once: it did not change
    with pytest.raises(ValueError, match="every must be positive"):
        gt.callbacks.watch(log, every=0)


def test_watch_in_the_browser(pair, tmp_path):
    log = tmp_path / "run.jsonl"
    res = gt.minimize(*pair, method="afb", max_iter=5, tol=1e-12, callback=JSONLLog(log))
    with watching.server(log, "h.grad", "fun", 1.0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            root = f"http://127.0.0.1:{server.server_address[1]}"
            with urllib.request.urlopen(f"{root}/") as page:
                assert b"<svg" in page.read()
            with urllib.request.urlopen(f"{root}/data") as answer:
                data = json.load(answer)
            with pytest.raises(urllib.error.HTTPError, match="404") as caught:
                urllib.request.urlopen(f"{root}/etc/passwd")
            caught.value.close()
        finally:
            server.shutdown()
            thread.join()
    assert data["x"] == "h.grad" and data["y"] == "fun" and "nit 5" in data["last"]
    assert all(len(p) == 2 and np.isfinite(p).all() for p in data["points"])
    assert data["last"].endswith("g.product 0") and res.nit == 5
