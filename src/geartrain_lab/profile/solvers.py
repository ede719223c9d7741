"""Who competes in ``geartrain bench profile``, and one run of it.

All solvers are judged by the same monitor. It holds the bare terms, so that it is never counted,
and looks at each point that a solver reports, which is the point the solver would return if it were
stopped there. A problem is *solved* when ``|grad f| <= 1e-6 |grad f(x0)|`` at such a point; the
calls made until then are the cost. A solver's own stopping tests are switched off.

SciPy's L-BFGS runs first, up to `LIMITS`. The others are cut off at `TIMES` as many gradients of h
as the better of its two memories took (at least `LEAST`): beyond that a problem counts as unsolved.

The calls of a term are expressed in gradients of it: a product with the Hessian, a value and a
proximal step count as one gradient, n partial derivatives as one, and m summands as one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from geartrain.core import stopping as stop
from geartrain.core.status import Status
from geartrain.methods.baselines.fgm import FGM
from geartrain.methods.baselines.scipy_lbfgs import ScipyLBFGS
from geartrain.methods.restart import GradientTest, Restarted
from geartrain.minimize import minimize
from geartrain.oracles.ledger import Ledger, NonFiniteAnswer, Oracle, in_gradients
from geartrain.oracles.protocols import Vector, can
from geartrain_lab.profile.families import RandomProblem

TOL = 1e-6
RHOS = (1, 3, 10, 30, 100, 1000)
LIMITS = {"h.grad": 3000, "g.grad": 50_000}  # where any run is cut off
TIMES, LEAST = 10, 100  # where a run is cut off that is far behind L-BFGS
ROUNDING = 1e-12  # of the sizes of both terms: a value above f(x0) by more than this is a climb


@dataclass(frozen=True)
class Outcome:
    """What one solver did with one problem."""

    N_h: float  # gradients of h until solved; infinity where it was not
    N_g: float
    end: str  # "solved", or the status that the run ended with, or why it could not begin
    climb: float = 0.0  # largest f - f(x0) of a reported point over the sizes of both terms
    end_h: float = 0.0  # gradients of h in the whole run

    @property
    def solved(self) -> bool:
        """Whether the tolerance was reached."""
        return math.isfinite(self.N_h)

    def bill(self, rho: float) -> float:
        """The cost where a gradient of h costs rho and one of g costs 1."""
        return rho * self.N_h + self.N_g


class Monitor:
    """Looks at reported points without being counted."""

    def __init__(self, problem: RandomProblem) -> None:
        self.h, self.g, self.n = problem.h, problem.g, problem.n
        (value_h, grad_h), (value_g, grad_g) = self._ask(problem.x0)
        self.f0, self.size = value_h + value_g, abs(value_h) + abs(value_g)
        self.goal = TOL * float(np.linalg.norm(grad_h + grad_g))
        self.climb, self.reached = 0.0, (math.inf, math.inf)

    def _ask(self, x: Vector) -> tuple[tuple[float, Vector], tuple[float, Vector]]:
        return self.h.value_and_grad(x), self.g.value_and_grad(x)

    def look(self, x: Vector, calls: Mapping[str, int]) -> bool:
        """Whether the problem is solved at x, after so many calls."""
        (value_h, grad_h), (value_g, grad_g) = self._ask(x)
        rise = value_h + value_g - self.f0
        size = self.size + abs(value_h) + abs(value_g)
        if rise > ROUNDING * size:
            self.climb = max(self.climb, rise / size)
        if float(np.linalg.norm(grad_h + grad_g)) <= self.goal:
            self.reached = worth(calls, "h", self.h, self.n), worth(calls, "g", self.g, self.n)
        return math.isfinite(self.reached[0])

    def outcome(self, end: str, calls: Mapping[str, int]) -> Outcome:
        """After the run."""
        end = "solved" if math.isfinite(self.reached[0]) else end
        return Outcome(*self.reached, end, self.climb, worth(calls, "h", self.h, self.n))


def worth(calls: Mapping[str, int], name: str, term: Any, n: int) -> float:
    """Calls of a term in gradients of it; values and proximal steps count as one each."""
    m = int(getattr(term, "n_components", None) or 1)
    return float(
        in_gradients(calls, name, n, m)
        + calls.get(f"{name}.value", 0)
        + calls.get(f"{name}.prox", 0)
    )


def limits(lbfgs: Sequence[Outcome]) -> dict[str, int]:
    """Where the other runs are cut off, from the outcomes of L-BFGS."""
    fewest = min(outcome.N_h for outcome in lbfgs)
    return {**LIMITS, "h.grad": int(min(max(LEAST, TIMES * fewest), LIMITS["h.grad"]))}


def run(
    problem: RandomProblem, method: Any, most: Mapping[str, int] = LIMITS, **options: Any
) -> Outcome:
    """One run of a method of the library."""
    monitor = Monitor(problem)

    def look(intermediate_result: Any) -> bool:
        return monitor.look(intermediate_result.x, intermediate_result.calls)

    try:
        res = minimize(
            problem.h,
            problem.g,
            problem.x0,
            method=method,
            stop=stop.Calls(dict(most)),
            callback=look,
            **options,
        )
    except Exception as error:  # a refusal, or a failure: it is told by name, and the rest goes on
        return Outcome(math.inf, math.inf, f"{type(error).__name__}: {error}")
    return monitor.outcome(Status(res.status).name.lower(), res.calls)


def newton(problem: RandomProblem, most: Mapping[str, int]) -> Outcome:
    """SciPy's trust-region Newton method with Krylov subspaces, where both terms give products."""
    from scipy.optimize import minimize as scipy_minimize

    if not (can(problem.h, "products") and can(problem.g, "products")):
        return Outcome(math.inf, math.inf, "a term gives no products with its Hessian")
    ledger, monitor = Ledger(), Monitor(problem)
    h = Oracle(problem.h, "h", ledger, problem.n)
    g = Oracle(problem.g, "g", ledger, problem.n)

    def both(x: Vector) -> tuple[float, Vector]:
        (value_h, grad_h), (value_g, grad_g) = h.value_and_grad(x), g.value_and_grad(x)
        if ledger.calls["h.grad"] + ledger.calls["h.product"] > most["h.grad"]:
            raise StopIteration
        return value_h + value_g, grad_h + grad_g

    def product(x: Vector, v: Vector) -> Vector:
        return (h.products(x, v[:, None]) + g.products(x, v[:, None]))[:, 0]

    def look(intermediate_result: Any) -> None:
        if monitor.look(intermediate_result.x, ledger.calls):
            raise StopIteration

    try:
        scipy_minimize(
            both,
            problem.x0,
            jac=True,
            hessp=product,
            method="trust-krylov",
            callback=look,
            options={"gtol": 0.0, "maxiter": most["h.grad"]},
        )
        end = "stalled"
    except StopIteration:
        end = "budget"
    except (NonFiniteAnswer, ValueError, np.linalg.LinAlgError) as error:
        end = f"{type(error).__name__}: {error}"
    return monitor.outcome(end, ledger.calls)


# SciPy's L-BFGS has its own line search and gets values and gradients in one call; the better of
# its two memories counts, problem by problem.
LBFGS = {f"lbfgs({memory})": memory for memory in (10, 50)}
OTHERS: dict[str, Callable[[RandomProblem, Mapping[str, int]], Outcome]] = {
    "trust-krylov": newton,
    "afb": lambda p, most: run(p, "afb", most),
    "fgm": lambda p, most: run(p, Restarted(FGM(mu=0.0), GradientTest()), most),
    "pqn": lambda p, most: run(p, "pqn", most),
}


def auto_at(rho: int) -> str:
    """What `auto` is called where it was told this ratio of prices."""
    return f"auto({rho})"


def all_outcomes(problem: RandomProblem) -> dict[str, Outcome]:
    """What each solver did, by name."""
    out = {name: run(problem, ScipyLBFGS(memory)) for name, memory in LBFGS.items()}
    most = limits(list(out.values()))
    for name, solve in OTHERS.items():
        out[name] = solve(problem, most)
    for rho in RHOS:
        prices = {"h.grad": float(rho), "g.grad": 1.0}
        out[auto_at(rho)] = run(problem, "auto", most, prices=prices)
    return out
