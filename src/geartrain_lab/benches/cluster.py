"""``geartrain bench distributed``: rounds, their latency, and exchanges on graphs.

Logistic regression in shards to f - f* <= 1e-6 (f(0) - f*): similar-newton, pqn, SciPy's L-BFGS
on the same oracle (the better of two memories), accelerated extragradient, and dask-glm where it is
installed, all on one LocalCluster of four processes. Rows are shuffled; unless the data is called
raw they get a constant column and are scaled to norm 1. Rounds follow one another, so a network
latency adds itself once a round: the columns for 5 and 50 ms are the measured seconds plus that.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean, median
from time import perf_counter
from typing import Any

import numpy as np
from scipy import sparse

from geartrain import datasets
from geartrain.core.stopping import Calls, Value, any_of
from geartrain.distributed.gossip import Gossip
from geartrain.distributed.gossip_demo import local_term
from geartrain.distributed.shards import Reading, ShardGroup
from geartrain.methods.baselines.scipy_lbfgs import ScipyLBFGS
from geartrain.oracles.linear_model import LinearModel
from geartrain.oracles.losses import make_loss
from geartrain.oracles.quadratic import Quadratic
from geartrain_lab.harness import run_whole
from geartrain_lab.problems import with_unit_rows
from geartrain_lab.store import page_table

LATENCIES = (0.0, 0.005, 0.05)
ACCURACY = 1e-6
WORKERS = 4
OURS = ("similar-newton", "pqn")
# dask-glm may take so many times the seconds of the slowest of ours.
PATIENCE = 25.0
RINGS = (4, 8, 16, 32, 64)


def run(json_file: str | None = None, quick: bool = False) -> dict[str, Any]:
    """Print the tables, write them, and answer the figures; quick: 8 shards and no dask-glm."""
    try:
        from distributed import Client, LocalCluster
    except ModuleNotFoundError as error:
        raise ImportError(
            f"bench distributed needs {error.name}: pip install 'geartrain[dask]'"
        ) from error
    with (
        LocalCluster(n_workers=WORKERS, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        latency = _latency(client, repeats=40 if quick else 200)
        rows = _rounds(client, quick)
    figures = {
        "latency": latency,
        "rounds": rows,
        "gossip": _gossip(),
        "summary": _summary(rows),
    }
    if json_file:
        head = ["data", "l2", "shards", "method", "rounds", "kB"]
        head += [f"{1e3 * d:g} ms" for d in LATENCIES]
        tables = {"cluster": page_table(head, map(_cells, rows))}
        Path(json_file).write_text(json.dumps({**figures, "tables": tables}, indent=1))
    return figures


# One round -------------------------------------------------------------------------------


def _random_shard(j: int, n: int, m: int = 2000) -> tuple[Any, Any]:
    rng = np.random.default_rng(j)
    A = sparse.random_array((m, n), density=20 / n, rng=rng, format="csr")
    return A, np.where(rng.random(m) < 0.5, 1.0, -1.0)


def _by_run(x: Any, keys: list[str], dask_worker: Any = None) -> Any:
    data = dask_worker.data
    return [data[key].sums(x) for key in keys if key in data]


def _latency(client: Any, repeats: int, shards: int = 8) -> list[dict[str, Any]]:
    """Medians of a round, of the same sums by ``client.run``, and of the compute in both.

    The three take turns, so that they see the same load.
    """
    from geartrain.distributed import similarity

    load = os.getloadavg()[0]
    print(
        f"one round, {shards} shards, {WORKERS} workers, {os.cpu_count()} cores, load {load:.1f}; "
        f"medians of {repeats} in ms"
    )
    print(f"{'n':>8}{'round':>9}{'compute':>9}{'overhead':>10}{'client.run':>12}{'ratio':>7}")
    rows = []
    for n in (1000, 100_000):
        loaders = [partial(_random_shard, j, n) for j in range(shards)]
        h = similarity(client, loaders)[0]
        group = ShardGroup(Reading(make_loss("logistic"), False, n, "y", None), loaders[1:])
        keys = [future.key for future in h._rounds.groups]
        asked = {
            "round_ms": h.value_and_grad,
            "run_ms": lambda x, keys=keys: client.run(_by_run, x, keys),
            "compute_ms": group.sums,
        }
        spent: dict[str, list[float]] = {name: [] for name in asked}
        for k in range(repeats):
            x = np.random.default_rng(k).standard_normal(n)
            for name, call in asked.items():
                start = perf_counter()
                call(x)
                spent[name].append(1e3 * (perf_counter() - start))
        row: dict[str, Any] = {"n": n, **{name: median(ms) for name, ms in spent.items()}}
        row["compute_ms"] /= min(WORKERS, os.cpu_count() or 1)  # the workers share the cores
        row["overhead_ms"] = row["round_ms"] - row["compute_ms"]
        row["ratio"] = row["overhead_ms"] / row["run_ms"]
        rows.append(row)
        print(
            "{n:8d}{round_ms:9.1f}{compute_ms:9.1f}{overhead_ms:10.1f}{run_ms:12.1f}"
            "{ratio:7.2f}".format(**row),
            flush=True,
        )
    return rows


# Rounds to an accuracy -------------------------------------------------------------------


def _sets(quick: bool) -> Iterator[tuple[str, Any, Any, tuple[float, ...]]]:
    """The data sets that are there, each with its values of l2; a made one if none is."""
    penalties = (1e-5,) if quick else (1e-4, 1e-5)
    found = False
    for name in ("phishing",) if quick else ("a9a", "phishing"):
        try:
            table = datasets.load_libsvm(f"{name}.libsvm")
        except FileNotFoundError as error:
            print(f"{name} left out: {error}")
            continue
        found = True
        y = np.where(table.y > 0, 1.0, -1.0)
        yield name, *with_unit_rows(table.X, y), penalties
        if not quick:  # as it is in the file, with the penalty of C = 1
            order = np.random.default_rng(0).permutation(y.size)
            yield f"{name} raw", table.X[order], y[order], (1.0 / y.size,)
    if not found:
        rng = np.random.default_rng(0)
        A = rng.standard_normal((8000, 60)) * np.geomspace(1.0, 0.03, 60)
        y = np.where(A @ rng.standard_normal(60) + rng.standard_normal(8000) > 0, 1.0, -1.0)
        yield "made", *with_unit_rows(sparse.csr_array(A), y), penalties


def _write_shards(X: Any, y: Any, shards: int, folder: str) -> list[Path]:
    """Files for the workers to read."""
    files = []
    for j, rows in enumerate(np.array_split(np.arange(y.size), shards)):
        A = X[rows]
        files.append(Path(folder) / f"shard{j}.npz")
        parts = {"data": A.data, "indices": A.indices, "indptr": A.indptr, "shape": A.shape}
        np.savez(files[-1], **parts, y=y[rows])
    return files


def _rounds(client: Any, quick: bool) -> list[dict[str, Any]]:
    rows = []
    print(f"\nrounds and seconds to f - f* <= {ACCURACY:g} (f(0) - f*); kB: to and from a worker")
    print(f"{'data':14}{'l2':>7}{'shards':>7}  {'method':18}{'rounds':>7}{'kB':>7}", end="")
    print("".join(f"{f'+{1e3 * d:g} ms':>10}" for d in LATENCIES))
    for name, X, y, penalties in _sets(quick):
        for l2 in penalties:
            f = LinearModel(X, y, l2=l2)
            nothing = Quadratic(sparse.csr_array((f.n, f.n)))
            f_star = run_whole(f, nothing, method=ScipyLBFGS(memory=30), tol=1e-10).fun
            target = f_star + ACCURACY * (f.value(np.zeros(f.n)) - f_star)
            known: dict[str, Any] = {}
            for shards in (8,) if quick else (8, 32):
                cell = {"data": name, "l2": l2, "shards": shards}
                slowest = 0.0
                for row in _ours(client, X, y, l2, shards, target, quick):
                    if row["method"] in OURS:
                        slowest = max(slowest, row["seconds"])
                    rows.append(_printed(cell | row))
                if quick or importlib.util.find_spec("dask_glm") is None:
                    continue
                from geartrain_lab.benches import dask_glm_runs

                for solver in dask_glm_runs.SOLVERS:
                    row = dask_glm_runs.run(
                        solver, X, y, shards, l2, target, f.value, known, PATIENCE * slowest
                    )
                    rows.append(_printed(cell | {"method": f"dask-glm {solver}", **row}))
    return rows


def _ours(
    client: Any, X: Any, y: Any, l2: float, shards: int, target: float, quick: bool
) -> Iterator[dict[str, Any]]:
    """Rows of all methods on our cluster oracle."""
    from geartrain.distributed import similarity

    with tempfile.TemporaryDirectory() as folder:
        h, g = similarity(client, _write_shards(X, y, shards, folder), l2=l2)
        h.value_and_grad(np.zeros(h.n))  # all that is done once is done
        for name in OURS:
            yield _timed(name, h, g, target, method=name)
        both = (_timed("L-BFGS", h, g, target, method=ScipyLBFGS(memory=M)) for M in (10, 30))
        yield min(both, key=lambda row: row["rounds"])
        if not quick:
            L_h = _difference_norm(X, X[: g.m])
            yield _timed("aeg", h, g, target, method="aeg", L_h=L_h, mu=l2)


def _timed(name: str, h: Any, g: Any, target: float, **options: Any) -> dict[str, Any]:
    stop = any_of(Value(target), Calls({"h.grad": 2000}))
    start = perf_counter()
    res = run_whole(h, g, stop=stop, **options)
    seconds = perf_counter() - start
    reached = res.success and res.fun <= target
    rounds, columns = res.calls["h.grad"], res.calls["h.product"]
    return {
        "method": name,
        "rounds": rounds,
        "seconds": seconds,
        "reached": reached,
        "timed": reached,
        "kB": 16e-3 * h.n * (1 + columns / rounds),  # float64, both ways
    }


def _difference_norm(X: Any, X_1: Any) -> float:
    """Largest modulus of the eigenvalues of the difference of the Hessians at 0."""
    D = 0.25 * (X.T @ X / X.shape[0] - X_1.T @ X_1 / X_1.shape[0])
    return float(np.abs(np.linalg.eigvalsh(D.toarray())).max())


def _bound(known: bool) -> str:
    return "" if known else ">"


def _cells(row: dict[str, Any]) -> list[str]:
    seconds = [row["seconds"] + d * row["rounds"] for d in LATENCIES]
    return [
        row["data"],
        f"{row['l2']:.0e}",
        str(row["shards"]),
        row["method"],
        f"{_bound(row['reached'])}{row['rounds']}",
        f"{row['kB']:.1f}" if "kB" in row else "-",
        *(f"{_bound(row['timed'])}{s:.2f}" for s in seconds),
    ]


def _printed(row: dict[str, Any]) -> dict[str, Any]:
    data, l2, shards, method, rounds, carried, *spent = _cells(row)
    head = f"{data:14}{l2:>7}{shards:>7}  {method:18}{rounds:>7}{carried:>7}"
    print(head + "".join(f"{s:>10}" for s in spent), flush=True)
    return row


def _summary(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Geometric means of ours over the others; a run that a limit cut counts with the limit."""
    cells: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = {}
    for row in rows:
        cell = cells.setdefault((row["data"], row["l2"], row["shards"]), {})
        cell[row["method"]] = row
    rivals = [[name] for name in dict.fromkeys(row["method"] for row in rows) if name not in OURS]
    rivals += [glm] if len(glm := [name for [name] in rivals if "dask-glm" in name]) > 1 else []
    summary = {}
    print(
        "\ngeometric means of ours over theirs (<: runs of theirs that a limit cut count with it)"
    )
    print(f"{'ours':16}{'theirs':16}{'runs':>5}{'rounds':>9}{'cut':>5}{'seconds':>9}{'cut':>5}")
    for ours, names in product(OURS, rivals):
        pairs = [(c[ours], c[name]) for c in cells.values() for name in names if name in c]
        label = names[0] if len(names) == 1 else "dask-glm, all"
        line = f"{ours:16}{label:16}{len(pairs):5}"
        for what, whole in (("rounds", "reached"), ("seconds", "timed")):
            mean = math.exp(fmean(math.log(a[what] / b[what]) for a, b in pairs))
            summary[f"{ours} / {label}, {what}"] = mean
            cut = sum(not theirs[whole] for _, theirs in pairs)
            line += f"{('<' if cut else '') + f'{mean:.3f}':>9}{cut:5}"
        print(line)
    return summary


# Exchanges on graphs ---------------------------------------------------------------------


def _gossip() -> dict[str, Any]:
    """Calls on rings of growing size, one process, and their exponents in chi."""
    print(f"\ngossip on rings\n{'nodes':>6}{'chi':>9}{'local gradients':>17}{'exchanges':>11}")
    rows = []
    for N in RINGS:
        # G^2 and eps both grow with N when the accuracy per node is fixed: their ratio does not.
        gossip = Gossip(None, [local_term(i) for i in range(N)], "ring", eps=0.1, G=0.5)
        res = gossip.minimize(tol=1e-6)
        rows.append((N, gossip.graph.chi, res.calls["h.grad"], res.calls["g.grad"]))
        print("{:6d}{:9.1f}{:17d}{:11d}".format(*rows[-1]))
    _, chi, local, exchanges = (np.array(column) for column in zip(*rows, strict=True))
    exponents = [float(np.polyfit(np.log(chi), np.log(c), 1)[0]) for c in (local, exchanges)]
    print(f"exponents in chi: local gradients {exponents[0]:.3f}, exchanges {exponents[1]:.3f}")
    return {"rows": rows, "exponents": {"local": exponents[0], "exchanges": exponents[1]}}
