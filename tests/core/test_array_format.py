"""Points of any shape and in single precision."""

from __future__ import annotations

import numpy as np
import pytest

import geartrain as gt

pytestmark = pytest.mark.same_everywhere  # shapes and types

SHAPE = (3, 4)
TARGET = np.arange(12.0).reshape(SHAPE)
WEIGHTS = np.geomspace(0.1, 50.0, 12).reshape(SHAPE)


class Seen:
    """h and g on matrices, which keep what they are asked."""

    def __init__(self):
        self.shapes, self.dtypes = set(), set()
        self.h = gt.Term(self._h, L=1.0)
        self.g = gt.Term(value=self._value_g, grad=self._grad_g, L=50.0, mu=0.1)

    def _look(self, x):
        self.shapes.add(x.shape)
        self.dtypes.add(x.dtype.name)

    def _h(self, x):
        self._look(x)
        d = x - TARGET.reshape(x.shape).astype(x.dtype)
        return 0.5 * float((d * d).sum()), d

    def _value_g(self, x):
        self._look(x)
        return 0.5 * float((WEIGHTS.reshape(x.shape) * x * x).sum())

    def _grad_g(self, x):
        self._look(x)
        return WEIGHTS.reshape(x.shape).astype(x.dtype) * x


@pytest.mark.parametrize("method", ["auto", "afb", "lbfgs"])
def test_functions_callbacks_and_results_have_the_shape_of_x0(method):
    seen, points = Seen(), []
    res = gt.minimize(
        seen.h, seen.g, np.zeros(SHAPE), method=method, callback=lambda x: points.append(x.shape)
    )
    assert res.success and res.x.shape == SHAPE
    np.testing.assert_allclose(res.x, TARGET / (1 + WEIGHTS), atol=1e-4)
    assert seen.shapes == set(points) == {SHAPE}
    flat = gt.minimize(*_flat_terms(), np.zeros(12), method=method)
    if method != "auto":  # which looks at the clock
        assert res.calls == flat.calls and np.array_equal(res.x.ravel(), flat.x)


def _flat_terms():
    seen = Seen()
    return seen.h, seen.g


def test_terms_of_the_library_get_vectors_also_inside_of_sums():
    seen = Seen()
    g = gt.Quadratic(np.diag(WEIGHTS.ravel()))
    h = seen.h + 0.5 * gt.Quadratic(np.eye(12))
    res = gt.minimize(h, g, np.zeros(SHAPE), method="afb", tol=1e-9)
    assert seen.shapes == {SHAPE} and res.x.shape == SHAPE
    np.testing.assert_allclose(res.x, TARGET / (1.5 + WEIGHTS), atol=1e-7)


def test_the_shape_survives_going_on_and_checkpoints(tmp_path):
    seen, path = Seen(), tmp_path / "run.gtck"
    part = gt.minimize(seen.h, seen.g, np.zeros(SHAPE), method="afb", max_iter=3, checkpoint=path)
    whole = gt.minimize(seen.h, seen.g, np.zeros(SHAPE), method="afb")
    for res in (
        gt.minimize(seen.h, seen.g, state=part.state),
        gt.resume(path, seen.h, seen.g, max_iter=10_000),
    ):
        assert res.x.shape == SHAPE and np.array_equal(res.x, whole.x)
    assert seen.shapes == {SHAPE}


def test_single_precision_is_kept_where_all_functions_are_of_the_user():
    seen = Seen()
    x0 = np.zeros(SHAPE, np.float32)
    res = gt.minimize(seen.h, seen.g, x0, method="lbfgs", tol=1e-4)
    assert res.success and res.x.dtype == np.float32 and seen.dtypes == {"float32"}
    # the functions were asked at this very point
    f = seen.h.value_and_grad(res.x)[0] + seen.g.value(res.x)
    assert res.fun == pytest.approx(f, rel=1e-12)


def test_single_precision_is_not_kept_beside_a_term_in_double_precision():
    seen = Seen()
    g = gt.Quadratic(np.diag(WEIGHTS.ravel()))
    res = gt.minimize(seen.h, g, np.zeros(12, np.float32), method="afb", tol=1e-10)
    assert res.success and res.x.dtype == np.float64 and seen.dtypes == {"float64"}
