"""``geartrain bench profile``: profiles of `auto` and `pqn` on random convex problems.

The problems are the report's (see `geartrain_lab.problems.random_convex` for the two splits). A
solver is judged at each point that it reports, which is the point that it would return if it were
stopped there; the bare terms are asked, so that this is never counted. A problem is *solved* when
``|grad f| <= 1e-6 |grad f(x0)|`` at such a point, and the calls made until then are the cost. The
stopping tests of the solvers are switched off.

SciPy's L-BFGS runs first, up to `LIMITS`. The others are cut off at `TIMES` as many gradients of h
as the better of its two memories took (at least `LEAST`): beyond that a problem counts as unsolved.
The calls of a term are expressed in gradients of it: a product with the Hessian, a value and a
proximal step count as one gradient, n partial derivatives as one, and m summands as one. The bill
``rho N_h + N_g`` follows for every ratio rho of prices; `auto` is told the prices and runs once per
ratio. Problems are shared out among as many processes as there are processors.

- Data profile [1]_: the share of problems that a solver solves at a cost of at most alpha. Moré
  and Wild count in units of n + 1 values, the price of a simplex gradient; here gradients are given
  and the unit is one of them.
- Performance profile [2]_: the share of problems that a solver solves at a cost of at most tau
  times the least cost of all solvers.

References
----------
.. [1] J. J. Moré, S. M. Wild, Benchmarking derivative-free optimization algorithms, SIAM J. Optim.
   20 (2009).
.. [2] E. D. Dolan, J. J. Moré, Benchmarking optimization software with performance profiles, Math.
   Program. 91 (2002).
"""

from __future__ import annotations

import contextlib
import json
import math
import multiprocessing
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from tqdm import tqdm

import geartrain as gt
from geartrain.comparison import ComparedRun
from geartrain.core.contracts import State
from geartrain.oracles.ledger import in_gradients
from geartrain.oracles.protocols import Vector, can
from geartrain.problem import Sum
from geartrain_lab import harness, static
from geartrain_lab.chart import Chart, Curve
from geartrain_lab.harness import END, Row, Solver, Task, by_solver, one_thread
from geartrain_lab.problems.random_convex import FAMILIES, RandomProblem, Split, problem
from geartrain_lab.store import pandas

TOL = 1e-6
RHOS = (1, 3, 10, 30, 100, 1000)
LIMITS = {"h.grad": 3000, "g.grad": 50_000}  # where any run is cut off
TIMES, LEAST = 10, 100  # where a run is cut off that is far behind L-BFGS
ROUNDING = 1e-12  # of the sizes of both terms: a value above f(x0) by more than this is a climb
COUNT = 15 * len(FAMILIES)  # 330 problems: each family as often as any other
COUNT_QUICK = len(FAMILIES)
# The report problems before this one were looked at while the methods were made.
FIRST = 2 * COUNT

Costs = dict[str, Vector]  # by solver: what it paid for each problem, inf where unsolved

OURS = "pqn"
BEST = "L-BFGS, best memory"
CAP, NEVER = 1.25, 2.0  # what `auto` may waste in 95 of 100 problems, and in any
WORST = 10  # how many are named
UNSOLVED = 1000.0  # the ratio of an unsolved problem in a geometric mean
_COLOURS = {
    "auto": "#0072B2",
    OURS: "#009E73",
    BEST: "#444444",
    "trust-krylov": "#CC79A7",
    "afb": "#56B4E9",
    "fgm": "#E69F00",
}


class GradientWatch:
    """Judges the points that a solver reports by the gradient, and notes where f has grown."""

    def __init__(self, task: Task) -> None:
        self._task = task
        (value_h, grad_h), (value_g, grad_g) = self._ask(task.x0)
        self._f0, self._size = value_h + value_g, abs(value_h) + abs(value_g)
        self._start = float(np.linalg.norm(grad_h + grad_g))
        self._marks: list[tuple[float, Mapping[str, float]]] = []
        self.climb = 0.0  # largest f - f(x0) of a reported point over the sizes of both terms
        self.options = {"callback": self._look}

    def _ask(self, x: Vector) -> tuple[tuple[float, Vector], tuple[float, Vector]]:
        return self._task.h.value_and_grad(x), self._task.g.value_and_grad(x)

    def _look(self, intermediate_result: Any) -> bool:
        (value_h, grad_h), (value_g, grad_g) = self._ask(intermediate_result.x)
        rise = value_h + value_g - self._f0
        size = self._size + abs(value_h) + abs(value_g)
        if rise > ROUNDING * size:
            self.climb = max(self.climb, rise / size)
        accuracy = float(np.linalg.norm(grad_h + grad_g)) / self._start
        now = {"seconds": intermediate_result.seconds, **intermediate_result.calls}
        self._marks.append((accuracy, now))
        return accuracy <= TOL

    def marks(self, run: ComparedRun) -> tuple[Any, Mapping[str, Any]]:
        """The accuracy of every reported point, and seconds and calls until then."""
        accuracies, seen = zip(*self._marks, strict=True) if self._marks else ((), ())
        keys = seen[0] if seen else ()
        return np.array(accuracies), {key: [now[key] for now in seen] for key in keys}

    def facts(self) -> Row:
        return {"climb": self.climb}


# The solvers ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class NewtonState(State):
    """A point of the trust-region method."""

    x: Vector
    value: float

    @property
    def point(self) -> Vector:
        return self.x


@dataclass(frozen=True)
class TrustKrylov:
    """SciPy's trust-region Newton method with Krylov subspaces, for terms that give products."""

    most: int  # gradients of h and products with its Hessian

    needs: ClassVar[tuple[str, ...]] = ("value_and_grad",)

    def solve(self, problem: Sum, x0: Vector, report: Callable[[State], bool]) -> None:
        from scipy.optimize import minimize

        h, g, calls = problem.h, problem.g, problem.ledger.calls

        def both(x: Vector) -> tuple[float, Vector]:
            (value_h, grad_h), (value_g, grad_g) = h.value_and_grad(x), g.value_and_grad(x)
            if calls["h.grad"] + calls["h.product"] > self.most:
                raise StopIteration
            return value_h + value_g, grad_h + grad_g

        def product(x: Vector, v: Vector) -> Vector:
            return (h.products(x, v[:, None]) + g.products(x, v[:, None]))[:, 0]

        def each(intermediate_result: Any) -> None:
            new = intermediate_result
            if report(NewtonState(x=np.array(new.x), value=float(new.fun))):
                raise StopIteration

        # SciPy raises these where its model is not finite: no step helps.
        with contextlib.suppress(StopIteration, ValueError, np.linalg.LinAlgError):
            minimize(
                both,
                x0,
                jac=True,
                hessp=product,
                method="trust-krylov",
                callback=each,
                options={"gtol": 0.0, "maxiter": self.most},
            )


def no_products(task: Task) -> str:
    """Why the Newton method cannot take the problem, or nothing."""
    given = can(task.h, "products") and can(task.g, "products")
    return "" if given else "a term gives no products with its Hessian"


def limits(task: Task, rows: list[Row]) -> Any:
    """Where a run is cut off, from the rows of L-BFGS if there are any."""
    taken = [r["h.grad"] for r in rows if r["solver"] in LBFGS and r["target"] == TOL]
    fewest = min(taken, default=math.inf)
    most = int(min(max(LEAST, TIMES * fewest), LIMITS["h.grad"]))
    return gt.stop.Calls({**LIMITS, "h.grad": most})


def auto_at(rho: int) -> str:
    """What `auto` is called where it was told this ratio of prices."""
    return f"auto({rho})"


def _solver(name: str, method: Any, **options: Any) -> Solver:
    return Solver(name, lambda task, _: method, lambda task: options, limits)


# SciPy's L-BFGS has its own line search and gets values and gradients in one call; the better of
# its two memories counts, problem by problem.
LBFGS = {f"lbfgs({memory})": gt.ScipyLBFGS(memory) for memory in (10, 50)}
OTHERS = ("trust-krylov", "afb", "fgm", OURS)
SOLVERS = (
    *(_solver(name, method) for name, method in LBFGS.items()),
    Solver(
        "trust-krylov",
        lambda task, limit: TrustKrylov(limit.budget["h.grad"]),
        limit=limits,
        unfit=no_products,
    ),
    _solver("afb", "afb"),
    _solver("fgm", gt.methods.Restarted(gt.methods.FGM(mu=0.0), gt.methods.GradientTest())),
    _solver(OURS, "pqn"),
    *(_solver(auto_at(rho), "auto", prices={"h.grad": float(rho), "g.grad": 1.0}) for rho in RHOS),
)
SHOWN = auto_at(100)  # the run of `auto` that stands for it where no price is involved


# The measurement --------------------------------------------------------------------------


def worth(table: Any, name: str) -> Any:
    """Calls of a term in gradients of it; values and proximal steps count as one each."""
    gradients = in_gradients(table, name, table["n"], table[f"m_{name}"])
    return gradients + table[f"{name}.value"] + table[f"{name}.prox"]


def outcomes(drawn: RandomProblem, solvers: Iterable[Solver] = SOLVERS) -> Any:
    """A row per solver: gradients of h and g until solved, and in the whole run (0: refused)."""
    m_h, m_g = (int(getattr(t, "n_components", None) or 1) for t in (drawn.h, drawn.g))
    facts = {"family": drawn.family, "n": drawn.n, "m_h": m_h, "m_g": m_g}
    task = Task(drawn.name, drawn.h, drawn.g, drawn.x0, facts=facts)
    table = harness.run([task], list(solvers), (TOL,), watch=GradientWatch, forgiving=True)
    solved, whole = table[table.target == TOL], table[table.target == END]
    end_h = worth(whole, "h").replace(math.inf, 0.0)
    return (
        pandas()
        .DataFrame(
            {
                **{key: solved[key] for key in ("problem", "family", "n", "solver")},
                "N_h": worth(solved, "h"),
                "N_g": worth(solved, "g"),
                "end": solved.end.replace("", "solved"),
                "climb": solved.climb.fillna(0.0) if "climb" in solved else 0.0,
                "end_h": end_h.to_numpy(),
            }
        )
        .reset_index(drop=True)
    )


def measure(split: Split, count: int, start: int = 0, processes: int | None = None) -> Any:
    """The rows of `outcomes` of `count` problems, beginning with number `start`.

    The problems are shared out among `processes`, by default as many as there are processors; the
    rows do not depend on it.
    """
    numbers = range(start, start + count)
    processes = min(processes or os.cpu_count() or 1, count)
    if processes == 1:
        return _gathered(map(partial(of_problem, split), numbers), count)
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        return _gathered(pool.map(partial(of_problem, split), numbers), count)


def of_problem(split: Split, k: int) -> Any:
    with one_thread():
        return outcomes(problem(split, k))


def _gathered(parts: Iterable[Any], count: int) -> Any:
    return pandas().concat(tqdm(parts, total=count), ignore_index=True)


# What it comes to -------------------------------------------------------------------------


def within(costs: Vector, limits: Vector) -> Vector:
    """The share of problems with a cost of at most each of the limits."""
    return np.searchsorted(np.sort(costs), limits, side="right") / costs.size


def ratios_to_best(costs: Mapping[str, Vector]) -> dict[str, Vector]:
    """Costs over the least cost of all solvers; infinity where the problem was not solved."""
    best = np.min(np.stack(list(costs.values())), axis=0)
    return {name: ratios(own, best) for name, own in costs.items()}


def ratios(costs: Vector, others: Vector) -> Vector:
    """``costs / others``: infinity where `costs` is, zero where only `others` is."""
    out = np.full(costs.shape, math.inf)
    solved = np.isfinite(costs)
    out[solved] = costs[solved] / others[solved]
    return out


def best_of(costs: Mapping[str, Vector], *names: str) -> Vector:
    """The least cost of the named solvers, problem by problem."""
    return np.min(np.stack([costs[name] for name in names]), axis=0)


@dataclass(frozen=True)
class Figures:
    """What the ratios come to, over the problems that the other side solved."""

    problems: int
    geometric_mean: float  # an unsolved problem counts as `UNSOLVED`
    percentile_95: float  # the least bound of 95 in 100 ratios
    worst: float
    unsolved: int  # of these, by us
    alone: int  # further problems, which we solved and the other side did not


def figures(costs: Vector, others: Vector) -> Figures:
    """The figures of ``costs / others``, over the problems that the other side solved."""
    known = np.isfinite(others)
    alone = int(np.isfinite(costs[~known]).sum())
    r = ratios(costs, others)[known]
    if r.size == 0:
        return Figures(0, math.nan, math.nan, math.nan, 0, alone)
    finite = np.where(np.isinf(r), UNSOLVED, r)
    return Figures(
        problems=int(r.size),
        geometric_mean=float(np.exp(np.mean(np.log(finite)))),
        percentile_95=float(np.quantile(r, 0.95, method="inverted_cdf")),
        worst=float(r.max()),
        unsolved=int(np.isinf(r).sum()),
        alone=alone,
    )


def competitors(table: Any, rho: float | None = None) -> Costs:
    """Gradients of h, or the bills at a ratio of prices, of those who are drawn.

    L-BFGS has its best memory for each problem.
    """
    cost = table.N_h if rho is None else rho * table.N_h + table.N_g
    wide = by_solver(table.assign(cost=cost), "cost")
    auto = SHOWN if rho is None else auto_at(int(rho))
    own = {"auto": wide[auto], OURS: wide[OURS], BEST: wide[list(LBFGS)].min(axis=1)}
    rest = {name: wide[name] for name in OTHERS if name not in own}
    return {name: column.to_numpy(float) for name, column in {**own, **rest}.items()}


def summary(table: Any) -> Row:
    h_costs, names = competitors(table), table.problem.unique()
    out: Row = {
        "problems": len(h_costs[BEST]),
        "gradients_of_h": {
            name: asdict(figures(h_costs[name], h_costs[BEST])) for name in (OURS, "auto")
        },
        "solved": {name: int(np.isfinite(costs).sum()) for name, costs in h_costs.items()},
        "bills": {},
    }
    for rho in RHOS:
        costs = competitors(table, rho)
        cheaper = best_of(costs, OURS, BEST)
        waste = ratios(costs["auto"], cheaper)
        out["bills"][rho] = {
            "auto / L-BFGS": asdict(figures(costs["auto"], costs[BEST])),
            "pqn / L-BFGS": asdict(figures(costs[OURS], costs[BEST])),
            "auto / cheaper": asdict(figures(costs["auto"], cheaper)),
            "auto within cap": float(np.mean(waste <= CAP)),
            "auto beyond": list(names[waste > NEVER]),
        }
    ours = [OURS, *map(auto_at, RHOS)]
    own = pandas().concat([table[table.solver == solver] for solver in ours])
    for what, which, column in (
        ("unsolved", np.isinf(own.N_h), "end"),
        ("climbs", own.climb > 0.0, "climb"),
    ):
        out[what] = own[which][["problem", "solver", column]].to_dict("records")
    out["worst"] = {name: worst(names, h_costs[name], h_costs[BEST]) for name in (OURS, "auto")}
    return out


def worst(names: Any, costs: Vector, others: Vector) -> list[Row]:
    r = ratios(costs, others)
    r[~np.isfinite(costs) & ~np.isfinite(others)] = 0.0  # neither side solved it
    order = np.argsort(-r, kind="stable")[:WORST]
    return [{"problem": names[i], "ratio": float(r[i]), "cost": float(costs[i])} for i in order]


def show(table: Any, figures_: Row) -> None:
    count = table.problem.nunique()
    print(f"\n{count} random convex problems, until |grad f| <= {TOL:g} |grad f(x0)|")
    print(
        f"a run is cut off at {LIMITS['h.grad']:,} gradients of h, and at {TIMES} times those of "
        "L-BFGS"
    )
    _show_profiles("gradients of h", competitors(table), (5, 10, 20, 50, 100, 200, 500, 1000))
    for rho in RHOS:
        costs = {name: c / (rho + 1.0) for name, c in competitors(table, rho).items()}
        title = f"bill at price ratio {rho}, in units of one evaluation of f"
        _show_profiles(title, costs, (5, 10, 20, 50, 100, 200, 500, 1000))
    _show_families(table)
    for name in OTHERS:
        refused = int((table[table.solver == name].end_h == 0.0).sum())
        if refused:
            print(f"{name} cannot take {refused} of the problems; they count as unsolved for it")
    _show_ratios(figures_)
    for what in ("unsolved", "climbs"):
        print(f"\n{what} by {OURS} or auto: {len(figures_[what])}")
        for row in figures_[what]:
            *_, last = row.values()
            told = last if isinstance(last, str) else f"{last:.2g}"
            print(f"  {row['solver']:12}{row['problem']}: {told}")
    for name, rows in figures_["worst"].items():
        print(f"\nthe {len(rows)} largest ratios of gradients of h, {name} / {BEST}")
        for row in rows:
            print(f"  {row['ratio']:8.2f} {row['cost']:8.0f}  {row['problem']}")


def _show_profiles(title: str, costs: Costs, limits: tuple[int, ...]) -> None:
    factors = np.array([1.0, 1.25, 2.0, 5.0, 10.0])
    print(f"\n{title}: share of problems solved, in per cent")
    heads = [f"{x}" for x in limits] + [f"{x:g} best" for x in factors]
    print(f"{'within':20}" + "".join(f"{h:>10}" for h in heads))
    relative = ratios_to_best(costs)
    for name, own in costs.items():
        shares = [*within(own, np.array(limits, float)), *within(relative[name], factors)]
        print(f"{name:20}" + "".join(f"{100 * s:10.1f}" for s in shares))


def _show_families(table: Any) -> None:
    print(f"\nby family: gradients of h, {OURS} / {BEST} (mean, worst), and the same for auto")
    costs = competitors(table)
    families = table.drop_duplicates("problem").family
    for family in families.unique():
        chosen = (families == family).to_numpy()
        line = f"{family:34}"
        for name in (OURS, "auto"):
            of = figures(costs[name][chosen], costs[BEST][chosen])
            line += f"{of.geometric_mean:9.2f}{of.worst:9.2f}"
        print(line)


def _show_ratios(figures_: Row) -> None:
    head = f"{'geo. mean':>11}{'95 %':>9}{'worst':>9}{'unsolved':>10}{'alone':>7}"
    print(
        f"\nratios, over the problems that the other side solved; an unsolved one counts as "
        f"{UNSOLVED:g} in the mean; alone: solved by us and not by the other side\n{'':36}{head}"
    )
    for name, own in figures_["gradients_of_h"].items():
        print(f"{f'gradients of h, {name} / L-BFGS':36}{_cells(Figures(**own))}")
    for rho, by in figures_["bills"].items():
        for name in ("pqn / L-BFGS", "auto / L-BFGS", "auto / cheaper"):
            print(f"{f'bill at {rho}, {name}':36}{_cells(Figures(**by[name]))}")
        share = 100.0 * by["auto within cap"]
        print(f"    auto within {CAP} of the cheaper: {share:.1f} %", end="")
        print(f"; beyond {NEVER:g}: {len(by['auto beyond'])}")
        for name in by["auto beyond"][:WORST]:
            print(f"        {name}")


def _cells(of: Figures) -> str:
    figures_ = f"{of.geometric_mean:11.3f}{of.percentile_95:9.2f}{of.worst:9.2f}"
    return f"{figures_}{of.unsolved:10d}{of.alone:7d}"


def draw(table: Any, stem: Path) -> list[Path]:
    """Profiles of gradients of h, and of bills at each ratio of prices; the files written."""
    until = "until $|\\nabla f| \\leq 10^{-6}\\,|\\nabla f(x_0)|$"
    title = f"{table.problem.nunique()} random convex problems, {until}"
    costs = competitors(table)
    gradients = [
        _steps("data profile", costs, "gradients of h"),
        _steps("performance profile", ratios_to_best(costs), "gradients of h / fewest", TIMES),
    ]
    above, below = [], []
    for rho in RHOS:
        costs = competitors(table, rho)
        units = {name: own / (rho + 1.0) for name, own in costs.items()}
        above.append(_steps(f"price ratio {rho}", units, "bill / (ratio + 1)"))
        below.append(_steps("", ratios_to_best(costs), "bill / least of all solvers", TIMES))
    bills = f"{stem.name}_bills"
    return [
        *static.sheet(stem.parent, stem.name, title, gradients, 2, ["png"]),
        *static.sheet(stem.parent, bills, title, [*above, *below], len(RHOS), ["png"]),
    ]


def _steps(title: str, costs: Costs, label: str, most: float | None = None) -> Chart:
    """The share of problems at most at each cost, as steps."""
    known = np.concatenate([own[np.isfinite(own)] for own in costs.values()])
    low = 1.0 if most is not None else float(known.min(initial=1e9))
    high = float(most or known.max(initial=10.0))
    curves = []
    # `auto` comes last and is dashed: where it coincides with another, both are seen.
    for name, own in sorted(costs.items(), key=lambda item: item[0] == "auto"):
        at = np.unique(np.concatenate([[low, high], own[np.isfinite(own) & (own <= high)]]))
        line = Curve(name, at, within(own, at), colour=_COLOURS[name], mark="step")
        curves.append(replace(line, dash=name == "auto"))
    return Chart(title, label, "share of problems solved", curves, log="x")


def run(json_file: str | None = None, quick: bool = False, split: Split = "report") -> None:
    """Measure, print, and write the pictures beside the JSON file.

    Whoever tunes a method looks at the split "development".
    """
    if json_file is not None:
        Path(json_file).open("a").close()  # an error now, not after the measurement
    table = measure(split, COUNT_QUICK if quick else COUNT, FIRST)
    found = summary(table)
    show(table, found)
    if json_file is not None:
        path = Path(json_file)
        data = _finite({"split": split, "summary": found, "rows": table.to_dict("records")})
        path.write_text(json.dumps(data, indent=1))
        pictures = draw(table, path.with_suffix(""))
        print("wrote " + ", ".join(map(str, (path, *pictures))))


def _finite(data: Any) -> Any:
    """`data` with None for infinity and NaN, which JSON does not know."""
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
