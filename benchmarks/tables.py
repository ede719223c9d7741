"""Run the benchmarks and keep what they print: the tables of the documentation.

``python benchmarks/tables.py`` measures everything again and writes docs/benchmarks/*.txt, each
with the command, the versions and the machine above its table, and *.json for the page of the
benchmarks; names restrict it to some of them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import scipy

import geartrain
from geartrain_lab.frontier_report import is_scipy

ROOT = Path(__file__).parent.parent
COMMANDS = {
    "separation_law": "python -m geartrain_lab.laws separation --out out/tables",
    "composite_law": "python -m geartrain_lab.laws composite --out out/tables",
    "composite": "geartrain bench composite --json out/tables/composite.json",
    "constraints": "geartrain bench constraints --json out/tables/constraints.json",
    "constraints_law": "python -m geartrain_lab.laws constraints --out out/tables",
    "equilibria": "geartrain bench equilibria --json out/tables/equilibria.json",
    "equilibria_law": "python -m geartrain_lab.laws equilibria --out out/tables",
    "sparse_rounds": "python benchmarks/sparse_rounds.py",
    "sparse_speed": "python benchmarks/sparse_speed.py",
    "gear_law": "python -m geartrain_lab.laws gears --out out/tables",
    "tiers": "python -m geartrain_lab.laws tiers --out out/tables",
    "frontier": "geartrain bench frontier --json out/tables/frontier.json",
    "profile": "geartrain bench profile --json out/tables/profile.json",
    "ablation": "python benchmarks/ablation.py --json out/tables/ablation.json",
    "sensitivity": "python benchmarks/sensitivity.py --only methods",
    "kernels": "geartrain bench kernels --json out/tables/kernels.json",
    "estimators": "geartrain bench estimators --json out/tables/estimators.json",
    "distributed": "geartrain bench distributed --json out/tables/distributed.json",
    "theory_factors": "python benchmarks/theory_factors.py",
    "predicted_winner": "python benchmarks/predicted_winner.py",
    "map": "python -m geartrain_lab.experiments.map --out out/tables",
    "worst_case": "python benchmarks/worst_case.py",
    "inner_rules": "python benchmarks/inner_rules.py",
    "local_constants": "python benchmarks/local_constants.py",
    "finite_sum_methods": "python benchmarks/finite_sum_methods.py",
    "gradient_sliding_law": "python benchmarks/gradient_sliding_law.py",
    "overhead": "python benchmarks/overhead.py",
    "density": "python benchmarks/density.py",
}
# Commands whose tables the page of the benchmarks shows, from their JSON files.
PAGES = (
    "ablation",
    "composite",
    "constraints",
    "distributed",
    "equilibria",
    "estimators",
    "frontier",
    "kernels",
)
# Pictures that a command draws besides, and where the documentation looks for them.
PICTURES = {
    "separation_law": "separation_law.png",
    "constraints_law": "constraints_law.png",
    "equilibria_law": "equilibria_law.png",
    "frontier": "frontier.png",
    "profile": "profile.png",
    "map": "map.png",
}


def measure(name: str, quick: bool) -> None:
    """One table; the file is written when the command has succeeded."""
    command = COMMANDS[name] + (" --quick" if quick else "")
    words = shlex.split(command)
    words[:1] = (
        [sys.executable] if words[0] == "python" else [sys.executable, "-m", "geartrain.cli"]
    )
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    head = [
        f"$ {command}",
        f"geartrain {geartrain.__version__}, Python {platform.python_version()}, NumPy "
        f"{np.__version__}, SciPy {scipy.__version__}, {platform.system()} "
        f"{platform.machine()}, {os.cpu_count()} cores, {date.today()}",
    ]
    # Files and pictures are named by their paths on this machine: nobody else's business.
    lines = [x for x in done.stdout.splitlines() if not x.startswith(("wrote ", "picture: "))]
    text = "\n".join([*head, "", *lines]).rstrip() + "\n"
    (ROOT / "docs" / "benchmarks" / f"{name}.txt").write_text(text)
    if name in PAGES:
        tables = json.loads((ROOT / "out" / "tables" / f"{name}.json").read_text())["tables"]
        page = json.dumps(tables, indent=1) + "\n"
        (ROOT / "docs" / "benchmarks" / f"{name}.json").write_text(page)
    if name == "frontier":
        table = prices(ROOT / "out" / "tables" / "frontier.json")
        (ROOT / "docs" / "benchmarks" / "prices.txt").write_text(table)
    if name in PICTURES and not quick:
        drawn = ROOT / "out" / "tables" / PICTURES[name]
        (ROOT / "docs" / "img" / PICTURES[name]).write_bytes(drawn.read_bytes())


def prices(json_file: Path, target: float = 1e-5) -> str:
    """Bills over that of L-BFGS at each ratio of prices: geometric means, as a table."""
    rows = pd.DataFrame(json.loads(json_file.read_text())["rows"])
    rows = rows[rows.target == target]
    bills = rows.pivot(index=["problem", "rho"], columns="method", values="bill")
    own = [name for name in rows.method.unique() if not is_scipy(name)]
    rivals = bills[[name for name in bills if is_scipy(name)]].min(axis=1)
    logs = np.log(bills[own].div(rivals, axis=0).where(np.isfinite(bills[own]))).groupby("rho")
    means, solved = np.exp(logs.mean()), logs.count().min()
    problems = rows.problem.nunique()
    lines = ["| method | solved | " + " | ".join(map(str, means.index)) + " |"]
    lines.append("| --- " * (len(means) + 2) + "|")
    for name in own:
        if "(" in name and 2 * solved[name] < problems:
            continue
        cells = (f"{mean:.2f}" if mean > 0.0 else "-" for mean in means[name])
        lines.append(f"| `{name}` | {solved[name]} of {problems} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(COMMANDS), help="all if not given")
    parser.add_argument("--quick", action="store_true", help="small ones, in minutes")
    args = parser.parse_args()
    (ROOT / "out" / "tables").mkdir(parents=True, exist_ok=True)
    for name in args.names:
        if name not in COMMANDS:
            parser.error(f"unknown table {name!r}; choose from {', '.join(COMMANDS)}")
        print(f"{name} ...", flush=True)
        measure(name, args.quick)


if __name__ == "__main__":
    main()
