"""Bad input: each has its own clear error."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import Bounds

import geartrain as gt
from geartrain.oracles.protocols import MissingOracle
from geartrain.problem import MissingConstant

pytestmark = pytest.mark.same_everywhere  # messages

EYE = np.eye(3)
Q = gt.Quadratic(EYE, b=np.ones(3))
NAN = np.array([[1.0, np.nan], [np.nan, 1.0]])


def zero(x):
    return 0.0, np.zeros_like(x)


def is_told(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        # Shapes.
        (lambda: gt.Quadratic(np.ones((2, 3))), ValueError, r"Q must be square, got shape \(2, 3"),
        (lambda: gt.Quadratic(np.ones(3)), ValueError, r"Q must be two-dimensional, got shape"),
        (lambda: gt.Quadratic(EYE, b=[1, 2]), ValueError, "b must have length 3, got 2"),
        (lambda: gt.Quadratic(EYE, b=EYE), ValueError, r"b must be one-dimensional.*\.ravel"),
        (lambda: gt.Quadratic("Q"), TypeError, "Q must be a two-dimensional array of real"),
        (lambda: gt.Quadratic(1j * EYE), TypeError, "Q must be real, got complex numbers"),
        (
            lambda: gt.Quadratic(sparse.csr_array(1j * EYE)),
            TypeError,
            "Q must be real, got complex numbers",
        ),
        (lambda: gt.Quadratic([[1, 2], [0, 1]]), ValueError, r"symmetric.*pass \(Q \+ Q.T\) / 2"),
        (lambda: gt.LinearModel(EYE, [1, 1]), ValueError, "y must have length 3, got 2"),
        (lambda: gt.LinearModel(EYE[:0], []), ValueError, "A has no rows"),
        (lambda: gt.LogSumExp(EYE, c=[1.0]), ValueError, "c must have length 3, got 1"),
        (lambda: gt.LogSumExp(EYE[:0]), ValueError, "A has no rows"),
        # NaN in data.
        (lambda: gt.Quadratic(NAN), ValueError, "Q contains NaN or infinity"),
        (lambda: gt.Quadratic(sparse.csr_array(NAN)), ValueError, "Q contains NaN or infinity"),
        (lambda: gt.Quadratic(EYE, b=[1, np.inf, 0]), ValueError, "b contains NaN or infinity"),
        (lambda: gt.LinearModel(NAN, [1, 1]), ValueError, "A contains NaN or infinity"),
        (lambda: gt.LinearModel(EYE, [1, np.nan, 1]), ValueError, "y contains NaN or infinity"),
        (lambda: gt.LogSumExp(NAN), ValueError, "A contains NaN or infinity"),
        # Losses.
        (lambda: gt.LinearModel(EYE, [0, 1, 1]), ValueError, r"needs labels -1 and \+1, got 0, 1"),
        (lambda: gt.LinearModel(EYE, [1, 1, 1], loss="hing"), ValueError, "unknown loss 'hing'"),
        (
            lambda: gt.LinearModel(EYE, [1, 1, 1], loss="huber", mu=1.0),
            TypeError,
            "no argument 'mu'; parameters of loss 'huber': delta",
        ),
        (
            lambda: gt.LinearModel(EYE, [1, 1, 1], loss="huber", delta=0.0),
            ValueError,
            "delta of loss 'huber' must be a positive number, got 0",
        ),
        (lambda: gt.LinearModel(EYE, [1, 1, 1], l2=-1), ValueError, "l2 must be at least 0"),
        # Terms.
        (lambda: gt.Term(), TypeError, "Term needs at least one callable"),
        (lambda: gt.Term(3), TypeError, "value_and_grad must be callable, got int"),
        (lambda: gt.Term(component=zero), TypeError, "component needs n_components"),
        (lambda: gt.Term(zero, L=0), ValueError, "L must be positive, got 0"),
        (lambda: gt.Term(zero, L=-1), ValueError, "L must be positive, got -1"),
        (lambda: gt.Term(zero, L=np.nan), ValueError, "L must be finite, got nan"),
        (lambda: gt.Term(zero, L="1 m"), TypeError, "L must be a number, got '1 m'"),
        (lambda: gt.Term(zero, mu=-1), ValueError, "mu must be at least 0, got -1"),
        (lambda: gt.Term(zero, L=1, mu=2), ValueError, "mu = 2 exceeds L = 1: no function has th"),
        (lambda: gt.Term(zero, n=2, L_coord=[1]), ValueError, "L_coord must have length 2, got 1"),
        (lambda: gt.Term(zero, L_coord=[-1]), ValueError, "L_coord must not be negative"),
        (lambda: gt.Term(zero, n=2.5), TypeError, "n must be a whole number, got 2.5"),
        (lambda: gt.Term(zero, n=0), ValueError, "n must be at least 1, got 0"),
        (
            lambda: gt.Term(component=zero, n_components=0),
            ValueError,
            "n_components must be at least 1, got 0",
        ),
        # Algebra.
        (lambda: Q + gt.Quadratic(np.eye(2)), ValueError, r"different dimensions .*\[2, 3\]"),
        (lambda: Q * "a", TypeError, "the factor of a term must be a number, got 'a'"),
        (lambda: np.ones(3) * Q, TypeError, "the factor of a term must be a number, got array"),
        (lambda: np.nan * Q, ValueError, "the factor of a term must be finite, got nan"),
        (lambda: Q + 1.0, TypeError, "a term can be added to a term only, got float"),
        (lambda: Q + Bounds(0, 1), TypeError, "got Bounds; bounds become a term by gt.Box"),
        (lambda: gt.minimize(Q, Bounds(0, 1)), TypeError, r"got Bounds \(write gt.Box"),
        (lambda: Q - np.ones(3), TypeError, "a term can be added to a term only, got ndarray"),
        # Non-smooth terms.
        (lambda: gt.Ball(1.0, np.nan), ValueError, "center must be finite, got nan"),
        (lambda: gt.GroupL1(1e300, 1.0), TypeError, "groups must be a whole number, .* got 1e"),
        (lambda: gt.L1(weight for weight in (1, 2)), TypeError, "lam must be a num.* got <gen"),
        (lambda: gt.Box(Bounds(1j, 2)), TypeError, "Box: lower must be numbers, got .*1j"),
    ],
)
def test_terms(make, error, message):
    is_told(make, error, message)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"x0": [1.0, 2.0]}, ValueError, "x0 must have length 3, got 2"),
        ({"x0": np.ones((4, 1))}, ValueError, "x0 must have length 3, got 4"),
        ({"L_h": 0.0}, ValueError, "L_h must be positive, got 0"),
        ({"L_h": -1.0}, ValueError, "L_h must be positive, got -1"),
        ({"L_g": 0.0}, ValueError, "L_g must be positive, got 0"),
        ({"L_g": np.inf}, ValueError, "L_g must be finite, got inf"),
        ({"mu": -0.1}, ValueError, "mu must be at least 0, got -0.1"),
        ({"mu": 3.0}, ValueError, r"mu = 3 exceeds L_h \+ L_g = 2: no function has that"),
        ({"mu": "big"}, TypeError, "mu must be a number, got 'big'"),
        ({"tol": 0.0}, ValueError, "tol must be positive, got 0"),
        ({"max_iter": -1}, ValueError, "max_iter must be at least 0, got -1"),
        ({"max_iter": 2.5}, TypeError, "max_iter must be a whole number, got 2.5"),
        ({"seed": -1}, ValueError, "seed must be at least 0, got -1"),
        ({"seed": None}, TypeError, "seed must be a whole number, got None"),
        (
            {"stop": 1e-3},
            TypeError,
            "stop must be a rule such as gt.stop.Gradient",
        ),
        ({"callback": 3}, TypeError, "callback must be callable or a list of callables, got 3"),
        ({"callback": [3]}, TypeError, "callback must be callable or a list of callables, got 3"),
        ({"method": "sea"}, ValueError, "unknown method 'sea'; did you mean 'sae'[?] Choose one"),
        ({"method": "simplex"}, ValueError, "unknown method 'simplex'. Choose one of auto, sae,"),
        ({"method": "sae", "inner": "agn"}, ValueError, "inner method 'agn'; did you mean 'agm'"),
        ({"method": gt.SAE(), "inner": "agm"}, TypeError, "inner= goes with a method given by na"),
        (
            {"method": "sae", "inner": np.ones(3)},
            TypeError,
            "inner must be a name or an inner meth",
        ),
        ({"inner": np.ones(3)}, TypeError, "inner must be a name or an inner method"),
        (
            {"record": 1.0},
            ValueError,
            "record must be 'f', 'grad_norm' or both as a tuple, got 1.0",
        ),
    ],
)
def test_arguments_of_minimize(arguments, error, message):
    is_told(lambda: gt.minimize(Q, Q, **arguments), error, message)


def test_numpy_numbers_are_factors():
    for two in (2, np.float64(2), np.float32(2), np.int64(2)):
        np.testing.assert_array_equal((two * Q).grad(np.ones(3)), 2 * Q.grad(np.ones(3)))
        np.testing.assert_array_equal((Q * two).grad(np.ones(3)), 2 * Q.grad(np.ones(3)))


def test_terms_of_minimize():
    is_told(lambda: gt.minimize(Q, None), TypeError, "g must be a term .* got NoneType")
    is_told(lambda: gt.minimize(zero, Q), TypeError, r"h must be a term .*gt.Term\(value_and_grad")
    small = gt.Quadratic(np.eye(2))
    is_told(lambda: gt.minimize(Q, small), ValueError, "h has dimension 3 but g has 2")
    free = gt.Term(zero, L=1.0)
    is_told(lambda: gt.minimize(free, free), ValueError, "x0 is needed: neither h nor g knows")


def test_x0_and_state_together():
    state = gt.minimize(Q, Q, max_iter=1).state
    is_told(lambda: gt.minimize(Q, Q, [1.0] * 3, state=state), TypeError, "x0 or state, not both")
    is_told(lambda: gt.minimize(Q, Q, state="old"), TypeError, "state must be res.state of an earl")


def test_x0_is_not_changed():
    x0 = np.array([1.0, 2.0, 3.0])
    for method in ("sae", "afb", "fgm", "lbfgs"):
        gt.minimize(Q, Q, x0, method=method)
        np.testing.assert_array_equal(x0, [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("method", "inner", "role", "message"),
    [
        ("sae", "auto", "h", r"SAE asks h for its gradient \('grad'\), but h = Term\(value, n=3"),
        ("fgm", "auto", "g", r"FGM asks g for its gradient \('grad'\), but g = Term\(value, n=3"),
        ("afb", "agm", "g", r"AFB with AGM inside asks g for its gradient.* answers only: value"),
        ("afb", "exact", "g", r"with Exact inside asks g for .*'prox'"),
        ("r-sae", "lbfgs", "g", r"RSAE with LBFGS inside asks g for its"),
        ("lbfgs", "auto", "h", "ScipyLBFGS asks h for its value and gradient"),
    ],
)
def test_a_missing_oracle_names_method_and_term(method, inner, role, message):
    poor = gt.Term(value=lambda x: 0.0, n=3, L=1.0)
    h, g = (poor, Q) if role == "h" else (Q, poor)
    is_told(lambda: gt.minimize(h, g, method=method, inner=inner), MissingOracle, message)
    is_told(
        lambda: gt.minimize(h, g, method=method, inner=inner),
        MissingOracle,
        "or choose a method that does not need it",
    )


@pytest.mark.parametrize("method", ["sae", "sc-sae", "afb", "fgm", "ags", "gmco"])
def test_a_missing_constant_names_the_method(method):
    h = gt.Term(Q.value_and_grad, n=3)
    with pytest.raises(MissingConstant, match=r"needs L_h, which neither .* pass L_h=\.\.\."):
        gt.minimize(h, Q, method=method)


def test_afb_refuses_a_non_convex_h():
    with pytest.raises(ValueError, match=r"AFB needs a convex h.*'sc-sae'"):
        gt.minimize(Q - 3.0 * Q, 5.0 * Q, method="afb")
    assert gt.minimize(Q - 3.0 * Q, 5.0 * Q, mu=3.0).success  # "auto" takes another
