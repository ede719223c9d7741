"""A term that is linear, zero or tiny is taken by every method that takes such terms at all."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import geartrain as gt
from geartrain.core.status import Status
from geartrain.methods.registry import METHODS
from geartrain.oracles.protocols import MissingOracle

ZERO, ROUND = np.zeros((2, 2)), np.diag([1.0, 10.0])
RNG = np.random.default_rng(0)
LOGISTIC = gt.LinearModel(RNG.standard_normal((20, 2)), np.sign(RNG.standard_normal(20)), l2=0.1)
X0 = np.array([3.0, -2.0])

BOUNDED = {
    "linear h": (gt.Quadratic(ZERO, np.ones(2)), gt.Quadratic(ROUND)),
    "zero g": (gt.Quadratic(ROUND, np.ones(2)), gt.Quadratic(ZERO)),
    "linear h, finite sum": (gt.Quadratic(ZERO, 0.1 * np.ones(2)), LOGISTIC),
    "no data in h": (gt.LinearModel(ZERO, np.ones(2)), gt.Quadratic(ROUND, np.ones(2))),
    "h far below g": (gt.Quadratic(1e-200 * ROUND), gt.Quadratic(ROUND, np.ones(2))),
    "both tiny": (gt.Quadratic(1e-145 * ROUND), gt.Quadratic(1e-145 * ROUND, 1e-145 * np.ones(2))),
}
STOP = gt.stop.any_of(
    gt.stop.Gradient(rel=1e-4),
    gt.stop.Calls({"h.grad": 2000, "g.grad": 20000, "h.coord": 10**6, "g.component": 10**6}),
)


@pytest.fixture(autouse=True)
def no_warnings():
    """NumPy's warnings of our own arithmetic do not leak."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize("method", ["auto", *METHODS])
def test_every_method_takes_it(method, name):
    h, g = BOUNDED[name]
    try:
        res = gt.minimize(h, g, X0, method=method, stop=STOP)
    except MissingOracle:
        assert method == "katyusha" and "sum" not in name
        return
    ends = {Status.CONVERGED, Status.BUDGET}
    if method == "lbfgs" and name == "both tiny":  # SciPy's line search fails at that scale
        ends.add(Status.STALLED)
    assert np.isfinite(res.x).all() and res.status in ends
    if res.success:
        slope = np.linalg.norm(h.grad(res.x) + g.grad(res.x))
        assert slope <= 1e-4 * np.linalg.norm(h.grad(X0) + g.grad(X0)) * (1 + 1e-6)
    if name in ("linear h", "linear h, finite sum", "no data in h"):
        assert res.success, res.message


def test_the_constant_in_use_for_a_linear_term_is_small_beside_the_others():
    for scale in (1.0, 1e6):
        res = gt.minimize(gt.Quadratic(ZERO, np.ones(2)), gt.Quadratic(scale * ROUND), max_iter=1)
        assert res.constants["L_h"].value == pytest.approx(1e-3 * 10.0 * scale)


@pytest.mark.parametrize("method", ["auto", *sorted(set(METHODS) - {"katyusha", "aeg"})])
def test_an_unbounded_or_constant_sum_ends_without_success_or_at_once(method):
    linear, zero = gt.Quadratic(ZERO, np.ones(2)), gt.Quadratic(ZERO)
    down = gt.minimize(linear, zero, X0, method=method, stop=STOP, max_iter=50)
    assert not down.success and np.isfinite(down.x).all()
    still = gt.minimize(zero, zero, X0, method=method)
    assert still.success and still.nit == 0 and np.array_equal(still.x, X0)
