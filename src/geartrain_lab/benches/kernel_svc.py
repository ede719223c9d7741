"""``geartrain bench estimators``: `KernelSVC` against `sklearn.svm.SVC`, cell by cell.

A cell is a data set, a gamma and a C. SVC is fitted with its default tolerance. `KernelSVC` is
fitted from scratch with tolerances 1e-3, 1e-4, ... until its plain hinge objective is no worse
than SVC's; the time of that fit counts, kernel computation included. Both objectives are computed
here, in float64, from support vectors, coefficients and intercept. Both run on one core, by turns,
in processor seconds, and the best of a few runs is taken. Compilation is timed by itself.

Where scikit-learn-intelex is installed, its SVC with the default tolerance is a second rival, which
takes turns with the other two on one thread. Besides
the data sets there are ten cells on generated data with overlapping classes and C from 30 to 1,000,
in which thousands of support vectors are free or at their bounds.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from geartrain import datasets
from geartrain.compiled.records import Array
from geartrain.estimators import KernelSVC
from geartrain.estimators.svm.kernel import Kernel
from geartrain_lab.store import page_table

GAMMAS: tuple[float | str, ...] = (0.1, 1.0, "scale")
CS = (0.03, 1.0, 30.0)
TOLERANCES = (1e-3, 1e-4, 1e-5, 1e-6)
# Generated data: informative features of ten, rows, gamma and C.
OVERLAPPING = (
    (4, 8000, 1.0, 30.0),
    (3, 8000, 1.0, 30.0),
    (6, 8000, 1.0, 30.0),
    (10, 8000, 1.0, 30.0),
    (4, 8000, 0.3, 100.0),
    (8, 6000, 0.1, 100.0),
    (5, 5000, 0.2, 300.0),
    (4, 5000, 1.0, 300.0),
    (5, 4000, 0.3, 1000.0),
    (8, 4000, 0.1, 1000.0),
)
SLACK = 1e-12  # relative, in "no worse": rounding of two float64 sums
_LONG = 5.0  # seconds of a round of fits that is not repeated
MEMORY_ROWS, MEMORY_LIMIT = 20_000, 500.0

Problems = list[tuple[Array, Array]]


def run(json_file: str | None = None, quick: bool = False) -> list[dict[str, Any]]:
    """Print the table, write it, and answer its rows, one per cell."""
    from threadpoolctl import threadpool_limits

    rows = []
    with threadpool_limits(1):
        compile_seconds = _compile()
        print(f"one core each; compilation {compile_seconds:.1f} s, once per machine, not included")
        print(_line([head for head, *_ in _COLUMNS.values()]))
        for name, load in _sets(quick):
            try:
                problems = load()
            except FileNotFoundError as error:
                print(f"{name:14} left out: {error}")
                continue
            for gamma, C in itertools.product(GAMMAS, CS):
                rows.append({"data": name, **_cell(problems, gamma, C)})
                print(_line(_cells(rows[-1])), flush=True)
        for informative, m, gamma, C in () if quick else OVERLAPPING:
            problems = [overlapping(informative, m)]
            rows.append({"data": f"made, {informative} of 10", **_cell(problems, gamma, C)})
            print(_line(_cells(rows[-1])), flush=True)
    summary = _summary(rows)
    for name, part in summary["by_data"].items():
        print(f"{name:14} mean ratio {part['geometric_mean']:.3f}, largest {part['largest']:.3f}")
    print(
        f"geometric mean of the ratio {summary['geometric_mean']:.3f}, largest "
        f"{summary['largest']:.3f}, smallest agreement {100 * summary['agreement']:.2f} %"
    )
    if np.isfinite(summary["intelex_geometric_mean"]):
        print(
            f"to scikit-learn-intelex: geometric mean {summary['intelex_geometric_mean']:.3f}, "
            f"largest {summary['intelex_largest']:.3f}"
        )
    if not quick:
        summary["mb_before"], summary["peak_mb"] = _peak_memory()
        print(
            f"m = {MEMORY_ROWS}, memory_limit = {MEMORY_LIMIT:.0f} MB: peak of the process "
            f"{summary['peak_mb']:.0f} MB, of which {summary['mb_before']:.0f} MB were there "
            "before the fit"
        )
    if json_file is not None:
        machine = {"python": platform.python_version(), "machine": platform.platform()}
        table = page_table([head for _, head, *_ in _COLUMNS.values()], map(_cells, rows))
        content = {**machine, "compile_seconds": compile_seconds, **summary, "rows": rows}
        content["tables"] = {"estimators": table}
        Path(json_file).write_text(json.dumps(content, indent=1))
    return rows


def _sets(quick: bool) -> Iterator[tuple[str, Callable[[], Problems]]]:
    yield "gas sensors", _gas
    yield ("3 digit pairs" if quick else "45 digit pairs"), lambda: _digit_pairs(quick)
    if not quick:
        yield "a9a", lambda: _libsvm("a9a.libsvm", 6000)
        yield "phishing", lambda: _libsvm("phishing.libsvm", None)


def _gas() -> Problems:
    table = datasets.load_gas_sensors()
    return [(table.X, table.y)]


def _libsvm(name: str, m: int | None) -> Problems:
    table = datasets.load_libsvm(name)
    y = np.where(table.y[:m] == table.y.max(), 1.0, -1.0)
    return [(np.ascontiguousarray(table.X[:m].toarray()), y)]


def overlapping(informative: int, m: int) -> tuple[Array, Array]:
    """Two classes in ten standardised features that overlap, and a tenth of wrong labels."""
    from sklearn.datasets import make_classification
    from sklearn.preprocessing import StandardScaler

    X, y = make_classification(
        m,
        10,
        n_informative=informative,
        n_redundant=10 - informative,
        class_sep=0.3,
        flip_y=0.2,
        random_state=0,
    )
    return StandardScaler().fit_transform(X), 2.0 * y - 1.0


def _intel() -> Any:
    """The SVC of scikit-learn-intelex on one thread, or None if it is not installed."""
    try:
        import_module("daal4py").daalinit(1)
        return import_module("sklearnex.svm").SVC
    except ImportError:
        return None


def _digit_pairs(quick: bool) -> Problems:
    from sklearn.datasets import load_digits

    X, digit = load_digits(return_X_y=True)
    pairs = [(1, 7), (3, 8), (4, 9)] if quick else list(itertools.combinations(range(10), 2))
    kept = [np.isin(digit, pair) for pair in pairs]
    return [
        (X[mask] / 16.0, np.where(digit[mask] == a, 1.0, -1.0))
        for mask, (a, _) in zip(kept, pairs, strict=True)
    ]


def _compile() -> float:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    start = time.perf_counter()
    KernelSVC().fit(X, X[:, 0] > 0)
    return time.perf_counter() - start


def _cell(problems: Problems, gamma: float | str, C: float) -> dict[str, Any]:
    """Times over all problems of the cell; the worst of everything else."""
    from sklearn.svm import SVC

    intel = _intel()
    totals = {"svc_seconds": 0.0, "intelex_seconds": 0.0, "seconds": 0.0}
    tolerances, excess, gaps, agreements = [], [], [], []
    for X, y in problems:
        runs = 3 if y.size > 3000 else 5
        rivals = [lambda: SVC(C=C, gamma=gamma).fit(X, y)]
        rivals += [lambda: intel(C=C, gamma=gamma).fit(X, y)] if intel else []
        fastest = [np.inf] * len(rivals)
        for tol in TOLERANCES:
            ours = lambda: KernelSVC(C=C, gamma=gamma, tol=tol).fit(X, y)  # noqa: E731
            *others, (model, seconds) = _in_turn([*rivals, ours], runs)
            reference = others[0][0]
            fastest = [min(a, b) for a, (_, b) in zip(fastest, others, strict=True)]
            target, reached = (_objective(fitted, X, y, C) for fitted in (reference, model))
            if reached <= target * (1.0 + SLACK):
                break
        totals["svc_seconds"] += fastest[0]
        totals["intelex_seconds"] += fastest[1] if intel else np.nan
        totals["seconds"] += seconds
        tolerances.append(tol)
        excess.append(reached / target - 1.0)
        gaps.append(model.gap_ / model.objective_)
        agreements.append(_agreement(X, y, gamma, C))
    return {
        "m": int(np.mean([y.size for _, y in problems])),
        "gamma": gamma,
        "C": C,
        **totals,
        "ratio": totals["seconds"] / totals["svc_seconds"],
        "intelex_ratio": totals["seconds"] / totals["intelex_seconds"],
        "tol": min(tolerances),
        "objective_excess": max(excess),
        "relative_gap": max(gaps),
        "agreement": float(np.mean(agreements)),
    }


def _in_turn(fits: list[Callable[[], Any]], runs: int) -> list[tuple[Any, float]]:
    """Of each fit the model of the last run and the seconds of the fastest; they take turns.

    Fits that take long are not repeated.
    """
    models, seconds = [None] * len(fits), [np.inf] * len(fits)
    for done in range(runs):
        if done and sum(seconds) > _LONG:
            break
        for k, fit in enumerate(fits):
            start = time.process_time()
            models[k] = fit()
            seconds[k] = min(seconds[k], time.process_time() - start)
    return list(zip(models, seconds, strict=True))


def _objective(model: Any, X: Array, y: Array, C: float) -> float:
    """1/2 |w|^2 + C sum of hinge losses, float64, by the same code for both models."""
    gamma = model._gamma if isinstance(model._gamma, float) else model._kernel.gamma
    coefficients = model.dual_coef_[0]
    f = Kernel("rbf", gamma).expand(X, X[model.support_], coefficients)
    losses = np.maximum(0.0, 1.0 - y * (f + model.intercept_[0]))
    return float(0.5 * coefficients @ f[model.support_] + C * losses.sum())


def _agreement(X: Array, y: Array, gamma: float | str, C: float) -> float:
    """Share of a held-out fifth on which both models say the same."""
    from sklearn.svm import SVC

    held_out = np.random.default_rng(0).permutation(y.size) < y.size // 5
    answers = [
        model(C=C, gamma=gamma).fit(X[~held_out], y[~held_out]).predict(X[held_out])
        for model in (KernelSVC, SVC)
    ]
    return float(np.mean(answers[0] == answers[1]))


# By name: the head of the column in print and in the documentation, its width and its format.
_COLUMNS: dict[str, tuple[str, str, int, str]] = {
    "data": ("data", "data", -14, ""),
    "m": ("m", "rows", 7, ""),
    "gamma": ("gamma", "gamma", 7, ""),
    "C": ("C", "C", 6, "g"),
    "svc_seconds": ("SVC s", "SVC, s", 10, ".4f"),
    "intelex_seconds": ("intelex s", "intelex, s", 11, ".4f"),
    "seconds": ("ours s", "KernelSVC, s", 10, ".4f"),
    "ratio": ("ratio", "ratio to SVC", 8, ".3f"),
    "intelex_ratio": ("to intelex", "ratio to intelex", 12, ".3f"),
    "tol": ("tol", "tol", 8, ".0e"),
    "objective_excess": ("objective", "objective", 12, "+.1e"),
    "relative_gap": ("rel. gap", "gap", 10, ".1e"),
    "agreement": ("agree", "agreement", 8, ".2%"),
}


def _line(cells: list[str]) -> str:
    widths = [width for *_, width, _ in _COLUMNS.values()]
    aligned = (c.ljust(-w) if w < 0 else c.rjust(w) for c, w in zip(cells, widths, strict=True))
    return "".join(aligned)


def _cells(row: dict[str, Any]) -> list[str]:
    return [format(row[name], form) for name, (*_, form) in _COLUMNS.items()]


def _summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    if not rows:
        raise FileNotFoundError(f"no data set is there; set {datasets.DATA_VARIABLE}")
    names = dict.fromkeys(row["data"] for row in rows)
    rival = _mean_and_largest(rows, "intelex_ratio")
    return {
        **_mean_and_largest(rows),
        **{f"intelex_{name}": figure for name, figure in rival.items()},
        "by_data": {
            name: _mean_and_largest([row for row in rows if row["data"] == name]) for name in names
        },
        "agreement": min(row["agreement"] for row in rows),
    }


def _mean_and_largest(rows: list[dict[str, Any]], column: str = "ratio") -> dict[str, float]:
    ratios = [row[column] for row in rows]
    return {"geometric_mean": float(np.exp(np.mean(np.log(ratios)))), "largest": max(ratios)}


def _peak_memory() -> tuple[float, float]:
    """Megabytes at most of a process before and after it fits MEMORY_ROWS samples.

    Of Linux by VmHWM: its ru_maxrss is that of the process which started this one, if larger.
    """
    code = (
        "import os, resource, numpy as np\n"
        "from geartrain.estimators import KernelSVC\n"
        "def peak():\n"
        "    if not os.path.exists('/proc/self/status'):\n"
        "        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "    with open('/proc/self/status') as lines:\n"
        "        return next(int(s.split()[1]) for s in lines if s.startswith('VmHWM'))\n"
        f"X = np.random.default_rng(0).standard_normal(({MEMORY_ROWS}, 20))\n"
        "y = np.sign(X[:, 0] + 0.5 * np.sin(3 * X[:, 1]))\n"
        "KernelSVC().fit(X[:100], y[:100])\n"
        "before = peak()\n"
        f"KernelSVC(memory_limit={MEMORY_LIMIT}).fit(X, y)\n"
        "print(before, peak())\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    unit = 1.0 if sys.platform == "darwin" else 1024.0  # bytes of ru_maxrss
    before, after = (unit * int(number) / 1e6 for number in done.stdout.split())
    return before, after
