"""Functions of JAX as terms."""

from __future__ import annotations

import os
from collections import Counter

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")  # read by jax
import jax
import numpy as np
import pytest

import geartrain as gt
from geartrain.core.status import Status

jnp = jax.numpy

rng = np.random.default_rng(3)
A = rng.standard_normal((40, 7))
y = np.sign(A[:, 0] + 0.3)
HAND = gt.LinearModel(A, y, loss="logistic", l2=0.2)
x = rng.standard_normal(7)


def logistic(v):
    """The same as HAND, in the type of v."""
    At, yt = jnp.asarray(A, v.dtype), jnp.asarray(y, v.dtype)
    return jax.nn.softplus(-yt * (At @ v)).mean() + 0.1 * v @ v


@pytest.fixture
def float64():
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


def test_single_precision_unless_asked_for():
    kinds = []
    term = gt.from_jax(lambda v: kinds.append(v.dtype) or logistic(v), n=7, L=HAND.L)
    before = x.copy()
    value, grad = term.value_and_grad(x)
    assert kinds == [np.float32] and grad.dtype == np.float32 and grad.shape == (7,)
    assert type(value) is float and value == pytest.approx(HAND.value(x), rel=3e-6)
    np.testing.assert_allclose(grad, HAND.grad(x), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(x, before)


@pytest.mark.usefixtures("float64")
def test_double_precision_where_jax_has_it():
    kinds = []
    note = lambda v: kinds.append(v.dtype) or logistic(v)  # noqa: E731
    value, grad = gt.from_jax(note).value_and_grad(x)
    assert value == pytest.approx(HAND.value(x), rel=1e-13)
    np.testing.assert_allclose(grad, HAND.grad(x), rtol=1e-12)
    gt.from_jax(note, dtype=np.float32).value_and_grad(x)
    assert kinds == [np.float64, np.float32]


@pytest.mark.usefixtures("float64")
def test_a_run_is_the_run_on_the_hand_written_term():
    """The same iterates but for rounding; traced once, then compiled."""
    traced = []
    g = gt.Quadratic(np.diag(np.logspace(0, 3, 7)))
    term = gt.from_jax(lambda v: traced.append(1) or logistic(v), n=7, L=HAND.L, mu=0.2)
    plain = gt.Term(HAND.value_and_grad, n=7, L=HAND.L, mu=0.2)
    res = gt.minimize(term, g, method="afb", tol=1e-8)
    want = gt.minimize(plain, g, method="afb", tol=1e-8)
    assert res.success and res.calls == want.calls and len(traced) == 1
    np.testing.assert_allclose(res.x, want.x, rtol=1e-9)


def test_the_device_is_kept(monkeypatch):
    first, second = jax.devices("cpu")
    where = []
    real = jax.device_put
    monkeypatch.setattr(
        jax, "device_put", lambda *a: where.append((out := real(*a)).devices()) or out
    )
    for given, expected in [(None, first), (first, first), (second, second)]:
        term = gt.from_jax(logistic, device=given)
        np.testing.assert_allclose(term.value_and_grad(x)[1], HAND.grad(x), rtol=1e-4, atol=1e-6)
        assert where.pop() == {expected} and not where
    with jax.default_device(second):
        gt.from_jax(logistic).value_and_grad(x)
    assert where == [{second}]


def test_one_transfer_each_way(monkeypatch):
    """Everything else stays on the device: JAX's guard lets no silent transfer pass."""
    term = gt.from_jax(lambda v: (v * v).sum())
    term.value_and_grad(x)  # compiles
    moved = Counter()
    put, asarray = jax.device_put, np.asarray

    def fetch(value, *args, **kwargs):
        moved.update(fetch=isinstance(value, jax.Array))
        return asarray(value, *args, **kwargs)

    monkeypatch.setattr(jax, "device_put", lambda *a: moved.update(put=1) or put(*a))
    monkeypatch.setattr(np, "asarray", fetch)
    with jax.transfer_guard("disallow"):
        value, grad = term.value_and_grad(x)
    monkeypatch.undo()
    assert moved == {"put": 1, "fetch": 1}
    assert value == pytest.approx(x @ x)
    np.testing.assert_allclose(grad, 2 * x, rtol=1e-6)


def test_one_number_in_any_shape():
    for shape in [(), (1,), (1, 1)]:
        value, grad = gt.from_jax(lambda v, s=shape: (v @ v).reshape(s)).value_and_grad(x)
        assert value == pytest.approx(x @ x, rel=1e-6)
        np.testing.assert_allclose(grad, 2 * x, rtol=1e-6)


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda v: 2 * v, r"from_jax: .* one number, got shape \(7,\)"),
        (lambda v: 3.0, "from_jax: .* one number, got float"),
        (lambda v: None, "from_jax: .* one number, got NoneType"),
        (lambda v: v.sum().astype(int), "requires real.*-valued outputs"),
    ],
)
def test_bad_answers(f, message):
    with pytest.raises(TypeError, match=message):
        gt.from_jax(f).value_and_grad(x)


def test_a_non_finite_answer_ends_the_run():
    term = gt.from_jax(lambda v: (v * jnp.nan).sum(), n=7, L=1.0)
    res = gt.minimize(term, gt.Quadratic(np.eye(7)), np.ones(7), method="afb")
    assert res.status is Status.NON_FINITE and not res.success
