"""Parts of a result: the certificate, and what a run needs to go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from geartrain.oracles.protocols import Vector


class Watch(Protocol):
    """Looks at the bill of a run and may change the method (see `geartrain.planner`)."""

    @property
    def fallback(self) -> Any:
        """What to go on with."""

    @property
    def rescue(self) -> Any:
        """What to go on with where a method that cannot be stepped stalls, or None."""

    def leave(self, state: Any) -> str:
        """Why the method should be left now, or nothing."""

    def stalled(self, left: str) -> tuple[str, str]:
        """Why `rescue` goes on, and what was said on leaving with that added."""

    def settled(self) -> Any:
        """Itself, with no more changes of method."""

    def told(self, left: str) -> str:
        """The plan in words and numbers, after the run."""

    def without_problem(self) -> Any:
        """Itself, for a state that is kept."""


@dataclass(frozen=True)
class Certificate:
    """An upper bound on f(x) - f*, and what it rests on."""

    bound: float
    assumption: str

    def __float__(self) -> float:
        return self.bound


@dataclass(frozen=True)
class RunState:
    """Everything that a run needs to go on: ``minimize(h, g, state=res.state)``."""

    method: Any
    state: Any
    iteration: int
    seconds: float  # of the method so far, records not included
    calls: dict[str, int]
    oracle_seconds: dict[str, float]
    initial_grad_norm: float
    asked_bound: float  # see Run.grad_norm
    best_x: Vector
    best_f: float
    best_grad_norm: float
    rows: tuple[tuple[float, ...], ...]
    notes: tuple[tuple[int, str], ...]
    seed: int
    exchanged: bool  # the method's h is the user's g
    watch: Any = None  # the plan of method "auto", without its problem
    left: str = ""  # why the method of that plan was left
    status: int | None = None  # with which the rule ended the run
