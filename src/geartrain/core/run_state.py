"""Parts of a result: the certificate, and what a run needs to go on."""

from __future__ import annotations

from dataclasses import dataclass

from geartrain.core.contracts import AnyMethod, State
from geartrain.oracles.protocols import Vector


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

    method: AnyMethod
    state: State
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
    status: int | None = None  # with which the rule ended the run
