"""``geartrain bench kernels``: compiled loops in units of one product or one dot product.

Every ratio is taken within one process on one thread: the loop and its unit are timed by turns, in
processor seconds, and the fastest of each counts, which a busy machine disturbs least.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

import numpy as np
from scipy import sparse

from geartrain import datasets
from geartrain.methods.inner.acd import ACD
from geartrain.methods.inner.finite_sum import EpochStart, Snapshot, finite_sum
from geartrain.methods.inner.katyusha import Katyusha
from geartrain.oracles.ledger import Ledger, Oracle
from geartrain.oracles.linear_model import LinearModel
from geartrain.oracles.quadratic import Quadratic
from geartrain.problem import Model
from geartrain_lab.store import page_table

Row = dict[str, Any]

_A9A_COLUMNS = 123
_ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")}


def run(quick: bool = False, json_file: str | None = None) -> list[Row]:
    """Measure in separate processes with one thread each, print a table, write the rows."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as cache:
        for child in ("first", "second", "ratios"):
            env = {**os.environ, **_ONE_THREAD}
            if child != "ratios":
                env["NUMBA_CACHE_DIR"] = cache
            command = [sys.executable, "-m", __name__, child, *(["--quick"] if quick else [])]
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
            if done.returncode:
                last = (done.stderr.strip().splitlines() or ["no message"])[-1]
                raise RuntimeError(f"the measurement {child!r} failed: {last}")
            rows += json.loads(done.stdout)
    cells = [(row["what"], f"{row['figure']:.2f}") for row in rows]
    head = ["measured on one thread", "figure"]
    for what, figure in (head, *cells):
        print(f"{what:58}{figure:>9}")
    if json_file is not None:
        data = {"rows": rows, "tables": {"loops": page_table(head, cells)}}
        Path(json_file).write_text(json.dumps(data, indent=1) + "\n")
    return rows


def compilation(which: str) -> list[Row]:
    """Seconds of the first epochs of this process beyond later ones, dense and CSR."""
    rng = np.random.default_rng(0)
    A, y = rng.standard_normal((20, 5)), np.where(rng.random(20) < 0.5, 1.0, -1.0)
    rows = []
    cache = "an empty cache" if which == "first" else "a second process"
    import numba  # noqa: F401  # its own import is not the kernel's

    for form, matrix in (("dense", A), ("CSR", sparse.csr_array(A))):
        epoch, _ = _epoch(matrix, y)
        start = perf_counter()
        epoch()
        seconds = perf_counter() - start
        rows.append(_row(f"first {form} Katyusha epoch, {cache}, seconds", seconds))
    return rows


def ratios(quick: bool) -> list[Row]:
    """The kernels against products with the same data."""
    rng = np.random.default_rng(0)
    repeat = 10 if quick else 60
    m = 1000 if quick else 3000
    rows = []
    y = np.where(rng.random(m) < 0.5, 1.0, -1.0)
    epoch, product = _epoch(rng.standard_normal((m, m)), y)
    name = f"Katyusha epoch of m steps, dense {m:,} x {m:,}, per A @ x"
    rows.append(_row(name, _ratio(epoch, product, repeat)))
    label, A, y = _a9a()
    epoch, product = _epoch(A, y)
    name = f"Katyusha epoch of m steps, {label}, per A @ x"
    rows.append(_row(name, _ratio(epoch, product, 2 * repeat)))
    n = 2000 if quick else 5000
    name = f"accelerated coordinate step, dense n = {n:,}, per dot"
    rows.append(_row(name, _coordinate_step(n, repeat)))
    return rows


def _epoch(A: Any, y: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """One epoch of m steps with the draw of its components, and one product with A."""
    term = LinearModel(A, y, loss="logistic")
    phi = Model(Oracle(term, "g", Ledger(), term.n), beta=np.zeros(term.n), alpha=1e-3)
    method = Katyusha(epoch=term.m)
    terms = finite_sum(phi.g)
    draw = terms.sampling("importance")
    steps = method.steps(phi.alpha, draw.L, term.m, 0)
    x = np.linspace(-1.0, 1.0, term.n)
    snapshot = Snapshot(x, *terms.snapshot(x))

    def epoch() -> None:
        order = draw.order(np.random.default_rng(1), term.m)
        terms.epoch(steps, phi, EpochStart(order, draw.scale, snapshot, x, x))

    return epoch, lambda: term.A @ x


def _a9a() -> tuple[str, Any, Any]:
    """The a9a data if the data folder has it, otherwise one-hot rows of the same size."""
    try:
        table = datasets.load_libsvm("a9a.libsvm", n_features=_A9A_COLUMNS)
    except FileNotFoundError:
        rng = np.random.default_rng(0)
        columns = np.arange(14) * 8 + (rng.random((32_561, 14)) ** 2 * 8).astype(int)
        starts = np.arange(0, columns.size + 1, 14)
        A = sparse.csr_array(
            (np.ones(columns.size), columns.ravel(), starts), shape=(32_561, _A9A_COLUMNS)
        )
        return "CSR like a9a", _short_indices(A), np.where(rng.random(32_561) < 0.5, 1.0, -1.0)
    return "a9a (CSR)", _short_indices(table.X), np.where(table.y > 0, 1.0, -1.0)


def _short_indices(A: Any) -> Any:
    """The same matrix with indices of 32 bits, as SciPy's own readers make them."""
    parts = (A.data, A.indices.astype(np.int32), A.indptr.astype(np.int32))
    return sparse.csr_array(parts, shape=A.shape)


def _coordinate_step(n: int, repeat: int) -> float:
    rng = np.random.default_rng(0)
    B = rng.standard_normal((n, 50))
    term = Quadratic(B @ B.T / n + np.eye(n), b=rng.standard_normal(n))
    ledger = Ledger()
    phi = Model(Oracle(term, "g", ledger, n), beta=np.zeros(n), alpha=1.0, L_g=10.0)
    method = ACD()
    state = method.init(phi, np.zeros(n), None)
    method.step(phi, state)
    u, v = rng.standard_normal((2, n))
    best_step = best_dot = np.inf
    for _ in range(max(repeat // 10, 3)):
        before, kernel_before = ledger.calls["g.coord"], ledger.seconds["g.coord"]
        method.step(phi, state)
        seconds = ledger.seconds["g.coord"] - kernel_before
        best_step = min(best_step, seconds / (ledger.calls["g.coord"] - before))
        best_dot = min(best_dot, _time(lambda: [u @ v for _ in range(1000)]) / 1000)
    return best_step / best_dot


def _ratio(kernel: Callable[[], Any], unit: Callable[[], Any], repeat: int) -> float:
    kernel()
    unit()
    times = np.array([(_time(kernel), _time(unit)) for _ in range(repeat)])
    return float(np.divide(*times.min(axis=0)))


def _time(fn: Callable[[], Any]) -> float:
    start = thread_time()
    fn()
    return thread_time() - start


def _row(what: str, figure: float) -> Row:
    return {"what": what, "figure": figure}


if __name__ == "__main__":
    _child, _quick = sys.argv[1], "--quick" in sys.argv
    print(json.dumps(ratios(_quick) if _child == "ratios" else compilation(_child)))
