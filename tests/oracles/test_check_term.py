"""check_term: a sentence for each kind of error, and no false alarm."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import geartrain as gt
from geartrain.oracles.losses import LOSSES

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


BUFFER = np.empty(N)


def into_buffer(x):
    BUFFER[:] = TRUE.grad(x)
    return BUFFER


def mutating(x):
    out = TRUE.grad(x)
    x += 1.0
    return out


# Paper: Assumption 1
@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        (term(grad=lambda x: -TRUE.grad(x)), "the gradient does not fit the value: the Taylor"),
        (term(grad=one_entry_off), "the gradient does not fit the value: the Taylor error falls"),
        (term(grad=lambda x: TRUE.grad(x)[::-1]), "does not fit the value"),
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
        (quadratic(L=0.99 * HIGH), "is too small: a pair of points was met"),
        (quadratic(L=0.1 * HIGH, mu=0.0), "is too small: a pair of points was met"),
        (quadratic(mu=1.01 * LOW), f"the stated mu = {1.01 * LOW:.6g} is too large: curvature"),
        (quadratic(mu=0.9 * HIGH), "is too large: curvature"),
        (term(L_coord=0.5 * TRUE.L_coord), "is too small: the partial derivative changes"),
        (term(L_components=0.2 * TRUE.L_components), "is too small: that summand's gradient"),
        (gt.Term(value=lambda x: -EXACT.value(x), grad=lambda x: -EXACT.grad(x), n=N), "not conv"),
        (
            gt.Term(value=lambda x: np.cos(x).sum(), grad=lambda x: -np.sin(x), n=N, L=1.0),
            "the term is not convex: curvature",
        ),
        (term(grad=lambda x: TRUE.grad(x)[:-1]), "the gradient has shape (5,), expected (6,)"),
        (term(grad=lambda x: TRUE.grad(x)[:, None]), "the gradient has shape (6, 1), expected"),
        (term(grad=with_nan), "the gradient contains NaN or infinity"),
        (term(grad=lambda x: 1j * x), "the gradient is made of complex128"),
        (term(value=lambda x: np.nan), "the value is nan"),
        (term(value=lambda x: x[:1]), "the value is an array of shape (1,), expected a number"),
        (
            term(value_and_grad=lambda x: (TRUE.value(x) + 1e-6, TRUE.grad(x))),
            "value_and_grad gives the value",
        ),
        (
            term(value_and_grad=lambda x: (TRUE.value(x), TRUE.grad(x) * (1 + 1e-7))),
            "value_and_grad and grad give different gradients",
        ),
        (quadratic(prox=lambda u, alpha: EXACT.prox(u, 2 * alpha)), "prox(u, alpha) does not min"),
        (quadratic(prox=lambda u, alpha: u[:2]), "prox has shape (2,), expected (6,)"),
        (term(grad=into_buffer), "answered in the same array every time"),
        (term(grad=mutating), "asking for the gradient changes x"),
        (gt.Term(value=TRUE.value, coord=lambda x, i: 2 * x[i], n=N), "does not fit the value"),
    ],
)
def test_each_error_has_its_sentence(broken, sentence):
    for seed in range(3):
        report = gt.check_term(broken, seed=seed)
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


def test_a_difference_said_to_be_non_convex_is_fine():
    assert gt.check_term(EXACT - 3.0 * TRUE)


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
    for name, loss in LOSSES.items():
        y = labels if loss.labels else targets
        yield gt.LinearModel(wrap(scale * B), y, loss=name)
        yield gt.LinearModel(wrap(B), y, loss=name, l2=scale, intercept=True)
        yield scale * gt.LinearModel(wrap(B), y, loss=name)
    yield gt.LinearModel(wrap(B), labels, loss="smoothed_hinge", mu=min(scale, 1.0))
    yield gt.LinearModel(wrap(B), targets, loss="huber", delta=scale)
    model = gt.LinearModel(wrap(B), labels)
    yield gt.Quadratic(wrap(scale * np.eye(N))) + model
    yield gt.Quadratic(wrap(np.eye(N))) - scale * model


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 1e3, 1e6])
def test_no_false_alarm(scale, form):
    for seed in range(3 if form == "dense" else 1):
        for one in built_in(scale, seed, form):
            report = gt.check_term(one, seed=seed)
            assert report, f"{one!r}, scale {scale}, seed {seed}: {report}"


@pytest.mark.parametrize("size", [0.0, 1e-6, 1e6])
def test_no_false_alarm_at_other_points(size):
    for seed in range(3):
        for one in built_in(1.0, seed, "dense"):
            x = size * np.random.default_rng(seed).standard_normal(one.n)
            report = gt.check_term(one, x, seed=seed)
            assert report, f"{one!r}, |x| ~ {size}, seed {seed}: {report}"
