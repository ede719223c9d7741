"""The sizes of the gradients of the terms at x0, for the scale of the stopping rule.

Methods ask for these gradients anyway. The oracles are listened to until the first iteration is
complete, and no call is made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from geartrain.oracles.protocols import Vector
from geartrain.problem import EPS, Sum

# Questions by whose answers a gradient is known, and its place in the answer if that is a tuple.
_GRADIENTS: dict[str, int | None] = {"grad": None, "value_and_grad": 1, "second_order": 1}


class StartGradients:
    """Hears the gradients of the terms at x0.

    Parameters
    ----------
    problem : Sum
        Its oracles are listened to until `close`.
    x0 : array
        The starting point.
    """

    def __init__(self, problem: Sum, x0: Vector) -> None:
        self._x0, self._norm = x0, problem.geometry.norm
        self._oracles = problem.oracles
        self._gradients: dict[str, Vector] = {}
        self._before: list[tuple[Any, str, Callable[..., Any]]] = []
        for oracle in problem.oracles:
            for question, place in _GRADIENTS.items():
                if hasattr(oracle, question):
                    ask = getattr(oracle, question)
                    self._before.append((oracle, question, ask))
                    setattr(oracle, question, self._listening(oracle.name, ask, place))

    def _listening(
        self, name: str, ask: Callable[..., Any], place: int | None
    ) -> Callable[..., Any]:
        def asked(x: Vector, *more: Any) -> Any:
            answer = ask(x, *more)
            if name not in self._gradients and np.array_equal(x, self._x0):
                self._gradients[name] = answer if place is None else answer[place]
            return answer

        return asked

    def close(self) -> None:
        """Stop listening."""
        for oracle, question, ask in self._before:
            setattr(oracle, question, ask)
        self._before = []

    def total(self) -> Vector:
        """The gradient of the sum at x0; terms that were not asked there are asked now."""
        for oracle in self._oracles:
            if oracle.name not in self._gradients:
                oracle.grad(self._x0)  # heard
        return np.sum(list(self._gradients.values()), axis=0)

    @property
    def second(self) -> float:
        """The second largest of the norms; 0 if fewer gradients were asked for.

        At a solution the gradients cancel, so that the largest one is no larger than the sum of the
        others. Of two terms, this is the smaller norm.
        """
        return sorted([0.0, 0.0, *map(self._norm, self._gradients.values())])[-2]

    @property
    def rounding(self) -> float:
        """What rounding may leave of their sum with a subgradient that cancels it."""
        return 10.0 * EPS * sum(map(self._norm, self._gradients.values()))
