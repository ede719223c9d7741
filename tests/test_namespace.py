"""The top of the package: what is there, and that it is quick to import."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import geartrain as gt

pytestmark = pytest.mark.same_everywhere  # names

MODULES = (
    "methods",
    "inner",
    "stop",
    "geometry",
    "theory",
    "callbacks",
    "estimators",
    "distributed",
    "datasets",
)
TERMS = {"Quadratic", "LinearModel", "LogSumExp", "Term"}
FIXED = {"SAE", "Katyusha", "ScipyLBFGS"}


def test_the_top_holds_terms_minimize_and_modules():
    functions = {"minimize", "resume", "check_term", "from_torch", "from_jax"}
    assert set(gt.__all__) >= {*TERMS, *FIXED, *functions, *MODULES}
    classes = {name for name in gt.__all__ if isinstance(getattr(gt, name), type)}
    elsewhere = {n for home in (gt.methods, gt.inner, gt.geometry) for n in home.__all__}
    assert classes & elsewhere == FIXED
    assert gt.SAE is gt.methods.SAE and gt.Katyusha is gt.inner.Katyusha


def test_other_names_are_not_there():
    with pytest.raises(AttributeError, match="no attribute 'Agm'"):
        gt.Agm  # noqa: B018


def test_an_import_loads_no_method_and_nothing_slow():
    """No test on the clock: what takes the time is not imported."""
    code = (
        "import sys, geartrain; slow = ('numba', 'sklearn', 'scipy.optimize', 'matplotlib', "
        "'torch', 'jax', 'pandas', 'dask', 'geartrain.methods', 'geartrain.theory'); "
        "print([name for name in slow if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_checkpoint_can_be_read_in_a_process_that_has_loaded_no_method(tmp_path):
    path, Q = tmp_path / "run.gtck", gt.Quadratic(np.eye(2), np.ones(2))
    gt.minimize(Q, Q, method="afb", max_iter=1, checkpoint=path)
    code = (
        "import numpy as np, geartrain as gt; Q = gt.Quadratic(np.eye(2), np.ones(2)); "
        f"assert gt.resume({str(path)!r}, Q, Q, max_iter=50).success"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_two_classes_of_one_name():
    """Private ones aside."""
    homes: dict[str, list[str]] = {}
    for path in Path(gt.__file__).parents[1].glob("geartrain*/**/*.py"):
        for name in re.findall(r"^class ([A-Za-z]\w*)", path.read_text(), re.MULTILINE):
            homes.setdefault(name, []).append(path.name)
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}
