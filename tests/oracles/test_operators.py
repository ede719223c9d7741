"""Operators without entries (SciPy's, pylops', one's own) inside Quadratic and LinearModel."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pylops
import pytest
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import geartrain as gt
from geartrain.methods.registry import INNER
from geartrain.oracles import answers
from geartrain.oracles.protocols import MissingOracle
from geartrain.oracles.spectrum import LANCZOS_STEPS

GRADIENTS = frozenset({"value", "grad", "value_and_grad", "products"})


class Counted(LinearOperator):
    """A matrix that is known by its products only; they are counted."""

    def __init__(self, A):
        super().__init__(np.float64, A.shape)
        self.hidden, self.products = A, Counter()

    def _matvec(self, v):
        self.products["A"] += 1
        return self.hidden @ v

    def _rmatvec(self, w):
        self.products["A.T"] += 1
        return self.hidden.T @ w


def data(m=40, n=6, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((m, n)) * np.geomspace(1.0, 0.1, n)
    return A, np.sign(A[:, 0] + 0.2)


def spd(n, seed=1):
    U = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]
    Q = U @ np.diag(np.geomspace(0.01, 3.0, n)) @ U.T
    return (Q + Q.T) / 2


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_linear_model(intercept, loss):
    A, y = data()
    options = {"loss": loss, "l2": 0.1, "intercept": intercept}
    dense, operator = gt.LinearModel(A, y, **options), Counted(A)
    term = gt.LinearModel(operator, y, **options)
    x = np.random.default_rng(2).standard_normal(dense.n)
    assert answers(term) == GRADIENTS and "Counted 40 x 6" in repr(term)
    assert term.L_coord is None and term.L_components is None and term.n_components is None
    assert not operator.products
    assert term.value(x) == pytest.approx(dense.value(x), rel=1e-14)
    assert operator.products == {"A": 1}
    np.testing.assert_allclose(term.grad(x), dense.grad(x), rtol=1e-12)
    np.testing.assert_allclose(term.value_and_grad(x)[1], dense.grad(x), rtol=1e-12)
    assert operator.products == {"A": 3, "A.T": 2}
    assert dense.L * (1 - 1e-9) <= term.L <= dense.L * 1.002
    assert operator.products["A"] <= 3 + dense.n
    np.testing.assert_allclose(term.curvature_product(x), dense.curvature_product(x), rtol=1e-12)
    D = np.random.default_rng(3).standard_normal((dense.n, 2))
    np.testing.assert_allclose(term.products(x, D), dense.products(x, D), rtol=1e-12)


def test_quadratic():
    Q, b = spd(60), np.arange(60.0)
    dense, operator = gt.Quadratic(Q, b), Counted(Q)
    term = gt.Quadratic(operator, b)
    x = np.random.default_rng(2).standard_normal(60)
    assert answers(term) == GRADIENTS and repr(term) == "Quadratic(n=60, Counted)"
    assert term.value(x) == pytest.approx(dense.value(x), rel=1e-13)
    np.testing.assert_allclose(term.grad(x), dense.grad(x), rtol=1e-12)
    value, grad = term.value_and_grad(x)
    assert value == pytest.approx(dense.value(x), rel=1e-12)
    np.testing.assert_allclose(grad, dense.grad(x), rtol=1e-12)
    assert operator.products == {"A": 3}
    np.testing.assert_allclose([term.L, term.mu], [dense.L, dense.mu], rtol=1e-9)
    assert operator.products == {"A": 63} and term.convex
    D = np.random.default_rng(3).standard_normal((60, 2))
    np.testing.assert_allclose(term.products(x, D), Q @ D, rtol=1e-12)


def test_constants_of_large_operators_take_few_products():
    Q = spd(500)
    operator = Counted(Q)
    term = gt.Quadratic(operator)
    assert 3.0 * (1 - 1e-9) <= term.L <= 3.0 * 1.002 and term.mu == 0.0 and term.convex
    assert operator.products["A"] <= LANCZOS_STEPS
    assert not gt.Quadratic(Counted(Q - np.eye(500))).convex
    A, y = data(700, 500)
    operator = Counted(A)
    exact = gt.LinearModel(A, y).L
    assert exact * (1 - 1e-9) <= gt.LinearModel(operator, y).L <= exact * 1.002
    assert operator.products["A"] <= LANCZOS_STEPS


@pytest.mark.parametrize(
    ("method", "role"), [("sae", "h"), ("afb", "g"), ("fgm", "h"), ("ags", "g"), ("auto", "h")]
)
def test_runs_are_those_of_the_matrix(method, role):
    """With the same constants the calls are the same, with one pair of products per gradient."""
    A, y = data()
    Q = spd(6)
    constants = {"L_h": 4.0, "L_g": 4.0, "mu": 0.1, "tol": 1e-4}
    dense = gt.LinearModel(A, y, l2=0.1), gt.Quadratic(Q)
    operator = Counted(A), Counted(Q)
    bare = gt.LinearModel(operator[0], y, l2=0.1), gt.Quadratic(operator[1])
    order = slice(None) if role == "h" else slice(None, None, -1)
    assert [t.L for t in bare]  # computed here, not in the run
    for o in operator:
        o.products.clear()
    inner = {"inner": "agm"} if method in ("sae", "afb", "auto") else {}
    want = gt.minimize(*dense[order], method=method, **inner, **constants)
    res = gt.minimize(*bare[order], method=method, **inner, **constants)
    assert res.success and res.calls == want.calls
    np.testing.assert_allclose(res.x, want.x, rtol=1e-6, atol=1e-9)
    # Values are looked at for records, uncounted; every pull back is a gradient.
    calls = {"h": res.calls["h.grad"], "g": res.calls["g.grad"]}
    assert operator[0].products["A.T"] == calls[role]


def test_questions_that_need_entries():
    A, y = data()
    model = gt.LinearModel(aslinearoperator(A), y, l2=0.1)
    quadratic = gt.Quadratic(aslinearoperator(spd(6)))
    h = gt.Quadratic(np.eye(6))
    wanted = {
        "coord": ["acd", "nesterov-stich", "approx"],
        "component": ["katyusha", "l-katyusha", "varag"],
        "prox": ["exact"],
    }
    assert {i for names in wanted.values() for i in names} <= set(INNER)
    for question, names in wanted.items():
        for inner in names:
            for g in (model, quadratic, 2.0 * quadratic, model + quadratic):
                with pytest.raises(MissingOracle, match=rf"asks g for .*\('{question}'\), but g ="):
                    gt.minimize(h, g, method="sae", inner=inner)
    for method, question in [("acd", "coord"), ("katyusha", "component")]:
        for pair in [(model, h), (h, quadratic)]:
            with pytest.raises(MissingOracle, match=question):
                gt.minimize(*pair, method=method)


def test_sums_and_multiples():
    Q, R = spd(6), spd(6, seed=5)
    for left, right in [(aslinearoperator(Q), R), (aslinearoperator(Q), aslinearoperator(R))]:
        total = gt.Quadratic(left) + 2.0 * gt.Quadratic(right)
        exact = np.linalg.eigvalsh(Q + 2.0 * R)
        np.testing.assert_allclose(total.L, exact[-1], rtol=1e-10)
        assert answers(total) == GRADIENTS | {"second_order", "operator"} and total.L_coord is None
    difference = gt.Quadratic(aslinearoperator(Q)) - gt.Quadratic(R)
    assert not difference.convex
    largest = np.abs(np.linalg.eigvalsh(Q - R)).max()
    np.testing.assert_allclose(difference.L, largest, rtol=1e-10)


def test_pylops():
    """Deblurring: a convolution inside a least-squares model, a second derivative inside g."""
    n = 80
    blur = pylops.signalprocessing.Convolve1D(n, np.hanning(11) / 5.0, offset=5)
    D = pylops.SecondDerivative(n, edge=True)
    truth = np.repeat([0.0, 1.0, 0.3, 0.6], n // 4)
    h = gt.LinearModel(blur, blur @ truth, loss="squared")
    g = gt.Quadratic(1e-3 * (D.T @ D) + 1e-6 * pylops.Identity(n))
    assert answers(h) == answers(g) == GRADIENTS and "Convolve1D 80 x 80" in repr(h)
    assert gt.check_term(h).ok and gt.check_term(g).ok
    B, P = blur.todense(), g.Q.todense()
    np.testing.assert_allclose(h.L, np.linalg.eigvalsh(B.T @ B)[-1] / n, rtol=2e-3)
    np.testing.assert_allclose(g.L, np.linalg.eigvalsh(P)[-1], rtol=1e-9)
    res = gt.minimize(h, g, method="pqn", tol=1e-8)
    exact = np.linalg.solve(B.T @ B / n + P, B.T @ h.y / n)
    assert res.success
    np.testing.assert_allclose(res.x, exact, atol=1e-5)
    single = pylops.MatrixMult(spd(6).astype(np.float32), dtype="float32")
    res = gt.minimize(gt.Quadratic(single, np.ones(6)), gt.Quadratic(np.eye(6)), method="sae")
    assert res.success and res.x.dtype == np.float64


def test_what_is_no_real_operator():
    class Bare:
        """Nothing but SciPy's two names."""

        shape = (6, 6)

        def matvec(self, v):
            return 2.0 * v

    term = gt.Quadratic(Bare())
    assert (term.grad(np.ones(6)) == 2.0).all() and term.L == 2.0
    with pytest.raises(TypeError, match="Q must be real, got a complex LinearOperator"):
        gt.Quadratic(aslinearoperator(1j * np.eye(6)))
    del Bare.shape
    with pytest.raises(TypeError, match="A is a LinearOperator without a shape"):
        gt.LinearModel(Bare(), np.ones(6))
    with pytest.raises(ValueError, match=r"Q must be square, got shape \(40, 6\)"):
        gt.Quadratic(aslinearoperator(data()[0]))
    with pytest.raises(TypeError, match="must be an array or a sparse matrix"):
        gt.LogSumExp(aslinearoperator(np.eye(3)))
