"""Rivals under linear constraints: SciPy's solvers, and Clarabel by cvxpy.

SciPy's solvers ask for f and its gradient, and a call is a point at which one of them or both are
asked. Their runs end with their own tests, set as tight as they go, or by the limits.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from time import process_time
from typing import Any

import numpy as np
from scipy import optimize

import geartrain as gt
from geartrain.oracles.losses import Huber, Logistic
from geartrain.oracles.protocols import Vector
from geartrain_lab.problems.constrained import Constrained

MOST_CALLS = 1000
MOST_SECONDS = 30.0  # outside of f
FEASIBLE = 1e-6  # the violation that points may have


class _Over(Exception):
    """A limit is reached."""


@dataclass
class Trace:
    """What a rival has asked: f, violation and own seconds at each new point; where it ended."""

    f: list[float] = field(default_factory=list)
    violation: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    x: Vector | None = None  # the lowest feasible point
    end: str = ""

    def reached(self, level: float) -> int | None:
        """The number of calls until f <= level at a feasible point."""
        hits = (np.array(self.f) <= level) & (np.array(self.violation) <= FEASIBLE)
        return int(hits.argmax()) + 1 if hits.any() else None


class _Asked:
    """f of a problem as a rival asks for it; the time in f is not counted."""

    def __init__(self, problem: Constrained) -> None:
        self.problem, self.trace = problem, Trace()
        self._known: dict[bytes, tuple[float, Vector]] = {}
        self._spent, self._since = 0.0, process_time()

    def __call__(self, x: Vector) -> tuple[float, Vector]:
        key = x.tobytes()
        if key not in self._known:
            self._spent += process_time() - self._since
            self._ask(key, np.array(x))
            self._since = process_time()
        return self._known[key]

    def _ask(self, key: bytes, x: Vector) -> None:
        trace = self.trace
        if len(trace.f) >= MOST_CALLS or self._spent > MOST_SECONDS:
            trace.end = "cut off"
            raise _Over
        (h, grad_h), (g, grad_g) = (t.value_and_grad(x) for t in (self.problem.h, self.problem.g))
        violation = self.problem.set.violation(x)
        if violation <= FEASIBLE and h + g < self.lowest:
            trace.x = x
        trace.f.append(float(h + g))
        trace.violation.append(violation)
        trace.seconds.append(self._spent)
        self._known[key] = float(h + g), grad_h + grad_g

    @property
    def lowest(self) -> float:
        """The lowest value at a feasible point."""
        pairs = zip(self.trace.f, self.trace.violation, strict=True)
        return min((f for f, v in pairs if v <= FEASIBLE), default=math.inf)

    def value(self, x: Vector) -> float:
        return self(x)[0]

    def grad(self, x: Vector) -> Vector:
        return self(x)[1]


def slsqp(problem: Constrained, x0: Vector) -> Trace:
    """SLSQP with gradients; started again where it ended as long as f falls."""
    A, lower, upper = problem.set.A, problem.set.lower, problem.set.upper
    equal = lower == upper
    below, above = ~equal & np.isfinite(lower), ~equal & np.isfinite(upper)
    parts = [("eq", A[equal], lower[equal])]
    parts += [("ineq", A[below], lower[below]), ("ineq", -A[above], -upper[above])]
    rows = [
        {"type": kind, "fun": lambda x, B=B, b=b: B @ x - b, "jac": lambda x, B=B: B}
        for kind, B, b in parts
        if len(b)
    ]
    asked, x, before = _Asked(problem), x0, math.inf
    box = optimize.Bounds(problem.set.lo, problem.set.hi)
    with contextlib.suppress(_Over):
        for _ in range(4):
            found = optimize.minimize(
                asked.value,
                x,
                jac=asked.grad,
                method="SLSQP",
                bounds=box,
                constraints=rows,
                options={"maxiter": MOST_CALLS, "ftol": 1e-15},
            )
            asked.trace.end = str(found.message)
            if asked.trace.x is None or not asked.lowest < before:
                break
            x, before = asked.trace.x, asked.lowest
    return asked.trace


def trust_constr(problem: Constrained, x0: Vector) -> Trace:
    """trust-constr with gradients and BFGS."""
    box = optimize.Bounds(problem.set.lo, problem.set.hi)
    asked = _Asked(problem)
    with contextlib.suppress(_Over), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "delta_grad == 0.0")  # of steps that are too short
        found = optimize.minimize(
            asked.value,
            x0,
            jac=asked.grad,
            hess=optimize.BFGS(),
            method="trust-constr",
            bounds=box if np.isfinite([box.lb, box.ub]).any() else None,
            constraints=optimize.LinearConstraint(
                problem.set.A, problem.set.lower, problem.set.upper
            ),
            options={
                "maxiter": 10 * MOST_CALLS,
                "gtol": 1e-10,
                "xtol": 1e-14,
                "barrier_tol": 1e-12,
            },
        )
        asked.trace.end = str(found.message)
    return asked.trace


def clarabel(problem: Constrained, x0: Vector) -> Trace:
    """The whole problem handed over: no calls, one point, and all its seconds."""
    trace = Trace()
    start = process_time()
    try:
        x = _solved_by_cvxpy(problem)
    except Exception as error:
        trace.end = f"{type(error).__name__}: {error}"
        return trace
    trace.seconds.append(process_time() - start)
    trace.f.append(problem.f(x))
    trace.violation.append(problem.set.violation(x))
    trace.x = x
    return trace


def has_clarabel() -> bool:
    """Whether cvxpy and Clarabel are installed."""
    return all(importlib.util.find_spec(name) for name in ("cvxpy", "clarabel"))


def _solved_by_cvxpy(problem: Constrained) -> Vector:
    import cvxpy as cp

    x = cp.Variable(problem.h.n)
    terms = problem.whole or (problem.h, problem.g)
    limits = []
    for matrix, lower, upper in (
        (problem.set.A, problem.set.lower, problem.set.upper),
        (np.eye(problem.h.n), problem.set.lo, problem.set.hi),
    ):
        equal = lower == upper
        below, above = ~equal & np.isfinite(lower), ~equal & np.isfinite(upper)
        limits += [matrix[equal] @ x == lower[equal]] if equal.any() else []
        limits += [matrix[below] @ x >= lower[below]] if below.any() else []
        limits += [matrix[above] @ x <= upper[above]] if above.any() else []
    goal = cp.Problem(cp.Minimize(sum(_expression(cp, term, x) for term in terms)), limits)
    tight = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "may be inaccurate": its point is judged by itself
        goal.solve(solver="CLARABEL", **tight)
    return np.asarray(x.value, dtype=float)


def _expression(cp: Any, term: Any, x: Any) -> Any:
    """A term in the words of cvxpy."""
    if isinstance(term, gt.Quadratic):
        return 0.5 * cp.quad_form(x, cp.psd_wrap(term.Q)) - term.b @ x
    if isinstance(term, gt.LogSumExp):
        return cp.log_sum_exp(term.A @ x) - term.c @ x
    assert isinstance(term, gt.LinearModel)
    assert term.l2 == 0.0
    if isinstance(term.loss, Huber):
        return 0.5 * cp.sum(cp.huber(term.A @ x - term.y, term.loss.delta)) / len(term.y)
    assert isinstance(term.loss, Logistic)
    return cp.sum(cp.logistic(cp.multiply(-term.y, term.A @ x))) / len(term.y)


RIVALS: dict[str, Callable[[Constrained, Vector], Trace]] = {
    "SLSQP": slsqp,
    "trust-constr": trust_constr,
}
