"""Shards on a real cluster: the same numbers as in one process, rounds counted, workers lost."""

import os
from functools import partial

import numpy as np
import pytest
from scipy import sparse

import geartrain as gt
from geartrain.oracles.losses import make_loss
from shards import SIZES, N, loaders, make_rows, whole

pytestmark = [
    pytest.mark.outside,  # clusters
    pytest.mark.same_everywhere,  # a cluster is compared with one process of the same machine
]

LOSSES = {
    "logistic": {},
    "squared": {},
    "smoothed_hinge": {"mu": 0.3},
    "huber": {"delta": 0.5},
    "squared_hinge": {},
}


def mean_loss(loss, params, A, y, weights, x):
    """The definition: sum_k w_k loss_k / sum_k w_k and its gradient."""
    loss = make_loss(loss, **params)
    z = A @ x
    value = weights @ loss.value(y, z) / weights.sum()
    return value, A.T @ (weights * loss.derivative(y, z)) / weights.sum()


def hessian(loss, params, A, y, weights, x):
    """The definition."""
    bends = weights * make_loss(loss, **params).second(y, A @ x) / weights.sum()
    return A.T @ (bends[:, None] * (A.toarray() if sparse.issparse(A) else A))


@pytest.mark.parametrize("loss", LOSSES)
def test_h_is_f_minus_f_1(client, loss):
    """Uneven shards, CSR, weights: the mean is over all rows."""
    params = LOSSES[loss]
    kinds = {"csr": True, "weighted": True, "real": loss in ("squared", "huber")}
    h, g = gt.distributed.similarity(client, loaders(**kinds), loss, l2=0.3, **params)
    x = np.cos(np.arange(N))
    f, grad_f = mean_loss(loss, params, *whole(**kinds), x)
    f_1, grad_1 = mean_loss(loss, params, *make_rows(0, **kinds), x)
    value, grad = h.value_and_grad(x)
    D = np.random.default_rng(0).standard_normal((N, 3))
    again, same, products = h.second_order(x, D)
    assert (again, h.rounds_done) == (value, 2)
    np.testing.assert_array_equal(same, grad)
    H, H_1 = (hessian(loss, params, *rows, x) for rows in (whole(**kinds), make_rows(0, **kinds)))
    np.testing.assert_allclose(products, (H - H_1) @ D, atol=1e-13)
    np.testing.assert_allclose(g.products(x, D), H_1 @ D + 0.3 * D, atol=1e-13)
    assert value == pytest.approx(f - f_1, abs=1e-13)
    np.testing.assert_allclose(grad, grad_f - grad_1, atol=1e-13)
    assert g.value(x) == pytest.approx(f_1 + 0.15 * x @ x, abs=1e-13)
    value, grad = g.value_and_grad(x)
    assert value == pytest.approx(g.value(x), abs=1e-15)
    np.testing.assert_allclose(grad, grad_1 + 0.3 * x, atol=1e-13)
    assert h.m == whole()[1].size and not h.convex and h.L is None


@pytest.mark.parametrize("method", ["pqn", "similar-newton"])
def test_result_is_that_of_one_process(client, method):
    h, g = gt.distributed.similarity(client, loaders(), l2=0.1)
    res = gt.minimize(h, g, method=method, tol=1e-12)
    A, y, _ = whole()
    one = gt.LinearModel(A, y)
    h_1 = one - gt.LinearModel(*make_rows(0))
    plain = gt.Term(h_1.value_and_grad, n=N, convex=False)
    here = gt.minimize(plain, g, method="pqn", tol=1e-12)
    assert res.success and here.success
    np.testing.assert_allclose(res.x, here.x, atol=1e-10)
    assert res.fun == pytest.approx(one.value(res.x) + 0.05 * res.x @ res.x, abs=1e-12)
    np.testing.assert_allclose(one.grad(res.x) + 0.1 * res.x, 0.0, atol=1e-10)
    # Every round is a call of h, and monitoring asked for no other one.
    assert res.calls["h.grad"] == h.rounds_done
    assert res.calls["h.value"] == 0
    np.testing.assert_array_equal(res.calls["h.grad"], res.history["h.grad"][-1])


def test_float32_on_the_wire(client):
    x = np.cos(np.arange(N))
    (h, _), (short, _) = (
        gt.distributed.similarity(client, loaders(), wire=wire) for wire in ("f8", "f4")
    )
    exact, rounded = h.value_and_grad(x)[1], short.value_and_grad(x)[1]
    assert 1e-9 < np.abs(exact - rounded).max() < 1e-6
    assert rounded.dtype == np.float64
    D = np.linalg.qr(np.random.default_rng(0).standard_normal((N, 3)))[0]
    exact, rounded = h.second_order(x, D)[2], short.second_order(x, D)[2]
    assert 1e-9 < np.abs(exact - rounded).max() < 1e-6
    assert rounded.dtype == np.float64
    h, g = gt.distributed.similarity(client, loaders(), l2=0.1, wire="f4")
    assert gt.minimize(h, g, method="similar-newton", tol=1e-5).success


# Where shards come from ------------------------------------------------------------------


def test_files(client, tmp_path):
    """LIBSVM, Parquet, npz dense and CSR give the same h and g."""
    import pandas as pd

    kinds = {name: [] for name in ("libsvm", "parquet", "npz", "csr.npz")}
    for j in range(3):
        A, y, weights = make_rows(j, weighted=True)
        for kind, files in kinds.items():
            files.append(tmp_path / f"shard{j}.{kind}")
        lines = (
            f"{label:g} " + " ".join(f"{i + 1}:{v!r}" for i, v in enumerate(map(float, row)) if v)
            for label, row in zip(y, A, strict=True)
        )
        kinds["libsvm"][-1].write_text("\n".join(lines))
        frame = pd.DataFrame(A, columns=[f"x{i}" for i in range(N)])
        frame.assign(y=y, w=weights).to_parquet(kinds["parquet"][-1])
        np.savez(kinds["npz"][-1], A=A, y=y, w=weights)
        S = sparse.csr_array(A)
        parts = {"data": S.data, "indices": S.indices, "indptr": S.indptr, "shape": S.shape}
        np.savez(kinds["csr.npz"][-1], **parts, y=y, w=weights)
    x = np.cos(np.arange(N))
    seen = {}
    for kind, files in kinds.items():
        weight = None if kind == "libsvm" else "w"
        h, g = gt.distributed.similarity(client, files, n_features=N, weight=weight)
        seen[kind] = np.concatenate([h.value_and_grad(x)[1], g.grad(x)])
    np.testing.assert_allclose(seen["npz"], seen["parquet"], atol=1e-14)
    np.testing.assert_allclose(seen["npz"], seen["csr.npz"], atol=1e-14)
    h, g = gt.distributed.similarity(client, loaders()[:3])
    plain = np.concatenate([h.value_and_grad(x)[1], g.grad(x)])
    np.testing.assert_allclose(seen["libsvm"], plain, atol=1e-14)


def test_dask_collections(client):
    """Blocks of arrays and partitions of dataframes are shards."""
    import dask.array as da
    import dask.dataframe as dd
    import pandas as pd

    A, y, weights = whole(weighted=True)
    X = da.from_array(A, chunks=(50, 5))
    arrays = (X, da.from_array(y, chunks=70), da.from_array(weights, chunks=20))
    x = np.cos(np.arange(N))
    h, g = gt.distributed.similarity(client, arrays)
    f, grad_f = mean_loss("logistic", {}, A, y, weights, x)
    assert g.m == 50 and h.m == y.size
    assert h.value_and_grad(x)[0] + g.value(x) == pytest.approx(f, abs=1e-13)
    np.testing.assert_allclose(h.value_and_grad(x)[1] + g.grad(x), grad_f, atol=1e-13)

    frame = pd.DataFrame(A, columns=[f"x{i}" for i in range(N)]).assign(label=y, w=weights)
    h, g = gt.distributed.similarity(
        client, dd.from_pandas(frame, npartitions=4), label="label", weight="w"
    )
    np.testing.assert_allclose(h.value_and_grad(x)[1] + g.grad(x), grad_f, atol=1e-13)


def test_three_tiers(client):
    """Cluster, other shards of this machine, own shard: their sum is f."""
    kinds = {"csr": True, "weighted": True}
    tiers, g = gt.distributed.similarity(client, loaders(**kinds), l2=0.3, local=3)
    A, y, weights = whole(**kinds)
    first = sum(SIZES[:3])
    x = np.cos(np.arange(N))
    f, grad_f = mean_loss("logistic", {}, A, y, weights, x)
    near = mean_loss("logistic", {}, A[:first], y[:first], weights[:first], x)
    own = slice(0, SIZES[0])
    f_1, grad_1 = mean_loss("logistic", {}, A[own], y[own], weights[own], x)
    assert list(tiers) == ["cluster", "machine"]
    value, grad = tiers["cluster"].value_and_grad(x)
    assert value == pytest.approx(f - near[0], abs=1e-13)
    np.testing.assert_allclose(grad, grad_f - near[1], atol=1e-13)
    value, grad = tiers["machine"].value_and_grad(x)
    assert value == pytest.approx(near[0] - f_1, abs=1e-13)
    np.testing.assert_allclose(grad, near[1] - grad_1, atol=1e-13)
    assert g.m == SIZES[0] and tiers["cluster"].m == y.size
    assert len(tiers["cluster"].shards) == len(SIZES) - 3
    assert tiers["cluster"].rounds_done == 1  # the machine's term asks for no round
    products = tiers["cluster"].second_order(x, np.eye(N))[2]
    H = hessian("logistic", {}, A, y, weights, x)
    H_near = hessian("logistic", {}, A[:first], y[:first], weights[:first], x)
    np.testing.assert_allclose(products, H - H_near, atol=1e-13)


def test_minimising_three_tiers(client, tmp_path):
    """The answer of one process, rounds counted apart, resumed on the same cluster."""
    tiers, g = gt.distributed.similarity(client, loaders(), l2=0.1, local=3)
    prices = {"cluster.grad": 1e4, "machine.grad": 100.0, "g.grad": 1.0}
    before = tiers["cluster"].rounds_done
    res = gt.minimize(tiers, g, prices=prices, tol=1e-9)
    A, y, _ = whole()
    f = gt.LinearModel(A, y, l2=0.1)
    here = gt.minimize(f, 0.0 * f, method="lbfgs", tol=1e-10)
    assert res.success and res.plan.startswith("cluster > machine > g: pqn on every level")
    np.testing.assert_allclose(res.x, here.x, atol=1e-7)
    assert res.calls["cluster.grad"] == tiers["cluster"].rounds_done - before
    assert res.calls["cluster.grad"] < res.calls["machine.grad"]
    path = tmp_path / "run.gtck"
    gt.minimize(tiers, g, prices=prices, tol=1e-9, max_iter=2, checkpoint=path)
    other, g_2 = gt.distributed.similarity(client, loaders(), l2=0.1, local=3)
    again = gt.resume(path, other, g_2, max_iter=100)
    assert again.success
    np.testing.assert_allclose(again.x, res.x, atol=1e-9)


def elsewhere(client_pid, j):
    """Rows of shard j for any process but the client's."""
    assert os.getpid() != client_pid
    return make_rows(j)


def test_the_client_holds_one_shard(client):
    """Workers read all shards; of the others the client knows weights, sizes and fingerprints."""
    h, g = gt.distributed.similarity(client, [partial(elsewhere, os.getpid(), j) for j in range(4)])
    assert g.m == h.first.m == SIZES[0]
    assert h.m == sum(SIZES[:4])
    assert [type(shard) for shard in h.shards] == [str] * 3
    assert sum(np.size(v) for v in vars(h._rounds).values()) < 20


def test_an_address_and_nothing(client):
    """Both make a client of their own; nothing starts a cluster, too."""
    x = np.cos(np.arange(N))
    expected = gt.distributed.similarity(client, loaders())[0].value_and_grad(x)[1]
    for given in (client.scheduler.address, None):
        h, _ = gt.distributed.similarity(given, loaders())
        assert h.client is not client
        np.testing.assert_allclose(h.value_and_grad(x)[1], expected, atol=1e-14)
        h.client.close() if given else h.client.shutdown()


def test_bad_input(client):
    similarity = gt.distributed.similarity
    with pytest.raises(ValueError, match="at least two shards"):
        similarity(client, loaders()[:1])
    with pytest.raises(ValueError, match="at least 4 shards are needed, 3 of them for the client"):
        similarity(client, loaders()[:3], local=3)
    with pytest.raises(TypeError, match="a file or a function"):
        similarity(client, [make_rows(0), make_rows(1)])
    with pytest.raises(TypeError, match="shards must be"):
        similarity(client, 3)
    with pytest.raises(ValueError, match="labels -1 and"):
        similarity(client, [lambda: (np.eye(2), [0.0, 1.0])] * 2)
    with pytest.raises(ValueError, match="has 3 features, expected 2"):
        similarity(client, [lambda k=k: (np.ones((2, k)), [1.0, -1.0]) for k in (2, 3)])
    with pytest.raises(TypeError, match=r"must be \(A, y\)"):
        similarity(client, [lambda: 1.0] * 2)


# The estimator ---------------------------------------------------------------------------


def test_logistic_regression(client):
    """The same objective as scikit-learn's, and its answers."""
    import dask.array as da
    import dask.dataframe as dd
    import pandas as pd
    from sklearn.base import clone
    from sklearn.linear_model import LogisticRegression

    A, y, weights = whole(weighted=True)
    y = np.where(y > 0, "yes", "no")
    arrays = [da.from_array(a, chunks=50) for a in (A, y, weights)]
    arrays[0] = arrays[0].rechunk((50, N))
    ours = gt.distributed.LogisticRegression(client=client, C=0.5, tol=1e-10)
    ours.fit(*arrays)
    theirs = LogisticRegression(C=0.5, tol=1e-12, max_iter=1000).fit(A, y, weights)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-6)
    np.testing.assert_array_equal(ours.predict(A), theirs.predict(A))
    np.testing.assert_allclose(ours.predict_proba(A), theirs.predict_proba(A), atol=1e-6)
    assert list(ours.classes_) == ["no", "yes"]
    assert ours.n_rounds_ == ours.result_.calls["h.grad"] > 0
    assert ours.score(A, y) == theirs.score(A, y)
    assert clone(ours).client is client
    frame = dd.from_pandas(pd.DataFrame(A).assign(y=1 * (y == "yes"), w=weights), npartitions=3)
    again = clone(ours).fit(frame[list(range(N))], frame["y"], frame["w"])
    np.testing.assert_allclose(again.coef_, theirs.coef_, atol=1e-6)
    with pytest.raises(ValueError, match="at least two classes, got 1"):
        ours.fit(arrays[0], da.zeros(y.size, chunks=50))
    with pytest.raises(TypeError, match="y must be a Dask array or dataframe as X is"):
        ours.fit(arrays[0], y)


def test_softmax_model_agrees_with_itself():
    from geartrain.distributed.softmax import Softmax, SoftmaxModel

    rng = np.random.default_rng(0)
    A, y = rng.standard_normal((40, 5)), rng.integers(0, 3, 40)
    weights = rng.random(40)
    for intercept in (False, True):
        for data in (A, sparse.csr_array(A)):
            term = SoftmaxModel(data, y, Softmax(3), 0.1, intercept, weights)
            x = rng.standard_normal(term.n)
            assert gt.check_term(term, x, calls=400).ok, str(gt.check_term(term, x, calls=400))
    W = x.reshape(3, 6)
    Z = A @ W[:, :5].T + W[:, 5]
    losses = np.log(np.exp(Z).sum(axis=1)) - Z[np.arange(40), y]
    expected = weights @ losses / weights.sum() + 0.05 * (W[:, :5] ** 2).sum()
    assert term.value(x) == pytest.approx(expected, rel=1e-12)
    with pytest.raises(ValueError, match="numbers of classes from 0 to 2"):
        SoftmaxModel(A, y + 1, Softmax(3))


def test_logistic_regression_of_several_classes_and_local_data(client):
    import dask.array as da
    from sklearn.datasets import load_iris
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    X, numbers = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    y = np.array(["setosa", "versicolor", "virginica"])[numbers]
    weights = np.linspace(0.5, 1.5, y.size)
    theirs = LogisticRegression(C=0.5, tol=1e-12, max_iter=5000).fit(X, y, weights)
    order = np.random.default_rng(0).permutation(y.size)
    blocks = [da.from_array(a[order], chunks=50) for a in (X, y, weights)]
    blocks[0] = blocks[0].rechunk((50, 4))
    for method, data in (
        ("similar-newton", (X, y, weights)),
        ("pqn", (sparse.csr_matrix(X), y, weights)),
        ("pqn", blocks),
    ):
        ours = gt.distributed.LogisticRegression(client, C=0.5, tol=1e-9, method=method)
        ours.fit(*data)
        assert ours.result_.success
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
        np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-5)
        np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)
        assert list(ours.predict(X)) == list(theirs.predict(X))
    assert ours.decision_function(X).shape == (150, 3)


def test_similar_newton_is_the_choice_for_few_coefficients(client):
    A, y, _ = whole(weighted=True)
    rounds = {}
    for method in ("auto", "similar-newton", "pqn"):
        fitted = gt.distributed.LogisticRegression(client, C=10.0, tol=1e-8, method=method)
        rounds[method] = fitted.fit(A, y).n_rounds_
    assert rounds["auto"] == rounds["similar-newton"] <= rounds["pqn"]


def test_missing_packages_are_named(monkeypatch):
    import sys

    monkeypatch.delitem(sys.modules, "geartrain.distributed.estimator", raising=False)
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(ImportError, match=r"needs dask: pip install 'geartrain\[dask,sklearn\]'"):
        gt.distributed.LogisticRegression  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'Similarity'"):
        gt.distributed.Similarity  # noqa: B018
    assert "Gossip" in dir(gt.distributed)
