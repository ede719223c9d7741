"""Budgets, callbacks and Ctrl-C reach into an iteration, and nothing that was computed is lost."""

from __future__ import annotations

import signal
import sys

import numpy as np
import pytest

import geartrain as gt
from geartrain.core.status import Status
from geartrain.methods.registry import INNER, METHODS
from runs import NEVER, same, sums

pytestmark = pytest.mark.same_everywhere  # calls are counted until a budget is used up

STEPPED = sorted(set(METHODS) - {"lbfgs"})


def hard():
    """A pair on which one iteration takes long: g is badly conditioned beside h."""
    rng = np.random.default_rng(0)
    U = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    Q = (U * np.geomspace(1e-6, 1.0, 8)) @ U.T
    return gt.Quadratic(1e-6 * np.eye(8), np.ones(8)), gt.Quadratic((Q + Q.T) / 2)


@pytest.mark.parametrize(
    ("key", "most"), [("h.grad", 1), ("g.grad", 7), ("h.coord", 7), ("g.component", 7)]
)
@pytest.mark.parametrize("method", ["auto", *METHODS])
def test_no_more_calls_than_the_budget_has(method, key, most):
    h, g = sums()
    res = gt.minimize(h, g, method=method, stop=gt.stop.Calls({key: most}), max_iter=3)
    assert np.isfinite(res.x).all()
    # A compiled step may ask for two components: that at the snapshot for the first time.
    slack = 1 if key == "g.component" else 0
    assert res.calls[key] <= most + slack
    assert res.status in (Status.BUDGET, Status.MAX_ITER)
    assert (res.status is Status.BUDGET) == (res.calls[key] >= most)


@pytest.mark.parametrize("inner", sorted(INNER))
def test_no_more_calls_inside_an_inner_run(inner):
    h, g = sums()
    if inner == "exact":
        g = gt.Quadratic(np.diag(np.linspace(1.0, 9.0, 8)))
    kind = {"exact": "prox", "directional": "value", "coordinate-differences": "value"}
    for key in {f"g.{kind.get(inner, 'grad')}", "g.coord", "g.component"}:
        res = gt.minimize(h, g, method="afb", inner=inner, stop=gt.stop.Calls({key: 3}), max_iter=2)
        assert res.calls[key] <= 4 and res.status in (Status.BUDGET, Status.MAX_ITER)


def test_a_step_of_ags_that_never_ends_is_stopped():
    """ceil(sqrt(L_g/L_h)) is ten million here."""
    g = gt.Quadratic(np.diag([1.0, 2.0]), np.ones(2))
    res = gt.minimize(
        gt.Quadratic(1e-14 * np.eye(2)), g, method="ags", stop=gt.stop.Calls({"g.grad": 100})
    )
    assert res.status is Status.BUDGET and res.calls["g.grad"] == 100 and res.nit == 0


@pytest.mark.parametrize("method", ["sae", "afb", "aeg", "ags"])
def test_seconds_reach_the_inner_loop(method, clock):
    """Every answer takes a second: a run of five has asked five times, or six."""
    h, g = hard()

    def slow(term):
        def grad(x):
            clock.pass_(1.0)
            return term.grad(x)

        return gt.Term(grad=grad, n=8, L=term.L, mu=term.mu)

    res = gt.minimize(slow(h), slow(g), method=method, stop=gt.stop.Seconds(5.0))
    assert res.status is Status.BUDGET
    assert 5 <= res.calls["h.grad"] + res.calls["g.grad"] <= 6
    assert res.history["seconds"][-1] == pytest.approx(5.0, abs=1.01)


@pytest.mark.parametrize("method", STEPPED)
def test_a_run_that_was_stopped_inside_goes_on_as_if_it_had_not(method):
    h, g = sums()
    whole = gt.minimize(h, g, method=method, stop=NEVER, max_iter=5, seed=2)
    for most in (3, 17):
        keys = ("g.grad", "g.coord", "g.component", "h.grad")
        stop = gt.stop.any_of(NEVER, gt.stop.Calls({key: most for key in keys}))
        part = gt.minimize(h, g, method=method, stop=stop, max_iter=4, seed=2)
        if part.state is None:  # not even the start was complete
            assert part.nit == 0 and np.array_equal(part.x, np.zeros(8))
            continue
        left = 5 - part.state.iteration
        assert left > 0
        same(whole, gt.minimize(h, g, state=part.state, stop=NEVER, max_iter=left))


# Callbacks --------------------------------------------------------------------------------


def test_a_callback_ends_an_iteration_that_takes_long(clock):
    h, g = hard()
    seen = []

    def slow(x):
        clock.pass_(0.1)
        return g.grad(x)

    def callback(intermediate_result):
        seen.append((intermediate_result.nit, intermediate_result.calls["g.grad"]))
        return intermediate_result.calls["g.grad"] > 60

    res = gt.minimize(
        h, gt.Term(grad=slow, n=8, L=g.L, mu=g.mu), method="sae", callback=callback, tol=1e-12
    )
    assert res.status is Status.STOPPED and res.nit == 0
    assert 60 < res.calls["g.grad"] < 100
    assert [nit for nit, _ in seen] == [0] * len(seen) and len(seen) > 2
    assert res.history["g.grad"][-1] == res.calls["g.grad"]


def test_logs_get_a_row_per_iteration_only(clock, tmp_path):
    h, g = hard()

    def slow(x):
        clock.pass_(0.5)
        return g.grad(x)

    log = gt.callbacks.CSVLog(tmp_path / "log.csv")
    gt.minimize(h, gt.Term(grad=slow, n=8, L=g.L, mu=g.mu), method="sae", callback=log, max_iter=2)
    rows = (tmp_path / "log.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows] == ["nit", "0", "1", "2"]


# Ctrl-C -----------------------------------------------------------------------------------


@pytest.fixture
def python_handles_sigint():
    """A job of a shell's background ignores SIGINT; Python then installs no handler of its own."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class PressedAt:
    """Presses Ctrl-C at the n-th line of geartrain after `minimize` has begun."""

    def __init__(self, n):
        self.left = n
        self.pressed = False

    def __call__(self, frame, event, arg):
        if "geartrain" not in frame.f_code.co_filename:
            return None
        ours = signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        if event == "line" and ours and not self.pressed:
            self.left -= 1
            if self.left == 0:
                self.pressed = True
                sys.settrace(None)  # the rest at full speed
                signal.raise_signal(signal.SIGINT)
        return self


def traced(n, run):
    """`run()` with Ctrl-C at the n-th line; and how many lines there were before it, or in all."""
    press, before = PressedAt(n), sys.gettrace()
    sys.settrace(press)
    try:
        return run(), n - press.left
    finally:
        sys.settrace(before)


@pytest.mark.usefixtures("python_handles_sigint")
@pytest.mark.parametrize("method", ["auto", "lbfgs", "katyusha"])
def test_ctrl_c_never_escapes(method, tmp_path):
    """At six lines from the set-up to the result: always a result, never an exception."""
    h, g = sums()

    def run():
        path = tmp_path / "run.gtck"
        given = {"prices": {"h.grad": 10.0, "g.grad": 1.0}} if method == "auto" else {}
        return gt.minimize(h, g, method=method, tol=1e-3, max_iter=3, checkpoint=path, **given)

    run()  # what is imported and compiled on first use
    plain, lines = traced(10**9, run)
    stopped = 0
    for n in np.linspace(1, lines, 6, dtype=int):
        res, _ = traced(int(n), run)
        assert res.status in (Status.INTERRUPTED, plain.status), (n, res.message)
        assert np.isfinite(res.x).all()
        stopped += res.status is Status.INTERRUPTED
        left = 0 if res.state is None else 3 - res.state.iteration
        if left and method not in ("lbfgs", "auto"):  # which measures, or starts again
            same(plain, gt.minimize(h, g, state=res.state, tol=1e-3, max_iter=left))
    assert stopped >= 3
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_the_programs_own_is_left_alone():
    heard = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    try:

        def callback(x):
            signal.raise_signal(signal.SIGINT)

        res = gt.minimize(*sums(), method="fgm", callback=callback, max_iter=2)
        assert res.nit == 2 and len(heard) == 3
    finally:
        signal.signal(signal.SIGINT, before)


class CountedTerm(gt.Term):
    """A term of the user that counts what it is really asked; value and gradient are one answer."""

    def __init__(self, term):
        self.asked = 0

        def value_and_grad(x):
            self.asked += 1
            return term.value_and_grad(x)

        super().__init__(value_and_grad, n=term.n, L=term.L, lower_bound=term.lower_bound)


def counted(b):
    """Two quadratics as functions of the user."""
    h = gt.Quadratic(np.diag(np.linspace(0.5, 1.0, 8)), b * np.ones(8))
    return CountedTerm(h), CountedTerm(gt.Quadratic(np.diag(np.linspace(0.0, 50.0, 8))))


@pytest.mark.parametrize(
    ("method", "most"), [("afb", 1), ("pqn", 5), ("fgm", 6), ("sae", 5), ("lbfgs", 6)]
)
def test_a_budget_holds_for_the_value_at_the_end_too(method, most):
    """The only way to a value is a fused call, which is counted as a gradient."""
    h, g = counted(1.0)
    res = gt.minimize(h, g, method=method, stop=gt.stop.Calls({"h.grad": most}))
    assert res.status is Status.BUDGET
    assert h.asked == res.calls["h.grad"] <= most and g.asked == res.calls["g.grad"]
    assert not np.isnan(res.fun) or "the budget leaves no call" in res.message


def test_seconds_do_not_keep_the_last_value_back(clock):
    h, g = counted(1.0)
    ask = h.value_and_grad
    h.value_and_grad = lambda x: clock.pass_(1.0) or ask(x)
    res = gt.minimize(h, g, method="afb", stop=gt.stop.Seconds(4.5))
    assert res.status is Status.BUDGET and np.isfinite(res.fun)


@pytest.mark.parametrize(
    ("method", "psi"), [("afb", gt.L1(0.01)), ("pqn", gt.GroupL1(2, 0.01)), ("sae", gt.L1(0.01))]
)
def test_values_for_the_gap_are_counted(method, psi):
    """The certificate for norms rests on f."""
    h, g = counted(0.0)
    stop = gt.stop.any_of(gt.stop.Gap(1e-9), gt.stop.Calls({"h.grad": 2000}))
    res = gt.minimize(h, g + psi, np.ones(h.n), method=method, stop=stop)
    assert res.success and res.certificate.bound <= 1e-9
    assert (h.asked, g.asked) == (res.calls["h.grad"], res.calls["g.grad"])
