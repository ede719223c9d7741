"""SciPy's L-BFGS-B on the sum, both terms counted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from geartrain.methods.point_state import PointState
from geartrain.oracles.nonsmooth import Box
from geartrain.oracles.protocols import Vector
from geartrain.problem import Sum, norm

if TYPE_CHECKING:
    from scipy.optimize import Bounds

# SciPy's own stopping tests switched off; only its line search may fail.
_NEVER = {"ftol": 0.0, "gtol": 0.0, "maxiter": 10**9, "maxfun": 10**9, "maxls": 50}


@dataclass(frozen=True)
class ScipyLBFGS:
    """``scipy.optimize.minimize(method="L-BFGS-B")`` on f: what people use instead.

    A constraint `geartrain.Box` or `geartrain.NonNegative` becomes SciPy's bounds; other non-smooth
    terms are refused.

    Algorithm: limited-memory BFGS with a line search for the strong Wolfe conditions, by the code
    of [1]_. SciPy's own stopping tests are switched off; when its line search fails (rounding), it
    is started again from the last iterate, and the run ends as stalled if that does not help. The
    evaluations of a failed line search are in a last row of the history.

    Guarantee: linear convergence for strongly convex f, no useful rate; quick in practice. An
    evaluation is one fused call of h and one of g, mostly one per iteration.

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
    takes_psi: ClassVar[bool] = True
    many_terms: ClassVar[bool] = True

    def solve(self, problem: Sum, x0: Vector, report: Callable[[PointState], bool]) -> None:
        """Run from x0, reporting every iterate, until the report says stop."""
        from scipy.optimize import minimize

        memory, bounds = _Evaluations(problem, x0), _bounds(problem)
        ended, best = report(memory.current), math.inf

        def each(intermediate_result: object) -> None:
            nonlocal ended
            memory.accept(intermediate_result.x)  # type: ignore[attr-defined]
            ended = report(memory.current)
            if ended:
                raise StopIteration

        while not ended:
            start = norm(memory.current.grad)
            minimize(
                memory.answer,
                memory.current.x,
                jac=True,
                method="L-BFGS-B",
                callback=each,
                bounds=bounds,
                options={"maxcor": self.memory, **_NEVER},
            )
            reached = norm(memory.current.grad)
            if not ended and reached >= min(start, best):
                if memory.are_ahead:
                    report(memory.current)  # a last row holds the calls of the last line search
                return
            best = reached


class _Evaluations:
    """f as SciPy asks for it, by which nothing is asked twice."""

    def __init__(self, problem: Sum, x0: Vector) -> None:
        whole: Any = problem.whole
        self._problem, self._ask = problem, whole.value_and_grad
        self._recent: list[tuple[Vector, float, Vector]] = []  # since the last iterate
        self.current = self._state(np.array(x0), *self._ask(x0))  # the last iterate

    def _state(self, x: Vector, value: float, grad: Vector) -> PointState:
        grad_psi = self._problem.grad_psi(x, grad)
        return PointState(x=x, value=value, grad_f=grad, grad_psi=grad_psi)

    def answer(self, x: Vector) -> tuple[float, Vector]:
        """Value and gradient for SciPy, which writes into what it is given."""
        current = self.current
        if np.array_equal(x, current.x):
            return current.value, current.grad_f.copy()
        value, grad = self._ask(x)
        self._recent.append((x.copy(), value, grad))
        return value, grad.copy()

    def accept(self, x: Vector) -> None:
        """Make x the current iterate."""
        x = x.copy()
        known = (entry for entry in reversed(self._recent) if np.array_equal(entry[0], x))
        self.current = self._state(*next(known, None) or (x, *self._ask(x)))
        self._recent = []

    @property
    def are_ahead(self) -> bool:
        """Whether the last evaluation was not at the current iterate."""
        return bool(self._recent)


def _bounds(problem: Sum) -> Bounds | None:
    """SciPy's form of a box; None for a smooth problem."""
    from scipy.optimize import Bounds

    if problem.psi is None:
        return None
    box = problem.psi.term
    if not isinstance(box, Box):
        raise TypeError(
            f"SciPy's L-BFGS-B has bounds only, but the non-smooth term is {box!r}; choose "
            "method='lbfgs' or method='pqn'"
        )
    return Bounds(np.zeros(problem.n) + box.lower, np.zeros(problem.n) + box.upper)
