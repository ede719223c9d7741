"""The time that the ledger adds to a call: that of a counted call minus that of the bare one.

Run ``python benchmarks/ledger_overhead.py``. The goal is about one microsecond per call at n = 20.
Functions of the user get a read-only view of x, and their arrays are copied; a term of the library,
as in the last row, needs neither. The smallest of many short repetitions is reported, because other
processes only add time.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from timeit import repeat
from typing import Any

import numpy as np

import geartrain as gt
from geartrain.oracles.ledger import Ledger, Oracle


def microseconds(call: Callable[[], Any], number: int) -> float:
    return min(repeat(call, number=number, repeat=400)) / number * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=20, help="dimension")
    parser.add_argument("--number", type=int, default=300, help="calls per repetition")
    args = parser.parse_args()
    x, answer = np.ones(args.n), np.ones(args.n)
    term = gt.Term(
        value_and_grad=lambda x: (1.0, answer),
        value=lambda x: 1.0,
        grad=lambda x: answer,
        component=lambda x, k: answer,
        coord=lambda x, i: 1.0,
        n=args.n,
        n_components=3,
    )
    own = gt.Quadratic(np.eye(args.n))
    print(f"n = {args.n}\n{'question':16}{'bare':>10}{'counted':>10}{'ledger adds':>13}  (us)")
    rows: list[tuple[Any, str, tuple[int, ...]]] = [
        (term, "value", ()),
        (term, "grad", ()),
        (term, "value_and_grad", ()),
        (term, "component", (1,)),
        (term, "coord", (1,)),
        (own, "grad", ()),
    ]
    for asked, question, more in rows:
        bare = getattr(asked, question)
        counted = getattr(Oracle(asked, "h", Ledger(), args.n), question)
        plain = microseconds(lambda: bare(x, *more), args.number)
        full = microseconds(lambda: counted(x, *more), args.number)
        name = question if asked is term else f"{type(asked).__name__}.{question}"
        print(f"{name:16}{plain:10.3f}{full:10.3f}{full - plain:13.3f}")


if __name__ == "__main__":
    main()
