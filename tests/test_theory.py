"""The paper's formulas, written out again by hand."""

from __future__ import annotations

import inspect
import math
import re

import pytest

import geartrain as gt
from geartrain import theory
from geartrain.methods.r_sae import period

FUNCTIONS = [
    (name, fn)
    for name, fn in inspect.getmembers(theory, inspect.isfunction)
    if fn.__module__ == theory.__name__ and not name.startswith("_")
]
SOURCE = re.compile(r"(Theorem|Corollary|Corollaries|Lemma|Eq\.|Table|Section|Step)\s*\(?\d")


@pytest.mark.parametrize(("name", "fn"), FUNCTIONS)
def test_every_function_names_its_source(name, fn):
    assert SOURCE.search(fn.__doc__), f"theory.{name} does not say what it implements"


def close(ours, by_hand):
    assert ours == pytest.approx(by_hand, rel=1e-13)


# Step 3 of the proof ------------------------------------------------------------------------


@pytest.mark.parametrize(("L", "R", "eps"), [(1.0, 1.0, 1e-6), (7.0, 3.0, 1e-2), (1e4, 0.1, 1e-3)])
def test_outer_iterations_convex(L, R, eps):
    N = theory.outer_iterations(L, eps=eps, R=R)
    # f(y^N) - f* <= 2 L R^2/N^2, equation (25), is eps
    close(2 * L * R**2 / N**2, eps)


@pytest.mark.parametrize(("L", "mu", "R", "eps"), [(1, 1e-2, 1, 1e-8), (5, 0.5, 10, 1e-3)])
def test_outer_iterations_strongly_convex(L, mu, R, eps):
    N = theory.outer_iterations(L, eps=eps, R=R, mu=mu)
    stages = N / math.sqrt(8 * L / mu)
    close(mu * R**2 / 2**stages, eps)  # after t restarts mu R^2/2^{t+1}
    assert period(L, mu) == math.ceil(math.sqrt(8 * L / mu))
    # A stage of N_0 iterations halves the squared distance: (mu/2) d^2 <= (2 L/N_0^2) d_0^2.
    assert 4 * L / (mu * period(L, mu) ** 2) <= 0.5


def test_outer_iterations_never_vanish():
    assert theory.outer_iterations(1.0, eps=1e9) == 1.0
    close(theory.outer_iterations(1.0, eps=1e9, mu=0.5), 4.0)


# Lemma 2 and equation (22) ------------------------------------------------------------------


@pytest.mark.parametrize(("L", "L_h", "L_f"), [(1, 1, 100), (0.5, 2, 7), (3, 1, 1)])
def test_middle_steps_and_inner_accuracy_solve_their_inequality(L, L_h, L_f):
    # (L_h/2) exp(-K L/(4 L_h)) d^2 and (4 L_h/L) eps~ are each half of
    # L^3 d^2/(2 (3L + 2L_f)^2), the sufficient condition before (22).
    K, d = theory.middle_steps(L, L_h, L_f), 1.7
    half = L**3 * d**2 / (4 * (3 * L + 2 * L_f) ** 2)
    close(0.5 * L_h * math.exp(-K * L / (4 * L_h)) * d**2, half)
    close(4 * L_h / L * theory.inner_accuracy(L, L_h, L_f, d), half)


def test_middle_steps_at_L_h_depend_on_L_f_by_a_logarithm_only():
    few, many = (theory.middle_steps(1.0, 1.0, L_f) for L_f in (1e2, 1e6))
    close(many - few, 8 * math.log((3 + 2e6) / (3 + 2e2)))
    close(theory.middle_steps(1, 1, 1), 4 * math.log(50))


# Equation (6) -------------------------------------------------------------------------------


def test_inner_calls():
    tau, L, L_h, mu, eps, R, delta = 300.0, 2.0, 3.0, 1e-3, 1e-5, 4.0, 0.1
    lead = tau / math.sqrt(L + L_h)
    convex = lead * math.log(L_h * R / (delta * math.sqrt(eps * L)))
    assert theory.inner_calls(tau, L=L, L_h=L_h, eps=eps, R=R, delta=delta) == math.ceil(convex)
    strong = lead * math.log(L_h / (delta * math.sqrt(mu * L)))
    assert theory.inner_calls(tau, L=L, L_h=L_h, mu=mu, delta=delta) == math.ceil(strong)
    twice = theory.inner_calls(tau, L=L, L_h=L_h, mu=mu, delta=delta, C_0=2.0, C_1=5.0)
    assert twice == math.ceil(2 * (strong + lead * math.log(5)))
    assert theory.inner_calls(1e-3, L=1, L_h=1, mu=1) == 1
    with pytest.raises(ValueError, match="inner_calls needs eps where mu = 0"):
        theory.inner_calls(1.0, L=1, L_h=1)


# Theorem 1 ----------------------------------------------------------------------------------

T1 = {"L_h": 2.0, "tau_g": 50.0, "kappa_g": 7.0, "eps": 1e-5, "R": 3.0, "delta": 0.1}


@pytest.mark.parametrize("L", [0.5, 2.0, 8.0])
def test_theorem_1(L):
    convex = theory.theorem_1(**T1, L=L)
    T = math.sqrt(L * 9 / 1e-5)
    close(convex["h"], T * (1 + 2 / L))
    log = math.log(3 / (0.1 * math.sqrt(1e-5)))
    close(convex["g"], T * (7 + 2 / L * 50 / math.sqrt(L + 2) * log))
    strong = theory.theorem_1(**T1, L=L, mu=0.01)
    T = math.sqrt(L / 0.01) * math.log(0.01 * 9 / 1e-5)
    close(strong["h"], T * (1 + 2 / L))
    close(strong["g"], T * (7 + 2 / L * 50 / math.sqrt(L + 2) * math.log(10)))


def test_theorem_1_takes_L_h_by_default_which_is_best_for_g():
    for mu in (0.0, 0.01):
        default = theory.theorem_1(**T1, mu=mu)
        assert default == theory.theorem_1(**T1, mu=mu, L=2.0)
        for L in (0.02, 0.2, 1.0):  # L in [mu, L_h]: the end of Section 3
            assert theory.theorem_1(**T1, mu=mu, L=L)["g"] > default["g"]
            assert theory.theorem_1(**T1, mu=mu, L=L)["h"] >= default["h"]


# Corollaries --------------------------------------------------------------------------------

SETTINGS = [("full", {}), ("coordinate", {"n": 30}), ("finite-sum", {"m": 400})]
C = {"L_h": 2.0, "L_g": 5e3, "eps": 1e-5, "R": 3.0}


@pytest.mark.parametrize("mu", [0.0, 0.01])
def test_corollaries(mu):
    log = math.log(mu * 9 / 1e-5) if mu else 0.0
    rate = log / math.sqrt(mu) if mu else math.sqrt(9 / 1e-5)
    full = theory.calls("full", **C, mu=mu)
    coordinate = theory.calls("coordinate", **C, mu=mu, n=30, delta=0.1)
    finite = theory.calls("finite-sum", **C, mu=mu, m=400, delta=0.1)
    for one in (full, coordinate, finite):
        close(one["h"], math.sqrt(2) * rate)
    close(full["g"], math.sqrt(5e3) * rate)
    close(coordinate["g"], 30 * math.sqrt(5e3) * rate * math.log(10))
    close(finite["g"], math.sqrt(400 * 5e3) * rate * (math.log(10) if mu else 1.0))
    assert full == theory.corollary_1(**C, mu=mu)
    assert coordinate == theory.corollary_2(**C, mu=mu, n=30, delta=0.1)
    assert finite == theory.corollary_3(**C, mu=mu, m=400, delta=0.1)


@pytest.mark.parametrize(("setting", "size"), SETTINGS)
def test_calls_with_L_are_theorem_1(setting, size):
    kappa = {"full": 1, "coordinate": 30, "finite-sum": 400}[setting]
    tau = {"full": 1, "coordinate": 30, "finite-sum": 20}[setting] * math.sqrt(5e3)
    ours = theory.calls(setting, **C, mu=0.01, L=3.0, **size)
    by_hand = theory.theorem_1(L_h=2.0, tau_g=tau, kappa_g=kappa, eps=1e-5, R=3.0, mu=0.01, L=3.0)
    assert ours == by_hand


@pytest.mark.parametrize("mu", [0.0, 1e-3])
@pytest.mark.parametrize(("setting", "size"), SETTINGS)
def test_separation(setting, size, mu):
    base = theory.calls(setting, L_h=1, L_g=1e4, mu=mu, eps=1e-6, **size)
    g4 = theory.calls(setting, L_h=1, L_g=4e4, mu=mu, eps=1e-6, **size)
    h4 = theory.calls(setting, L_h=4, L_g=1e4, mu=mu, eps=1e-6, **size)
    close(g4["h"], base["h"])
    close(g4["g"], 2 * base["g"])
    close(h4["h"], 2 * base["h"])
    close(h4["g"], base["g"])


@pytest.mark.parametrize("mu", [0.0, 1e-3])
@pytest.mark.parametrize(("setting", "size"), SETTINGS)
def test_monotonicity(setting, size, mu):
    def calls(**changes):
        arguments = {"L_h": 1, "L_g": 1e4, "mu": mu, "eps": 1e-6, "R": 1, "delta": 0.05}
        return theory.calls(setting, **(arguments | size | changes))

    base = calls()
    for harder in ({"eps": 1e-8}, {"R": 10.0}):
        assert calls(**harder)["h"] > base["h"] and calls(**harder)["g"] > base["g"]
    surer = calls(delta=1e-6)
    assert surer["h"] == base["h"] and surer["g"] >= base["g"]
    if setting == "full":
        assert surer == base  # nothing is random
    for name in size:
        assert calls(**{name: 4 * size[name]})["g"] > base["g"]
    if mu:
        assert calls(mu=10 * mu)["h"] < base["h"]


def test_full_gradients_as_a_limit_of_the_other_settings():
    full = theory.calls("full", **C)
    close(theory.calls("finite-sum", **C, m=1)["g"], full["g"])
    assert theory.calls("coordinate", **C, n=1, delta=0.9)["g"] == full["g"]  # ln(1/delta) >= 1


# Side by side -------------------------------------------------------------------------------


@pytest.mark.parametrize("mu", [0.0, 0.01])
def test_compare(mu):
    rows = theory.compare(**C, mu=mu, n=30, m=400)
    rate = math.log(mu * 9 / 1e-5) / math.sqrt(mu) if mu else math.sqrt(9 / 1e-5)
    both = math.sqrt(5002) * rate
    assert set(rows) == {
        "FGM",
        "AGS",
        "SAE",
        "ACD",
        "SAE coordinate",
        "Katyusha",
        "SAE finite-sum",
    }
    for name, factor in (("FGM", 1), ("ACD", 30), ("Katyusha", 20)):
        close(rows[name]["h"], factor * both)
        close(rows[name]["g"], factor * both)
    assert rows["SAE"] == rows["AGS"] == theory.calls("full", **C, mu=mu)
    assert rows["SAE coordinate"] == theory.calls("coordinate", **C, mu=mu, n=30)
    assert rows["SAE finite-sum"] == theory.calls("finite-sum", **C, mu=mu, m=400)
    assert set(theory.compare(**C, mu=mu)) == {"FGM", "AGS", "SAE"}
    for name in ("SAE", "SAE coordinate", "SAE finite-sum"):
        assert rows[name]["h"] < rows["FGM"]["h"]


def test_tables():
    m, n, s, top, eps, R, p = 1000, 40, 6, 2.5, 1e-3, 3.0, 5000
    one = theory.table_1(m=m, n=n, s=s, lambda_max=top, eps=eps, R=R)
    kernel = math.sqrt(top * R**2 / eps) * n**2
    close(one["FGM"], R / eps * math.sqrt(s) * (m * s + n**2))
    close(one["AGS"], R / eps * math.sqrt(s) * m * s + kernel)
    close(one["SAE"], R / eps * math.sqrt(s * m) * s + kernel)
    two = theory.table_2(n=n, p=p, s=s, eps=eps, R=R)
    close(two["FGM"], math.sqrt(n * R**2 / eps) * (p * s + n**2))
    close(two["FCD"], n * math.sqrt(R**2 / eps) * (p + n))
    close(two["SAE"], math.sqrt(n * R**2 / eps) * p * s + n * math.sqrt(R**2 / eps) * n)
    # What the paper says about them: s >> 1 and lambda_max <= 1/(eps m) favour SAE; n << p and
    # s << min(n^2/p, sqrt n) do.
    best = theory.table_1(m=10**6, n=10**3, s=50, lambda_max=1e-3, eps=1e-3)
    assert min(best, key=best.get) == "SAE"
    best = theory.table_2(n=10**4, p=10**6, s=3, eps=1e-3)
    assert min(best, key=best.get) == "SAE"


@pytest.mark.parametrize(
    ("setting", "changes", "message"),
    [
        ("half", {}, "unknown setting 'half'; choose one of full, coordinate, finite-sum"),
        ("full", {"L_h": 0}, "L_h must be positive, got 0"),
        ("full", {"L_g": -1}, "L_g must be positive, got -1"),
        ("full", {"eps": 0}, "eps must be positive, got 0"),
        ("full", {"R": math.inf}, "R must be finite, got inf"),
        ("full", {"mu": -1}, "mu must be at least 0, got -1"),
        ("full", {"mu": 1e5}, r"mu = 100000 exceeds L_h \+ L_g = 5002"),
        ("full", {"delta": 1.0}, "delta must be between 0 and 1, got 1"),
        ("full", {"delta": 0.0}, "delta must be between 0 and 1, got 0"),
        ("full", {"L": 0.0}, "L must be positive, got 0"),
        ("coordinate", {}, "setting 'coordinate' needs n="),
        ("finite-sum", {}, "setting 'finite-sum' needs m="),
        ("coordinate", {"n": 0}, "n must be at least 1, got 0"),
        ("finite-sum", {"m": -3}, "m must be at least 1, got -3"),
    ],
)
def test_wrong_input(setting, changes, message):
    with pytest.raises(ValueError, match=message):
        gt.theory.calls(setting, **(C | changes))
    if setting == "full" and "L" not in changes:
        with pytest.raises(ValueError, match=message):
            gt.theory.compare(**(C | changes))


def test_theory_does_not_predict_less_than_a_logarithm_of_one():
    easy = theory.calls("full", L_h=1, L_g=4, mu=1, eps=10.0)
    assert easy == {"h": 1.0, "g": 2.0}
