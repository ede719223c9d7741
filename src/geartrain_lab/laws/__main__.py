"""Measure a law: ``python -m geartrain_lab.laws NAME [--out DIR] [--quick]``."""

import argparse
from pathlib import Path

from geartrain_lab.laws import composite, equilibria, gears, separation, tiers

LAWS = {
    "separation": separation.SEPARATION,
    "coordinate": separation.COORDINATE,
    "values": separation.VALUES_ONLY,
    "finite_sum": separation.SUMMANDS,
    "composite": composite.COMPOSITE,
    "constraints": composite.CONSTRAINED,
    "equilibria": equilibria.EQUILIBRIA,
}
OTHERS = {"gears": gears.run, "tiers": tiers.run}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=[*LAWS, *OTHERS])
    parser.add_argument("--out", type=Path, default=Path("out/laws"), help="tables and pictures")
    parser.add_argument("--quick", action="store_true", help="one seed and fewer points")
    args = parser.parse_args()
    if args.name in LAWS:
        LAWS[args.name].run(args.name, args.out, args.quick)
    else:
        OTHERS[args.name](args.out, args.quick)
