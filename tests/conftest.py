"""Problems that several tests share."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import settings

import geartrain as gt
from geartrain.core import calling_back
from rounding import pytest_report_header, pytest_runtest_protocol  # noqa: F401

settings.register_profile("quick", max_examples=40, deadline=None, derandomize=True)
settings.load_profile("quick")


# Callbacks are called inside iterations that take long: by the clock, which tests do not depend on
# unless they have one of their own.
EVERY, calling_back._EVERY = calling_back._EVERY, math.inf
READERS = ("geartrain.oracles.ledger.perf_counter", "geartrain.core.clock.perf_counter")


@pytest.fixture(autouse=True)
def ticks(monkeypatch):
    """A clock that shows a microsecond more at each look, so that no run depends on the load.

    Prices are measured and methods are compared by it.
    """
    looks = itertools.count()
    for reader in READERS:
        monkeypatch.setattr(reader, lambda: 1e-6 * next(looks))


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


class Clock:
    """A clock that only moves when told to: tests of seconds without sleeping."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now

    def pass_(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(ticks, monkeypatch):
    """Stands in for the clock of the ledger and of the driver."""
    clock = Clock()
    for reader in READERS:
        monkeypatch.setattr(reader, clock)
    monkeypatch.setattr(calling_back, "_EVERY", EVERY)
    return clock
