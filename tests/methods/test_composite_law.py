"""The separation law with a non-smooth term, in a reduced form of benchmarks/composite_law.py."""

from __future__ import annotations

import numpy as np
import pytest

from geartrain_lab.laws.composite import KINDS, STATED, exponents, planted, sweep


@pytest.mark.parametrize("kind", KINDS)
def test_the_planted_point_is_the_solution(kind):
    """0 is a subgradient of f there, and half of the coordinates are at a kink."""
    h, g, psi, x = planted(kind, 100.0, n=30)
    assert np.linalg.norm(psi.residual(x, h.grad(x) + g.grad(x))) <= 1e-12
    assert np.count_nonzero((x == 0.0) | (np.abs(x) == 1.0)) >= 15
    assert pytest.approx(1.0) == h.L and pytest.approx(100.0) == g.L


def test_exponents_in_L_g():
    rows = sweep((*STATED, "fgm"), ("l1",), (1e1, 1e2, 1e3), (0,), n=60)
    for method in STATED:
        of_h, of_g = exponents(rows, "l1", method)
        assert of_h <= 0.1 and 0.38 <= of_g <= 0.62, (method, of_h, of_g)
    assert exponents(rows, "l1", "fgm")[0] >= 0.3
