"""Several counted oracles that are asked as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from geartrain.oracles.algebra import Combination
from geartrain.oracles.questions import QUESTIONS, Part


class Together:
    """The sum of counted oracles as one oracle; every term counts its own calls."""

    def __init__(self, oracles: tuple[Any, ...]) -> None:
        self.oracles = oracles
        self.n, self.ledger = oracles[0].n, oracles[0].ledger
        self.leaves: tuple[Any, ...] = tuple(leaf for o in oracles for leaf in leaves(o))
        self.counted_as: tuple[str, ...] = tuple(leaf.name for leaf in self.leaves)
        self.name = " + ".join(self.counted_as)
        self.term = Combination([(1.0, oracle.term) for oracle in oracles])
        self.kept: dict[str, Any] = {}  # see `geartrain.oracles.ledger.Oracle`
        parts = [Part(1.0, oracle.term, oracle) for oracle in oracles]
        for question in QUESTIONS.values():
            if question.is_additive and (ask := question.combine(question, parts)) is not None:
                setattr(self, question.name, ask)

    def bulk(self, kind: str, kernel: Callable[..., Any], *args: Any) -> Any:
        """Run a compiled loop that asks all terms together; its time is booked under the first."""
        asked = np.zeros(1, dtype=np.int64)

        def together(tally: Any) -> Any:
            try:
                return kernel(asked, *args)
            finally:
                tally[0] += asked[0]

        first, *others = self.leaves
        try:
            return first.bulk(kind, together)
        finally:
            for oracle in others:
                self.ledger.add(f"{oracle.name}.{kind}", int(asked[0]), 0.0)

    def __repr__(self) -> str:
        return f"Together({self.name})"


def leaves(oracle: Any) -> tuple[Any, ...]:
    """The oracles of single terms that `oracle` is made of; itself if it is one of them."""
    return getattr(oracle, "leaves", None) or (oracle,)


def gradients(oracle: Any) -> tuple[int, float]:
    """How many gradients `oracle` was asked for, and the seconds that they took.

    Of several oracles that are asked together, the number is that of the first one.
    """
    keys = [f"{leaf.name}.grad" for leaf in leaves(oracle)]
    ledger = oracle.ledger
    return ledger.calls[keys[0]], sum(ledger.seconds[key] for key in keys)
