"""The law of separation, in a small form: every method of the table runs."""

import pytest

from geartrain_lab.laws import separation


@pytest.mark.parametrize("method", separation.STATED)
def test_every_method_is_measured(method, monkeypatch):
    monkeypatch.setattr(separation, "SEEDS", (0,))
    monkeypatch.setattr(separation, "MU", 0.1)
    monkeypatch.setattr(separation, "N", 20)
    n_h, n_g = separation.measure(method, 1.0, 10.0)
    assert 1 < n_h <= n_g  # h is never asked more often than g
