"""Orders of calls and of levels for more than two terms."""

import itertools

import numpy as np
import pytest

import geartrain as gt
from geartrain.cli import main
from geartrain.theory.gears import arrangements

CASE = {"mu": 1e-3, "eps": 1e-6}


def test_one_constant_in_a_list_is_that_constant():
    alone = gt.theory.calls("full", L_h=2.0, L_g=50.0, **CASE)
    assert gt.theory.calls("full", L_h=[2.0], L_g=50.0, **CASE) == alone
    assert gt.theory.calls("full", L_h=np.array([2.0]), L_g=50.0, **CASE) == alone
    named = gt.theory.calls("full", L_h={"simulator": 2.0}, L_g=50.0, **CASE)
    assert named == {"simulator": alone["h"], "g": alone["g"]}


def test_calls_grow_with_the_root_of_the_sum_of_the_levels_above():
    found = gt.theory.calls("full", L_h={"a": 1.0, "b": 8.0}, L_g=91.0, **CASE)
    assert list(found) == ["a", "b", "g"]
    assert found["b"] / found["a"] == pytest.approx(3.0)
    assert found["g"] / found["a"] == pytest.approx(10.0)
    assert found["a"] == pytest.approx(gt.theory.calls("full", L_h=1.0, L_g=9.0, **CASE)["h"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gt.theory.calls("full", L_h=[], L_g=1.0, **CASE), "L_h is empty"),
        (lambda: gt.theory.calls("full", L_h=[1.0, -1.0], L_g=1.0, **CASE), "L_h2 must be positi"),
        (lambda: gt.theory.calls("full", L_h={"g": 1.0, "a": 1}, L_g=1.0, **CASE), "the key 'g'"),
        (
            lambda: gt.theory.calls("coordinate", L_h=[1.0, 2.0], L_g=1.0, n=3, **CASE),
            "in the setting 'full' only",
        ),
        (lambda: gt.theory.order([1.0, 2.0], [1.0]), "must have the same terms"),
        (lambda: gt.theory.order({"a": 1.0}, {"b": 1.0}), "must have the same terms, got a and b"),
        (lambda: gt.theory.order([], []), "L is empty"),
        (lambda: gt.theory.order([1.0, 0.0], [1.0, 1.0]), "the L of 1 must be positive"),
        (lambda: gt.theory.order([1.0, 1.0], [1.0, -1.0]), "the price of 1 must be positive"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_all_ordered_partitions_are_compared():
    """Fubini numbers: 1, 3, 13, 75, 541."""
    counts = [len(set(arrangements([(i,) for i in range(n)]))) for n in range(1, 6)]
    assert counts == [1, 3, 13, 75, 541]


def test_the_order_of_clear_cases():
    L = {"h1": 1.0, "h2": 100.0, "g": 1e4}
    order = gt.theory.order
    assert order(L, {"h1": 1e4, "h2": 100.0, "g": 1.0}, mu=1e-3) == (("h1",), ("h2",), ("g",))
    # The order of the arguments does not matter.
    turned = {name: L[name] for name in ("g", "h1", "h2")}
    assert order(turned, {"g": 1.0, "h2": 100.0, "h1": 1e4}, mu=1e-3)[0] == ("h1",)
    assert order([10.0, 10.0, 10.0], [1.0, 1.0, 1.0]) == ((0, 1, 2),)


def test_a_higher_price_never_leads_to_more_calls():
    """Of two orders, the one that is chosen at the higher price asks the term less often."""
    for L in itertools.product((1.0, 30.0, 1e3), repeat=3):
        asked = []
        for price in (1.0, 10.0, 100.0, 1e3, 1e4):
            levels = gt.theory.order(L, (price, 1.0, 1.0), mu=1e-2)
            calls = gt.theory.level_calls([sum(L[i] for i in level) for level in levels], mu=1e-2)
            asked.append(next(n for n, level in zip(calls, levels, strict=True) if 0 in level))
        assert asked == sorted(asked, reverse=True)


def test_many_terms_are_merged_before_they_are_ordered():
    L = [float(i + 1) for i in range(14)]
    prices = [2.0**i for i in range(14)]
    levels = gt.theory.order(L, prices)
    assert sorted(i for level in levels for i in level) == list(range(14))
    assert 13 in levels[0]


def test_plan_of_several_terms(capsys):
    arguments = ["plan", "--L-h", "1", "100", "--L-g", "1e4", "--mu", "1e-3", "--eps", "1e-6"]
    assert main([*arguments, "--price-h", "1e4", "100"]) == 0
    told = capsys.readouterr().out
    assert "levels with the smallest bill: h1 > h2 > g" in told
    assert "times smaller than that of FGM" in told
    assert main(arguments) == 0
    assert main([*arguments, "--price-h", "1", "2", "3"]) != 0
    assert "--price-h takes one price or 2, one per --L-h; got 3" in capsys.readouterr().err


def test_the_plan_is_the_order_for_the_mu_that_is_given(capsys):
    """With more strong convexity h1 and h2 are better merged."""
    orders = set()
    for mu in (1e-6, 1.0):
        L, prices = {"h1": 1.0, "h2": 30.0, "g": 300.0}, {"h1": 1.0, "h2": 1.0, "g": 1.0}
        levels = gt.theory.order(L, prices, mu=mu)
        constants = ["--L-h", "1", "30", "--L-g", "300", "--mu", str(mu)]
        assert main(["plan", *constants, "--eps", "1e-6"]) == 0
        words = " > ".join(" + ".join(level) for level in levels)
        assert f"smallest bill: {words}\n" in capsys.readouterr().out
        orders.add(words)
    assert len(orders) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--n", "5"], "--n is for a single --L-h"),
        (["--m", "5"], "--m is for a single --L-h"),
        (["--mu", "1e9"], "mu = 1e+09 exceeds L_h + L_g = 10101"),
        (["--eps", "nan"], "eps must be finite, got nan"),
        (["--R", "-1"], "R must be positive, got -1"),
        (["--L-h", "1", "0"], "must be positive, got 0"),
        (["--price-h", "1", "-1"], "must be positive, got -1"),
    ],
)
def test_a_plan_of_several_terms_with_bad_numbers(changes, message, capsys):
    arguments = ["plan", "--L-h", "1", "100", "--L-g", "1e4", "--mu", "1e-3", "--eps", "1e-6"]
    assert main([*arguments, *changes]) == 1
    out, err = capsys.readouterr()
    assert message in err and err.count("\n") == 1 and out == ""
