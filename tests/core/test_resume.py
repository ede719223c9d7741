"""A resumed run is the uninterrupted one, whatever happened."""

from __future__ import annotations

import numpy as np
import pytest

import geartrain as gt
from geartrain.core.checkpoint import CheckpointError, read
from geartrain.core.status import Status
from geartrain.methods.registry import INNER, METHODS
from runs import NEVER, failing_after, same, sums

pytestmark = pytest.mark.same_everywhere  # a run is compared with itself


class Points(list):
    """Best points, one per iteration."""

    inside_iterations = False

    def __call__(self, x):
        self.append(x)


STEPPED = sorted(set(METHODS) - {"lbfgs"})


@pytest.mark.parametrize("method", STEPPED)
def test_resume_is_the_uninterrupted_run(tmp_path, method):
    h, g = sums()
    path = tmp_path / "run.gtck"
    points, resumed = Points(), Points()
    whole = gt.minimize(h, g, method=method, stop=NEVER, max_iter=9, seed=3, callback=points)
    gt.minimize(h, g, method=method, stop=NEVER, max_iter=4, seed=3, checkpoint=path)
    second = gt.resume(path, h, g, max_iter=5, callback=resumed)
    same(whole, second)
    np.testing.assert_array_equal(points[5:], resumed)
    assert second.plan.startswith("continued")
    # the finished run was saved, too
    again = gt.resume(path, h, g)
    same(whole, again)


@pytest.mark.parametrize("inner", sorted(INNER))
def test_resume_with_every_inner_method(tmp_path, inner):
    h, g = sums()
    if inner == "exact":
        g = gt.Quadratic(np.diag(np.linspace(1.0, 9.0, 8)))
    path = tmp_path / "run.gtck"
    options = {"method": "afb", "inner": inner, "stop": NEVER, "seed": 11}
    whole = gt.minimize(h, g, max_iter=6, **options)
    gt.minimize(h, g, max_iter=2, checkpoint=path, **options)
    same(whole, gt.resume(path, h, g, max_iter=4))


@pytest.mark.parametrize(
    ("method", "error"),
    [
        ("afb", RuntimeError("the simulator broke down")),
        ("pqn", KeyboardInterrupt()),
        ("fgm", RuntimeError("the simulator broke down")),
    ],
)
def test_resume_after_an_error_in_an_oracle(pair, tmp_path, method, error):
    """The half of an iteration that the error cost is not on the bill of the resumed run."""
    h, g = pair
    path = tmp_path / "run.gtck"
    plain = failing_after(h, -1, error)
    whole = gt.minimize(plain, g, method=method, tol=0.02)
    assert whole.success
    for calls in (2, 5):
        broken = failing_after(h, calls, error)
        if isinstance(error, KeyboardInterrupt):
            first = gt.minimize(broken, g, method=method, tol=0.02, checkpoint=path)
            assert first.status is Status.INTERRUPTED
        else:
            with pytest.raises(RuntimeError) as caught:
                gt.minimize(broken, g, method=method, tol=0.02, checkpoint=path)
            assert caught.value.partial_result.status is Status.FAILED
        same(whole, gt.resume(path, broken, g))


def test_a_failing_rule_is_asked_again(pair, tmp_path):
    """afb asks for the gradient in its stopping rule; an error there loses no iteration."""
    h, g = pair
    path = tmp_path / "run.gtck"
    whole = gt.minimize(failing_after(h, -1, None), g, method="afb", tol=0.02)
    for calls in range(2, whole.calls["h.grad"] + 1, 3):
        broken = failing_after(h, calls, OSError("gone"))
        with pytest.raises(OSError, match="gone"):
            gt.minimize(broken, g, method="afb", tol=0.02, checkpoint=path)
        same(whole, gt.resume(path, broken, g))


def test_seed_constants_rule_and_limit_are_kept(tmp_path):
    h, g = sums()
    path = tmp_path / "run.gtck"
    options = {"method": "sae", "inner": "katyusha", "L_h": 2.5, "mu": 0.01, "seed": 5}
    rule = gt.stop.any_of(
        gt.stop.Value(-1e9), gt.stop.Calls({"h.grad": 60}), gt.stop.Seconds(1e6), NEVER
    )

    def stop_here(intermediate_result):
        return intermediate_result.nit == 3

    whole = gt.minimize(h, g, stop=rule, **options)
    gt.minimize(h, g, stop=rule, checkpoint=path, callback=stop_here, **options)
    assert repr(read(path).rule) == repr(rule)
    second = gt.resume(path, h, g)
    same(whole, second)
    assert second.status is Status.BUDGET and second.constants == whole.constants
    limited = gt.minimize(h, g, max_iter=7, stop=NEVER, checkpoint=path, callback=stop_here)
    assert limited.nit == 3 and gt.resume(path, h, g).nit == 7


def test_a_finished_run_goes_on_under_a_new_rule(pair, tmp_path):
    path = tmp_path / "run.gtck"
    first = gt.minimize(*pair, method="sae", tol=1e-2, checkpoint=path)
    assert gt.resume(path, *pair).nit == first.nit
    better = gt.resume(path, *pair, tol=1e-4)
    same(better, gt.minimize(*pair, method="sae", tol=1e-4))


def test_a_rule_of_the_users_own_is_given_again(pair, tmp_path):
    class Mine:
        def check(self, look):
            return Status.CONVERGED if look.calls["h.grad"] > 20 else None

    path = tmp_path / "run.gtck"
    gt.minimize(*pair, method="sae", stop=Mine(), max_iter=2, checkpoint=path)
    with pytest.raises(CheckpointError, match="stopping rule was your own; give it again as stop="):
        gt.resume(path, *pair)
    second = gt.resume(path, *pair, stop=Mine(), max_iter=100)
    same(gt.minimize(*pair, method="sae", stop=Mine()), second)


def test_a_method_that_cannot_be_stepped_says_so(pair, tmp_path):
    path = tmp_path / "run.gtck"
    first = gt.minimize(*pair, method="lbfgs", tol=1e-4, max_iter=4, checkpoint=path)
    second = gt.resume(path, *pair, max_iter=100)
    said = "ScipyLBFGS cannot be stepped: started again from the last point"
    assert said in second.plan and (4, said) in second.history.notes
    assert second.success and second.nit > 4
    assert second.calls["h.grad"] > first.calls["h.grad"]
    assert gt.resume(path, *pair).nit == second.nit
    np.testing.assert_array_equal(second.history["f"][:5], first.history["f"])


@pytest.mark.parametrize(
    ("method", "by"), [("sae", "checkpoint"), ("afb", "state"), ("fgm", "checkpoint")]
)
def test_the_scale_of_the_stopping_rule_is_kept(tmp_path, method, by):
    """At x0 the gradients of h and g cancel: the rule takes its scale from the terms, not from f.

    |grad f(x0)| is 1e-4 of the gradients of the terms, so that a run without that scale would go on
    until its gradient is 1e-4 times as long.
    """
    h, g = sums()
    x0 = np.ones(h.n)
    b = 1e3 * np.ones(h.n)
    h = gt.Quadratic(h.Q, b)
    g = gt.Quadratic(3.0 * h.Q, -b)
    assert np.linalg.norm(h.grad(x0) + g.grad(x0)) < 1e-2 * np.linalg.norm(h.grad(x0))
    options = {"method": method, "tol": 1e-6}
    whole = gt.minimize(h, g, x0, **options)
    assert whole.success and whole.nit > 3
    first, last = (np.linalg.norm(h.grad(x) + g.grad(x)) for x in (x0, whole.x))
    assert last > 1e-6 * first  # which the scale of f would have asked for
    path = tmp_path / "run.gtck"
    first = gt.minimize(h, g, x0, max_iter=2, checkpoint=path, **options)
    if by == "checkpoint":
        second = gt.resume(path, h, g, max_iter=1000)
    else:
        second = gt.minimize(h, g, state=first.state, tol=1e-6)
    same(whole, second)


def test_the_seconds_of_oracles_are_kept(tmp_path, clock):
    """Every gradient of h takes a second and every one of g two, before and after the break."""
    h, g = sums()

    def timed(term, seconds):
        def grad(x):
            clock.pass_(seconds)
            return term.grad(x)

        return gt.Term(grad=grad, value=term.value, n=term.n, L=term.L, mu=term.mu)

    terms = timed(h, 1.0), timed(g, 2.0)
    path = tmp_path / "run.gtck"
    gt.minimize(*terms, method="sae", stop=NEVER, max_iter=3, checkpoint=path)
    res = gt.resume(path, *terms, max_iter=2)
    assert res.seconds["h.grad"] == res.calls["h.grad"]
    assert res.seconds["g.grad"] == 2 * res.calls["g.grad"]
    assert res.history["seconds"][-1] == res.seconds["h.grad"] + res.seconds["g.grad"]
