"""Who competes in ``geartrain bench frontier``, and where a run is cut off."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any

from geartrain.core.status import Status
from geartrain.core.stopping import Look
from geartrain.methods.aeg import AEG
from geartrain.methods.afb import AFB
from geartrain.methods.baselines.acd_whole import ACDWhole
from geartrain.methods.baselines.ags import AGS
from geartrain.methods.baselines.catalyst import Catalyst
from geartrain.methods.baselines.fgm import FGM
from geartrain.methods.baselines.katyusha_whole import KatyushaWhole
from geartrain.methods.baselines.lbfgs_whole import LBFGSWhole
from geartrain.methods.baselines.ms_whole import MonteiroSvaiterWhole
from geartrain.methods.baselines.scipy_lbfgs import ScipyLBFGS
from geartrain.methods.coordinate import by_columns
from geartrain.methods.gmco import GMCO
from geartrain.methods.inner.agm import AGM
from geartrain.methods.inner.lbfgs import LBFGS
from geartrain.methods.pqn.method import ProximalQuasiNewton
from geartrain.methods.r_sae import RSAE
from geartrain.methods.registry import INNER
from geartrain.methods.restart import GradientTest, Restarted
from geartrain.methods.sae import SAE
from geartrain.methods.sc_sae import SCSAE
from geartrain.methods.similar_newton import SimilarNewton
from geartrain.oracles.protocols import MissingOracle, can, require
from geartrain.problem import Model
from geartrain_lab.harness import END, OverBudget, Row, Solver, Task

RHOS = (1, 3, 10, 30, 100, 1000)
MOST = 1000  # gradients of h per run, or what is worth as many
TIMES = 20.0
SECONDS = 60.0  # per run of L-BFGS, pqn and auto
SECONDS_OTHERS = 15.0

Guard = Callable[[Any], Any]


def worth(task: Task, calls: Any) -> tuple[Any, Any]:
    """Calls of h and of g in gradients; of numbers or of columns.

    A proximal step of g counts as one gradient: only terms that keep a factorisation have one.
    """
    N_h, N_g = task.in_gradients(calls)
    return N_h, N_g + calls["g.prox"]


@dataclass
class Budget:
    """Ends a run, between iterations or within one, that can no longer be the cheapest."""

    task: Task
    bills: Mapping[int, float]  # by rho; a run ends when its bill is higher at every rho
    seconds: float  # the last resort
    why: str = ""  # what the run was ended by: "bill" or "clock"
    start: float = field(default_factory=perf_counter)

    def over(self, calls: Mapping[str, int]) -> bool:
        N_h, N_g = worth(self.task, calls)
        late = perf_counter() - self.start > self.seconds
        dear = N_h >= MOST or all(N_h * rho + N_g > most for rho, most in self.bills.items())
        self.why = "bill" if dear else "clock" if late else ""
        return bool(self.why)

    def check(self, look: Look) -> Status | None:
        return Status.BUDGET if self.over(look.calls) else None

    def guard(self, inner: Any) -> Guarded:
        """`inner`, which looks at the budget before every step."""
        return Guarded(inner, self)


@dataclass(frozen=True)
class Guarded:
    """An inner method that ends the run when the budget is used up."""

    inner: Any
    budget: Budget

    @property
    def needs(self) -> tuple[str, ...]:
        return self.inner.needs

    def init(self, phi: Model, v0: Any, grad_g0: Any, warm: Any = None) -> Any:
        return self.inner.init(phi, v0, grad_g0)

    def step(self, phi: Model, state: Any) -> Any:
        """A step of the inner method, if it may."""
        if self.budget.over(phi.g.ledger.calls):
            raise OverBudget
        return self.inner.step(phi, state)

    def limit(self, phi: Model) -> int:
        return self.inner.limit(phi)


@dataclass(frozen=True)
class Demands:
    """What a method asks of a problem, as far as that shows without a run."""

    name: str
    method: str  # of METHODS
    inner: str = ""  # of INNER
    convex: bool = False  # whether h has to be

    def __call__(self, task: Task) -> str:
        """Why the method cannot take the problem, or nothing."""
        h, g = task.h, task.g
        if self.convex and not getattr(h, "convex", True):
            return f"{self.method} needs a convex h"
        if self.inner:
            try:
                require(self.name, "g", g, *INNER[self.inner]().needs)
            except MissingOracle as error:
                return str(error)
        asked = {"h": h, "g": g} if self.method == "acd" else {"g": g}
        if self.method == "acd" or self.inner in BY_COORDINATES:
            for name, term in asked.items():
                if can(term, "coord") and by_columns(term) is None:
                    return f"a partial derivative of {name} costs as much as its gradient"
        return ""


BY_COORDINATES = ("acd", "nesterov-stich", "approx")
BY_SUMMANDS = ("katyusha", "l-katyusha", "varag", "rpdg")
# Names of METHODS and INNER that do not compete, and why.
LEFT_OUT = {
    "proxqn": "for sums with a non-smooth term; without one lbfgs does the same",
    "spdc": "a proximal step of one loss has no price in gradients",
    "apcg": "a proximal step of one loss has no price in gradients",
    "directional": "for terms with values only; 2 n values tell what one gradient does",
    "coordinate-differences": "for terms with values only; 2 n values tell what one gradient does",
}

# mu is not known, or far too small to count on: momentum is restarted by the gradient test.
_OUTER: dict[str, Callable[[Any], Any]] = {
    "sae": lambda inner: SAE(inner=inner),
    "r-sae": lambda inner: RSAE(inner=inner, restart=GradientTest()),
    "gmco": lambda inner: GMCO(inner=inner),
    "sc-sae": lambda inner: Restarted(SCSAE(mu=0.0, inner=inner), GradientTest()),
    "afb": lambda inner: Restarted(AFB(inner=inner), GradientTest()),
    "aeg": lambda inner: AEG(inner=inner),
}


def best_of_first(task: Task, rows: list[Row], rho: int) -> float:
    """The smallest bill so far, for the smallest target that was reached at all."""
    bills: dict[float, list[float]] = {}
    for row in rows:
        if row["target"] != END:
            N_h, N_g = worth(task, row)
            bills.setdefault(row["target"], []).append(N_h * rho + N_g)
    known = (min(bills[target]) for target in sorted(bills))
    return next((bill for bill in known if math.isfinite(bill)), math.inf)


def freely(task: Task, rows: list[Row]) -> Budget:
    """No limit of the bill."""
    return Budget(task, dict.fromkeys(RHOS, math.inf), SECONDS)


def as_the_first(task: Task, rows: list[Row]) -> Budget:
    """`TIMES` the bill of the better one of the first methods."""
    first = [row for row in rows if row["solver"] in {solver.name for solver in FIRST}]
    bills = {rho: TIMES * best_of_first(task, first, rho) for rho in RHOS}
    return Budget(task, bills, SECONDS_OTHERS)


def _first(name: str, method: str, make: Callable[[], Any], inner: str = "") -> Solver:
    demands = Demands(name, method, inner)
    return Solver(name, lambda task, budget: make(), limit=freely, unfit=demands)


def _rival(
    name: str, method: str, make: Callable[[Guard], Any], inner: str = "", convex: bool = False
) -> Solver:
    return Solver(
        name,
        lambda task, budget: make(budget.guard),
        lambda task: task.facts["constants"],
        as_the_first,
        Demands(name, method, inner, convex),
    )


def _separated(method: str, inner: str = "agm") -> Solver:
    def make(guard: Guard) -> Any:
        return _OUTER[method](guard(INNER[inner]()))

    name = method if inner == "agm" else f"{method}({inner})"
    return _rival(name, method, make, inner, convex=method not in ("sc-sae", "aeg"))


def _auto(name: str, **options: Any) -> Solver:
    return Solver(name, lambda task, budget: "auto", lambda task: options, freely)


# Those whose bills are the budget of the others.
FIRST = (
    *(_first(f"lbfgs({k})", "lbfgs", partial(ScipyLBFGS, k)) for k in (10, 20, 50)),
    _first("pqn", "pqn", ProximalQuasiNewton, inner="lbfgs"),
)
OTHERS = (
    _rival("lbfgs-whole", "lbfgs", lambda guard: LBFGSWhole(LBFGS(memory=50))),
    _rival("fgm", "fgm", lambda guard: Restarted(FGM(mu=0.0), GradientTest())),
    _rival("ags", "ags", lambda guard: AGS(), convex=True),
    _rival("acd", "acd", lambda guard: Restarted(ACDWhole(mu=0.0), GradientTest())),
    # Every component step asks for a gradient of h: of the lengths 10, 30, 100 and 300 of an epoch,
    # 10 is the cheapest on shards.
    _rival("katyusha", "katyusha", lambda guard: KatyushaWhole(epoch=10)),
    _rival("ms", "ms", lambda guard: MonteiroSvaiterWhole(inner=guard(AGM())), inner="agm"),
    _rival("catalyst", "catalyst", lambda guard: Catalyst()),
    _rival("similar-newton", "similar-newton", lambda guard: SimilarNewton()),
    *map(_separated, ("sae", "r-sae", "gmco", "sc-sae", "afb", "aeg")),
    *(_separated(method, "lbfgs") for method in ("sc-sae", "afb", "aeg")),
    *(_separated(method, "exact") for method in ("sc-sae", "afb", "r-sae")),
    *(
        _separated(method, inner)
        for method in ("r-sae", "sc-sae", "afb")
        for inner in (*BY_COORDINATES, *BY_SUMMANDS)
    ),
)
AUTO = {f"auto at {rho}": rho for rho in RHOS}
TIMED = "auto, timed"  # it measures the prices itself
AUTOS = (
    *(_auto(name, prices={"h.grad": float(rho), "g.grad": 1.0}) for name, rho in AUTO.items()),
    _auto(TIMED),
)
