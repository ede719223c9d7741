"""The machines that `rounding` imitates: what it moves, how far, and that a run repeats itself."""

from __future__ import annotations

import numpy as np
import pytest

import geartrain as gt
from geartrain.oracles.ledger import Ledger, Oracle
from rounding import Rounding, moved

pytestmark = pytest.mark.same_everywhere  # imitated machines of its own


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_entry_moves_by_at_most_one_unit(dtype, rng):
    x = (rng.standard_normal(9000) * 10.0 ** rng.integers(-30, 30, 9000)).astype(dtype)
    y = moved(x, 5)
    assert y.dtype == dtype
    whole = {np.float64: np.int64, np.float32: np.int32}[dtype]
    steps = y.view(whole) - x.view(whole)
    kinds, counts = np.unique(steps, return_counts=True)
    np.testing.assert_array_equal(kinds, [-1, 0, 1])
    assert counts.min() > 2500
    np.testing.assert_array_equal(y, moved(x, 5))
    np.testing.assert_array_equal(y[::-1], moved(x[::-1], 5))
    assert (y != moved(x, 6)).mean() > 0.5


def test_what_stays():
    odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, np.finfo(float).max])
    for salt in range(20):
        np.testing.assert_array_equal(moved(odd, salt)[:5], odd[:5])
        assert np.isfinite(moved(odd, salt)[5])
        assert moved("text", salt) == "text" and moved(3, salt) == 3 and moved(None, salt) is None


def test_other_forms_of_the_same_numbers_move_alike():
    x = np.linspace(-1.0, 1.0, 7)
    y = moved(x, 3)
    assert moved(list(x), 3) == list(y) and moved(tuple(x.tolist()), 3) == tuple(y.tolist())
    assert type(moved(0.1, 3)) is float and type(moved(np.float32(0.1), 3)) is np.float32
    value, grad = moved((0.1, x), 3)
    assert value == moved(0.1, 3)
    np.testing.assert_array_equal(grad, y)
    assert moved(np.array(0.1), 3).shape == ()


def test_counted_answers_are_moved_and_no_others(rng):
    term, x = gt.Quadratic(np.eye(50)), rng.standard_normal(50)
    kept = x.copy()
    with Rounding(1):
        asked = Oracle(term, "h", Ledger(), 50)
        np.testing.assert_array_equal(asked.grad(x), moved(term.grad(x), 1))
        value, grad = asked.value_and_grad(x)
        assert value == moved(term.value(x), 1) and (grad != x).any()
        box = Oracle(gt.Box(-0.1, 0.1), "g", Ledger(), 50)
        assert abs(box.prox(x, 1.0)).max() == 0.1  # a projection ends on its set
    np.testing.assert_array_equal(x, kept)
    np.testing.assert_array_equal(Oracle(term, "h", Ledger(), 50).grad(x), x)


def test_a_run_repeats_itself_on_one_machine_and_not_on_another(pair):
    ends = []
    for salt in (1, 1, 2):
        with Rounding(salt):
            ends.append(gt.minimize(*pair, method="sae", tol=1e-6).x)
    np.testing.assert_array_equal(ends[0], ends[1])
    assert (ends[0] != ends[2]).any()
    np.testing.assert_allclose(ends[0], ends[2], atol=1e-3)
