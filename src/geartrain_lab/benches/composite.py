"""``geartrain bench composite``: calls of h to f - f* = r (f(x0) - f*) with a non-smooth term.

`pqn` is compared with the best of the gradient methods that take h + g as one smooth term, each
with its own advantage: FISTA with restart knows the smoothness of the sum, OWL-QN is run where psi
is an l1 norm, SciPy's L-BFGS-B where psi is a box, and PANOC and the proximal quasi-Newton method
everywhere. "pqn(1)" is `pqn` with equal prices: a proximal quasi-Newton method on the sum
that learns the scales of the variables, which the published one does not. It counts as ours; the
ratio with it among the others is told apart. f* is from long runs of the learned methods. A rival
is cut off when it has asked h twice as often, and ten times more, as the best rival before it: it
is then not the best one.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import geartrain as gt
from geartrain.oracles import LinearModel, Quadratic
from geartrain.oracles.nonsmooth import L1, Box, GroupL1, NonNegative, Simplex
from geartrain_lab import harness, problems
from geartrain_lab.harness import Row, Solver, Task, by_solver, geometric_mean, lowest, told
from geartrain_lab.nonsmooth_rivals import OWLQN, PANOC
from geartrain_lab.problems.shards import logistic_in_shards, with_unit_rows
from geartrain_lab.store import PageTable, page_table

TARGETS = (1e-3, 1e-5, 1e-7)
MAIN = 1e-5
SECONDS = 60.0  # per run
Terms = tuple[Any, Any, Any]  # h, g and psi


@dataclass(frozen=True)
class CompositeProblem:
    """A problem by name; `make` returns (h, g, psi), and `L` is the smoothness of h + g."""

    name: str
    make: Callable[[], Terms]
    L: Callable[[Any, Any], float]
    made_up: bool = False  # not used in development

    def task(self) -> Task:
        h, g, psi = self.make()
        x0 = psi.prox(np.zeros(h.n), 1.0)
        start = h.value_and_grad(x0)[0] + g.value_and_grad(x0)[0] + psi.value(x0)
        rule = gt.stop.any_of(gt.stop.Gradient(rel=1e-9), gt.stop.Seconds(SECONDS))
        learned = [gt.methods.ProximalQuasiNewton(), gt.methods.ProximalQuasiNewton(rho=1.0)]
        facts = {"made_up": self.made_up, "psi": psi, "L": self.L(h, g)}
        f_star = lowest(h, g + psi, x0, learned, rule)
        return Task(self.name, h, g + psi, x0, f_star, start, facts=facts)


def _sum_of_constants(h: Any, g: Any) -> float:
    return float(h.L + g.L)


def _of_all_rows(h: Any, g: Any) -> float:
    """h + g is the mean over all rows, the first part of the difference h."""
    return float(h.parts[0][1].L)


def l1_shards(name: str, shards: int, lam: float) -> Terms:
    """Logistic regression on a file in shards with an l1 penalty."""
    h, g = problems.libsvm_shards(name, shards, 0.0)
    return h, g, L1(lam)


def text_like(shards: int, lam: float, seed: int) -> Terms:
    """Sparse rows with word frequencies of Zipf's law, and labels by a few of the words."""
    rng = np.random.default_rng(seed)
    m, n = 2000, 400
    frequency = 1.0 / np.arange(2, n + 2)
    X = sparse.csr_array((rng.random((m, n)) < 3.0 * frequency) * rng.exponential(1.0, (m, n)))
    words = rng.choice(n, 20, replace=False)
    margins = np.asarray(X[:, words] @ rng.standard_normal(20)).ravel()
    y = np.where(margins + 0.3 * rng.standard_normal(m) > 0, 1.0, -1.0)
    A, y = with_unit_rows(X, y)
    h, g = logistic_in_shards(A, y, m // shards, 0.0)
    return h, g, L1(lam)


def smooth_curve(bound: float, seed: int, n: int = 200) -> Terms:
    """Logistic regression on random walks; a smooth curve of coefficients within bounds."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((400, n)).cumsum(axis=1) / np.sqrt(n)
    wave = np.sin(np.arange(n) / 15.0)
    y = np.where(A @ wave + 2.0 * rng.standard_normal(400) > 0, 1.0, -1.0)
    D = sparse.diags_array([np.full(n - 1, -1.0), np.ones(n - 1)], offsets=[0, 1], shape=(n - 1, n))
    return LinearModel(A, y), Quadratic(sparse.csr_array(10.0 * (D.T @ D))), Box(-bound, bound)


def deblurring(side: int, seed: int) -> Terms:
    """A blurred picture whose brightness is not negative."""
    h, g = problems.total_variation(side=side, seed=seed)
    return h, g, NonNegative()


def features(psi: Any, seed: int, n: int = 60) -> Terms:
    """Logistic regression on features of very different sizes, and a steep ridge."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((300, n)) * np.geomspace(1.0, 1e-2, n)
    y = np.where(A @ rng.standard_normal(n) + 0.3 * rng.standard_normal(300) > 0, 1.0, -1.0)
    return LinearModel(A, y), Quadratic(np.diag(np.geomspace(10.0, 1e-4, n))), psi


def suite(quick: bool = False) -> list[CompositeProblem]:
    rows, both = _of_all_rows, _sum_of_constants
    if quick:
        return [
            CompositeProblem("text-like, 8 shards", partial(text_like, 8, 1e-3, 1), rows),
            CompositeProblem("curve in a box", partial(smooth_curve, 0.05, 1, 80), both),
            CompositeProblem("groups", partial(features, GroupL1(4, 1e-2), 1), both),
        ]
    out = []
    for name in ("a9a", "mushrooms", "phishing"):
        for shards in (4, 16, 64):
            for lam in (1e-3, 1e-4, 1e-5):
                title = f"{name}, {shards} shards, l1 {lam:g}"
                out.append(CompositeProblem(title, partial(l1_shards, name, shards, lam), rows))
    for made_up, seed in ((False, 0), (True, 100)):
        kind = ", made up" if made_up else ""
        made = [
            ("text-like, 8 shards, l1 0.001", partial(text_like, 8, 1e-3, seed), rows),
            ("text-like, 32 shards, l1 0.0001", partial(text_like, 32, 1e-4, seed), rows),
            ("curve in a box", partial(smooth_curve, 0.05, seed), both),
            ("curve in a narrow box", partial(smooth_curve, 0.01, seed), both),
            ("deblurring, x >= 0", partial(deblurring, 48, seed), both),
            ("groups", partial(features, GroupL1(4, 1e-2), seed + 5), both),
            ("simplex", partial(features, Simplex(3.0), seed + 5), both),
        ]
        out += [CompositeProblem(title + kind, make, L, made_up) for title, make, L in made]
    return out


def _within_twice(task: Task, rows: list[Row]) -> Any:
    """Twice the calls of h of the best rival so far, and ten times more."""
    best = min(
        (r["h.grad"] for r in rows if r["target"] == TARGETS[-1] and r["solver"] not in OURS),
        default=math.inf,
    )
    clock = gt.stop.Seconds(SECONDS)
    if math.isinf(best):
        return clock
    return gt.stop.any_of(clock, gt.stop.Calls({"h.grad": int(2.0 * best + 10.0)}))


def _rival(name: str, make: Callable[[Task], Any], psi: type = object) -> Solver:
    def unfit(task: Task) -> str:
        return "" if isinstance(task.facts["psi"], psi) else f"not for {task.facts['psi']!r}"

    return Solver(name, lambda task, _: make(task), limit=_within_twice, unfit=unfit)


OURS = ("pqn", "pqn(1)")


def _restarted_fista(task: Task) -> Any:
    fgm = gt.methods.FGM(L=task.facts["L"], mu=0.0)
    return gt.methods.Restarted(fgm, gt.methods.GradientTest())


def _learned(name: str, **options: Any) -> Solver:
    return Solver(
        name,
        lambda task, _: gt.methods.ProximalQuasiNewton(**options),
        limit=lambda task, rows: gt.stop.Seconds(SECONDS),
    )


SOLVERS = (
    _learned("pqn"),
    _learned("pqn(1)", rho=1.0),
    _learned("proximal QN", rho=1.0),
    _rival("L-BFGS-B", lambda task: gt.ScipyLBFGS(20), Box),
    _rival("OWL-QN", lambda task: OWLQN(), L1),
    _rival("PANOC", lambda task: PANOC()),
    _rival("FISTA", _restarted_fista),
)


def ratios(table: Any, target: float, with_own: bool = False) -> Any:
    """By problem: calls of h of pqn over those of the best of the others.

    `with_own`: pqn with equal prices is one of the others.
    """
    calls = by_solver(table[table.target == target], "h.grad")
    rivals = calls.drop(columns=["pqn"] if with_own else list(OURS)).min(axis=1)
    return (calls["pqn"] / rivals)[np.isfinite(calls["pqn"]) | np.isfinite(rivals)]


def summary(table: Any) -> dict[str, Any]:
    """Geometric mean and worst of the ratios, for the problems of development and the others."""
    out = {}
    for made_up, chosen in table.groupby("made_up"):
        for target, with_own in itertools.product(TARGETS, (False, True)):
            found = ratios(chosen, target, with_own)
            if found.empty:
                continue
            kind = "made up" if made_up else "report"
            kind += f"{' with pqn(1)' if with_own else ''} {target:g}"
            # A target that only one side reaches counts as a factor of ten.
            finite = found.min() > 0.0 and found.max() < math.inf
            mean = geometric_mean(found if finite else found.clip(0.1, 10.0))
            out[kind] = {"mean": mean, "worst": found.max(), "of": len(found)}
    return out


def report(table: Any) -> None:
    print(f"calls of h / of g until f - f* <= {MAIN:g} (f(x0) - f*), and those of h of pqn over")
    print(
        "those of the best of the others; '>' cut off, because another is better, or by the clock"
    )
    head, *rows = _cells(table)
    for name, *texts, ratio in (["problem", *head[1:-1], "ratio"], *rows):
        print(f"{name:38}" + "".join(f"{text:>12}" for text in texts) + f"{ratio:>8}")
    for kind, found in summary(table).items():
        print(f"{kind:30} mean {found['mean']:.3f}  worst {found['worst']:.2f}  of {found['of']}")


def _cells(table: Any) -> list[list[str]]:
    """The names of the columns, and calls and ratios by problem."""
    main = table[table.target == MAIN]
    names = list(main[main.fits].solver.unique())
    cells = by_solver(main.assign(cell=main.apply(_cell, axis=1)), "cell")[names]
    rows = [[name, *cells.loc[name], f"{ratio:.2f}"] for name, ratio in ratios(table, MAIN).items()]
    return [["problem", *names, "ratio of calls of h"], *rows]


def page_tables(table: Any) -> dict[str, PageTable]:
    head, *rows = _cells(table)
    means = [
        [*kind.rsplit(" ", 1), f"{found['mean']:.3f}", f"{found['worst']:.2f}", str(found["of"])]
        for kind, found in summary(table).items()
    ]
    names = ["problems", "accuracy", "geometric mean", "largest", "number"]
    return {"composite": page_table(head, rows), "composite_summary": page_table(names, means)}


def _cell(row: Any) -> str:
    """Calls of h and g, '>' where the target is not reached, '.' where psi cannot be taken."""
    if not row.fits:
        return "."
    reached = math.isfinite(row["h.grad"])
    return f"{row['h.grad']:.0f} / {row['g.grad']:.0f}" if reached else ">"


def measured(problems: list[CompositeProblem]) -> Any:
    """The table of `geartrain_lab.harness`; ``fits`` says whether the solver takes psi."""
    tasks = told([p.task for p in problems], [p.name for p in problems])
    table = harness.run(tasks, SOLVERS, TARGETS)
    return table.assign(fits=~table.end.str.startswith("not for")).drop(columns=["psi", "L"])


def run(json_file: str | None = None, quick: bool = False) -> None:
    table = measured(suite(quick))
    report(table)
    if json_file is not None:
        rows = table[table.target.isin(TARGETS) & table.fits].to_dict("records")
        data = {"summary": summary(table), "rows": rows, "tables": page_tables(table)}
        Path(json_file).write_text(json.dumps(data, indent=1))
