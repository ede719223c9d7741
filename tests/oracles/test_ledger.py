"""Every question and every fallback is counted as what was really asked."""

from __future__ import annotations

import numpy as np
import pytest

import geartrain as gt
from geartrain.oracles.ledger import Ledger, NonFiniteAnswer, Oracle
from geartrain.oracles.protocols import MissingOracle, as_term
from geartrain.oracles.questions import kinds

N = 3
X = np.array([1.0, -2.0, 0.5])

pytestmark = pytest.mark.same_everywhere  # answers are those of the term, to the bit


def oracle(name="h", n=N, **callables):
    """An oracle around a Term with these callables, and its ledger."""
    m = 4 if "component" in callables else None
    ledger = Ledger()
    return Oracle(gt.Term(n=n, n_components=m, **callables), name, ledger, n), ledger


def counts(ledger):
    """What is not zero."""
    return {key: c for key, c in ledger.calls.items() if c}


def value(x):
    return 0.5 * float(x @ x)


def grad(x):
    return x.copy()


def fused(x):
    return value(x), grad(x)


def component(x, k):
    return (k + 1) * x / 2.5  # mean of k + 1 over four is 2.5


def coord(x, i):
    return float(x[i])


def prox(u, alpha):
    return alpha * u / (1 + alpha)


ALL = {
    "value": value,
    "grad": grad,
    "value_and_grad": fused,
    "component": component,
    "coord": coord,
    "prox": prox,
}


@pytest.mark.parametrize(
    ("given", "asked", "args", "expected"),
    [
        # The question itself.
        (("value",), "value", (X,), {"h.value": 1}),
        (("grad",), "grad", (X,), {"h.grad": 1}),
        (("value_and_grad",), "value_and_grad", (X,), {"h.grad": 1}),
        (("component",), "component", (X, 2), {"h.component": 1}),
        (("coord",), "coord", (X, 1), {"h.coord": 1}),
        (("prox",), "prox", (X, 2.0), {"h.prox": 1}),
        # A fused call is one gradient, whatever of it was wanted.
        (("value_and_grad",), "value", (X,), {"h.grad": 1}),
        (("value_and_grad",), "grad", (X,), {"h.grad": 1}),
        # Put together from others.
        (("component",), "grad", (X,), {"h.component": 4}),
        (("coord",), "grad", (X,), {"h.coord": N}),
        (("component", "coord"), "grad", (X,), {"h.component": 4}),
        (("value", "grad"), "value_and_grad", (X,), {"h.value": 1, "h.grad": 1}),
        (("value", "component"), "value_and_grad", (X,), {"h.value": 1, "h.component": 4}),
        (("value", "coord"), "value_and_grad", (X,), {"h.value": 1, "h.coord": N}),
        # The cheapest is taken where there are several.
        (tuple(ALL), "value", (X,), {"h.value": 1}),
        (tuple(ALL), "grad", (X,), {"h.grad": 1}),
        (tuple(ALL), "value_and_grad", (X,), {"h.grad": 1}),
    ],
)
def test_counts_and_answers(given, asked, args, expected):
    h, ledger = oracle(**{name: ALL[name] for name in given})
    for times in (1, 2):
        out = getattr(h, asked)(*args)
        assert counts(ledger) == {key: times * c for key, c in expected.items()}
    wanted = {"value": value(X), "grad": X, "component": 3 * X / 2.5, "coord": -2.0}
    wanted["prox"] = 2 * X / 3
    if asked == "value_and_grad":
        assert out[0] == value(X)
        np.testing.assert_allclose(out[1], X, rtol=1e-15)
    else:
        np.testing.assert_allclose(out, wanted[asked], rtol=1e-15)


class Curved:
    """|x|^2 with products, and a fused answer if asked for."""

    n = N

    def __init__(self, fused_answer):
        if fused_answer:
            self.second_order = lambda x, D: (*fused(x), self.products(x, D))

    value_and_grad = staticmethod(fused)
    products = staticmethod(lambda x, D: 1.0 * D)


@pytest.mark.parametrize("fused_answer", [False, True])
def test_products_are_counted_by_columns(fused_answer):
    ledger = Ledger()
    h, D = Oracle(Curved(fused_answer), "h", ledger, N), np.eye(N)[:, :2]
    np.testing.assert_array_equal(h.products(X, D), D)
    assert counts(ledger) == {"h.product": 2}
    f, g, P = h.second_order(X, D)
    assert f == value(X)
    np.testing.assert_array_equal(g, X)
    np.testing.assert_array_equal(P, D)
    assert counts(ledger) == {"h.grad": 1, "h.product": 4}


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (
            np.ones((N, 3)),
            ValueError,
            r"h.products answered with shape \(3, 3\), expected \(3, 2\)",
        ),
        (np.full((N, 2), np.nan), NonFiniteAnswer, "h.product answered with NaN or infinity"),
    ],
)
def test_bad_products_are_refused(answer, error, message):
    term = Curved(False)
    term.products = lambda x, D: answer
    h = Oracle(term, "h", Ledger(), N)
    for ask in (h.products, h.second_order):
        with pytest.raises(error, match=message):
            ask(X, np.eye(N)[:, :2])


@pytest.mark.parametrize("kind", ["value", "grad", "component", "coord", "prox", "products"])
def test_a_missing_question_is_told(kind):
    others = {"prox": prox} if kind != "prox" else {"value": value}
    h, ledger = oracle(**others)
    with pytest.raises(
        MissingOracle, match=f"h has no '{kind}'; it answers only: {next(iter(others))}"
    ):
        getattr(h, kind)
    assert counts(ledger) == {}
    with pytest.raises(AttributeError, match="colour"):
        h.colour  # noqa: B018


def test_two_terms_share_a_ledger_and_all_keys_are_there():
    ledger = Ledger()
    term = gt.Term(fused, n=N)
    h, g = Oracle(term, "h", ledger, N), Oracle(term, "g", ledger, N)
    h.grad(X), g.grad(X), g.value(X)
    assert set(ledger.calls) == {f"{t}.{k}" for t in "hg" for k in kinds()} == set(ledger.seconds)
    assert counts(ledger) == {"h.grad": 1, "g.grad": 2}


def test_seconds_accumulate_and_only_inside_the_oracle(clock):
    def slow(x):
        clock.pass_(0.02)
        return x

    h, ledger = oracle(grad=slow, value=value)
    h.grad(X)
    clock.pass_(0.05)
    h.grad(X)
    assert ledger.seconds["h.grad"] == pytest.approx(0.04)
    assert ledger.seconds["h.value"] == 0.0


def test_bulk_enters_the_tally_of_the_kernel(clock):
    h, ledger = oracle(component=component, grad=grad)

    def kernel(tally, x, steps):
        assert tally.dtype == np.int64 and tally.shape == (1,) and tally[0] == 0
        for _ in range(steps):
            tally[0] += 1
        clock.pass_(0.01)
        return 2 * x

    np.testing.assert_array_equal(h.bulk("component", kernel, X, 17), 2 * X)
    h.bulk("component", kernel, X, 5)
    assert counts(ledger) == {"h.component": 22}
    assert ledger.seconds["h.component"] == pytest.approx(0.02)


def test_bulk_loses_nothing_when_the_kernel_fails():
    h, ledger = oracle(component=component, grad=grad)

    def kernel(tally):
        tally[0] += 3
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        h.bulk("component", kernel)
    assert counts(ledger) == {"h.component": 3}


@pytest.mark.parametrize("form", [list, tuple, np.float32, lambda v: v.astype(int)])
def test_answers_in_other_forms(form):
    x = np.array([1.0, 2.0, 3.0])
    h, _ = oracle(grad=lambda x: form(x))
    out = h.grad(x)
    assert out.dtype == np.float64 and type(out) is np.ndarray
    np.testing.assert_array_equal(out, x)


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (np.zeros(4), ValueError, r"h.grad answered with shape \(4,\), expected \(3,\)"),
        (1.0, ValueError, r"h.grad answered with shape \(\), expected \(3,\)"),
        ("abc", TypeError, "h.grad must answer with an array of 3 real numbers, got str"),
        (None, TypeError, "h.grad must answer with an array of 3 real numbers, got NoneType"),
        ([[1.0], [2.0, 3.0]], TypeError, "h.grad must answer with an array of 3 real numbers"),
        (1j * np.ones(3), TypeError, "array of 3 real numbers, got ndarray of complex128"),
        (np.array([1.0, np.nan, 0]), NonFiniteAnswer, "h.grad answered with NaN or infinity"),
        ([1.0, np.inf, 0], NonFiniteAnswer, "h.grad answered with NaN or infinity"),
    ],
)
def test_wrong_gradients(answer, error, message):
    h, ledger = oracle(grad=lambda x: answer)
    with pytest.raises(error, match=message):
        h.grad(X)
    assert counts(ledger) == {"h.grad": 1}  # it was asked all the same


def test_large_finite_gradients_pass():
    h, _ = oracle(grad=lambda x: np.full(3, 1e300))  # whose dot product overflows
    with np.errstate(over="ignore"):
        assert h.grad(X)[0] == 1e300


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (np.zeros(2), TypeError, r"h.value must answer with one real number, got shape \(2,\)"),
        ("abc", TypeError, "h.value must answer with one real number, got str"),
        (None, TypeError, "h.value must answer with one real number, got NoneType"),
        (1j, TypeError, "h.value must answer with one real number, got complex"),
        (np.nan, NonFiniteAnswer, "h.value answered with nan"),
        (-np.inf, NonFiniteAnswer, "h.value answered with -inf"),
    ],
)
def test_wrong_values(answer, error, message):
    h, ledger = oracle(value=lambda x: answer)
    with pytest.raises(error, match=message):
        h.value(X)
    assert counts(ledger) == {"h.value": 1}


@pytest.mark.parametrize("answer", [2, np.float32(2), np.float64(2), np.array(2.0), np.int64(2)])
def test_values_in_other_forms(answer):
    h, _ = oracle(value=lambda x: answer)
    assert h.value(X) == 2.0 and type(h.value(X)) is float


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (X, TypeError, r"h.value_and_grad must answer with a pair \(value, gradient\), got ndarr"),
        ((1.0, X, X), TypeError, "must answer with a pair"),
        ((X, X), TypeError, r"h.value_and_grad must answer with one real number, got shape \(3,\)"),
        ((np.nan, X), NonFiniteAnswer, "h.grad answered with the value nan"),
        ((1.0, np.full(3, np.nan)), NonFiniteAnswer, "h.grad answered with NaN or infinity"),
        ((1.0, np.zeros(2)), ValueError, r"h.grad answered with shape \(2,\)"),
    ],
)
def test_wrong_fused_answers(answer, error, message):
    h, _ = oracle(value_and_grad=lambda x: answer)
    with pytest.raises(error, match=message):
        h.value_and_grad(X)


@pytest.mark.parametrize("method", ["afb", "fgm", "lbfgs"])
def test_looking_on_changes_no_count(pair, method, capsys):
    stop = gt.stop.Gradient(rel=1e-4)
    quiet = gt.minimize(*pair, method=method, stop=stop, max_iter=60)
    seen = []
    watched = gt.minimize(
        *pair,
        method=method,
        stop=gt.stop.any_of(gt.stop.Value(-1e300), stop),  # looks at f in every iteration
        max_iter=60,
        callback=[seen.append, lambda intermediate_result: seen.append(intermediate_result.fun)],
        progress=True,
    )
    # res.fun and f(x0), which the watched run knows from looking, cost the quiet one values.
    for key, calls in quiet.calls.items():
        assert calls - watched.calls[key] in ((0, 1, 2) if key.endswith(".value") else (0,))
    assert watched.nit == quiet.nit
    assert len(seen) == 2 * len(quiet.history.rows)
    assert np.isfinite(watched.history["f"]).all()
    assert "h.grad" in capsys.readouterr().err


def test_observers_hear_answers_that_are_given_and_derived():
    """In any order, until they leave."""
    ledger, first, second = Ledger(), [], []
    h = Oracle(gt.Term(lambda x: (x @ x, 2.0 * x), n=2), "h", ledger, 2)
    ends = [
        h.observe(["grad"], lambda question, args, answer: first.append(answer)),
        h.observe(
            ["value_and_grad", "grad"], lambda question, args, answer: second.append(question.name)
        ),
    ]
    x = np.ones(2)
    np.testing.assert_array_equal(h.grad(x), [2.0, 2.0])
    assert len(first) == 1 and second == ["value_and_grad", "grad"]
    ends[0]()
    h.grad(x)
    assert len(first) == 1 and len(second) == 4
    ends[1]()
    h.grad(x)
    assert len(second) == 4 and ledger.calls["h.grad"] == 3


def test_the_last_values_that_came_with_gradients_are_remembered():
    h = Oracle(gt.Quadratic(np.eye(2)), "h", Ledger(), 2)
    for k in range(6):
        h.value_and_grad(np.full(2, float(k)))
    h.value(np.zeros(2))
    assert [value for _, value in h.recent] == [4.0, 9.0, 16.0, 25.0]


class Plain:
    """A term of the user that says little about itself."""

    mu = None

    def grad(self, x):
        return 2.0 * x


def test_an_object_of_the_user_is_completed_once():
    plain = Plain()
    known = as_term(plain)
    assert as_term(plain) is known and as_term(known) is known
    assert (known.convex, known.mu, known.L, known.n, known.noise) == (True, 0.0, None, None, 0.0)
    plain.L = 2.0  # what it states later counts, too
    assert known.L == 2.0 and repr(known) == repr(plain) and known.grad(3.0) == 6.0
    assert Oracle(plain, "h", Ledger(), 2).term is known
    assert (gt.Quadratic(np.eye(2)) + plain).parts[1][1] is known
    own = gt.Quadratic(np.eye(2))
    assert as_term(own) is own and own.n_components is None
