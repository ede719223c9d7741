"""The benchmark measures what it says."""

import json

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.svm import SVC

from geartrain import cli
from geartrain.estimators import KernelSVC
from geartrain.estimators.svm.kernel_matrix import Kernel, TrainingKernel
from geartrain_lab.benches import kernel_svc as bench

pytestmark = [
    pytest.mark.outside,  # a bench in a small form
    pytest.mark.same_everywhere,  # figures of a bench
]


@pytest.fixture(scope="module")
def problem():
    X, y = make_moons(150, noise=0.2, random_state=0)
    return X, 2.0 * y - 1.0


def test_objective_is_the_same_code_for_both(problem):
    X, y = problem
    ours = KernelSVC(C=2.0, tol=1e-8).fit(X, y)
    assert bench._objective(ours, X, y, 2.0) == pytest.approx(ours.objective_, rel=1e-12)
    theirs = SVC(C=2.0, tol=1e-8).fit(X, y)
    assert bench._objective(theirs, X, y, 2.0) == pytest.approx(ours.objective_, rel=1e-7)


def test_a_cell_reaches_the_objective_of_svc(problem):
    row = bench._cell([problem, problem], "scale", 1.0)
    assert row["objective_excess"] <= bench.SLACK and row["agreement"] >= 0.995
    assert row["ratio"] == row["seconds"] / row["svc_seconds"] > 0


def test_command_line(problem, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bench, "_sets", lambda quick: [("moons", lambda: [problem])])
    path = tmp_path / "bench.json"
    assert cli.main(["bench", "estimators", "--quick", "--json", str(path)]) == 0
    written = json.loads(path.read_text())
    assert len(written["rows"]) == 9 and written["compile_seconds"] > 0
    ratios = [row["ratio"] for row in written["rows"]]
    assert written["geometric_mean"] == pytest.approx(np.prod(ratios) ** (1 / 9))
    assert "geometric mean" in capsys.readouterr().out


def test_no_data_is_one_clear_line(monkeypatch, capsys):
    monkeypatch.setattr(bench, "_sets", lambda quick: [("gas sensors", bench._gas)])
    monkeypatch.delenv("GEARTRAIN_DATA", raising=False)
    assert cli.main(["bench", "estimators", "--quick"]) == 1
    assert "GEARTRAIN_DATA" in capsys.readouterr().err


def test_cache_stays_within_the_limit():
    X = np.random.default_rng(0).standard_normal((20_000, 3))
    kernel = TrainingKernel(Kernel("rbf", 1.0), X, 100e6)
    for start in range(0, 4000, 500):
        kernel.cached(np.arange(start, start + 500))
    assert 75e6 < kernel.rows.nbytes <= 80e6
