"""The columns ``f`` and ``grad_norm`` of the history, and what filling them costs.

A number that the run knows is recorded in any case: the method may know it, the stopping rule may
have asked for it, and values that came with the gradients of all terms at a point are remembered.
Numbers that are not known are evaluated on request, ``minimize(..., record="f")``. These
evaluations are not counted, and a note of the history says how many there were.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from geartrain.core.contracts import State
from geartrain.oracles.answer_cache import PaidValues
from geartrain.oracles.protocols import AnyTerm, Asked, Vector
from geartrain.problem import Sum

RECORDABLE = ("f", "grad_norm")


def as_record(record: Any) -> tuple[str, ...]:
    """The argument ``record`` of `minimize` as a tuple of columns."""
    if record is None:
        return ()
    names = tuple(record) if isinstance(record, (tuple, list, set)) else (record,)
    if not set(map(str, names)) <= set(RECORDABLE):
        raise ValueError(f"record must be 'f', 'grad_norm' or both as a tuple, got {record!r:.60}")
    return names


class Recorder:
    """Completes the numbers of a row.

    Parameters
    ----------
    problem : Sum
        The terms are asked without being counted.
    paid : PaidValues
        The values that came with gradients.
    record : tuple of str
        The columns in which no number may be missing.
    """

    def __init__(self, problem: Sum, paid: PaidValues, record: tuple[str, ...] = ()) -> None:
        self._problem, self._paid = problem, paid
        self._evaluations = dict.fromkeys(record, 0)
        if "f" in record and problem.monitor is None:
            raise TypeError("record='f' needs terms that give values")
        if "grad_norm" in record:
            self._gradients = [self._gradient_of(oracle.term) for oracle in problem.oracles]

    @staticmethod
    def _gradient_of(term: AnyTerm) -> Callable[[Vector], Vector]:
        asked = Asked(term)
        if not hasattr(asked, "grad"):
            raise TypeError(f"record='grad_norm' needs terms that give gradients, got {term!r}")
        return asked.grad

    def numbers(self, state: State, f: float, grad_norm: float) -> tuple[float, float]:
        """f and |grad f| at the point of `state`, of which the run knows `f` and `grad_norm`."""
        x = state.point
        if math.isnan(f):
            f = self._paid.total(self._paid.known(x), x)
        if math.isnan(f) and "f" in self._evaluations and self._problem.monitor is not None:
            f = self._problem.monitor(x)
            self._evaluations["f"] += 1
        if math.isnan(grad_norm) and "grad_norm" in self._evaluations:
            gradient = np.sum([grad(x) for grad in self._gradients], axis=0)
            gradient = self._problem.subgradient(x, gradient, state.grad_psi)
            grad_norm = self._problem.geometry.norm(gradient)
            self._evaluations["grad_norm"] += 1
        return f, grad_norm

    @property
    def note(self) -> str:
        """How often the terms were asked for the record; empty if they were not."""
        parts = [f"{name} {count} times" for name, count in self._evaluations.items() if count]
        if not parts:
            return ""
        return f"evaluated for the record, not counted: {', '.join(parts)}"
