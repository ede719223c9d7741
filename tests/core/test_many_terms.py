"""More than two terms through the front door: names, constants, errors, resume, geometry."""

from __future__ import annotations

import io

import numpy as np
import pytest

import geartrain as gt
from geartrain.core.checkpoint import CheckpointError
from geartrain.core.status import Status
from geartrain.oracles.protocols import MissingOracle
from geartrain.problem import MissingConstant
from many_terms import train_of_quadratics
from runs import NEVER, same

KNOWN = train_of_quadratics((1.0, 10.0, 100.0), mu=0.05, n=12)
H1, H2, G = KNOWN.terms
NAMED = {"simulator": H1, "cluster": H2}


def opaque(term, **known):
    return gt.Term(value_and_grad=lambda x: (term.value(x), term.grad(x)), n=term.n, **known)


# Names ---------------------------------------------------------------------------------------


def test_one_term_in_a_list_is_the_call_with_one_term():
    for h, L_h in (([H1], [2.0]), ([H1], 2.0), ((H1,), None)):
        one = gt.minimize(h, G, method="afb", tol=1e-5, L_h=L_h)
        plain = gt.minimize(H1, G, method="afb", tol=1e-5, L_h=None if L_h is None else 2.0)
        same(one, plain)
        assert one.plan == plain.plan and "h.grad" in one.calls


def test_a_list_names_its_terms_and_a_dict_has_names():
    for h, names in ((KNOWN.h, ["h1", "h2"]), (NAMED, ["simulator", "cluster"])):
        res = gt.minimize(h, G, method="afb", tol=1e-5)
        assert res.success
        assert list(dict.fromkeys(key.split(".")[0] for key in res.calls)) == [*names, "g"]
        assert set(res.seconds) == set(res.calls)
        assert {f"{name}.grad" for name in names} <= set(res.history)
        assert list(res.constants) == [*(f"L_{name}" for name in names), "L_g", "mu"]
        assert res.plan.startswith(f"{names[0]} > {names[1]} > g")
        assert res.history[f"{names[0]}.grad"][-1] <= res.calls[f"{names[0]}.grad"]


def test_constants_by_list_and_by_name():
    by_list = gt.minimize(KNOWN.h, G, method="afb", max_iter=3, stop=NEVER, L_h=[3.0, None])
    assert by_list.constants["L_h1"].value == 3.0 and by_list.constants["L_h1"].source == "given"
    assert by_list.constants["L_h2"].source == "term"
    by_name = gt.minimize(NAMED, G, method="afb", max_iter=3, stop=NEVER, L_h={"simulator": 3.0})
    assert by_name.constants["L_simulator"].value == 3.0
    np.testing.assert_array_equal(by_list.x, by_name.x)


@pytest.mark.parametrize("method", ["fgm", "lbfgs"])
def test_methods_on_the_sum_ask_every_term_equally_often(method):
    res = gt.minimize(KNOWN.h, G, method=method, tol=1e-6)
    assert res.success
    assert res.calls["h1.grad"] == res.calls["h2.grad"] == res.calls["g.grad"] > 0


def test_levels_can_be_given():
    method = gt.methods.Train((("h2",), ("h1", "g")), gt.methods.AFB())
    res = gt.minimize(KNOWN.h, G, method=method, tol=1e-5)
    assert res.success and res.plan.startswith("h2 > h1 + g")
    assert res.calls["h1.grad"] == res.calls["g.grad"] > res.calls["h2.grad"]


# Errors --------------------------------------------------------------------------------------

CONCAVE = H2 - 5.0 * H1


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: gt.minimize([], G), ValueError, "h is empty: give at least one term"),
        (lambda: gt.minimize({}, G), ValueError, "h is empty: give at least one term"),
        (lambda: gt.minimize([H1, None], G), TypeError, "h2 must be a term .* got NoneType"),
        (lambda: gt.minimize([H1, np.sum], G), TypeError, r"h2 must be a term .*wrap functions"),
        (lambda: gt.minimize({"g": H1, "b": H2}, G), ValueError, "must not be called 'g'"),
        (lambda: gt.minimize({"f": H1, "b": H2}, G), ValueError, "must not be called 'f'"),
        (lambda: gt.minimize({1: H1, 2: H2}, G), TypeError, "must be a string, got 1"),
        (lambda: gt.minimize({"": H1, "b": H2}, G), ValueError, "must be a word"),
        (lambda: gt.minimize({"a.b": H1, "b": H2}, G), ValueError, "must be a word .*'a.b'"),
        (lambda: gt.minimize({" a": H1, "b": H2}, G), ValueError, "must be a word .*' a'"),
        (
            lambda: gt.minimize(KNOWN.h, G, prices={"h.grad": 1.0}),
            ValueError,
            "unknown key 'h.grad'; the keys are h1.grad, .*h2.grad, .*g.grad",
        ),
        (
            lambda: gt.minimize(KNOWN.h, G, L_h=[1.0]),
            ValueError,
            r"L_h has 1 entries, but there are 2 terms \(h1, h2\)",
        ),
        (lambda: gt.minimize(KNOWN.h, G, L_h=1.0), TypeError, "L_h must be a list of 2 numbers"),
        (lambda: gt.minimize(H1, G, L_h=[1.0]), TypeError, "L_h must be a number, because h is on"),
        (
            lambda: gt.minimize(NAMED, G, L_h={"h1": 1.0}),
            ValueError,
            "L_h has the unknown key 'h1'; the terms are simulator, cluster",
        ),
        (lambda: gt.minimize(KNOWN.h, G, L_h=[1.0, -2.0]), ValueError, "L_h2 must be positive"),
        (lambda: gt.minimize(KNOWN.h, G, L_h=[1.0, "x"]), TypeError, "L_h2 must be a number"),
        (lambda: gt.minimize(KNOWN.h, G, mu=1e9), ValueError, "exceeds L_h1 . L_h2 . L_g"),
        (
            lambda: gt.minimize([H1, CONCAVE], G, method="afb"),
            ValueError,
            "AFB needs a convex h2, but .*non-convex",
        ),
        (
            lambda: gt.minimize(KNOWN.h, G, method="ags"),
            ValueError,
            r"'ags' has no form for more than two terms; choose one of .*minimize\(h1 \+ h2, g\)",
        ),
        *(
            (
                lambda method=method: gt.minimize(KNOWN.h, G, method=method),
                ValueError,
                r"has no form .* \(its test needs the exact gradient of h2 \+ g, which",
            )
            for method in ("sae", "r-sae", "sc-sae", gt.SAE(), gt.methods.RSAE())
        ),
        (
            lambda: gt.minimize(KNOWN.h, G, method=gt.methods.AGS()),
            ValueError,
            "AGS has no form for more than two terms",
        ),
        (lambda: gt.minimize(KNOWN.h, G, method="abf"), ValueError, "did you mean 'afb'"),
        (
            lambda: gt.minimize([H1, opaque(H2)], G, method="afb"),
            MissingConstant,
            "AFB needs the smoothness of h2, .*L_h=",
        ),
        (
            lambda: gt.minimize([H1, gt.Term(value=H2.value, n=12, L=1.0)], G, method="afb"),
            MissingOracle,
            "AFB asks h2 for its gradient",
        ),
        (
            lambda: gt.minimize([H1, gt.Quadratic(np.eye(3))], G),
            ValueError,
            "h1 has dimension 12 but h2 has 3",
        ),
        (
            lambda: gt.minimize(
                KNOWN.h, G, method=gt.methods.Train((("h1",), ("g",)), gt.methods.AFB())
            ),
            ValueError,
            "the levels h1 > g must name every term once: h1, h2, g",
        ),
        (
            lambda: gt.minimize(
                KNOWN.h, G, method=gt.methods.Train((("h1", "h2", "g"),), gt.methods.AFB())
            ),
            ValueError,
            "a train needs two levels or more",
        ),
        (
            lambda: gt.minimize(KNOWN.h, G, stop=gt.stop.Calls({"h.grad": 3}), method="afb"),
            KeyError,
            "no oracle 'h.grad' to budget; there are h1.grad",
        ),
    ],
)
def test_errors_say_what_is_wrong(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_two_terms_of_one_name():
    """A dict cannot hold them, but other mappings can."""

    class Pairs(dict):
        def items(self):
            return [("a", H1), ("a", H2)]

    with pytest.raises(ValueError, match="two terms are called 'a'"):
        gt.minimize(Pairs(a=H1), G)


# What holds for two terms holds for many ------------------------------------------------------


@pytest.mark.parametrize(("method", "h"), [("afb", NAMED), ("fgm", KNOWN.h)])
def test_a_resumed_run_is_the_uninterrupted_one(tmp_path, h, method):
    path = tmp_path / "run.gtck"
    options = {"method": method, "stop": NEVER, "L_h": [2.0, None]}
    whole = gt.minimize(h, G, max_iter=9, **options)
    part = gt.minimize(h, G, max_iter=4, checkpoint=path, **options)
    same(whole, gt.resume(path, h, G, max_iter=5))
    same(whole, gt.minimize(h, G, state=part.state, stop=NEVER, max_iter=5, L_h=[2.0, None]))


@pytest.mark.parametrize("inner", ["katyusha", "nesterov-stich"])
def test_resume_with_a_randomised_last_level(tmp_path, inner):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((30, 12))
    g = gt.LinearModel(A, np.sign(A[:, 0] + 0.1), l2=0.05)
    path = tmp_path / "run.gtck"
    options = {"method": "afb", "inner": inner, "stop": NEVER, "seed": 5}
    whole = gt.minimize(KNOWN.h, g, max_iter=6, **options)
    gt.minimize(KNOWN.h, g, max_iter=2, checkpoint=path, **options)
    same(whole, gt.resume(path, KNOWN.h, g, max_iter=4))
    other = gt.minimize(KNOWN.h, g, max_iter=6, **{**options, "seed": 6})
    assert not np.array_equal(other.x, whole.x)


def test_resume_recognises_the_terms(tmp_path):
    path = tmp_path / "run.gtck"
    gt.minimize(KNOWN.h, G, method="afb", max_iter=2, stop=NEVER, checkpoint=path)
    for h, what in (
        ([H1, H1], "h2 was"),
        ([H2, H1], "h1 was"),
        (NAMED, "simulator was None"),
        ([H1, H2, H1], "h3 was None"),
        (H1, "h2 was .* is missing"),
    ):
        with pytest.raises(CheckpointError, match=what):
            gt.resume(path, h, G)


def test_a_state_of_other_terms_is_refused():
    two = gt.minimize(H1, G, method="afb", max_iter=2, stop=NEVER)
    with pytest.raises(ValueError, match="run on the terms h, g, but the terms are h1, h2, g"):
        gt.minimize(KNOWN.h, G, state=two.state)


def test_progress_callbacks_and_budgets():
    seen = []
    res = gt.minimize(
        NAMED,
        G,
        method="afb",
        callback=lambda intermediate_result: seen.append(intermediate_result.calls["cluster.grad"]),
        stop=gt.stop.any_of(gt.stop.Calls({"cluster.grad": 20}), NEVER),
    )
    assert res.status is Status.BUDGET and res.calls["cluster.grad"] == 20
    assert seen and seen == sorted(seen)
    stream = io.StringIO()
    progress = gt.callbacks.Progress(stream=stream)
    gt.minimize(NAMED, G, method="afb", tol=1e-4, callback=progress)
    assert "simulator.grad" in stream.getvalue() and "cluster.grad" in stream.getvalue()


def test_the_history_is_drawn_against_the_first_term():
    mpl = pytest.importorskip("matplotlib")
    res = gt.minimize(NAMED, G, method="afb", tol=1e-3)
    with mpl.rc_context({"backend": "agg"}):
        ax = res.history.plot(y="A")
    assert "simulator" in ax.get_xlabel()


def test_another_inner_product():
    """In the inner product of M, gradients are M^{-1} grad, and so are the constants."""
    M = np.diag(np.linspace(1.0, 3.0, 12))
    space = gt.geometry.Preconditioned(M)
    res = gt.minimize(KNOWN.h, G, method="afb", geometry=space, tol=1e-7)
    assert res.success
    np.testing.assert_allclose(res.x, KNOWN.x_star, atol=1e-4)
    g = gt.LinearModel(np.eye(12), np.ones(12), loss="squared")
    with pytest.raises(TypeError, match="Katyusha works in the Euclidean geometry only"):
        gt.minimize(KNOWN.h, g, method="afb", inner="katyusha", geometry=space)


def test_the_certificate_holds():
    R = float(np.linalg.norm(KNOWN.x_star)) * 1.01
    res = gt.minimize(KNOWN.h, G, method="afb", stop=gt.stop.Gap(1e-3, R=R))
    assert res.success
    assert -1e-9 <= res.fun - KNOWN.f_star <= res.certificate.bound <= 1e-3
