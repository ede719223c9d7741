"""Long loops in pieces, so that budgets, callbacks and Ctrl-C reach into them."""

from __future__ import annotations

import math
from collections.abc import Iterator

from geartrain.oracles.ledger import Oracle
from geartrain.oracles.sum_oracle import Together

# Steps of a compiled loop between two looks at the budget: some ten milliseconds, and nothing
# beside the loop itself.
_LONGEST = 2**16


def pieces(
    oracle: Oracle | Together, kind: str, steps: int, calls: int = 1, longest: int = _LONGEST
) -> Iterator[slice]:
    """Consecutive parts of a loop of `steps` steps that ask `oracle` for at most `calls` each.

    A budget of calls of that kind is not exceeded by more than ``calls - 1``.
    """
    start, room = 0, oracle.ledger.room
    names = oracle.counted_as if isinstance(oracle, Together) else (oracle.name,)
    while start < steps:
        left = math.inf
        if room is not None:
            left = min(room(f"{name}.{kind}") for name in names) / calls
        stop = int(min(steps, start + longest, start + max(left, 1.0)))
        yield slice(start, stop)
        start = stop
