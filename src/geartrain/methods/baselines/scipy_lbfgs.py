"""SciPy's L-BFGS-B on the sum, both terms counted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from geartrain.methods.base import State
from geartrain.oracles.protocols import Vector
from geartrain.problem import Sum, norm


@dataclass(frozen=True, kw_only=True)
class LBFGSState(State):
    """An iterate of SciPy's L-BFGS."""

    x: Vector
    value: float
    grad_f: Vector

    @property
    def point(self) -> Vector:
        """X."""
        return self.x

    @property
    def grad(self) -> Vector:
        """Gradient of f at x."""
        return self.grad_f


@dataclass(frozen=True)
class ScipyLBFGS:
    """``scipy.optimize.minimize(method="L-BFGS-B")`` on f: what people use instead.

    Algorithm: limited-memory BFGS with a line search for the strong Wolfe conditions, by the code
    of [1]_. SciPy's own stopping tests are switched off; when its line search fails (rounding), it
    is started again from the best point, and the run ends as stalled if that does not help.

    Guarantee: linear convergence for strongly convex f, no useful rate; quick in practice. An
    evaluation is one fused call of h and one of g, mostly one an iteration.

    Parameters
    ----------
    memory : int
        Number of pairs kept (SciPy's ``maxcor``).

    References
    ----------
    .. [1] C. Zhu, R. Byrd, P. Lu, J. Nocedal, Algorithm 778: L-BFGS-B, ACM Trans. Math. Softw. 23
       (1997).
    """

    memory: int = 10

    needs: ClassVar[tuple[str, ...]] = ("value_and_grad",)

    def solve(self, problem: Sum, x0: Vector, report: Callable[[LBFGSState], bool]) -> None:
        """Run from x0, reporting every iterate, until the report says stop."""
        from scipy.optimize import minimize

        last: dict[bytes, tuple[float, Vector]] = {}

        def evaluate(x: Vector) -> tuple[float, Vector]:
            value_h, grad_h = problem.h.value_and_grad(x)
            value_g, grad_g = problem.g.value_and_grad(x)
            last[x.tobytes()] = value_h + value_g, grad_h + grad_g
            while len(last) > 30:
                last.pop(next(iter(last)))
            return last[x.tobytes()]

        def known(x: Vector) -> tuple[float, Vector]:
            return last[x.tobytes()] if x.tobytes() in last else evaluate(x)

        def state(x: Vector) -> LBFGSState:
            value, grad = known(x)
            return LBFGSState(x=x, value=value, grad_f=grad)

        ended = report(state(x0))
        x, best = x0, math.inf
        while not ended:

            def each(intermediate_result: object) -> None:
                nonlocal ended, x
                x = np.array(intermediate_result.x)  # type: ignore[attr-defined]
                ended = report(state(x))
                if ended:
                    raise StopIteration

            start = norm(known(x)[1])
            minimize(
                known,
                x,
                jac=True,
                method="L-BFGS-B",
                callback=each,
                options={
                    "maxcor": self.memory,
                    "ftol": 0.0,
                    "gtol": 0.0,
                    "maxiter": 10**9,
                    "maxfun": 10**9,
                    "maxls": 50,
                },
            )
            if norm(known(x)[1]) >= min(start, best):
                return
            best = norm(known(x)[1])
