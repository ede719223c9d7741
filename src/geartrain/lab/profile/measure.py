"""``geartrain bench profile``: profiles of `auto` and `sae-qn` on random convex problems.

The problems are the report's (see `geartrain.lab.profile.families` for the two splits), the solvers
and the measure are those of `geartrain.lab.profile.solvers`. Every solver runs once per problem,
and its bill ``rho N_h + N_g`` follows for every ratio rho of prices; `auto` is told the prices and
runs once per ratio.
"""

from __future__ import annotations

import json
import math
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from geartrain.lab.profile import report
from geartrain.lab.profile.families import FAMILIES, Split, problems
from geartrain.lab.profile.solvers import all_outcomes

Row = dict[str, Any]

COUNT = 15 * len(FAMILIES)  # 330 problems: each family as often as any other
COUNT_QUICK = len(FAMILIES)


def measure(split: Split, count: int, start: int = 0) -> list[Row]:
    """One row per problem and solver.

    Parameters
    ----------
    split : {"development", "report"}
        Of the problems.
    count, start : int
        How many, and the number of the first one.

    Returns
    -------
    list of dict
        ``problem``, ``family``, ``n``, ``solver`` and the fields of
        `geartrain.lab.profile.solvers.Outcome`.
    """
    rows: list[Row] = []
    begin = time.perf_counter()
    for k, problem in enumerate(problems(split, count, start), 1):
        head = {"problem": problem.name, "family": problem.family, "n": problem.n}
        for solver, outcome in all_outcomes(problem).items():
            rows.append({**head, "solver": solver, **asdict(outcome)})
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
    rows = measure(split, COUNT_QUICK if quick else COUNT)
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
