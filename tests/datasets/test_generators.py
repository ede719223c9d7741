"""The optimum is where the generators say."""

import numpy as np
import pytest

from geartrain import datasets


@pytest.mark.parametrize("make", [datasets.make_quadratics, datasets.make_logistic])
def test_known_optimum(make):
    problem = make(seed=3)
    gradient = problem.h.grad(problem.x_star) + problem.g.grad(problem.x_star)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-11)
    assert problem.f_star == problem.h.value(problem.x_star) + problem.g.value(problem.x_star)
    np.testing.assert_array_equal(make(seed=3).x_star, problem.x_star)
    assert not np.array_equal(make(seed=4).x_star, problem.x_star)


def test_spectra_of_the_quadratics():
    problem = datasets.make_quadratics(60, L_h=2.0, L_g=50.0, mu=0.1)
    assert pytest.approx(2.0) == problem.h.L and pytest.approx(50.0) == problem.g.L
    assert np.linalg.eigvalsh(problem.h.Q + problem.g.Q)[0] == pytest.approx(0.1)
    with pytest.raises(ValueError, match="0 < mu"):
        datasets.make_quadratics(mu=5.0)
