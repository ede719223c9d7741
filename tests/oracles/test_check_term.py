"""check_term: a sentence for each kind of error, and no false alarm."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from scipy import sparse

import geartrain as gt
from geartrain.oracles.losses import COMPILED

N, M = 6, 8
RNG = np.random.default_rng(8)
A = RNG.standard_normal((M, N))
TRUE = gt.LinearModel(A, RNG.choice([-1.0, 1.0], M), l2=0.05)
H = A.T @ A / M  # psd
EXACT = gt.Quadratic(H + 0.1 * np.eye(N))
LOW, HIGH = EXACT.mu, EXACT.L


def term(**changes):
    """The logistic term as callables, with some of them wrong."""
    parts = {
        "value": TRUE.value,
        "grad": TRUE.grad,
        "component": TRUE.component,
        "coord": TRUE.coord,
        "n": N,
        "n_components": M,
        "L": TRUE.L,
        "mu": TRUE.mu,
        "L_coord": TRUE.L_coord,
        "L_components": TRUE.L_components,
    }
    parts.update(changes)
    return gt.Term(**{k: v for k, v in parts.items() if v is not None})


def quadratic(**changes):
    parts = {"value": EXACT.value, "grad": EXACT.grad, "prox": EXACT.prox, "n": N}
    parts.update({"L": HIGH, "mu": LOW} | changes)
    return gt.Term(**parts)


def one_entry_off(x):
    out = TRUE.grad(x)
    out[2] += 1e-3
    return out


def with_nan(x):
    return np.where(np.arange(N) == 1, np.nan, x)


def mutating(x):
    out = TRUE.grad(x)
    x += 1.0
    return out


# Paper: Assumption 1
@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        (term(grad=one_entry_off), "the gradient does not fit the value: along a"),
        (term(grad=lambda x: 2 * TRUE.grad(x)), "it is 2 times what it should be"),
        (term(grad=lambda x: TRUE.grad(x) / M), "it is 0.125 times what it should be"),
        (term(grad=lambda x: 1.0001 * TRUE.grad(x)), "does not fit the value"),
        (
            term(component=lambda x, k: TRUE.component(x, k) / M),
            "their sum is: multiply component by n_components = 8",
        ),
        (term(component=lambda x, k: TRUE.component(x, 0)), "the mean of the components is not"),
        (term(component=lambda x, k: TRUE.component(x, k)[:2]), r"component(x, k) has shape (2,)"),
        (term(coord=lambda x, i: TRUE.coord(x, 0)), "but the gradient's entry is"),
        (term(coord=lambda x, i: TRUE.coord(x, i) * (1 + 1e-6)), "but the gradient's entry is"),
        (quadratic(L=0.99 * HIGH), "is too small: there are points whose gradients differ"),
        (
            quadratic(mu=1.01 * LOW),
            f"the stated mu = {1.01 * LOW:.6g} is too large: there is a pair",
        ),
        (term(L_coord=0.5 * TRUE.L_coord), "is too small: the partial derivative changes"),
        (term(L_components=0.2 * TRUE.L_components), "is too small: the gradient of that summand"),
        (gt.Term(value=lambda x: -EXACT.value(x), grad=lambda x: -EXACT.grad(x), n=N), "not conv"),
        (
            gt.Term(value=lambda x: np.cos(x).sum(), grad=lambda x: -np.sin(x), n=N, L=1.0),
            "the term is not convex: there is a pair",
        ),
        (term(grad=lambda x: TRUE.grad(x)[:-1]), "the gradient has shape (5,), expected (6,)"),
        (term(grad=with_nan), "the gradient contains NaN or infinity"),
        (term(grad=lambda x: 1j * x), "the gradient is made of complex128"),
        (term(value=lambda x: np.nan), "the value contains NaN or infinity"),
        (term(value=lambda x: x[:1]), "the value has shape (1,), expected ()"),
        (
            term(value_and_grad=lambda x: (TRUE.value(x) + 1e-6, TRUE.grad(x))),
            "value_and_grad gives the value",
        ),
        (
            term(value_and_grad=lambda x: (TRUE.value(x), TRUE.grad(x) * (1 + 1e-7))),
            "value_and_grad and grad give different gradients",
        ),
        (quadratic(prox=lambda u, alpha: EXACT.prox(u, 2 * alpha)), "prox(u, alpha) does not min"),
        (quadratic(prox=lambda u, alpha: u[:2]), "prox(u, alpha) has shape (2,), expected (6,)"),
        (gt.Term(value_and_grad=TRUE.grad, n=N), "value_and_grad must answer with a pair"),
        (term(component=lambda x, k: 1j * x), "component(x, k) is made of complex128"),
        (gt.Term(value=lambda x: np.inf, n=N), "the value contains NaN or infinity"),
        (term(grad=mutating), "asking for its gradient changes x"),
        (gt.Term(value=TRUE.value, coord=lambda x, i: 2 * x[i], n=N), "does not fit the value"),
    ],
)
def test_each_error_has_its_sentence(broken, sentence):
    report = gt.check_term(broken)
    assert not report and not report.ok
    assert any(sentence in problem for problem in report.problems), str(report)
    assert f"- {report.problems[0]}" in str(report)


class Nothing:
    n = 3


class NoCount:
    n = 3

    def component(self, x, k):
        return x


def test_terms_that_cannot_be_checked():
    assert "answers no question" in gt.check_term(Nothing()).problems[0]
    assert "component but no n_components" in gt.check_term(NoCount()).problems[0]
    with pytest.raises(ValueError, match="check_term needs a point x or the dimension n"):
        gt.check_term(gt.Term(lambda x: (0.0, x)))
    with pytest.raises(ValueError, match="x must have length 6, got 3"):
        gt.check_term(TRUE, np.zeros(3))


# Proximal steps --------------------------------------------------------------------------------


def soft(u, alpha, lam=0.7):
    return np.sign(u) * np.maximum(np.abs(u) - lam / alpha, 0.0)


def l1(x):
    return 0.7 * np.abs(x).sum()


def box(x):
    return 0.0 if (np.abs(x) <= 0.5).all() else np.inf


def clip(u, alpha):
    return np.clip(u, -0.5, 0.5)


def ball(u, alpha):
    return u / max(1.0, np.linalg.norm(u))


def ridge(x):
    return 0.5 * float(x @ x)


GOOD_PROX = {
    "l1": {"value": l1, "prox": soft},
    "l1 without values": {"prox": soft},
    "box": {"value": box, "prox": clip},
    "box without values": {"prox": clip},
    "ball": {"prox": ball},
    "ridge": {"value": ridge, "prox": lambda u, alpha: alpha * u / (1.0 + alpha)},
    "zero": {"value": lambda x: 0.0, "prox": lambda u, alpha: u},
    "quadratic": {"value": EXACT.value, "grad": EXACT.grad, "prox": EXACT.prox, "L": HIGH},
}


@pytest.mark.parametrize("kind", GOOD_PROX)
@pytest.mark.parametrize("size", [None, 0.0, 1e-4, 1e4])
def test_no_false_alarm_about_proximal_steps(kind, size):
    x = None if size is None else size * np.random.default_rng(0).standard_normal(N)
    report = gt.check_term(gt.Term(n=N, **GOOD_PROX[kind]), x)
    assert report and "prox" in report.checked and report.calls["prox"] <= 10, str(report)


SWAPPED = "prox(u, 1/alpha) does: alpha was taken for a step length, but here it is the weight"


@pytest.mark.parametrize("kind", ["l1", "l1 without values", "ridge", "quadratic"])
def test_a_step_length_in_place_of_a_weight_is_recognised(kind):
    """The likely mistake: prox(u, t) of most libraries has t = 1/alpha."""
    parts = GOOD_PROX[kind]
    swapped = {**parts, "prox": lambda u, t: parts["prox"](u, 1.0 / t)}
    report = gt.check_term(gt.Term(n=N, **swapped))
    assert any(SWAPPED in problem for problem in report.problems), str(report)


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({"value": l1, "prox": lambda u, a: soft(u, 2 * a)}, "at another point"),
        ({"value": l1, "prox": lambda u, a: soft(u, a, 0.71)}, "at another point"),
        ({"value": l1, "prox": lambda u, a: u}, "at another point"),
        ({"value": box, "prox": lambda u, a: np.clip(u, -0.6, 0.6)}, "at prox(u, alpha) is inf"),
        ({"value": ridge, "prox": lambda u, a: 0.0 * u}, "at another point"),
        ({"prox": lambda u, a: 2.0 * u}, "are not steps of one convex function"),
        ({"prox": lambda u, a: -u}, "are not steps of one convex function"),
        ({"prox": lambda u, a: np.sin(9.0 * u)}, "are not steps of one convex function"),
        ({"prox": lambda u, a: u / (1.0 + a)}, "are not steps of one convex function"),
        ({"prox": lambda u, a: u * np.nan}, "prox(u, alpha) contains NaN or infinity"),
        ({"prox": lambda u, a: u[None]}, "prox(u, alpha) has shape (1, 6), expected (6,)"),
        ({"prox": lambda u, a: u.__imul__(0.5)}, "asking for a proximal step changes x"),
    ],
)
def test_wrong_proximal_steps_are_found(parts, sentence):
    report = gt.check_term(gt.Term(n=N, **parts))
    assert any(sentence in problem for problem in report.problems), str(report)


# Noise -----------------------------------------------------------------------------------------


def hashed(x):
    """Random numbers that are the same for the same x."""
    return np.random.default_rng(zlib.crc32(x.tobytes())).standard_normal(x.size)


def noisy_term(which, level, random, fused):
    rng = np.random.default_rng(1)

    def error(x):
        return rng.standard_normal(x.size) if random else hashed(x)

    def value(x):
        return TRUE.value(x) * (1.0 + level * error(x)[0] * (which == "value"))

    def grad(x):
        return TRUE.grad(x) * (1.0 + level * error(x) * (which == "gradient"))

    parts = {"value_and_grad": lambda x: (value(x), grad(x))}
    parts = parts if fused else {"value": value, "grad": grad}
    return gt.Term(n=N, L=TRUE.L, mu=TRUE.mu, **parts)


@pytest.mark.parametrize("which", ["value", "gradient"])
@pytest.mark.parametrize(
    ("level", "random", "fused"), [(1e-2, True, False), (1e-4, False, False), (1e-4, True, True)]
)
def test_noise_is_called_noise_with_its_level(which, level, random, fused):
    report = gt.check_term(noisy_term(which, level, random, fused))
    (problem,) = report.problems
    assert problem.startswith(f"the {which} is noisy: "), problem
    found = float(problem.partition("a relative noise of ")[2].split(";")[0])
    assert level / 12.0 <= found <= 4.0 * level, problem


def test_noise_that_is_slow_against_the_points_is_seen_by_the_steps():
    """A ripple of period 1e-6: smooth at the distance of the closest points."""
    ripple = gt.Term(
        value=lambda x: TRUE.value(x) * (1.0 + 1e-3 * np.sin(1e7 * x.sum())), grad=TRUE.grad, n=N
    )
    (problem,) = gt.check_term(ripple).problems
    assert problem.startswith("the value is noisy: "), problem


def test_stated_noise_and_single_precision_are_no_problem():
    rng = np.random.default_rng(0)
    stated = gt.Term(
        value=lambda x: TRUE.value(x) + 1e-3 * rng.standard_normal(),
        grad=TRUE.grad,
        n=N,
        noise=1e-3,
    )
    assert gt.check_term(stated).ok
    single = gt.Term(
        value=lambda x: float(np.float32(TRUE.value(x))),
        grad=lambda x: TRUE.grad(x).astype(np.float32),
        n=N,
        L=TRUE.L * 1.01,
    )
    assert gt.check_term(single).ok


def test_values_without_gradients_are_looked_at():
    report = gt.check_term(gt.Term(value=TRUE.value, n=N))
    assert report.ok and "noise" in report.checked and report.calls["value"] <= 8
    rng = np.random.default_rng(0)
    noisy = gt.Term(value=lambda x: TRUE.value(x) * (1 + 1e-2 * rng.standard_normal()), n=N)
    assert "the value is noisy" in gt.check_term(noisy).problems[0]


# Calls -----------------------------------------------------------------------------------------


def expensive(log, parts):
    """`parts` of the logistic term, every call of which is written down."""

    def written(name):
        fn = getattr(TRUE, name)
        return lambda *args: (log.append(name), fn(*args))[1]

    constants = {"L": TRUE.L, "mu": TRUE.mu, "L_coord": TRUE.L_coord}
    return gt.Term(n=N, **{name: written(name) for name in parts}, **constants)


@pytest.mark.parametrize(
    "parts", [("value_and_grad",), ("value", "grad"), ("value", "grad", "products"), ("grad",)]
)
def test_an_expensive_term_is_asked_at_most_sixty_times(parts):
    log = []
    report = gt.check_term(expensive(log, parts))
    assert report.ok and len(log) <= 60
    assert report.calls == {name: log.count(name) for name in log}
    assert sum(report.calls.values()) == len(log)
    assert "L" in report.checked and "calls: " in str(report)


@pytest.mark.parametrize("calls", [1, 5, 20, 40])
def test_the_calls_that_are_granted_are_kept(calls):
    log = []
    report = gt.check_term(expensive(log, ("value", "grad")), calls=calls)
    assert len(log) <= calls and report.ok
    assert report.unchecked and "not finished: " in str(report)
    with pytest.raises(ValueError, match="calls must be positive, got 0"):
        gt.check_term(TRUE, calls=0)


def test_points_outside_of_the_domain_are_left_out():
    """-sum ln x_i: finite for positive x only, and steep towards the boundary."""
    barrier = gt.Term(value=lambda x: -np.log(x).sum(), grad=lambda x: -1.0 / x, n=N)
    report = gt.check_term(barrier, np.full(N, 0.5))
    assert not any("fit" in p or "noisy" in p for p in report.problems), str(report)


def test_what_was_checked_is_told():
    report = gt.check_term(term())
    assert report and "nothing wrong found" in str(report)
    for name in ("Taylor", "mean of components", "partial", "L", "L_coord", "L_components"):
        assert any(name in c for c in report.checked)


def built_in(scale, seed, form):
    """Every built-in term with data of that scale."""
    rng = np.random.default_rng(seed)
    wrap = sparse.csr_array if form == "csr" else np.asarray
    B = rng.standard_normal((M, N))
    labels, targets = rng.choice([-1.0, 1.0], M), rng.standard_normal(M)
    yield gt.Quadratic(wrap(scale * B.T @ B), rng.standard_normal(N))
    yield gt.Quadratic(wrap(scale * np.eye(N)), scale * rng.standard_normal(N))
    yield gt.LogSumExp(wrap(scale * B), rng.standard_normal(N))
    yield gt.LogSumExp(wrap(B), scale * rng.standard_normal(N))
    for loss in COMPILED:
        name, y = loss.name, labels if loss.labels else targets
        yield gt.LinearModel(wrap(scale * B), y, loss=name)
        yield gt.LinearModel(wrap(B), y, loss=name, l2=scale, intercept=True)
        yield scale * gt.LinearModel(wrap(B), y, loss=name)
    yield gt.LinearModel(wrap(B), labels, loss="smoothed_hinge", mu=min(scale, 1.0))
    yield gt.LinearModel(wrap(B), targets, loss="huber", delta=scale)
    model = gt.LinearModel(wrap(B), labels)
    yield gt.Quadratic(wrap(scale * np.eye(N))) + model
    yield gt.Quadratic(wrap(np.eye(N))) - scale * model


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_no_false_alarm(scale, form):
    for one in built_in(scale, 0, form):
        report = gt.check_term(one)
        assert report, f"{one!r}, scale {scale}: {report}"


@pytest.mark.parametrize("size", [0.0, 1e-6, 1e6])
def test_no_false_alarm_at_other_points(size):
    for one in built_in(1.0, 1, "dense"):
        report = gt.check_term(one, size * np.random.default_rng(1).standard_normal(one.n), seed=1)
        assert report, f"{one!r}, |x| ~ {size}: {report}"


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({}, ""),
        ({"diameter": 1.0}, "the stated diameter = 1 is too small: two points of the set are 1.41"),
        ({"lmo": lambda d: np.eye(d.size)[np.argmax(d)]}, "lmo(d) does not minimise <d, v>: it"),
        ({"lmo": lambda d: d[:2]}, "lmo(d) has shape (2,), expected (6,)"),
        ({"lmo": lambda d: d * np.nan}, "lmo(d) contains NaN or infinity"),
        ({"value": lambda x: np.inf}, "the value at lmo(d) is infinite: it is outside of the set"),
        ({"prox": lambda u, alpha: -np.ones(6)}, "lmo(d) does not minimise <d, v>: it"),
    ],
)
def test_linear_minimisations(parts, sentence):
    """Of the simplex, and what is wrong with others."""
    simplex = gt.Simplex()
    term = gt.Term(**{"lmo": simplex.lmo, "value": simplex.value, "diameter": 1.42, "n": 6} | parts)
    report = gt.check_term(term)
    assert "lmo" in report.checked
    if sentence:
        assert any(problem.startswith(sentence) for problem in report.problems), report
    else:
        assert report.ok, report
