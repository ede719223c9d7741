"""The bench of equilibria: its problems are monotone, and its figures are what they say."""

from __future__ import annotations

import numpy as np
import pytest

from geartrain_lab.problems.equilibria import FAMILIES, NAMED

pytestmark = [
    pytest.mark.outside,  # a bench in a small form
    pytest.mark.same_everywhere,  # wide margins, and figures that are computed again
]


@pytest.mark.parametrize("name", [*FAMILIES, *NAMED])
def test_problems_are_monotone_and_the_same_for_a_seed(name):
    rng = np.random.default_rng(0)
    for seed in range(3):
        p, again, other = ({**FAMILIES, **NAMED}[name](s) for s in (seed, seed, seed + 1))
        z0 = p.projected(p.start)
        assert np.array_equal(p.R(z0), again.R(z0))
        assert not np.array_equal(p.start, other.start) or not np.array_equal(
            p.R(p.start), other.R(other.start)
        )
        for size in (0.1, 1.0, 10.0):
            u, v = (p.projected(z0 + size * rng.standard_normal(z0.size)) for _ in range(2))
            change, step = p.R(u) - p.R(v), u - v
            rounding = 1e-12 * np.linalg.norm(change) * np.linalg.norm(step)
            assert change @ step >= -rounding


def test_problems_are_of_many_sizes_and_about_half_have_a_set():
    made = [make(seed) for make in FAMILIES.values() for seed in range(10)]
    sizes = np.array([p.start.size for p in made])
    assert len(made) >= 100 and sizes.min() == 2 and 250 <= sizes.max() <= 300
    assert 0.4 <= np.mean([p.set is not None for p in made]) <= 0.6
