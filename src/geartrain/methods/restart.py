"""Restarts: start the momentum again when it has done its work.

A method that can be restarted has ``restart(state) -> state``, and its states have ``since``, the
iterations since the last restart, and ``uphill`` = <grad f(y_k), y_k - y_{k-1}>.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from geartrain.oracles.protocols import Vector
from geartrain.problem import Sum


class RestartRule(Protocol):
    """Says when to start again."""

    def due(self, state: Any) -> bool:
        """Whether to restart before the next iteration."""


@dataclass(frozen=True)
class FixedPeriod:
    """Restart every `period` iterations.

    Parameters
    ----------
    period : int
        Iterations between restarts.
    """

    period: int

    def due(self, state: Any) -> bool:
        return state.since >= self.period


@dataclass(frozen=True)
class GradientTest:
    """Restart when the last step went uphill, <grad f(y_k), y_k - y_{k-1}> > 0.

    The test is for an unknown mu and evaluates no term. It is the heuristic of [1]_, which in
    practice keeps the rate of the method that knows mu; there is no proof.

    References
    ----------
    .. [1] B. O'Donoghue, E. Candes, Adaptive restart for accelerated gradient schemes, Found.
       Comput. Math. 15 (2015).
    """

    def due(self, state: Any) -> bool:
        return state.since > 1 and state.uphill > 0.0


@dataclass(frozen=True)
class Restarted:
    """`method`, restarted by `rule`. One step is one iteration of the method.

    Parameters
    ----------
    method : method
        One that can be restarted: SAE, SC-SAE, AFB, ACDWhole, FGM.
    rule : rule
        `FixedPeriod` or `GradientTest`.
    """

    method: Any
    rule: RestartRule

    @property
    def needs(self) -> tuple[str, ...]:
        return self.method.needs

    @property
    def any_geometry(self) -> bool:
        return getattr(self.method, "any_geometry", False)

    @property
    def takes_psi(self) -> bool:
        return getattr(self.method, "takes_psi", False)

    def init(self, problem: Sum, x0: Vector) -> Any:
        return self.method.init(problem, x0)

    def step(self, problem: Sum, state: Any) -> Any:
        """One iteration, after a restart if one is due."""
        if self.rule.due(state):
            state = self.method.restart(state)
        return self.method.step(problem, state)
