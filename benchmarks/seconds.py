"""``geartrain bench seconds`` for development: some families, seeds to look at, rivals kept.

python benchmarks/seconds.py [FAMILY ...] [--seeds 0 2] [--ms 0 10] [--method auto] [--reuse FILE]
    [--json FILE]

With --reuse, f* and the rivals are taken over from figures of an earlier run on the same machine,
which --json wrote: only ours is run.
"""

import argparse

from geartrain_lab.seconds.measure import run

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("families", nargs="*", help="parts of names; all if none")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="odd: for reports")
    parser.add_argument("--ms", type=float, nargs="+", default=[0, 10], help="added to calls of h")
    parser.add_argument("--method", default="auto")
    parser.add_argument("--reuse", metavar="FILE")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    run(
        args.json,
        families=args.families,
        seeds=args.seeds,
        added=[1e-3 * ms for ms in args.ms],
        method=args.method,
        reuse=args.reuse,
    )
