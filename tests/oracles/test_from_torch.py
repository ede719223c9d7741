"""Functions of PyTorch as terms."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

import geartrain as gt
from geartrain.core.status import Status

rng = np.random.default_rng(3)
A = rng.standard_normal((40, 7))
y = np.sign(A[:, 0] + 0.3)
HAND = gt.LinearModel(A, y, loss="logistic", l2=0.2)
x = rng.standard_normal(7)


def logistic(v):
    """The same as HAND, in the type and on the device of v."""
    At, yt = torch.tensor(A, dtype=v.dtype), torch.tensor(y, dtype=v.dtype)
    return torch.nn.functional.softplus(-yt * (At @ v)).mean() + 0.1 * v @ v


@pytest.mark.parametrize(("dtype", "exact"), [(None, 1e-13), (torch.float32, 3e-6)])
def test_value_and_gradient(dtype, exact):
    kinds = []
    term = gt.from_torch(lambda v: kinds.append(v.dtype) or logistic(v), dtype=dtype, n=7, L=HAND.L)
    before = x.copy()
    value, grad = term.value_and_grad(x)
    assert type(value) is float and value == pytest.approx(HAND.value(x), rel=exact)
    np.testing.assert_allclose(grad, HAND.grad(x), rtol=20 * exact)
    assert grad.dtype == (np.float32 if dtype else np.float64) and grad.shape == (7,)
    assert kinds == [dtype or torch.float64]
    np.testing.assert_array_equal(x, before)
    assert (term.n, term.L) == (7, HAND.L)


def test_a_run_is_the_run_on_the_hand_written_term():
    """The same iterates but for rounding; one evaluation per counted call, and none beside."""
    asked = []
    g = gt.Quadratic(np.diag(np.logspace(0, 3, 7)))
    term = gt.from_torch(lambda v: asked.append(1) or logistic(v), n=7, L=HAND.L, mu=0.2)
    plain = gt.Term(HAND.value_and_grad, n=7, L=HAND.L, mu=0.2)
    res = gt.minimize(term, g, method="afb", tol=1e-8)
    want = gt.minimize(plain, g, method="afb", tol=1e-8)
    assert res.success and res.calls == want.calls
    assert res.calls["h.grad"] == len(asked) and res.calls["h.value"] == 0
    np.testing.assert_allclose(res.x, want.x, rtol=1e-9)


def test_the_device_is_kept():
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


def test_one_transfer_each_way(monkeypatch):
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
        grad = gt.from_torch(logistic).value_and_grad(x)[1]
    np.testing.assert_allclose(grad, HAND.grad(x), rtol=1e-12)


def test_one_number_in_any_shape_and_type():
    for shape in [(), (1,), (1, 1)]:
        term = gt.from_torch(lambda v, s=shape: (v @ v).reshape(s).to(torch.float32))
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


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda v: 2 * v, r"one number, got shape \(7,\)"),
        (lambda v: 3.0, "one number, got float"),
        (lambda v: None, "one number, got NoneType"),
        (lambda v: v.detach().sum(), "does not depend on x, or not differentiably"),
        (lambda v: torch.tensor(3.0), "does not depend on x, or not differentiably"),
    ],
)
def test_bad_answers(f, message):
    with pytest.raises(TypeError, match=f"from_torch: .*{message}"):
        gt.from_torch(f).value_and_grad(x)


def test_a_non_finite_answer_ends_the_run():
    term = gt.from_torch(lambda v: (v * float("nan")).sum(), n=7, L=1.0)
    res = gt.minimize(term, gt.Quadratic(np.eye(7)), np.ones(7), method="afb")
    assert res.status is Status.NON_FINITE and not res.success
