"""Three tiers of shards in a reduced form."""

import numpy as np
import pytest

from geartrain_lab.laws import tiers
from geartrain_lab.problems.shards import logistic_tiers, with_unit_rows


def rows(m=1600, n=12, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, n)) / np.arange(1, n + 1)
    y = np.where(X.sum(axis=1) + 0.3 * rng.standard_normal(m) > 0.0, 1.0, -1.0)
    return with_unit_rows(X, y)


def test_the_tiers_add_up_to_the_whole():
    A, y = rows()
    three = logistic_tiers(A, y, (200, 25), 1e-3)
    x = np.random.default_rng(1).standard_normal(A.shape[1])
    whole = three.h[0].value(x) + three.machine.value(x)
    assert three.h[0].value(x) + three.h[1].value(x) + three.g.value(x) == pytest.approx(whole)
    assert three.g.m == 25 and three.machine.m == 200


def test_calls_are_measured_and_reported(capsys):
    A, y = rows()
    cells = [("random", A, y, 64, 1e-3, seed) for seed in (0, 1)]
    found = [tiers.measure(*cell) for cell in cells]
    assert all(min(row[4:]) > 0 for row in found)
    tiers.report(found)
    assert "ratios, geometric mean: h1" in capsys.readouterr().out
