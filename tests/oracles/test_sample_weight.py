"""``LinearModel(sample_weight=)``: a row of weight three is a row that is there three times."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

import geartrain as gt
from geartrain.oracles.losses import COMPILED, LOSSES

M, N = 9, 4
RNG = np.random.default_rng(3)
A = RNG.standard_normal((M, N))
WEIGHTS = np.array([1, 3, 0, 2, 1, 1, 5, 2, 1])
FORMS = {"dense": np.asarray, "csr": sparse.csr_array, "operator": aslinearoperator}


def pair(form="dense", loss="logistic", intercept=False):
    """The weighted model, and the one with repeated rows."""
    y = RNG.choice([-1.0, 1.0], M) if LOSSES[loss].labels else RNG.standard_normal(M)
    shared = {"loss": loss, "l2": 0.1, "intercept": intercept}
    weighted = gt.LinearModel(FORMS[form](A), y, sample_weight=WEIGHTS, **shared)
    return weighted, gt.LinearModel(A.repeat(WEIGHTS, axis=0), y.repeat(WEIGHTS), **shared)


@pytest.mark.parametrize("loss", [loss.name for loss in COMPILED])
@pytest.mark.parametrize(("form", "intercept"), [*zip(FORMS, (True, False, True), strict=True)])
def test_weights_are_repetitions(loss, form, intercept):
    ours, repeated = pair(form, loss, intercept)
    x, D = np.cos(np.arange(ours.n)), RNG.standard_normal((ours.n, 2))
    assert ours.value(x) == pytest.approx(repeated.value(x), rel=1e-12)
    value, grad = ours.value_and_grad(x)
    assert value == ours.value(x) and ours.lower_bound == repeated.lower_bound
    np.testing.assert_allclose(grad, repeated.grad(x), atol=1e-12)
    np.testing.assert_allclose(ours.products(x, D), repeated.products(x, D), atol=1e-12)
    product = repeated.curvature_product(D[:, 0])
    np.testing.assert_allclose(ours.curvature_product(D[:, 0]), product, atol=1e-12)
    room = 1e-2 if form == "operator" else 1e-12  # that of an operator is rounded up
    np.testing.assert_allclose(ours.L, repeated.L, rtol=room)
    assert ours.mu == repeated.mu and ours.total == WEIGHTS.sum()


def test_methods_for_single_rows_and_columns_refuse_weights():
    weighted, _ = pair()
    h = gt.Quadratic(np.eye(N))
    assert gt.minimize(h, weighted, method="sae", tol=1e-6).success
    for inner in ("katyusha", "acd", "apcg"):
        with pytest.raises(TypeError):
            gt.minimize(h, weighted, method="sae", inner=inner)
    with pytest.raises(TypeError, match="WorkingSet needs"):
        gt.minimize(weighted, gt.L1(0.1), method="working-set")


def test_other_weights_are_another_term():
    weighted, _ = pair()
    again = gt.LinearModel(weighted.A, weighted.y, l2=0.1, sample_weight=2 * WEIGHTS)
    other = gt.LinearModel(weighted.A, weighted.y, l2=0.1, sample_weight=WEIGHTS[::-1])
    plain = gt.LinearModel(weighted.A, weighted.y, l2=0.1)
    assert weighted.contains(again)
    assert not weighted.contains(other) and not weighted.contains(plain)
    assert not plain.contains(weighted)


@pytest.mark.parametrize("bad", [np.zeros(M), -np.ones(M)])
def test_bad_weights(bad):
    with pytest.raises(ValueError, match="sample_weight must not be negative, and at least one"):
        gt.LinearModel(A, np.ones(M), sample_weight=bad)
