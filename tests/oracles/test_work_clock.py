"""Compilation is not counted as anybody's work."""

import time
from types import SimpleNamespace

import numpy as np

import geartrain as gt
from geartrain.oracles import work_clock
from geartrain.oracles.work_clock import CompileTimer


def test_nested_compilations_count_once(monkeypatch):
    now = iter([1.0, 4.0, 10.0, 10.5])
    monkeypatch.setattr(work_clock.time, "perf_counter", lambda: next(now))
    timer, start, end = (
        CompileTimer(),
        SimpleNamespace(is_start=True),
        SimpleNamespace(is_start=False),
    )
    for event in (start, start, end, start, end, end, start, end):
        timer.notify(event)
    assert timer.seconds == 3.0 + 0.5


def test_the_compilation_of_a_gradient_is_not_on_its_bill():
    from geartrain.compiled.jit import njit

    double = njit(lambda x: 2.0 * x)  # compiled by the first call
    before, begun = work_clock.compiling.seconds, time.perf_counter()
    h = gt.Term(lambda x: (float(x @ x), double(x)), n=2)
    res = gt.minimize(h, gt.Quadratic(np.eye(2)), np.ones(2), method="fgm", L_h=2.0, max_iter=3)
    compiled, wall = work_clock.compiling.seconds - before, time.perf_counter() - begun
    assert compiled > 0.0
    assert res.seconds["h.grad"] <= wall - compiled
    assert res.history["seconds"][-1] <= wall - compiled
