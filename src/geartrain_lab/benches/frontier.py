"""``geartrain bench frontier``: who is cheapest at which ratio of prices.

Every method runs once per problem; its bill N_h rho + N_g to reach f - f* = r (f(x0) - f*) follows
for every price ratio rho. A gradient of g costs 1, a partial derivative 1/n and a summand 1/m of a
gradient of its term. ``auto`` knows the prices and is run once per rho. f* is from runs to
rounding, not from the best of the table. Seconds are compared, too: ``auto`` runs once more and
measures the prices itself.

SciPy's L-BFGS and pqn run first. Any other run is cut off when its bill is over `TIMES` that of
the better of the two at every rho: it can then be the cheapest nowhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import geartrain as gt
from geartrain_lab import frontier_report, harness, problems
from geartrain_lab.frontier_rivals import AUTO, AUTOS, FIRST, OTHERS, RHOS, SECONDS, TIMED, worth
from geartrain_lab.harness import CALLS, END, Task, lowest, told
from geartrain_lab.store import pandas

TARGETS = (1e-3, 1e-5, 1e-7)


def _no_constants(h: Any, g: Any) -> dict[str, float]:
    return {}


@dataclass(frozen=True)
class SuiteProblem:
    """A problem by name; `make` returns (h, g)."""

    name: str
    make: Callable[[], tuple[Any, Any]]
    separable: bool = True  # False where separation is not expected to win
    # Constants that the terms do not know, for the methods that ask for them: L_h, mu.
    constants: Callable[[Any, Any], dict[str, float]] = _no_constants
    f_star: Callable[[Any, Any], float] | None = None  # used instead of long runs

    def task(self) -> Task:
        """The problem from x0 = 0, with its minimum."""
        h, g = self.make()
        x0 = np.zeros(h.n)
        start = h.value_and_grad(x0)[0] + g.value_and_grad(x0)[0]
        if self.f_star is not None:
            f_star = self.f_star(h, g)
        else:
            rule = gt.stop.any_of(gt.stop.Gradient(rel=1e-10), gt.stop.Seconds(2.0 * SECONDS))
            long = [gt.methods.ProximalQuasiNewton(), gt.ScipyLBFGS(50)]
            f_star = lowest(h, g, x0, long, rule)
        return Task(self.name, h, g, x0, f_star, start, facts={"constants": self.constants(h, g)})


def suite(quick: bool = False) -> list[SuiteProblem]:
    minimum = problems.kernel_svm_minimum
    constants = problems.similarity_constants
    if quick:
        return [
            SuiteProblem("graph Laplacian", lambda: problems.graph_laplacian(side=20, rows=150)),
            SuiteProblem("total variation", lambda: problems.total_variation(side=32)),
            SuiteProblem("log-density", lambda: problems.log_density(n=100, p=1200)),
            SuiteProblem("kernel SVM, random", problems.random_kernel_svm, f_star=minimum),
            SuiteProblem("random, 8 shards", problems.random_shards, constants=constants),
        ]
    out = [
        SuiteProblem("log-density", problems.log_density),
        SuiteProblem("kernel SVM", problems.gas_sensors_svm, f_star=minimum),
        SuiteProblem("graph Laplacian", problems.graph_laplacian),
        SuiteProblem("total variation", problems.total_variation),
    ]
    for name in ("a9a", "mushrooms", "phishing"):
        for shards in (4, 16, 64):
            for l2 in (1e-4, 1e-5):
                title = f"{name}, {shards} shards, l2 {l2:g}"
                make = partial(problems.libsvm_shards, name, shards, l2)
                out.append(SuiteProblem(title, make, constants=constants))
    rcv1 = partial(problems.libsvm_shards, "rcv1_small", 4, 1e-4)
    out.append(SuiteProblem("rcv1_small, 4 shards", rcv1, separable=False, constants=constants))
    return out


class Bills(NamedTuple):
    """The rows of problems, why methods have none, and `auto` with prices that it measures."""

    rows: Any
    left_out: Any
    timed: Any


def bills(task: Task) -> Bills:
    table = harness.run([task], (*FIRST, *OTHERS, *AUTOS), TARGETS)
    table["N_h"], table["N_g"] = worth(task, table)
    table = table.rename(columns={"solver": "method", "end": "cut"}).drop(columns="constants")
    whole = table[table.target == END].set_index("method")
    table["end_h"], table["end_g"] = table.method.map(whole.N_h), table.method.map(whole.N_g)
    refused = np.isinf(table.end_h)
    reasons = table[refused & (table.target == END)].rename(columns={"cut": "reason"})
    table = table[~refused & (table.target != END)]
    rows = pandas().concat([table.assign(rho=rho) for rho in RHOS])
    told_rho = rows.method.map(AUTO)
    rows = rows[(told_rho.isna() & (rows.method != TIMED)) | (told_rho == rows.rho)]
    # In the order of the runs, and for each of them by target and rho.
    rows = rows.sort_index(kind="stable").replace({"method": dict.fromkeys(AUTO, "auto")})
    rows = rows.assign(bill=rows.N_h * rows.rho + rows.N_g)
    columns = ["problem", "method", "rho", "bill", "target", "N_h", "N_g", "cut", "seconds", *CALLS]
    return Bills(
        rows[[*columns, "end_h", "end_g"]],
        reasons[["problem", "method", "reason"]],
        table[table.method == TIMED][["problem", *columns[4:], "end_h", "end_g"]],
    )


def run(json_file: str | None = None, quick: bool = False) -> None:
    chosen = suite(quick)
    each = [bills(task) for task in told([p.task for p in chosen], [p.name for p in chosen])]
    tables = Bills(
        *(pandas().concat(parts, ignore_index=True) for parts in zip(*each, strict=True))
    )
    rows, left_out, timed = (table.to_dict("records") for table in tables)
    figures = frontier_report.summary(rows, chosen)
    frontier_report.report(rows, chosen, figures)
    frontier_report.print_seconds(rows, timed)
    if json_file is not None:
        path = Path(json_file)
        data = {"summary": figures, "rows": rows, "left_out": left_out, "timed": timed}
        data["tables"] = frontier_report.page_tables(rows, figures)
        path.write_text(json.dumps(data, indent=1))
        tables.rows.to_csv(path.with_suffix(".csv"), index=False)
        frontier_report.draw(rows, path.with_suffix(".png"))
        print(f"wrote {path}, {path.with_suffix('.csv')}, {path.with_suffix('.png')}")
