"""What a run needs to go on."""

from __future__ import annotations

from dataclasses import dataclass

from geartrain.core.contracts import AnyMethod, State
from geartrain.core.form import Form
from geartrain.core.points import RunPoint
from geartrain.oracles.protocols import Vector


@dataclass(frozen=True)
class RunState:
    """A run after its last complete iteration: ``minimize(h, g, state=res.state)`` goes on."""

    method: AnyMethod
    state: State
    iteration: int
    seconds: float  # of the method so far, records not included
    calls: dict[str, int]
    oracle_seconds: dict[str, float]
    x0: Vector
    initial_grad_norm: float
    gradient_scale: float  # see Run.gradient_scale
    initial_value: float  # f(x0), or nan
    initial_values: dict[str, float]  # of the terms at x0, where known
    asked_bound: float  # see Run.grad_norm
    best: RunPoint
    best_values: dict[str, float]  # of the terms at best.x, where gradients have brought them along
    rows: tuple[tuple[float, ...], ...]
    notes: tuple[tuple[int, str], ...]
    seed: int
    form: Form | None  # of the points that the user sees; None for plain vectors
    status: int | None = None  # with which the rule ended the run
