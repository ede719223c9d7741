"""Sparse logistic regression on a cluster: exact zeros, the same as scikit-learn's, few rounds."""

from __future__ import annotations

import numpy as np
import pytest

import geartrain as gt

pytestmark = [
    pytest.mark.outside,  # clusters
    pytest.mark.same_everywhere,  # zeros and rounds differ by far more than rounding
]

da = pytest.importorskip("dask.array")
N, M = 12, 240


def data():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((M, N)) / np.arange(1, N + 1) ** 0.5
    margins = A[:, :4] @ np.array([2.0, -1.5, 1.0, 1.0]) + 0.4
    return A, np.where(margins + 0.7 * rng.standard_normal(M) > 0, 1, 0)


@pytest.mark.filterwarnings("ignore:'penalty' was deprecated:FutureWarning")
@pytest.mark.parametrize("part", [1.0, 0.7])
def test_the_same_zeros_as_scikit_learn(client, part):
    from sklearn.linear_model import LogisticRegression

    A, y = data()
    C = 0.08
    ours = gt.distributed.LogisticRegression(client=client, l1_ratio=part, C=C, tol=1e-9)
    ours.fit(da.from_array(A, chunks=(40, N)), da.from_array(y, chunks=40))
    theirs = LogisticRegression(
        solver="saga", penalty="elasticnet", l1_ratio=part, C=C, tol=1e-13, max_iter=100_000
    ).fit(A, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-6)
    np.testing.assert_array_equal(ours.coef_ == 0.0, theirs.coef_ == 0.0)
    assert ours.result_.success and ours.n_rounds_ <= 20
    assert 0 < np.count_nonzero(ours.coef_ == 0.0) < N
    assert ours.intercept_[0] != 0.0


@pytest.mark.parametrize(
    ("penalty", "same"),
    [
        ("l1", {"l1_ratio": 1.0}),
        ("l2", {"l1_ratio": 0.0}),
        ("elasticnet", {"l1_ratio": 0.3}),
        (None, {"C": np.inf}),
    ],
)
def test_penalty_as_in_older_scikit_learn(client, penalty, same):
    """It is deprecated there, with these words for its values."""
    A, y = data()
    y = np.where(np.arange(M) % 5 == 0, 1 - y, y)  # not separable
    arrays = da.from_array(A, chunks=(40, N)), da.from_array(y, chunks=40)
    new = gt.distributed.LogisticRegression(client=client, tol=1e-9, **{"l1_ratio": 0.3, **same})
    old = gt.distributed.LogisticRegression(client=client, tol=1e-9, l1_ratio=0.3, penalty=penalty)
    with pytest.warns(FutureWarning, match="penalty is deprecated"):
        old.fit(*arrays)
    np.testing.assert_allclose(old.coef_, new.fit(*arrays).coef_, atol=1e-7)
    assert new.result_.success
    if penalty is None:
        signs, rows = np.where(y > 0, 1.0, -1.0), np.column_stack([A, np.ones(M)])
        x = np.append(new.coef_[0], new.intercept_)
        assert np.linalg.norm(gt.LinearModel(rows, signs).grad(x)) < 1e-8


def test_similarity_with_linear_constraints(client):
    A, y = data()
    signs = np.where(y > 0, 1.0, -1.0)
    arrays = da.from_array(A, chunks=(40, N)), da.from_array(signs, chunks=40)
    h, g = gt.distributed.similarity(client, arrays, "logistic", l2=1e-2)
    psi = gt.Linear(A[:3], -0.2, 0.2, bounds=(-1.0, 1.0))
    res = gt.minimize(h, g + psi, method="pqn", tol=1e-8)
    whole = gt.minimize(gt.LinearModel(A, signs, l2=1e-2), psi, method="pqn", tol=1e-9)
    assert res.success and res.calls["h.grad"] <= 20 and res.violation <= 1e-9
    np.testing.assert_allclose(res.x, whole.x, atol=1e-6)
    assert np.count_nonzero(res.multipliers["rows"]) + np.count_nonzero(res.multipliers["bounds"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"penalty": "l0"}, "penalty must be 'l2', 'l1', 'elasticnet' or None"),
        ({"l1_ratio": 2}, "l1_ratio must be between 0 and 1, got 2"),
        *(({"C": C}, r"C must be (positive|finite)") for C in (0, -1.0, np.nan, -np.inf)),
    ],
)
def test_bad_penalties_are_refused_before_a_cluster_is_started(options, message):
    with pytest.raises(ValueError, match=message):
        gt.distributed.LogisticRegression(**options).fit(*data())
