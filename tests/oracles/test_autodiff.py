"""Functions of PyTorch and of JAX as terms."""

from __future__ import annotations

import os
from collections import Counter

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")  # read by jax
import jax
import numpy as np
import pytest
import torch

import geartrain as gt
from geartrain.core.status import Status

jnp = jax.numpy

rng = np.random.default_rng(3)
A = rng.standard_normal((40, 7))
y = np.sign(A[:, 0] + 0.3)
HAND = gt.LinearModel(A, y, loss="logistic", l2=0.2)
x = rng.standard_normal(7)


def in_torch(v):
    """The same as HAND, in the type and on the device of v."""
    At, yt = torch.tensor(A, dtype=v.dtype), torch.tensor(y, dtype=v.dtype)
    return torch.nn.functional.softplus(-yt * (At @ v)).mean() + 0.1 * v @ v


def in_jax(v):
    """The same as HAND, in the type of v."""
    At, yt = jnp.asarray(A, v.dtype), jnp.asarray(y, v.dtype)
    return jax.nn.softplus(-yt * (At @ v)).mean() + 0.1 * v @ v


@pytest.fixture
def float64():
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


LIBRARIES = [(gt.from_torch, in_torch), (gt.from_jax, in_jax)]


@pytest.mark.parametrize(
    ("wrap", "f", "dtype", "kind", "exact"),
    [
        (gt.from_torch, in_torch, None, torch.float64, 1e-13),
        (gt.from_torch, in_torch, torch.float32, torch.float32, 3e-6),
        (gt.from_jax, in_jax, None, np.float32, 3e-6),  # single precision unless asked for
    ],
)
def test_value_and_gradient(wrap, f, dtype, kind, exact):
    kinds = []
    term = wrap(lambda v: kinds.append(v.dtype) or f(v), dtype=dtype, n=7, L=HAND.L)
    before = x.copy()
    value, grad = term.value_and_grad(x)
    assert type(value) is float and value == pytest.approx(HAND.value(x), rel=exact)
    np.testing.assert_allclose(grad, HAND.grad(x), rtol=20 * exact, atol=exact / 3)
    assert grad.dtype == (np.float64 if exact < 1e-9 else np.float32) and grad.shape == (7,)
    assert kinds == [kind]
    np.testing.assert_array_equal(x, before)
    assert (term.n, term.L) == (7, HAND.L)


@pytest.mark.usefixtures("float64")
def test_double_precision_where_jax_has_it():
    kinds = []
    note = lambda v: kinds.append(v.dtype) or in_jax(v)  # noqa: E731
    value, grad = gt.from_jax(note).value_and_grad(x)
    assert value == pytest.approx(HAND.value(x), rel=1e-13)
    np.testing.assert_allclose(grad, HAND.grad(x), rtol=1e-12)
    gt.from_jax(note, dtype=np.float32).value_and_grad(x)
    assert kinds == [np.float64, np.float32]


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(("wrap", "f"), LIBRARIES)
def test_a_run_is_the_run_on_the_hand_written_term(wrap, f):
    """The same iterates but for rounding; JAX traces once, PyTorch evaluates once per call."""
    asked = []
    g = gt.Quadratic(np.diag(np.logspace(0, 3, 7)))
    term = wrap(lambda v: asked.append(1) or f(v), n=7, L=HAND.L, mu=0.2)
    plain = gt.Term(HAND.value_and_grad, n=7, L=HAND.L, mu=0.2)
    res = gt.minimize(term, g, method="afb", tol=1e-8)
    want = gt.minimize(plain, g, method="afb", tol=1e-8)
    assert res.success and res.calls == want.calls and res.calls["h.value"] == 0
    assert len(asked) == (1 if wrap is gt.from_jax else res.calls["h.grad"])
    np.testing.assert_allclose(res.x, want.x, rtol=1e-9)


def test_the_device_of_torch_is_kept():
    """On "meta" there are no numbers, so the function says where it is and stops there."""

    class Seen(Exception):
        pass

    def f(v):
        raise Seen(v.device.type)

    for given, default, expected in [
        (None, "meta", "meta"),
        ("cpu", "meta", "cpu"),
        (torch.device("meta"), "cpu", "meta"),
    ]:
        term = gt.from_torch(f, device=given)
        with torch.device(default), pytest.raises(Seen, match=expected):
            term.value_and_grad(x)


def test_the_device_of_jax_is_kept(monkeypatch):
    first, second = jax.devices("cpu")
    where = []
    real = jax.device_put
    monkeypatch.setattr(
        jax, "device_put", lambda *a: where.append((out := real(*a)).devices()) or out
    )
    for given, expected in [(None, first), (second, second)]:
        gt.from_jax(lambda v: v @ v, device=given).value_and_grad(x)
        assert where.pop() == {expected} and not where
    with jax.default_device(second):
        gt.from_jax(lambda v: v @ v).value_and_grad(x)
    assert where == [{second}]


def test_one_transfer_each_way_by_torch(monkeypatch):
    moved = Counter()

    def count(owner, name):
        real = getattr(owner, name)

        def counted(*args, **kwargs):
            moved[name] += 1
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, name, counted)

    term = gt.from_torch(lambda v: (v * v).sum())
    count(torch, "tensor")
    for name in ("cpu", "numpy", "item", "tolist", "__float__", "__array__"):
        count(torch.Tensor, name)
    value, grad = term.value_and_grad(x)
    assert moved == {"tensor": 1, "cpu": 1, "numpy": 1}
    assert value == pytest.approx(x @ x) and (grad == 2 * x).all()


def test_one_transfer_each_way_by_jax(monkeypatch):
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


def test_the_vector_of_the_method_is_out_of_reach():
    def f(v):
        with torch.no_grad():
            v.mul_(0.0)
        return (v * v).sum()

    before = x.copy()
    gt.from_torch(f).value_and_grad(x)
    np.testing.assert_array_equal(x, before)


def test_gradients_that_the_caller_switched_off():
    with torch.no_grad():
        grad = gt.from_torch(in_torch).value_and_grad(x)[1]
    np.testing.assert_allclose(grad, HAND.grad(x), rtol=1e-12)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_one_number_in_any_shape_and_type(shape):
    for term in (
        gt.from_torch(lambda v: (v @ v).reshape(shape).to(torch.float32)),
        gt.from_jax(lambda v: (v @ v).reshape(shape)),
    ):
        value, grad = term.value_and_grad(x)
        assert value == pytest.approx(x @ x, rel=1e-6)
        np.testing.assert_allclose(grad, 2 * x, rtol=1e-6)


def test_a_module_of_torch():
    """Parameters of a network are constants here, and get no gradients."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.Softplus(), torch.nn.Linear(5, 1))
    net = net.double()
    term = gt.from_torch(lambda v: net(v), n=7, convex=False)
    assert gt.check_term(term).ok
    assert all(p.grad is None for p in net.parameters())


CONSTANT = "from_torch: .* does not depend on x, or not differentiably"


@pytest.mark.parametrize(
    ("wrap", "f", "message"),
    [
        (gt.from_torch, lambda v: 2 * v, r"from_torch: .* one number, got shape \(7,\)"),
        (gt.from_torch, lambda v: 3.0, "from_torch: .* one number, got float"),
        (gt.from_torch, lambda v: v.detach().sum(), CONSTANT),
        (gt.from_torch, lambda v: torch.tensor(3.0), CONSTANT),
        (gt.from_jax, lambda v: 2 * v, r"from_jax: .* one number, got shape \(7,\)"),
        (gt.from_jax, lambda v: None, "from_jax: .* one number, got NoneType"),
        (gt.from_jax, lambda v: v.sum().astype(int), "requires real.*-valued outputs"),
    ],
)
def test_bad_answers(wrap, f, message):
    with pytest.raises(TypeError, match=message):
        wrap(f).value_and_grad(x)


@pytest.mark.parametrize("wrap", [gt.from_torch, gt.from_jax])
def test_a_non_finite_answer_ends_the_run(wrap):
    term = wrap(lambda v: (v * float("nan")).sum(), n=7, L=1.0)
    res = gt.minimize(term, gt.Quadratic(np.eye(7)), np.ones(7), method="afb")
    assert res.status is Status.NON_FINITE and not res.success
