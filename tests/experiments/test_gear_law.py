"""The law of the gears in a reduced form."""

import numpy as np
import pytest

from geartrain_lab.laws import gears

pytestmark = [
    pytest.mark.outside,  # a bench in a small form
    pytest.mark.same_everywhere,  # exponents with wide margins
]


def test_every_term_follows_its_own_constant():
    """Exponents 1/2 on the diagonal and 0 off it, up to the logarithms of a small problem."""
    matrix, rows = gears.exponents((1.0, 20.0, 200.0), seeds=(0,), n=24, mu=3e-3)
    assert len(rows) == 3 * len(gears.FACTORS)
    np.testing.assert_allclose(np.diag(matrix), 0.5, atol=0.15)
    # A deeper level has no influence at all; one above has little.
    np.testing.assert_allclose(matrix[np.triu_indices(3, 1)], 0.0, atol=0.02)
    np.testing.assert_allclose(matrix[np.tril_indices(3, -1)], 0.0, atol=0.3)


def test_calls_are_those_of_each_term_alone():
    L = (1.0, 20.0, 200.0)
    problem = gears.opposed_train(12, L=L, mu=1e-2, seed=0)
    ratios = gears.calls_of(problem, L) / gears.alone(problem, L, 1e-2)
    assert (ratios < 2.0).all()


def test_the_bill_of_the_chosen_order():
    rows = gears.bills([(1.0, 8.0, 60.0)], gears.PRICES, seeds=(0,), n=12, mu=3e-2)
    ratios = np.array([row[4] / row[5] for row in rows])
    assert len(rows) == len(gears.PRICES) and (ratios >= 1.0).all()
    assert ratios.max() < 1.5 and np.exp(np.log(ratios).mean()) < 1.15
