"""A plot of the log of a running job, in the terminal or in the browser."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geartrain.callbacks.logs import read_log
from geartrain.oracles.validation import as_positive

if TYPE_CHECKING:
    from http.server import ThreadingHTTPServer

_WIDTH, _HEIGHT = 72, 18


def watch(
    path: str | Path,
    *,
    x: str = "seconds",
    y: str = "grad_norm",
    every: float = 1.0,
    browser: bool = False,
) -> None:
    """Plot a log of `geartrain.callbacks.CSVLog` or `JSONLLog` while it grows, until Ctrl-C.

    Parameters
    ----------
    path : str or path
        The log; it may not be there yet.
    x, y : str
        Columns: nit, seconds, fun, grad_norm, h.grad, ...
    every : float
        Seconds between two looks at the file.
    browser : bool
        Serve a page on this machine and open it, instead of drawing in the terminal.
    """
    as_positive(every, "every")
    try:
        if browser:
            _serve(Path(path), x, y, every)
        else:
            _draw_again_and_again(Path(path), x, y, every)
    except KeyboardInterrupt:
        return


def draw(rows: Sequence[dict[str, Any]], x: str = "seconds", y: str = "grad_norm") -> str:
    """Column `y` against column `x` as text; logarithmic where all of y is positive.

    Parameters
    ----------
    rows : list of dict
        The log.
    x, y : str
        Columns.

    Returns
    -------
    str
        The plot, with a line about the last row below.
    """
    if not rows:
        return "nothing in the log yet"
    for name in (x, y):
        if name not in rows[0]:
            raise KeyError(f"no column {name!r} in the log; there are {', '.join(rows[0])}")
    pairs = ((float(row[x]), float(row[y])) for row in rows)
    points = [p for p in pairs if math.isfinite(p[0]) and math.isfinite(p[1])]
    plot = _plot(points, x, y) if points else f"{y} is not known in this run; try y='fun'"
    last = "  ".join(f"{k} {v:.6g}" for k, v in rows[-1].items() if v and not math.isnan(v))
    return f"{plot}\n{last}"


def _plot(points: list[tuple[float, float]], x: str, y: str) -> str:
    """A star per point, with the ends of both axes."""
    logarithmic = all(v > 0.0 for _, v in points)
    across = _Axis([u for u, _ in points], _WIDTH)
    up = _Axis([math.log10(v) if logarithmic else v for _, v in points], _HEIGHT)
    grid = [[" "] * _WIDTH for _ in range(_HEIGHT)]
    for column, height in zip(across.cells(), up.cells(), strict=True):
        grid[_HEIGHT - 1 - height][column] = "*"
    low, high = (f"{10.0**end if logarithmic else end:.3g}" for end in (up.low, up.high))
    marks = [high, *[""] * (_HEIGHT - 2), low]
    lines = [f"{m:>10} |{''.join(row).rstrip()}" for m, row in zip(marks, grid, strict=True)]
    left, right = f"{across.low:.4g}", f"{x} = {across.high:.4g}"
    half = _WIDTH // 2
    lines += [f"{'':>10} +{'-' * _WIDTH}", f"{y:>10}  {left:<{half}}{right:>{half}}"]
    return "\n".join(lines)


class _Axis:
    """Numbers along one side of a plot of `size` cells."""

    def __init__(self, numbers: list[float], size: int) -> None:
        self.numbers, self.size = numbers, size
        self.low, self.high = min(numbers), max(numbers)

    def cells(self) -> list[int]:
        """The cell of every number, from 0 for the lowest on."""
        span = self.high - self.low
        if span == 0.0:
            return [0] * len(self.numbers)
        return [round((v - self.low) / span * (self.size - 1)) for v in self.numbers]


def _rows(path: Path) -> list[dict[str, Any]]:
    return read_log(path) if path.exists() else []


def _draw_again_and_again(path: Path, x: str, y: str, every: float) -> None:
    seen: object = None
    while True:
        state = path.stat() if path.exists() else None
        now = None if state is None else (state.st_mtime_ns, state.st_size)
        if now != seen or seen is None:
            seen = now
            clear = "\x1b[2J\x1b[H" if sys.stdout.isatty() else ""
            print(f"{clear}{path}\n{draw(_rows(path), x, y)}", flush=True)
        time.sleep(every)


# The browser --------------------------------------------------------------------------------

_PAGE = """<!doctype html><meta charset="utf-8"><title>geartrain</title>
<style>body{font:14px sans-serif;margin:2em}svg{border:1px solid #ccc;width:100%;height:60vh}
polyline{fill:none;stroke:#06c;stroke-width:2;vector-effect:non-scaling-stroke}</style>
<h3 id="title"></h3><svg viewBox="0 0 1000 500" preserveAspectRatio="none">
<polyline id="line"/></svg><p id="range"></p><p id="last"></p><script>
async function look() {
  const d = await (await fetch("data")).json();
  document.getElementById("title").textContent = d.path + ": " + d.y + " against " + d.x;
  let p = d.points;
  document.getElementById("last").textContent = d.last;
  if (p.length) {
    const log = p.every(q => q[1] > 0), v = p.map(q => log ? Math.log10(q[1]) : q[1]);
    const lo = v.reduce((a, b) => Math.min(a, b)), hi = v.reduce((a, b) => Math.max(a, b));
    const a = p[0][0], b = p[p.length - 1][0];
    document.getElementById("line").setAttribute("points", p.map((q, i) =>
      (1000 * (q[0] - a) / (b - a || 1)) + "," + (10 + 480 * (hi - v[i]) / (hi - lo || 1)))
      .join(" "));
    document.getElementById("range").textContent = d.x + " from " + a + " to " + b + ", " + d.y +
      (log ? " (logarithmic) from " : " from ") + (log ? 10 ** lo : lo).toPrecision(3) + " to " +
      (log ? 10 ** hi : hi).toPrecision(3);
  }
  setTimeout(look, 1000 * d.every);
}
look();
</script>
"""


def _data(path: Path, x: str, y: str, every: float) -> dict[str, Any]:
    """What the page asks for."""
    rows = _rows(path)
    points = [(r[x], r[y]) for r in rows if x in r and y in r]
    points = [p for p in points if all(map(math.isfinite, p))]
    last = "" if not rows else ", ".join(f"{k} {v:.6g}" for k, v in rows[-1].items())
    return {"path": str(path), "x": x, "y": y, "every": every, "points": points, "last": last}


def server(path: Any, x: str, y: str, every: float) -> ThreadingHTTPServer:
    """A server of the page, on this machine only, at a free port."""
    # Here, because importing it takes a while.
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path not in ("/", "/data"):
                self.send_error(404)
                return
            page = self.path == "/"
            text = _PAGE if page else json.dumps(_data(Path(path), x, y, every))
            body = text.encode()
            self.send_response(200)
            kind = "text/html; charset=utf-8" if page else "application/json"
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    return ThreadingHTTPServer(("127.0.0.1", 0), Handler)


def _serve(path: Path, x: str, y: str, every: float) -> None:
    import webbrowser

    with server(path, x, y, every) as page:
        address = f"http://127.0.0.1:{page.server_address[1]}/"
        print(f"{address} (Ctrl-C ends)", flush=True)
        webbrowser.open(address)
        page.serve_forever()
