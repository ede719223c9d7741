"""Problems that several tests share."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings

import geartrain as gt

settings.register_profile("quick", max_examples=40, deadline=None, derandomize=True)
settings.load_profile("quick")


@pytest.fixture
def rng():
    return np.random.default_rng(2026)


@pytest.fixture
def pair():
    """Quadratics h and g, badly conditioned in different directions; f is 0.02-strongly convex."""
    rng = np.random.default_rng(5)
    n = 12
    U = np.linalg.qr(rng.standard_normal((n, n)))[0]
    V = np.linalg.qr(rng.standard_normal((n, n)))[0]
    b = rng.standard_normal(n)
    h = gt.Quadratic(U @ np.diag(np.logspace(-2, 0, n)) @ U.T, b)
    g = gt.Quadratic(V @ np.diag(np.logspace(-2, 2, n)) @ V.T)
    return gt.Quadratic((h.Q + h.Q.T) / 2, b), gt.Quadratic((g.Q + g.Q.T) / 2)
