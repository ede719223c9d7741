"""Functions of SciPy, PyTorch and JAX as terms."""

from __future__ import annotations

import importlib.util
import sys
import types

import numpy as np
import pytest
from scipy.sparse.linalg import aslinearoperator

import geartrain as gt
from geartrain.oracles import answers

Q = np.diag([1.0, 4.0, 9.0])
b = np.array([1.0, 2.0, 3.0])


def fun(x, scale=1.0):
    return scale * (0.5 * x @ Q @ x - b @ x)


def jac(x, scale=1.0):
    return scale * (Q @ x - b)


def test_from_scipy():
    x = np.array([1.0, -1.0, 2.0])
    apart = gt.Term.from_scipy(fun, jac, args=(2.0,), n=3, L=18.0)
    fused = gt.Term.from_scipy(lambda x: (fun(x), jac(x)), True, n=3, L=9.0)
    assert apart.value(x) == fun(x, 2.0) and (apart.grad(x) == jac(x, 2.0)).all()
    value, grad = fused.value_and_grad(x)
    assert value == fun(x) and (grad == jac(x)).all()
    assert (apart.n, apart.L, fused.L) == (3, 18.0, 9.0)
    assert not hasattr(apart, "value_and_grad") and not hasattr(fused, "grad")
    res = gt.minimize(apart, fused, method="sae", tol=1e-9)
    np.testing.assert_allclose(res.x, np.linalg.solve(Q, b), rtol=1e-7)
    with pytest.raises(TypeError, match="jac must be callable or True, got '2-point'"):
        gt.Term.from_scipy(fun, "2-point")
    with pytest.raises(TypeError, match="fun must be callable, got int"):
        gt.Term.from_scipy(3, jac)


@pytest.mark.parametrize("intercept", [False, True])
def test_a_linear_operator_in_a_linear_model(intercept):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((40, 6))
    y = np.sign(A[:, 0] + 0.2)
    options = {"loss": "logistic", "l2": 0.1, "intercept": intercept}
    dense = gt.LinearModel(A, y, **options)
    term = gt.LinearModel(aslinearoperator(A), y, **options)
    x = rng.standard_normal(dense.n)
    assert term.value(x) == pytest.approx(dense.value(x), rel=1e-14)
    np.testing.assert_allclose(term.grad(x), dense.grad(x), rtol=1e-12)
    np.testing.assert_allclose(term.value_and_grad(x)[1], dense.grad(x), rtol=1e-12)
    assert dense.L * (1 - 1e-9) <= term.L <= dense.L * 1.002
    assert answers(term) == {"value", "grad", "value_and_grad"}
    assert term.L_coord is None and term.L_components is None and "Operator" in repr(term)
    g = gt.Quadratic(np.eye(dense.n))
    res = gt.minimize(term, g, method="sae", tol=1e-8)
    np.testing.assert_allclose(res.x, gt.minimize(dense, g, method="sae", tol=1e-8).x, atol=1e-7)
    with pytest.raises(TypeError, match="'coord'"):
        gt.minimize(g, term, method="sae", inner="acd")


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_a_missing_library_is_named(monkeypatch, library):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"pip install geartrain\[{library}\]"):
        getattr(gt, f"from_{library}")(fun)


def test_importing_geartrain_imports_neither():
    assert isinstance(gt.from_torch, types.FunctionType)
    import subprocess

    code = "import sys, geartrain; print('torch' in sys.modules or 'jax' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code]).strip() == b"False"


def available(library):
    return importlib.util.find_spec(library) is not None


if available("torch"):

    def test_from_torch():
        import torch

        Qt, bt = torch.tensor(Q), torch.tensor(b)
        kinds = []

        def f(x):
            kinds.append(x.dtype)
            kind = x.dtype
            return 0.5 * x @ (Qt.to(kind) @ x) - bt.to(kind) @ x

        x = np.array([1.0, -1.0, 2.0])
        value, grad = gt.from_torch(f, n=3, L=9.0).value_and_grad(x)
        assert value == pytest.approx(fun(x), rel=1e-15)
        np.testing.assert_allclose(grad, jac(x), rtol=1e-15)
        assert grad.dtype == np.float64 and kinds == [torch.float64]
        single = gt.from_torch(f, dtype=torch.float32, device="cpu")
        np.testing.assert_allclose(single.value_and_grad(x)[1], jac(x), rtol=1e-6)
        assert kinds[-1] == torch.float32
        term = gt.from_torch(f, n=3, L=9.0)
        res = gt.minimize(term, gt.Quadratic(np.eye(3)), method="sae", tol=1e-9)
        np.testing.assert_allclose(res.x, np.linalg.solve(Q + np.eye(3), b), rtol=1e-7)

    def test_a_torch_function_with_several_numbers():
        with pytest.raises(TypeError, match=r"one number, got shape \(3,\)"):
            gt.from_torch(lambda x: 2 * x).value_and_grad(np.ones(3))


if available("jax"):

    def test_from_jax():
        import jax

        jnp = jax.numpy

        def f(x):
            return 0.5 * x @ (jnp.asarray(Q, x.dtype) @ x) - jnp.asarray(b, x.dtype) @ x

        x = np.array([1.0, -1.0, 2.0])
        value, grad = gt.from_jax(f, n=3, L=9.0).value_and_grad(x)
        assert value == pytest.approx(fun(x), rel=1e-6)
        np.testing.assert_allclose(grad, jac(x), rtol=1e-6)
        assert grad.dtype == np.float64
        with pytest.raises(TypeError, match=r"one number, got shape \(3,\)"):
            gt.from_jax(lambda x: 2 * x).value_and_grad(np.ones(3))
