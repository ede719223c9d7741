"""Seconds a round for clusters that are larger than the machines at hand.

Every node of a tree sends x to its children one after another, waits for their sums and adds them
up. A message costs its sender (and later its receiver) `per_message` seconds and `per_byte` seconds
a byte, and is under way for `latency` more. The parts are measured on one machine
(``geartrain bench distributed``) or stated. `gt.distributed` has fan-out 8.

    python benchmarks/round_model.py --n 1000000 --workers 1000
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass


@dataclass(frozen=True)
class Parts:
    """Parts of a round, in seconds."""

    per_message: float  # of a process, for one message
    per_byte: float  # of a process, to pack or unpack
    wire: float  # seconds a byte of the network card
    latency: float
    compute: float  # of a worker
    add: float  # seconds a byte to add up a sum


def simulate(workers: int, fan_out: int, size: float, parts: Parts) -> tuple[float, float]:
    """Seconds until the root has the sum, and bytes through its network card."""
    children = [
        range(fan_out * i + 1, min(fan_out * i + fan_out, workers) + 1) for i in range(workers + 1)
    ]
    send = parts.per_message + size * max(parts.per_byte, parts.wire)
    has_x = [0.0] * (workers + 1)
    for i in range(workers + 1):  # parents come before their children
        for k, child in enumerate(children[i], 1):
            has_x[child] = has_x[i] + k * send + parts.latency
    done = [0.0] * (workers + 1)
    for i in range(workers, -1, -1):
        own = has_x[i] + len(children[i]) * send + (parts.compute if i else 0.0)
        # Sums are taken in as they arrive, one at a time.
        for arrival in sorted(done[c] + parts.latency for c in children[i]):
            own = max(own, arrival) + send + size * parts.add
        done[i] = own
    return done[0], 2.0 * size * len(children[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--per-message", type=float, default=6e-4, help="measured: 6e-4")
    parser.add_argument("--per-byte", type=float, default=1.7e-9, help="measured: 1.7e-9")
    parser.add_argument("--bandwidth", type=float, default=10.0, help="of the network, Gbit/s")
    parser.add_argument("--latency", type=float, default=5e-4)
    parser.add_argument("--compute", type=float, default=0.05, help="of a worker, seconds")
    args = parser.parse_args()
    print(f"n = {args.n}, {args.workers} workers, {args.bandwidth:g} Gbit/s")
    print(f"{'number':>8}{'fan-out':>9}{'seconds a round':>17}{'GB at the client':>18}")
    for name, size in (("float64", 8.0), ("float32", 4.0)):
        wire = 8e-9 / args.bandwidth
        parts = Parts(args.per_message, args.per_byte, wire, args.latency, args.compute, 2e-10)
        for fan_out in (args.workers, 32, 8, 4, 2):
            seconds, through = simulate(args.workers, fan_out, size * args.n, parts)
            print(f"{name:>8}{fan_out:9d}{seconds:17.3f}{through / 1e9:18.2f}")


if __name__ == "__main__":
    main()
