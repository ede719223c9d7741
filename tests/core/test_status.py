"""Every way a run can end, what it leaves behind, and going on from there."""

from __future__ import annotations

import pickle

import matplotlib as mpl
import numpy as np
import pytest

import geartrain as gt
from geartrain.core.history import COLUMNS
from geartrain.core.status import Status

mpl.use("Agg")

ALL = ["sae", "r-sae", "sc-sae", "afb", "fgm", "ags", "ms", "gmco", "lbfgs"]
# Whether values come with the gradients: in every second case.
EACH = [(method, bool(k % 2)) for k, method in enumerate(ALL)]


def after(calls, action, fn):
    """`fn`, but `action` happens at that call and at all later ones."""
    count = 0

    def ask(*args):
        nonlocal count
        count += 1
        return action(fn(*args)) if count > calls else fn(*args)

    return ask


def breaking(term, calls, action, fused=False):
    """The term as callables, whose gradient breaks after some calls."""
    if fused:
        return gt.Term(after(calls, action, term.value_and_grad), n=term.n, L=term.L, mu=term.mu)
    grad = after(calls, action, term.grad)
    return gt.Term(value=term.value, grad=grad, n=term.n, L=term.L, mu=term.mu)


def rows_are_complete(res):
    """A row per iteration, and one for the calls of an iteration that was not completed."""
    history = res.history
    assert list(history["iter"][: res.nit + 1]) == list(range(res.nit + 1))
    assert len(history.rows) <= res.nit + 2
    assert {key: history[key][-1] for key in res.calls} == res.calls


def interrupt(_answer):
    raise KeyboardInterrupt


def fail(_answer):
    raise RuntimeError("the simulator broke down")


def with_nan(answer):
    if isinstance(answer, tuple):
        return answer[0], answer[1] * np.nan
    return answer * np.nan


def test_every_status_has_a_sentence_and_only_converged_is_zero():
    for status in Status:
        assert status.message.endswith(".") and status.message[0].isupper()
        assert (status == 0) == (status is Status.CONVERGED)


@pytest.mark.parametrize("method", ALL)
def test_max_iter(pair, method):
    for most in (0, 3):
        res = gt.minimize(*pair, method=method, tol=1e-12, max_iter=most)
        assert res.status is Status.MAX_ITER and not res.success
        assert res.nit == most and len(res.history.rows) == most + 1
        assert "raise max_iter or continue with" in res.message


@pytest.mark.parametrize(("method", "fused"), EACH)
def test_interrupted_in_an_oracle(pair, method, fused):
    h = breaking(pair[0], 6, interrupt, fused)
    res = gt.minimize(h, pair[1], method=method, stop=gt.stop.Gradient(abs=1e-12))
    assert res.status is Status.INTERRUPTED and not res.success
    assert "Interrupted by the user; x is the best point so far." in res.message
    assert np.isfinite(res.x).all() and res.calls["h.grad"] == 6
    rows_are_complete(res)


@pytest.mark.parametrize("role", ["h", "g"])
@pytest.mark.parametrize(("method", "fused"), EACH)
def test_non_finite_in_the_middle(pair, method, role, fused):
    h, g = pair
    if role == "h":
        h = breaking(h, 6, with_nan, fused)
    else:
        g = breaking(g, 10, with_nan, fused)
    res = gt.minimize(h, g, method=method, stop=gt.stop.Gradient(abs=1e-12))
    assert res.status is Status.NON_FINITE and not res.success
    assert f"({role}.grad answered with NaN or infinity)" in res.message
    assert "check_term" in res.message
    assert np.isfinite(res.x).all()
    rows_are_complete(res)


def test_non_finite_at_the_start():
    h = gt.Term(grad=lambda x: x * np.nan, L=1.0)
    res = gt.minimize(h, gt.Quadratic(np.eye(2)), [3.0, 4.0], method="sae")
    assert res.status is Status.NON_FINITE and res.nit == 0 and res.state is None
    np.testing.assert_array_equal(res.x, [3.0, 4.0])
    assert np.isnan(res.fun) and len(res.history.rows) == 0


def test_a_value_that_is_nan_ends_a_run_that_looks_at_it():
    h = gt.Term(value=lambda x: np.nan, grad=lambda x: x, L=1.0)
    pair = h, gt.Quadratic(np.eye(2))  # auto may begin with L-BFGS, which asks for values itself
    res = gt.minimize(*pair, [1.0, 1.0], method="pqn", stop=gt.stop.Value(0.0))
    assert res.status is Status.NON_FINITE and "(f is NaN)" in res.message


@pytest.mark.parametrize("method", ["sae", "afb", "lbfgs"])
def test_stalled_by_rounding(pair, method):
    near = np.linalg.solve(pair[0].Q + pair[1].Q, pair[0].b) + 1e-2
    never = gt.stop.Gradient(abs=1e-300)
    res = gt.minimize(*pair, near, method=method, stop=never, max_iter=20_000)
    assert res.status is Status.STALLED and not res.success
    # SciPy's line search compares values, which show half of the digits: nothing is proven. Whether
    # sae can show that it is rounding depends on the start and on the machine.
    says_rounding = "Rounding errors" in res.message
    assert says_rounding or "finds no further progress" in res.message
    assert says_rounding == (method == "afb") or method == "sae"
    reached = 1e-5 if method == "lbfgs" else 1e-10
    assert np.linalg.norm((pair[0] + pair[1]).grad(res.x)) < reached


@pytest.mark.parametrize(("method", "fused"), EACH)
def test_an_error_in_an_oracle_carries_what_was_computed(pair, method, fused):
    most = 40 if method == "ms" else 6
    h = breaking(pair[0], most, fail, fused)
    with pytest.raises(RuntimeError, match="the simulator broke down") as caught:
        gt.minimize(h, pair[1], method=method, stop=gt.stop.Gradient(abs=1e-12))
    res = caught.value.partial_result
    assert res.status is Status.FAILED and not res.success
    assert "raised an error" in res.message and "broke down" in res.message
    assert np.isfinite(res.x).all() and res.calls["h.grad"] == most
    assert res.nit > 0 and res.state is not None
    if fused:
        assert "f could not be evaluated" in res.message or np.isfinite(res.fun)


def test_an_error_in_a_callback_carries_what_was_computed(pair):
    def callback(intermediate_result):
        if intermediate_result.nit == 2:
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full") as caught:
        gt.minimize(*pair, callback=callback)
    assert caught.value.partial_result.nit == 2


# Going on ---------------------------------------------------------------------------------


def test_a_result_is_safe_to_change(pair):
    first = gt.minimize(*pair, method="afb", max_iter=4, tol=1e-9)
    again = gt.minimize(*pair, method="afb", max_iter=4, tol=1e-9)
    first.x[:] = 99.0
    copy = pickle.loads(pickle.dumps(first.state))
    a = gt.minimize(*pair, state=copy, max_iter=3, tol=1e-9)
    b = gt.minimize(*pair, state=again.state, max_iter=3, tol=1e-9)
    np.testing.assert_array_equal(a.x, b.x)


# Records ----------------------------------------------------------------------------------


def test_history(pair):
    res = gt.minimize(*pair, method="afb", stop=gt.stop.Value(-1e9), max_iter=6)
    history = res.history
    assert history.columns == (*COLUMNS, *res.calls) == tuple(history)
    assert len(history.rows) == 7 and len(history) == len(history.columns)
    np.testing.assert_array_equal(history["iter"], np.arange(7))
    assert (np.diff(history["seconds"]) >= 0).all()
    assert res.fun == np.nanmin(history["f"])
    for key, most in res.calls.items():
        assert (np.diff(history[key]) >= 0).all() and history[key][-1] == most
    frame = history.to_pandas()
    assert list(frame.columns) == list(history.columns) and len(frame) == 7
    np.testing.assert_array_equal(frame["h.grad"], history["h.grad"])
    assert repr(history).startswith("History(7 rows: seconds, iter, f, grad_norm")


def test_unknown_column(pair):
    history = gt.minimize(*pair, max_iter=1).history
    with pytest.raises(KeyError, match="no column 'gradient'; there are seconds, iter, f"):
        history["gradient"]


def test_repr_says_what_happened(pair):
    text = repr(gt.minimize(*pair, method="afb", tol=1e-3))
    assert text.startswith("CONVERGED: The stopping rule is met.")
    assert "h.grad" in text and "'afb' as asked for" in text


def test_the_clock_stands_while_recording(pair, clock):
    def slow(x):
        clock.pass_(0.02)

    res = gt.minimize(*pair, method="fgm", stop=gt.stop.Seconds(0.1), max_iter=10, callback=slow)
    assert res.status is Status.MAX_ITER  # eleven callbacks took 0.22 seconds
    assert res.history["seconds"][-1] == 0.0


# Callbacks --------------------------------------------------------------------------------


def test_callback_forms(pair):
    points, seen = [], []

    def by_name(intermediate_result):
        seen.append(intermediate_result)

    class Object:
        def __call__(self, x):
            points.append(x)

    res = gt.minimize(*pair, method="sae", max_iter=4, callback=[points.append, by_name, Object()])
    assert len(points) == 10 and len(seen) == 5
    np.testing.assert_array_equal(points[0], points[1])
    last = seen[-1]
    assert last.nit == 4 and last.seconds > 0
    assert {k: v for k, v in res.calls.items() if "value" not in k}.items() <= last.calls.items()
    assert last.grad_norm == res.grad_norm
    np.testing.assert_array_equal(last.x, res.x)


@pytest.mark.parametrize("answer", [True, np.True_])
def test_a_true_answer_stops(pair, answer):
    res = gt.minimize(*pair, callback=lambda x: answer)
    assert res.status is Status.STOPPED and res.nit == 0
    assert res.message == "A callback ended the run."


@pytest.mark.parametrize("answer", [False, None, np.False_, 1, np.ones(3), "yes"])
def test_other_answers_do_not(pair, answer):
    res = gt.minimize(*pair, callback=lambda x: answer, max_iter=3, tol=1e-12)
    assert res.status is Status.MAX_ITER


def test_stop_iteration_stops(pair):
    def callback(intermediate_result):
        if intermediate_result.nit == 3:
            raise StopIteration

    for method in ALL:
        res = gt.minimize(*pair, method=method, callback=callback, tol=1e-12)
        assert res.status is Status.STOPPED and res.nit == 3


def test_a_callback_may_change_what_it_is_given(pair):
    def spoil(x):
        x[:] = np.nan

    plain = gt.minimize(*pair, method="sae", max_iter=5)
    spoilt = gt.minimize(*pair, method="sae", max_iter=5, callback=spoil)
    np.testing.assert_array_equal(plain.x, spoilt.x)
