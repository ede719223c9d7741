"""The record of a run."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from geartrain.core.array_format import Form
from geartrain.core.contracts import AnyMethod, State
from geartrain.core.points import RunPoint
from geartrain.oracles.protocols import Vector


@dataclass
class RunState:
    """All that a run needs to go on, and what its stopping rule has learned.

    The driver and the view of the rule write into one record. ``res.state`` and checkpoints are
    copies of it after the last complete iteration: ``minimize(h, g, state=res.state)`` goes on.
    """

    method: AnyMethod
    x0: Vector
    best: RunPoint
    seed: int
    form: Form | None  # of the points that the user sees; None for plain vectors
    calls: dict[str, int]
    oracle_seconds: dict[str, float]
    state: State | None = None
    iteration: int = 0
    seconds: float = 0.0  # of the method so far, records not included
    initial_grad_norm: float = math.nan
    gradient_scale: float = 0.0  # see RunView.gradient_scale
    initial_gap: float = math.nan  # see RunView.initial_gap
    initial_value: float = math.nan  # f(x0)
    initial_values: dict[str, float] = field(default_factory=dict)  # of the terms at x0
    asked_bound: float = math.inf  # the bound at which the gradient was last asked for
    # Of the terms at best.x, where gradients have brought them along and f is not known.
    best_values: dict[str, float] = field(default_factory=dict)
    psi_memory: Any = None  # see Psi.memory
    rows: tuple[tuple[float, ...], ...] = ()  # of the history, in a copy
    notes: tuple[tuple[int, str], ...] = ()
    status: int | None = None  # with which the rule ended the run

    def copied(self, **changes: Any) -> RunState:
        """A copy that the run does not change any more."""
        copy = RunState.__new__(RunState)  # a third of the time of `replace`, every iteration
        copy.__dict__.update(self.__dict__)
        copy.calls, copy.oracle_seconds = dict(self.calls), dict(self.oracle_seconds)
        copy.__dict__.update(changes)
        return copy

    @property
    def now(self) -> State:
        """The state of the method after the first report."""
        assert self.state is not None
        return self.state
