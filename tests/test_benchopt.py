"""The benchmark for benchopt: its own command runs it, and the solvers agree."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pandas
import pytest

pytestmark = [
    pytest.mark.outside,  # the command of benchopt
    pytest.mark.same_everywhere,  # solvers agree to 1e-3, far above rounding
]

HERE = Path(__file__).parent.parent / "benchmarks" / "benchopt"
PROBLEMS = ("Kernel SVM[m=40,lam=0.1]", "Sharded logistic[shards=4,rows=60,n=10,l2=1e-3]")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("benchopt") / "benchmark"
    shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns("outputs", "__*"))
    command = [sys.executable, "-m", "benchopt", "run", str(folder), "-n", "14", "-r", "1"]
    # No limit of time: a busy machine gives the same rows.
    command += ["--no-timeout", "--no-plot", "--no-display", "--output", "table"]
    for problem in PROBLEMS:
        command += ["-d", problem]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return pandas.read_parquet(folder / "outputs" / "table.parquet")


def test_all_that_can_run_run(table):
    ran = table.groupby("dataset_name")["solver_name"].unique()
    kernel, sharded = (set(names) for names in ran)
    ours = {f"geartrain[method={m}]" for m in ("pqn", "auto")}
    theirs = {"SciPy[method=L-BFGS-B]", "SciPy[method=CG]"}
    assert kernel == ours | theirs | {"geartrain[method=sae+katyusha]"}
    assert sharded == ours | theirs | {"scikit-learn"}


def test_solvers_agree_and_their_calls_grow(table):
    for _, problem in table.groupby("dataset_name"):
        best = problem["objective_value"].min()
        for name, curve in problem.groupby("solver_name"):
            end = curve.iloc[-1]
            assert end["objective_value"] - best <= 1e-3 * abs(best), name
            for column in ("objective_h_grad", "objective_g_grad"):
                assert curve[column].is_monotonic_increasing and end[column] > 0, name


def test_separation_is_seen(table):
    """Gradients of h until f is within 1e-4 of the smallest: fewer than SciPy's."""
    kernel = table[table["dataset_name"].str.startswith("Kernel")]
    target = kernel["objective_value"].min() * (1 + 1e-4)
    near = kernel[kernel["objective_value"] <= target]
    first = near.groupby("solver_name")["objective_h_grad"].min()
    assert first["geartrain[method=pqn]"] < first["SciPy[method=L-BFGS-B]"]
