"""The judge has teeth: every planted falsehood is found, and the reference is right."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import geartrain as gt
from geartrain.core.status import ROUNDING, Status
from hostile import judge as module
from hostile import planted
from hostile.generator import KINDS, Asked, Dice, case
from hostile.judge import Budget, Trial
from hostile.reference import LD, ld, minimise, size

KIND, METHOD = "one variable", "lbfgs"


def _plain(k):
    trial = Trial(KIND, k, METHOD, Budget())
    return not trial.bare and trial.rule_name == "gradient" and trial.case.start.any()


NUMBER = next(k for k in range(50) if _plain(k))


def found(monkeypatch, change, kind=KIND, number=NUMBER, method=METHOD):
    """What the judge says when `change` is done to an honest result."""
    real = gt.minimize

    def minimize(h, g, x0, **options):
        res = real(h, g, x0, **options)
        change(res, h, g)
        return res

    monkeypatch.setattr(gt, "minimize", minimize)
    return {c.what for c in Trial(kind, number, method, Budget()).judge()}


def test_an_honest_run_is_not_accused(monkeypatch):
    assert found(monkeypatch, lambda res, h, g: None) == set()


def _back_to_start(res, *_):
    trial = Trial(KIND, NUMBER, METHOD, Budget())
    res.x = trial.case.start.copy()
    res.fun = res.grad_norm = np.nan


def _climb(res, *_):
    res.x = res.x + 1e3


def _false_success(res, *terms):
    _back_to_start(res)
    res.success, res.status = True, Status.CONVERGED


def _false_rounding(res, *_):
    _back_to_start(res)
    res.success, res.status, res.message = False, Status.STALLED, ROUNDING


def _certify(bound):
    def change(res, *_):
        _back_to_start(res)
        res.success, res.status = False, Status.MAX_ITER
        res.certificate = SimpleNamespace(bound=bound, assumption="none")

    return change


def _set(**values):
    return lambda res, *_: res.update(values)


def _miscount(res, *_):
    res.calls["h.grad"] -= 1


def _ask_in_secret(res, h, g):
    g.value_and_grad(res.x)


def _ask_too_much(res, h, g):
    res.calls["h.grad"] += 100


def _warn(res, *_):
    warnings.warn("overflow", RuntimeWarning, stacklevel=1)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (_false_success, "false success"),
        (_climb, "climb"),
        (_false_rounding, "false rounding"),
        (_certify(1e-30), "false certificate"),
        (_certify(-1.0), "false certificate"),
        (_set(x=np.array([np.inf])), "not finite"),
        (_set(x=[1.0]), "form"),
        (_set(fun=1e9), "fun is not f(x)"),
        (_set(grad_norm=1e9), "grad_norm is not |grad f(x)|"),
        (_set(success=False), "form"),
        (_miscount, "wrong count"),
        (_miscount, "last row differs"),
        (_ask_in_secret, "wrong count"),
        (_ask_too_much, "budget ignored"),
        (_warn, "warning leaked"),
    ],
)
def test_planted_falsehoods(monkeypatch, change, what):
    assert what in found(monkeypatch, change)


def _raising(error):
    def minimize(*args, **options):
        raise error

    return minimize


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (ZeroDivisionError("float division by zero"), {"raw exception"}),
        (ValueError("a sentence, but not raised by the library"), {"raw exception"}),
        (KeyboardInterrupt(), {"interrupt escaped"}),
        (module.RanAway(), {"budget ignored"}),
        (module.Hang(), {"hang"}),
    ],
)
def test_planted_errors(monkeypatch, error, what):
    monkeypatch.setattr(gt, "minimize", _raising(error))
    assert {c.what for c in Trial(KIND, NUMBER, METHOD, Budget()).judge()} == what


def test_a_loop_that_asks_nothing_is_ended(monkeypatch):
    def spin(*args, **options):
        while True:
            pass

    monkeypatch.setattr(module, "HANG", 0.05)
    monkeypatch.setattr(gt, "minimize", spin)
    assert {c.what for c in Trial(KIND, NUMBER, METHOD, Budget()).judge()} == {"hang"}


def test_a_refusal_of_the_library_is_no_complaint():
    assert Trial("conditioned", 0, "aeg", Budget()).case.f is not None
    bad = next(k for k in range(30) if case("odd start", k).refused)
    assert not [c for c in Trial("odd start", bad, "fgm", Budget()).judge() if "raw" in c.what]


def test_the_counter_counts_columns():
    asked = Asked(gt.Quadratic(np.eye(3)))
    asked.value_and_grad(np.ones(3))
    asked.grad(np.ones(3))
    asked.products(np.ones(3), np.ones((3, 2)))
    assert asked.calls["grad"] == 2 and asked.calls["product"] == 2 and asked.calls["value"] == 0


def both(c):
    """The terms and their references; a planted case may have several h, and no smooth g."""
    pairs = [(c.h(), c.ref_h), (c.g(), c.ref_g)]
    if c.planted is not None:
        more = [piece.make() for piece in c.planted.more]
        pairs = [(sum(more, pairs[0][0]), c.ref_h), pairs[1]]
    return [(term, function) for term, function in pairs if hasattr(term, "value")]


@pytest.mark.parametrize("kind", KINDS)
def test_the_reference_agrees_with_the_terms(kind):
    """In float64, to the rounding error that the reference states."""
    for k in range(4):
        c = case(kind, k)
        if c.refused or c.raised is not None:
            continue
        x = ld(c.start)
        for term, function in both(c):
            value, grad = term.value_and_grad(c.start.copy())
            top = size(function.grad(x))
            assert abs(ld(value) - function.value(x)) <= 4 * function.noise_value(x) + abs(
                function.value(x)
            ) * LD(1e-15)
            far = size(ld(np.asarray(grad)) - function.grad(x))
            assert far <= 4 * size(function.noise_grad(x)) + top * LD(1e-15)


@pytest.mark.parametrize("kind", ["separable", "cold", "shards", "conditioned"])
def test_the_reference_has_the_right_derivatives(kind):
    c = case(kind, 1)
    x, d = ld(c.start), ld(np.ones(c.start.size))
    t = LD(1e-6) * (1 + size(x))
    for function in (c.ref_h, c.ref_g):
        slope = (function.value(x + t * d) - function.value(x - t * d)) / (2 * t)
        assert float(slope) == pytest.approx(float(function.grad(x) @ d), rel=1e-5, abs=1e-9)
        bend = (function.grad(x + t * d) - function.grad(x - t * d)) / (2 * t)
        top = float(size(function.hessian(x) @ d))
        assert float(size(bend - function.hessian(x) @ d)) <= 1e-5 * top + 1e-9


def test_the_reference_finds_the_minimum():
    for kind in ("separable", "cold", "scales", "shards"):
        for k in range(5):
            c = case(kind, k)
            x = minimise(c.f, ld(c.start))
            start = size(c.f.grad(ld(c.start)))
            assert size(c.f.grad(x)) <= LD(1e-10) * start or c.noise(x)[1] >= size(c.f.grad(x))


PSIS = [f"planted {kind}" for kind in planted.PSIS if kind != "smooth"]


@pytest.mark.parametrize("kind", PSIS)
def test_the_reference_of_psi(kind):
    """Its least subgradient at x*, its values, and projections, against those of the term."""
    for k in range(5):
        c = case(kind, k)
        psi, x = c.psi, c.planted.solution
        noise = c.noise(x)[1]
        assert c.slope(x) <= 4 * noise, k
        own = planted.PSIS[kind.removeprefix("planted ")]
        d = Dice(1000 * list(KINDS).index(kind) + k)
        unit, level = d.power(-12, 3), d.power(-4, 4)
        term = own(d, unit, level / unit).term()
        v = np.asarray(psi.project(ld(unit * d.normal())), dtype=np.float64)
        slope = level / unit * d.normal()
        least = psi.least(ld(v), ld(slope))
        far = size(ld(term.residual(v, slope)) - least)
        assert far <= 4 * psi.blur(ld(v), ld(slope)) + LD(1e-12) * size(least), k
        assert abs(ld(term.value(v)) - psi.value(ld(v))) <= 4 * psi.noise(ld(v)), k


@pytest.mark.parametrize("kind", PSIS)
def test_x_star_is_a_solution(kind):
    """No point nearby is lower, and the subgradient is one: f(x) - f(x*) >= 0 in long double."""
    for k in range(5):
        c = case(kind, k)
        x, d = c.planted.solution, Dice(k)
        d.n = len(x)
        for part in (1e-6, 1e-2, 1.0):
            v = c.psi.project(x + ld(part * d.normal()) * (size(x) + LD(1e-15)))
            assert c.value(v) - c.value(x) >= -4 * (c.noise(x)[0] + c.noise(x)[1] * size(v - x))


def test_planted_falsehoods_with_psi(monkeypatch):
    """A gradient that is too short, a point outside, a proximal step in secret, a false status."""
    kind, number = (
        "planted simplex",
        next(
            k
            for k in range(50)
            if not (t := Trial("planted simplex", k, "pqn", Budget())).bare
            and t.case.slope(t.case.first) > 1e6 * t.case.noise(t.case.first)[1]
            and len(t.names) == 1
        ),
    )
    first = np.asarray(case(kind, number).first, dtype=np.float64)

    def shortened(res, *_):
        res.x, res.fun, res.grad_norm, res.certificate = first, np.nan, 0.0, None

    def outside(res, *_):
        res.x = 1.01 * res.x

    def unbounded(res, *_):
        shortened(res)
        res.grad_norm = np.nan
        res.success, res.status = False, Status.UNBOUNDED

    def in_secret(res, h, g):
        part = g.parts[-1][1] if hasattr(g, "parts") else g
        part.prox(res.x, 1.0)

    for change, what in (
        (shortened, "grad_norm is not |grad f(x)|"),
        (outside, "infeasible"),
        (unbounded, "false status"),
        (in_secret, "wrong count"),
    ):
        with monkeypatch.context() as patch:
            assert what in found(patch, change, kind, number, "pqn")


def test_a_rounded_matrix_has_the_subgradient_of_the_judge():
    """Its smallest singular vectors turn with the last bits of its entries: blur covers that."""
    rng = np.random.default_rng(3)
    for k in range(200):
        U, _, V = planted.svd(ld(rng.standard_normal((3, 2))))
        s = ld([1.0, 10.0 ** rng.uniform(-12, -4)])
        x, d = np.asarray((U * s) @ V, dtype=float).ravel(), ld(rng.standard_normal(6))
        psi = planted.Nuclear((3, 2), LD(1.0))
        near = x * (1.0 + 2.0**-52 * rng.integers(-1, 2, 6))
        least, other = (size(psi.least(ld(v), d)) for v in (x, near))
        assert abs(least - other) <= 4 * psi.blur(ld(x), d), k
