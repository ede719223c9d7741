"""Functions of the user: read-only arguments, reused buffers, infinite values, and the guard."""

from __future__ import annotations

import sys

import numba
import numpy as np
import pytest

import geartrain as gt
from geartrain.oracles.ledger import Ledger, NonFiniteAnswer, Oracle
from geartrain.oracles.protocols import Asked, answers

N = 3
X = np.array([1.0, -2.0, 0.5])
D = np.eye(N)[:, :2]


# x is read-only ---------------------------------------------------------------------------------

WRITING = {
    "value": lambda x: x.__setitem__(0, 7.0),
    "grad": lambda x: np.multiply(x, 2.0, out=x),
    "value_and_grad": lambda x: x.sort(),
    "component": lambda x, k: x.fill(0.0),
    "coord": lambda x, i: x.__iadd__(1.0),
    "prox": lambda u, alpha: u.__imul__(alpha),
    "products": lambda x, D: D.__imul__(2.0),
    "second_order": lambda x, D: x.__setitem__(slice(None), 0.0),
}
ARGUMENTS = {"component": (X, 0), "coord": (X, 0), "prox": (X, 1.0)}
ARGUMENTS |= dict.fromkeys(("products", "second_order"), (X, D))


@pytest.mark.parametrize("question", WRITING)
def test_a_function_that_writes_into_its_argument_is_told_so(question):
    term = gt.Term(**{question: WRITING[question]}, n=N, n_components=2)
    before, args = X.copy(), ARGUMENTS.get(question, (X,))
    for ask in (Oracle(term, "h", Ledger(), N), Asked(term), 2.0 * term + term):
        with pytest.raises(
            ValueError, match=r"read-only. A term gets its arguments read-only; a f"
        ):
            getattr(ask, question)(*args)
    with pytest.raises(ValueError, match=r"h\.(\w+) failed: .* must work on a copy, x = x.copy"):
        getattr(Oracle(term, "h", Ledger(), N), question)(*args)
    np.testing.assert_array_equal(X, before)
    np.testing.assert_array_equal(D, np.eye(N)[:, :2])
    assert X.flags.writeable and D.flags.writeable


def test_other_errors_of_a_function_come_through_as_they_are():
    def grad(x):
        raise ValueError("no solution")

    for ask in (Oracle(gt.Term(grad=grad), "h", Ledger(), N), Asked(gt.Term(grad=grad))):
        with pytest.raises(ValueError, match=r"^no solution$"):
            ask.grad(X)


@pytest.mark.same_everywhere  # answers are those of the term, to the bit
def test_a_compiled_function_with_a_stated_signature_works():
    """Such a function accepts writable arrays only; it gets copies."""

    @numba.njit("float64[:](float64[:])")
    def grad(x):
        x[0] = 7.0
        return x

    h = Oracle(gt.Term(grad=grad), "h", Ledger(), N)
    np.testing.assert_array_equal(h.grad(X), [7.0, -2.0, 0.5])
    assert X[0] == 1.0


def test_the_parts_that_monitor_and_randomised_methods_ask_are_protected():
    """Values that are looked at for a record, and summands that a compiled loop asks for."""
    rng = np.random.default_rng(0)
    A, y = rng.standard_normal((20, N)), rng.choice([-1.0, 1.0], 20)
    model, h = gt.LinearModel(A, y, l2=0.1), gt.Quadratic(np.eye(N))

    def component(x, k):
        out = model.component(x, k)
        x[0] = 1e3
        return out

    g = gt.Term(component=component, n=N, n_components=20, L_components=model.L_components, L=1.0)
    with pytest.raises(ValueError, match="read-only"):
        gt.minimize(h, g, method="sae", inner="katyusha", max_iter=3)
    g = gt.Term(grad=model.grad, value=lambda x: x.fill(0.0), L=model.L, n=N)
    with pytest.raises(ValueError, match="read-only"):
        gt.minimize(h, g, method="fgm", stop=gt.stop.Value(-1.0))


# Buffers that are used again --------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda buffer: buffer,  # the same object
        lambda buffer: buffer[:],  # another view of the same memory
        lambda buffer: buffer.reshape(1, N)[0],
        lambda buffer: np.asarray(memoryview(buffer)),
        lambda buffer: buffer.view(np.matrix).A1,
    ],
)
def test_an_answer_is_the_askers_own(make):
    buffer = np.empty(N)

    def grad(x):
        buffer[:] = 2.0 * x
        return make(buffer)

    def second_order(x, D):
        return 0.0, grad(x), columns

    columns = np.ones((N, 2))
    term = gt.Term(grad, grad=grad, prox=lambda u, alpha: grad(u), second_order=second_order)
    term.value_and_grad = lambda x: (1.0, grad(x))
    h = Oracle(term, "h", Ledger(), N)
    answers = [h.grad(X), h.value_and_grad(X)[1], h.prox(X, 1.0), *h.second_order(X, D)[1:]]
    answers.append((2.0 * term).prox(X, 1.0))
    copies = [answer.copy() for answer in answers]
    h.grad(10.0 * X)
    columns[:] = 7.0
    for answer, copy in zip(answers, copies, strict=True):
        np.testing.assert_array_equal(answer, copy)
        assert answer.flags.writeable


def test_an_operator_of_the_user_is_a_function_of_the_user():
    from scipy.sparse.linalg import LinearOperator

    def product(v):
        v *= 2.0
        return v

    operator = LinearOperator((N, N), matvec=product, rmatvec=product, dtype=np.float64)
    for term in (gt.Quadratic(operator), gt.LinearModel(operator, np.ones(N))):
        with pytest.raises(ValueError, match=r"h\.grad failed: .* read-only"):
            Oracle(term, "h", Ledger(), N).grad(X)


@pytest.mark.same_everywhere  # answers are those of the term, to the bit
def test_terms_of_the_library_are_not_copied():
    """Their answers are new arrays; a copy would be one more pass over memory."""
    made = []

    class Spied(gt.Quadratic):
        pass

    term = gt.Quadratic(np.eye(N))
    original = type(term).grad

    def grad(self, x):
        made.append(original(self, x))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gt.Quadratic, "grad", grad)
        assert Oracle(term, "h", Ledger(), N).grad(X) is made[-1]
        foreign = Oracle(Spied(np.eye(N)), "h", Ledger(), N)  # a class of the user may do anything
        assert foreign.grad(X) is not made[-1]


# Infinite values --------------------------------------------------------------------------------


def box(x):
    return 0.0 if (np.abs(x) <= 1.0).all() else np.inf


@pytest.mark.same_everywhere  # answers are those of the term, to the bit
def test_the_value_of_a_term_with_a_proximal_step_only_may_be_infinite():
    indicator = gt.Term(value=box, prox=lambda u, alpha: np.clip(u, -1.0, 1.0), n=N)
    smooth = gt.Quadratic(np.eye(N))
    for term in (indicator, 2.0 * indicator, indicator + smooth, 0.0 * smooth + indicator):
        g = Oracle(term, "g", Ledger(), N)
        assert g.value(X) == np.inf
        assert np.isfinite(g.value(0.1 * X))
    assert Oracle(smooth + 0.0 * indicator, "g", Ledger(), N).value(X) == smooth.value(X)
    for wrong in (-np.inf, np.nan):
        g = Oracle(gt.Term(value=lambda x: wrong, prox=lambda u, alpha: u), "g", Ledger(), N)
        with pytest.raises(NonFiniteAnswer, match=f"g.value answered with {wrong}"):
            g.value(X)
    for term in (gt.Term(value=box), gt.Term(value=box, grad=lambda x: 0.0 * x, prox=abs)):
        with pytest.raises(NonFiniteAnswer, match=r"g.value answered with inf"):
            Oracle(term, "g", Ledger(), N).value(X)


# The guard --------------------------------------------------------------------------------------


class Enough(Exception):
    """What a guard raises."""


def everything():
    return gt.Term(
        lambda x: (0.0, x),
        value=lambda x: 0.0,
        grad=lambda x: x,
        component=lambda x, k: x,
        coord=lambda x, i: 0.0,
        prox=lambda u, alpha: u,
        products=lambda x, D: D,
        second_order=lambda x, D: (0.0, x, D),
        n=N,
        n_components=2,
    )


@pytest.mark.parametrize(
    ("question", "keys"),
    [
        ("value", ["h.value"]),
        ("grad", ["h.grad"]),
        ("value_and_grad", ["h.grad"]),
        ("component", ["h.component"]),
        ("coord", ["h.coord"]),
        ("prox", ["h.prox"]),
        ("products", ["h.product"]),
        ("second_order", ["h.grad", "h.product"]),
    ],
)
def test_the_guard_is_called_before_the_term(question, keys):
    ledger, seen, asked = Ledger(), [], []
    term = everything()
    fn = getattr(term, question)
    setattr(term, question, lambda *args: (asked.append(args), fn(*args))[1])
    h = Oracle(term, "h", ledger, N)
    ledger.guard = lambda key: seen.append((key, len(asked)))
    getattr(h, question)(*ARGUMENTS.get(question, (X,)))
    assert seen == [(key, 0) for key in keys]

    def enough(key):
        raise Enough(key)

    ledger.guard = enough
    before = dict(ledger.calls)
    with pytest.raises(Enough, match=keys[0]):
        getattr(h, question)(*ARGUMENTS.get(question, (X,)))
    assert len(asked) == 1 and ledger.calls == before
    ledger.guard = None
    getattr(h, question)(*ARGUMENTS.get(question, (X,)))
    assert len(asked) == 2


def test_the_guard_is_called_before_a_kernel():
    ledger, ran = Ledger(), []
    h = Oracle(everything(), "h", ledger, N)

    def enough(key):
        raise Enough(key)

    ledger.guard = enough
    with pytest.raises(Enough, match=r"h.component"):
        h.bulk("component", lambda tally: ran.append(1))
    assert not ran


def test_a_derived_answer_is_guarded_as_what_it_asks():
    ledger, seen = Ledger(), []
    h = Oracle(gt.Term(coord=lambda x, i: x[i], n=N), "h", ledger, N)
    ledger.guard = seen.append
    h.grad(X)
    assert seen == ["h.coord"] * N


class Bowl:
    """A term of the user's: nothing is inherited."""

    n = 3

    def value_and_grad(self, x):
        return 0.5 * float(x @ x), x.copy()


def test_an_object_of_the_user_can_stand_on_the_left():
    """As in ``g + gt.L1(0.1)`` with a g of one's own."""
    x, other = np.array([1.0, -2.0, 0.5]), gt.Quadratic(np.diag([3.0, 4.0, 5.0]))
    np.testing.assert_array_equal((Bowl() + other).grad(x), x + other.grad(x))
    np.testing.assert_array_equal((Bowl() - other).grad(x), x - other.grad(x))
    res = gt.minimize(other, Bowl() + gt.L1(0.1), x0=x, method="pqn")
    assert res.success and not res.x.any()
    with pytest.raises(TypeError, match="a term can be added to a term only, got str"):
        "g" + other
    with pytest.raises(TypeError, match="a term can be added to a term only, got int"):
        1 + other


def test_the_sum_of_a_list_of_terms():
    x, terms = np.array([1.0, -2.0, 0.5]), [gt.Quadratic(k * np.eye(3)) for k in (1.0, 2.0, 4.0)]
    np.testing.assert_array_equal(sum(terms).grad(x), 7.0 * x)


# Functions of SciPy, and libraries that are not there ------------------------------------------

CURVED = np.diag([1.0, 4.0, 9.0])
SLOPE = np.array([1.0, 2.0, 3.0])


def fun(x, scale=1.0):
    return scale * (0.5 * x @ CURVED @ x - SLOPE @ x)


def jac(x, scale=1.0):
    return scale * (CURVED @ x - SLOPE)


def test_from_scipy():
    x = np.array([1.0, -1.0, 2.0])
    apart = gt.Term.from_scipy(fun, jac, args=(2.0,), n=3, L=18.0)
    fused = gt.Term.from_scipy(lambda x: (fun(x), jac(x)), True, n=3, L=9.0)
    assert apart.value(x) == fun(x, 2.0) and (apart.grad(x) == jac(x, 2.0)).all()
    value, grad = fused.value_and_grad(x)
    assert value == fun(x) and (grad == jac(x)).all()
    assert (apart.n, apart.L, fused.L) == (3, 18.0, 9.0)
    assert answers(apart) == {"value", "grad"} and answers(fused) == {"value_and_grad"}
    assert fused.value(x) == value and (fused.grad(x) == grad).all()  # for the user alone
    res = gt.minimize(apart, fused, method="sae", tol=1e-9)
    np.testing.assert_allclose(res.x, np.linalg.solve(CURVED, SLOPE), rtol=1e-7)
    with pytest.raises(TypeError, match="jac must be callable or True, got '2-point'"):
        gt.Term.from_scipy(fun, "2-point")
    with pytest.raises(TypeError, match="fun must be callable, got int"):
        gt.Term.from_scipy(3, jac)


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_a_missing_library_is_named(monkeypatch, library):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"pip install geartrain\[{library}\]"):
        getattr(gt, f"from_{library}")(fun)
