"""R^2/(2 A_N) against the worst case over all convex functions, by performance estimation."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


worst_case = load("worst_case")
SLACK = 1e-4  # of the solver


# Paper: equation (24)
@pytest.mark.parametrize(("N", "sigma"), [(1, 0.0), (1, 0.9), (2, 0.5), (4, 0.5)])
def test_no_convex_function_is_worse_than_the_bound_of_sae(N, sigma):
    """And none is much better: at N = 1 the worst case is (1 + sigma)/2 of it, later more."""
    worst, A = worst_case.sae(N, sigma)
    share = 2 * A * worst
    assert share <= 1 + SLACK
    first = (1 + sigma) / 2
    assert share == pytest.approx(first, abs=SLACK) if N == 1 else share >= first


def test_the_bound_of_sae_is_attained_at_sigma_1():
    """So no smaller bound is true."""
    worst, A = worst_case.sae(3, 1.0)
    assert 2 * A * worst == pytest.approx(1.0, abs=SLACK)


@pytest.mark.parametrize(("N", "zeta"), [(1, 0.5), (3, 0.0), (3, 0.5)])
def test_no_convex_function_is_worse_than_the_bound_of_afb(N, zeta):
    worst, A = worst_case.afb(N, zeta)
    share = 2 * A * worst
    assert share <= 1 + SLACK
    first = (1 + zeta) / 2
    assert share == pytest.approx(first, abs=SLACK) if N == 1 else share >= first
