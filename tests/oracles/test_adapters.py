"""Functions of SciPy as terms, and libraries that are not there."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import geartrain as gt
from geartrain.oracles.protocols import answers

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
    assert answers(apart) == {"value", "grad"} and answers(fused) == {"value_and_grad"}
    assert fused.value(x) == value and (fused.grad(x) == grad).all()  # for the user alone
    res = gt.minimize(apart, fused, method="sae", tol=1e-9)
    np.testing.assert_allclose(res.x, np.linalg.solve(Q, b), rtol=1e-7)
    with pytest.raises(TypeError, match="jac must be callable or True, got '2-point'"):
        gt.Term.from_scipy(fun, "2-point")
    with pytest.raises(TypeError, match="fun must be callable, got int"):
        gt.Term.from_scipy(3, jac)


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_a_missing_library_is_named(monkeypatch, library):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"pip install geartrain\[{library}\]"):
        getattr(gt, f"from_{library}")(fun)
