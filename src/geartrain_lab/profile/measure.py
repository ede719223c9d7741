"""``geartrain bench profile``: profiles of `auto` and `pqn` on random convex problems.

The problems are the report's (see `geartrain_lab.profile.families` for the two splits), the solvers
and the measure are those of `geartrain_lab.profile.solvers`. Every solver runs once per problem,
and its bill ``rho N_h + N_g`` follows for every ratio rho of prices; `auto` is told the prices and
runs once per ratio. Problems are shared out among as many processes as there are processors.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from geartrain_lab.profile import report
from geartrain_lab.profile.families import FAMILIES, Split, problem
from geartrain_lab.profile.solvers import all_outcomes

Row = dict[str, Any]

COUNT = 15 * len(FAMILIES)  # 330 problems: each family as often as any other
COUNT_QUICK = len(FAMILIES)
# The report problems before this one were looked at while the methods were made.
FIRST = 2 * COUNT


def measure(split: Split, count: int, start: int = 0, processes: int | None = None) -> list[Row]:
    """One row per problem and solver.

    Parameters
    ----------
    split : {"development", "report"}
        Of the problems.
    count, start : int
        How many, and the number of the first one.
    processes : int, optional
        Among which the problems are shared out; by default as many as there are processors. The
        rows do not depend on it.

    Returns
    -------
    list of dict
        ``problem``, ``family``, ``n``, ``solver`` and the fields of
        `geartrain_lab.profile.solvers.Outcome`.
    """
    numbers = range(start, start + count)
    processes = min(processes or os.cpu_count() or 1, count)
    if processes == 1:
        return _gathered(map(partial(of_problem, split), numbers), count)
    # One thread of BLAS per process, said before the processes import it.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        return _gathered(pool.map(partial(of_problem, split), numbers), count)


def of_problem(split: Split, k: int) -> list[Row]:
    """The rows of problem k."""
    drawn = problem(split, k)
    head = {"problem": drawn.name, "family": drawn.family, "n": drawn.n}
    return [
        {**head, "solver": solver, **asdict(outcome)}
        for solver, outcome in all_outcomes(drawn).items()
    ]


def _gathered(parts: Iterable[list[Row]], count: int) -> list[Row]:
    """All rows; how far the measurement is, is told meanwhile."""
    rows: list[Row] = []
    begin = time.perf_counter()
    for k, part in enumerate(parts, 1):
        rows += part
        if k % 10 == 0 or k == count:
            spent = time.perf_counter() - begin
            left = spent / k * (count - k)
            print(f"[{k}/{count}] {spent:.0f} s, about {left:.0f} s left", file=sys.stderr)
    return rows


def run(json_file: str | None = None, quick: bool = False, split: Split = "report") -> None:
    """Measure, print, and write the pictures beside the JSON file.

    Parameters
    ----------
    json_file : str, optional
        Where to write the figures and all rows.
    quick : bool
        One problem of each family.
    split : {"development", "report"}
        Whoever tunes a method looks at the development problems.
    """
    if json_file is not None:
        Path(json_file).open("a").close()  # an error now, not after the measurement
    rows = measure(split, COUNT_QUICK if quick else COUNT, FIRST)
    figures = report.summary(rows)
    report.show(rows, figures)
    if json_file is not None:
        path = Path(json_file)
        data = _finite({"split": split, "summary": figures, "rows": rows})
        path.write_text(json.dumps(data, indent=1))
        pictures = report.draw(rows, path.with_suffix(""))
        print("wrote " + ", ".join(map(str, (path, *pictures))))


def _finite(data: Any) -> Any:
    """`data` with None for infinity and NaN, which JSON does not know."""
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
