"""Calls of h under linear constraints, and the law of the condition of A.

python benchmarks/constraints.py [FAMILY ...] [--quick] [--json FILE] [--out DIR]

The problems are in `geartrain_lab.problems.constrained`; a9a is read from the data folder.
With --out, the law is measured, too, and drawn.
"""

import argparse
from pathlib import Path

from geartrain_lab.benches.constraints import run
from geartrain_lab.laws import constraints as law

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("families", nargs="*", help="parts of names; all if none")
    parser.add_argument("--quick", action="store_true", help="two seeds, without a9a")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--out", type=Path, metavar="DIR")
    args = parser.parse_args()
    run(args.json, args.quick, args.families)
    if args.out is not None:
        print()
        law.run(args.out, args.quick)
