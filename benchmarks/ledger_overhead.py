"""What the ledger adds to a call: the time of a counted call less that of the bare one.

Run ``python benchmarks/ledger_overhead.py``; the goal is less than 1 microsecond. The smallest of
many repetitions is taken: other processes only ever add time.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from timeit import repeat
from typing import Any

import numpy as np

from geartrain.oracles.callables import Term
from geartrain.oracles.ledger import Ledger, Oracle


def microseconds(call: Callable[[], Any], number: int) -> float:
    return min(repeat(call, number=number, repeat=15)) / number * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=20, help="dimension")
    parser.add_argument("--number", type=int, default=20_000, help="calls in a repetition")
    args = parser.parse_args()
    x, answer = np.ones(args.n), np.ones(args.n)
    term = Term(
        value_and_grad=lambda x: (1.0, answer),
        value=lambda x: 1.0,
        grad=lambda x: answer,
        component=lambda x, k: answer,
        coord=lambda x, i: 1.0,
        n=args.n,
        n_components=3,
    )
    oracle = Oracle(term, "h", Ledger(), args.n)
    print(f"n = {args.n}\n{'question':16}{'bare':>10}{'counted':>10}{'ledger adds':>13}  (us)")
    for question, more in {
        "value": (),
        "grad": (),
        "value_and_grad": (),
        "component": (1,),
        "coord": (1,),
    }.items():
        bare, counted = getattr(term, question), getattr(oracle, question)
        plain = microseconds(lambda: bare(x, *more), args.number)
        asked = microseconds(lambda: counted(x, *more), args.number)
        print(f"{question:16}{plain:10.3f}{asked:10.3f}{asked - plain:13.3f}")


if __name__ == "__main__":
    main()
