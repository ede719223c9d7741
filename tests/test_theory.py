"""The paper's formulas, written out again by hand."""

from __future__ import annotations

import math
import re

import pytest

import geartrain as gt
from geartrain import theory

FUNCTIONS = [(n, fn) for n in theory.__all__ if callable(fn := getattr(theory, n))]
SOURCE = re.compile(
    r"(Theorem|Corollary|Corollaries|Lemma|Eq\.|equation|Assumption|Table|Section)\s*\(?\d"
    r"|theorem for more than two terms"
)


@pytest.mark.parametrize(("name", "fn"), FUNCTIONS)
def test_every_function_names_its_source(name, fn):
    assert SOURCE.search(fn.__doc__), f"theory.{name} does not say what it implements"


def close(ours, by_hand):
    assert ours == pytest.approx(by_hand, rel=1e-13)


# Theorem 1 ----------------------------------------------------------------------------------

T1 = {"L_h": 2.0, "tau_g": 50.0, "kappa_g": 7.0, "eps": 1e-5, "R": 3.0, "delta": 0.1}


# Paper: Theorem 1
@pytest.mark.parametrize(("L", "K"), [(0.5, 4), (2.0, 1), (8.0, 1), (50.0, 1)])
def test_theorem_1(L, K):
    """K = L_h/L, and at least the one middle step that is always taken."""
    convex = theory.theorem_1(**T1, L=L)
    T = math.sqrt(L * 9 / 1e-5)
    close(convex["h"], T * (1 + K))
    log = math.log(3 / (0.1 * math.sqrt(1e-5)))
    close(convex["g"], T * (7 + K * 50 / math.sqrt(L + 2) * log))
    strong = theory.theorem_1(**T1, L=L, mu=0.01)
    T = math.sqrt(L / 0.01) * math.log(0.01 * 9 / 1e-5)
    close(strong["h"], T * (1 + K))
    close(strong["g"], T * (7 + K * 50 / math.sqrt(L + 2) * math.log(10)))


def test_theorem_1_takes_L_h_by_default():
    assert theory.theorem_1(**T1) == theory.theorem_1(**T1, L=2.0)


# Corollaries --------------------------------------------------------------------------------

SETTINGS = [
    ("full", {}),
    ("coordinate", {"n": 30}),
    ("finite-sum", {"m": 400}),
    ("values", {"n": 30}),
]
C = {"L_h": 2.0, "L_g": 5e3, "eps": 1e-5, "R": 3.0}


# Paper: Corollary 1
# Paper: Corollary 2
# Paper: Corollary 3
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
    assert full == theory.corollary_1(theory.Constants(**C, mu=mu))
    sizes = {"mu": mu, "delta": 0.1, "n": 30, "m": 400}
    of = {
        name: theory.Constants(setting=name, **C, **sizes) for name in ("coordinate", "finite-sum")
    }
    assert coordinate == theory.corollary_2(of["coordinate"])
    assert finite == theory.corollary_3(of["finite-sum"])


# Paper: lower bounds
def test_orders_differ_from_lower_bounds_by_logarithms():
    """Whatever L_h, L_g and mu are: Corollary 1 by ln(mu R^2/eps), Corollary 3 by ln(1/delta)."""
    for mu in (1e-6, 1e-4, 0.1):
        sizes = {"mu": mu, "delta": 0.1, "m": 400}
        for L_h, L_g in ((2.0, 5e3), (1e-3, 1.0), (40.0, 40.0)):
            constants = {**C, **sizes, "L_h": L_h, "L_g": L_g}
            full = theory.Constants(**{**constants, "setting": "full"})
            sums = theory.Constants(**{**constants, "setting": "finite-sum"})
            log = max(1.0, math.log(mu * 9 / 1e-5))
            for key in ("h", "g"):
                close(theory.corollary_1(full)[key], log * theory.lower_bounds(full)[key])
            close(theory.corollary_3(sums)["g"], math.log(10) * theory.lower_bounds(sums)["g"])
    with pytest.raises(ValueError, match="needs mu > 0"):
        theory.lower_bounds(theory.Constants(**C))


@pytest.mark.parametrize(("setting", "size"), SETTINGS)
def test_calls_with_L_are_theorem_1(setting, size):
    kappa = {"full": 1, "coordinate": 30, "finite-sum": 400, "values": 60}[setting]
    tau = {"full": 1, "coordinate": 30, "finite-sum": 20, "values": 60}[setting] * math.sqrt(5e3)
    ours = theory.calls(setting, **C, mu=0.01, L=3.0, **size)
    by_hand = theory.theorem_1(L_h=2.0, tau_g=tau, kappa_g=kappa, eps=1e-5, R=3.0, mu=0.01, L=3.0)
    assert ours == by_hand


@pytest.mark.parametrize("mu", [0.0, 0.01])
def test_values_are_corollary_2_with_L_g(mu):
    """The remark after Corollary 2; a derivative is made of two values."""
    ours = theory.calls("values", **C, mu=mu, n=30, delta=0.1)
    partials = theory.calls("coordinate", **C, mu=mu, n=30, delta=0.1)
    assert ours == {"h": partials["h"], "g": 2 * partials["g"]}


# Side by side -------------------------------------------------------------------------------


# Paper: Section 2
@pytest.mark.parametrize("mu", [0.0, 0.01])
def test_compare(mu):
    rows = theory.compare(**C, mu=mu, n=30, m=400, delta=0.1)
    rate = math.log(mu * 9 / 1e-5) / math.sqrt(mu) if mu else math.sqrt(9 / 1e-5)
    both, sure = math.sqrt(5002) * rate, math.log(10)
    assert set(rows) == {
        "FGM",
        "AGS",
        "SAE",
        "ACD",
        "SAE coordinate",
        "Katyusha",
        "SAE finite-sum",
    }
    for name, factor in (("FGM", 1), ("ACD", 30 * sure), ("Katyusha", 20 * sure)):
        close(rows[name]["h"], factor * both)
        close(rows[name]["g"], factor * both)
    assert rows["SAE"] == rows["AGS"] == theory.calls("full", **C, mu=mu)
    coordinate = theory.calls("coordinate", **C, mu=mu, n=30, delta=0.1)
    assert rows["SAE coordinate"] == pytest.approx(coordinate, rel=1e-13)
    close(rows["SAE finite-sum"]["g"], math.sqrt(400 * 5e3) * rate * sure)
    assert set(theory.compare(**C, mu=mu)) == {"FGM", "AGS", "SAE"}
    for name in ("SAE", "SAE coordinate", "SAE finite-sum"):
        assert rows[name]["h"] < rows["FGM"]["h"]


def test_every_constant_of_compare_moves_the_rows_that_it_belongs_to():
    def rows(**constants):
        return theory.compare(**C, mu=0.01, n=30, m=400, **constants)

    base = rows(L_g_bar=50.0, L_h_bar=1.0, L_g_hat=9e4)
    for name, value, moved in (
        ("L_g_bar", 200.0, {"ACD", "SAE coordinate"}),
        ("L_h_bar", 1.5, {"ACD"}),
        ("L_g_hat", 36e4, {"Katyusha", "SAE finite-sum"}),
        ("L_g_mean", 6e3, {"Katyusha", "SAE finite-sum"}),
    ):
        other = rows(**({"L_g_bar": 50.0, "L_h_bar": 1.0, "L_g_hat": 9e4} | {name: value}))
        assert {key for key in base if base[key] != other[key]} == moved
    close(rows(L_g_hat=36e4)["SAE finite-sum"]["g"], 2 * base["SAE finite-sum"]["g"])
    close(rows(L_g_bar=200.0)["SAE coordinate"]["g"], 2 * base["SAE coordinate"]["g"])
    assert rows(L_g_mean=6e3) == rows(L_g_mean=6e3, L_g_hat=9e4)
    with pytest.raises(ValueError, match="L_g_bar must be positive, got -1"):
        rows(L_g_bar=-1.0)


def test_factors_of_compare():
    plain = theory.compare(**C, n=30, m=400)
    assert set(theory.MEASURED) == set(plain)
    scaled = theory.compare(**C, n=30, m=400, factors=theory.MEASURED)
    for name, (c_h, c_g) in theory.MEASURED.items():
        close(scaled[name]["h"], c_h * plain[name]["h"])
        close(scaled[name]["g"], c_g * plain[name]["g"])


def test_compare_beyond_the_assumptions_of_the_corollaries():
    """m L_h > L_g-hat: one gradient of g per iteration, m calls, is more than sqrt(m L_g-hat)."""
    rate = math.log(1e3) / math.sqrt(1e-3)
    rows = theory.compare(L_h=1.0, L_g=0.5, mu=1e-3, eps=1e-6, m=10**4, L_g_hat=2.0, delta=0.9)
    close(rows["SAE finite-sum"]["g"], 1e4 * rate)
    close(rows["SAE"]["g"], rate)


# Paper: Table 1
# Paper: Table 2
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
        ("half", {}, "unknown setting 'half'; choose one of full, coordinate, finite-sum, values"),
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
        ("values", {}, "setting 'values' needs n="),
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
