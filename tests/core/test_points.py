"""Which of two points a run returns."""

import math

import numpy as np
import pytest

from geartrain.core.points import RunPoint

X, UNIT = np.zeros(2), np.finfo(float).eps


@pytest.mark.parametrize(
    ("f", "slope", "better"),
    [
        (0.9, 1.0, True),  # lower
        (1.1, 1e-9, False),  # higher: the gradient does not matter
        (1.0 + UNIT, 1e-9, True),  # equal up to rounding: the smaller gradient
        (1.0 - UNIT, 1e-3, False),
        (1.0 - UNIT, math.nan, True),  # no gradient: the value, whatever the difference
        (math.nan, 1e-9, True),
        (math.nan, 1e-3, False),
        (math.nan, math.nan, True),  # nothing is known: the newer one
    ],
)
def test_values_decide_and_gradients_where_values_are_equal_up_to_rounding(f, slope, better):
    assert RunPoint(X, f, slope).better_than(RunPoint(X, 1.0, 1e-6)) == better
