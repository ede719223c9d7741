"""The table of questions: one entry adds a question everywhere."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import geartrain as gt
from geartrain.core.history import label
from geartrain.core.loop import basic_calls
from geartrain.core.resume_check import changed
from geartrain.methods.planning.bill import Bill, Prices
from geartrain.oracles import answers, can, require
from geartrain.oracles.answer_cache import PaidValues, StartGradients
from geartrain.oracles.ledger import Ledger, NonFiniteAnswer, Oracle, in_gradients
from geartrain.oracles.protocols import Asked, MissingOracle
from geartrain.oracles.questions import (
    COLUMNS,
    NUMBER,
    QUESTIONS,
    VECTOR,
    Question,
    Way,
    asked_of_inner,
    kinds,
    markdown_table,
)
from geartrain.oracles.sum_oracle import Together

pytestmark = pytest.mark.same_everywhere  # which questions are passed on

DOCS = Path(__file__).parents[2] / "docs"
N = 4
RNG = np.random.default_rng(3)
X, S = RNG.standard_normal(N), RNG.standard_normal(N)
Q = np.diag([1.0, 2.0, 3.0, 4.0])


def check_slope(checker):
    """The slope is that of the gradient."""
    checker.checked.append("slope")
    s = checker.direction()
    if not np.isclose(checker.term.slope(checker.x, s), checker.grad(checker.x) @ s):
        checker.problems.append("the slope is not that of the gradient")


SLOPE = Question(
    "slope",
    "x, s",
    (NUMBER,),
    words="the slope along a direction",
    meaning="<grad(x), s>",
    key="slope",
    counted="slopes",
    setting="coordinate",
    ways=(Way(("grad",), lambda asked, x, s: float(asked.grad(x) @ s)),),
    lifts=True,
    per_gradient=lambda n, m: n,
    check=check_slope,
)
DIAGONAL = Question(
    "diagonal",
    "x",
    (VECTOR,),
    words="the diagonal of its Hessian",
    meaning="diagonal of the Hessian",
    key="diagonal",
)
MODEL = Question(
    "model",
    "x",
    (NUMBER, VECTOR, VECTOR),
    words="its value, gradient and diagonal",
    meaning="value, gradient and diagonal of the Hessian in one call",
    key="grad",
    tells=("value", "grad", "diagonal"),
)


@pytest.fixture(autouse=True)
def three_more(monkeypatch):
    """Three questions that the library does not have: one entry each, and nothing else."""
    for question in (SLOPE, DIAGONAL, MODEL):
        monkeypatch.setitem(QUESTIONS, question.name, question)


def term(scale=1.0, **changes):
    functions = {
        "grad": lambda x: scale * Q @ x,
        "slope": lambda x, s: scale * float((Q @ x) @ s),
        "diagonal": lambda x: scale * np.diag(Q),
    }
    return gt.Term(n=N, L=4.0 * scale, **{**functions, **changes})


def test_it_is_counted_and_its_answers_are_examined():
    ledger = Ledger()
    h = Oracle(term(), "h", ledger, N)
    assert h.slope(X, S) == pytest.approx((Q @ X) @ S)
    np.testing.assert_array_equal(h.diagonal(X), np.diag(Q))
    assert {k: c for k, c in ledger.calls.items() if c} == {"h.slope": 1, "h.diagonal": 1}
    assert {"g.slope", "g.diagonal"} <= ledger.calls.keys() == ledger.seconds.keys()
    assert in_gradients(ledger.calls, "h", N) == 1 / N  # a slope is an n-th of a gradient
    bad = Oracle(term(slope=lambda x, s: np.nan, diagonal=lambda x: x[:2]), "h", Ledger(), N)
    with pytest.raises(NonFiniteAnswer, match=r"h\.slope answered with nan"):
        bad.slope(X, S)
    with pytest.raises(ValueError, match=r"h.diagonal answered with shape \(2,\), expected \(4,"):
        bad.diagonal(X)


def test_it_is_derived_from_other_answers_and_counted_as_those():
    plain = gt.Quadratic(Q)
    assert can(plain, "slope") and "slope" not in answers(plain)
    ledger = Ledger()
    assert Oracle(plain, "h", ledger, N).slope(X, S) == pytest.approx((Q @ X) @ S)
    assert ledger.calls["h.grad"] == 1 and ledger.calls["h.slope"] == 0


def test_it_is_required_by_name():
    require("Method", "h", gt.Quadratic(Q), "slope")
    with pytest.raises(MissingOracle, match=r"Method asks h for the diagonal of its Hessian \('d"):
        require("Method", "h", gt.Quadratic(Q), "diagonal")
    with pytest.raises(MissingOracle, match="g has no 'diagonal'; it answers only: "):
        Oracle(gt.Quadratic(Q), "g", Ledger(), N).diagonal  # noqa: B018


def test_sums_multiples_and_differences_answer_it():
    total = 2.0 * term() - term(0.5)
    assert {"slope", "diagonal", "grad"} <= answers(total)
    assert total.slope(X, S) == pytest.approx(1.5 * (Q @ X) @ S)
    np.testing.assert_allclose(total.diagonal(X), 1.5 * np.diag(Q))
    mixed = term() + gt.Quadratic(Q)  # one part has no diagonal; the slope is derived
    assert "diagonal" not in answers(mixed)
    assert mixed.slope(X, S) == pytest.approx(2.0 * (Q @ X) @ S)


def test_a_geometry_lifts_it_where_that_makes_sense():
    d = np.array([1.0, 2.0, 4.0, 8.0])
    space = gt.geometry.Diagonal(d)
    pair = space.term(term(), "h")
    assert "slope" in answers(pair) and "diagonal" not in answers(pair)
    assert pair.slope(space.enter(X), space.enter(S)) == pytest.approx((Q @ X) @ S)


def test_it_is_checked():
    assert gt.check_term(term()).ok and "slope" in gt.check_term(term()).checked
    report = gt.check_term(term(slope=lambda x, s: 2.0 * float((Q @ x) @ s)))
    assert "the slope is not that of the gradient" in report.problems


def test_it_is_compared_when_a_run_goes_on():
    heard = ("slope", (X, S), float((Q @ X) @ S))
    assert changed(term(), heard) == ""
    assert "its answer to 'slope' at a point of the run differs" in changed(term(1.01), heard)


def test_a_term_takes_what_is_in_the_table_and_nothing_else():
    with pytest.raises(TypeError, match=r"Term has no parameter 'hessian'; the functions .* slope"):
        gt.Term(hessian=lambda x: Q)
    with pytest.raises(TypeError, match="Term: slope must be callable, got float"):
        gt.Term(slope=1.0)


def test_it_is_in_the_table_of_the_documentation():
    row = r"| `slope(x, s) -> float` | <grad(x), s> | `slope` | |"
    assert row in markdown_table().splitlines()
    for page in ("guide/separation.md", "reference/terms.md"):  # written when the pages are built
        assert "```{include} ../generated/questions.md" in (DOCS / page).read_text()


def test_an_entry_that_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="question 'q' needs a key or a column_key"):
        Question("q", "x", (NUMBER,), words="q", meaning="q")
    with pytest.raises(ValueError, match="question 'q' has more than two arguments"):
        Question("q", "x, y, z", (NUMBER,), words="q", meaning="q", key="q")
    with pytest.raises(ValueError, match=r"question 'q': an answer has no parts \['matrix'\]"):
        Question("q", "x", ("matrix",), words="q", meaning="q", key="q")


def test_the_order_of_the_columns_of_calls_is_kept(monkeypatch):
    monkeypatch.undo()
    assert kinds() == ("grad", "value", "component", "coord", "prox", "product", "lmo", "operator")


# What the entries of the library mean -------------------------------------------------------------


def test_every_way_answers_what_the_term_itself_would():
    """Each derived answer against the one of the term, alone and through an oracle."""
    A, y = RNG.standard_normal((6, N)), np.array([1.0, -1.0, 1.0, 1.0, -1.0, -1.0])
    model, D = gt.LinearModel(A, y, l2=0.1), RNG.standard_normal((N, 2))
    arguments = {"x": X, "x, k": (X, 1), "x, i": (X, 1), "u, alpha": (X, 2.0), "x, D": (X, D)}
    tried = 0
    for question in QUESTIONS.values():
        for way in question.ways:
            if question is SLOPE:
                continue
            own = {need: getattr(model, need) for need in way.needs}
            poor = gt.Term(**own, n=N, n_components=6, M3=1.0, L=model.L)
            args = arguments[question.arguments]
            args = args if isinstance(args, tuple) else (args,)
            truth = getattr(Asked(model), question.name)(*args)
            got = getattr(Oracle(poor, "h", Ledger(), N), question.name)(*args)
            entries = zip(got, truth, strict=True) if isinstance(truth, tuple) else [(got, truth)]
            for a, b in entries:
                np.testing.assert_allclose(a, b, rtol=1e-12 if way.exact else 1e-7, atol=1e-14)
            assert can(poor, question.name) == way.exact
            assert hasattr(Asked(poor), question.name) == way.exact
            tried += 1
    assert tried == 8


def test_a_sum_with_products_and_a_fused_answer():
    A, y = RNG.standard_normal((6, N)), np.array([1.0, -1.0, 1.0, 1.0, -1.0, -1.0])
    model, quadratic = gt.LinearModel(A, y), gt.Quadratic(Q, np.ones(N))
    difference, D = model - 0.5 * quadratic, RNG.standard_normal((N, 3))
    want = model.products(X, D) - 0.5 * Q @ D
    np.testing.assert_allclose(difference.products(X, D), want, rtol=1e-13)
    value, grad, columns = difference.second_order(X, D)
    assert value == pytest.approx(model.value(X) - 0.5 * quadratic.value(X), rel=1e-13)
    np.testing.assert_allclose(grad, model.grad(X) - 0.5 * quadratic.grad(X), rtol=1e-13)
    np.testing.assert_allclose(columns, want, rtol=1e-13)
    copy = pickle.loads(pickle.dumps(difference))
    np.testing.assert_array_equal(copy.products(X, D), difference.products(X, D))


def test_pairs_of_a_geometry_have_products():
    """[M^{-1} H u; H u] for the columns [u; M u]: the Hessian in the inner product of M."""
    M = Q + 0.5
    space, quadratic = gt.geometry.Preconditioned(M), gt.Quadratic(np.diag([4.0, 3.0, 2.0, 1.0]))
    D = np.column_stack([space.enter(u) for u in np.eye(N)[:2]])
    pair = space.term(quadratic, "h")
    want = np.vstack([np.linalg.solve(M, quadratic.Q[:, :2]), quadratic.Q[:, :2]])
    np.testing.assert_allclose(pair.products(space.enter(X), D), want, rtol=1e-12, atol=1e-14)
    empty = pair.products(space.enter(X), D[:, :0])
    assert empty.shape == (2 * N, 0)
    assert QUESTIONS["products"].answer == (COLUMNS,)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_a_quadratic_is_pickled_after_use(form):
    term = gt.Quadratic(form(np.diag([1.0, 2.0, 3.0])), np.ones(3))
    step = term.prox(np.ones(3), 2.0)
    copy = pickle.loads(pickle.dumps(term))
    assert np.array_equal(copy.prox(np.ones(3), 2.0), step) and copy.L == term.L


def test_oracles_that_are_asked_together_answer_it():
    ledger = Ledger()
    both = Together((Oracle(term(), "h", ledger, N), Oracle(term(2.0), "g", ledger, N)))
    assert both.slope(X, S) == pytest.approx(3.0 * (Q @ X) @ S)
    np.testing.assert_allclose(both.diagonal(X), 3.0 * np.diag(Q))
    assert {k: c for k, c in ledger.calls.items() if c} == dict.fromkeys(
        ("h.slope", "g.slope", "h.diagonal", "g.diagonal"), 1
    )
    assert not hasattr(both, "prox")


def test_axes_and_bills_have_words_for_it():
    assert label("h.slope") == "slopes of $h$" and label("far.diagonal") == "diagonal of far"
    ledger = Ledger()
    Oracle(term(), "h", ledger, N).slope(X, S)
    bill = Bill.of(ledger, Prices({"h.slope": 2.0}))
    assert bill.total == 2.0 and "1 slopes of h" in str(bill)


def test_inner_methods_may_rest_on_it():
    g = Oracle(term(), "g", Ledger(), N)
    g.slope(X, S), g.slope(X, S), g.grad(X)
    assert asked_of_inner(("slope",)).setting == "coordinate"
    assert basic_calls(g, ("slope",)) == 2 + N  # a gradient is n slopes


def model(scale):
    """A term of the user that answers the new question alone."""
    return gt.Term(n=N, model=lambda x: (0.5 * scale * x @ Q @ x, scale * Q @ x, np.diag(Q)))


def test_what_it_tells_is_remembered_and_heard():
    ledger = Ledger()
    h, g = Oracle(model(1.0), "h", ledger, N), Oracle(model(2.0), "g", ledger, N)
    start = StartGradients((h, g), X, np.linalg.norm)
    h.model(X), g.model(X)
    start.close()
    assert PaidValues((h, g), np.linalg.norm).f(X) == pytest.approx(1.5 * X @ Q @ X)
    np.testing.assert_allclose(start.total(), 3.0 * Q @ X)
    assert ledger.calls["h.grad"] == ledger.calls["g.grad"] == 1
    assert ledger.calls["h.value"] == ledger.calls["g.value"] == 0
