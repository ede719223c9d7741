"""The console script: what it prints, and how it fails."""

from __future__ import annotations

import contextlib
import math
import signal
import subprocess
import sys

import numpy as np
import pytest

import geartrain
from geartrain import theory
from geartrain.cli import _by_ratio, _cheapest, main

pytestmark = pytest.mark.same_everywhere  # figures of the theory, compared to three digits

PLAN = ["plan", "--L-h", "1", "--L-g", "1e4", "--mu", "1e-3", "--eps", "1e-6"]


def rows(text):
    """Name -> (calls of h, calls of g, bill) of the printed table."""
    out = {}
    for line in text.splitlines():
        words = line[16:].split()
        if len(words) >= 4 and words[0][0].isdigit():
            out[line[:16].strip()] = tuple(float(w) for w in words[:3])
    return out


def test_plan_prints_the_theory(capsys):
    prices = ["--price-h", "100", "--price-g", "2"]
    assert main([*PLAN, "--n", "50", "--m", "200", "--R", "3", *prices]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    expected = theory.compare(L_h=1, L_g=1e4, mu=1e-3, eps=1e-6, R=3, n=50, m=200)
    table = rows(out)
    assert set(table) == {*expected, "AFB"} and table["AFB"] == table["SAE"]
    assert "bill = 100 per gradient of h + 2 per gradient of g" in out
    assert f"pqn learns the curvature of h: its calls of h are of the order {3e3:.4g}" in out
    h_units = {"ACD": 50}
    g_units = {"ACD": 50, "SAE coordinate": 50, "Katyusha": 200, "SAE finite-sum": 200}
    bills = {}
    for name, calls in expected.items():
        bill = 100 * calls["h"] / h_units.get(name, 1) + 2 * calls["g"] / g_units.get(name, 1)
        assert table[name] == pytest.approx((calls["h"], calls["g"], bill), rel=1e-3)
        bills[name] = bill
    assert f"smallest bill: {min(bills, key=bills.get)}" in out
    assert "strongly convex f = h + g: L_h = 1, L_g = 10000, mu = 0.001, eps = 1e-06, R = 3" in out
    assert "Corollaries 1-3" in out and "partial derivatives of g" in out


def test_plan_takes_a_constant_for_each_oracle(capsys):
    constants = {"L_g_bar": 50.0, "L_h_bar": 0.5, "L_g_mean": 300.0}
    options = [
        word for name, v in constants.items() for word in (f"--{name.replace('_', '-')}", str(v))
    ]
    assert main([*PLAN, "--n", "50", "--m", "200", *options]) == 0
    table = rows(capsys.readouterr().out)
    expected = theory.compare(L_h=1, L_g=1e4, mu=1e-3, eps=1e-6, n=50, m=200, **constants)
    for name, calls in expected.items():
        assert table[name][:2] == pytest.approx((calls["h"], calls["g"]), rel=1e-3)


def test_plan_without_mu_n_and_m(capsys):
    assert main(["plan", "--L-h", "1", "--L-g", "1e4", "--eps", "1e-6"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("convex f = h + g")
    table = rows(out)
    assert set(table) == {"FGM", "AGS", "SAE", "AFB"}
    assert table["SAE"][0] == pytest.approx(1e3, rel=1e-3)
    assert table["SAE"][1] == pytest.approx(1e5, rel=1e-3)
    assert table["FGM"][0] == pytest.approx(1e3 * math.sqrt(10001), rel=1e-3)


def test_plan_says_when_separation_does_not_pay(capsys):
    assert main(["plan", "--L-h", "1", "--L-g", "1", "--eps", "1e-3"]) == 0
    assert "hardly worth it" in capsys.readouterr().out
    assert main([*PLAN, "--price-h", "100"]) == 0
    assert "hardly" not in capsys.readouterr().out
    assert main(["plan", "--L-h", "100", "--L-g", "1", "--eps", "1e-3"]) == 0
    assert "exchange h and g" in capsys.readouterr().out
    assert main([*PLAN, "--price-h", "0", "--price-g", "0"]) == 0


@pytest.mark.parametrize("seed", range(20))
def test_plan_names_the_cheapest_at_every_ratio_of_prices(seed):
    rng = np.random.default_rng(seed)
    lines = {f"m{i}": tuple(10.0 ** rng.uniform(0, 4, 2)) for i in range(5)}
    first, *others = _by_ratio(lines).split(", from ")
    ends = [0.0, *(float(told.split(" on ")[0]) for told in others), 1e9]
    names = [first, *(told.split(" on ")[1] for told in others)]
    for name, low, high in zip(names, ends, ends[1:], strict=False):
        for ratio in (1.02 * low + 1e-9, 0.5 * (low + high), 0.98 * high):
            bills = {key: h * ratio + g for key, (h, g) in lines.items()}
            assert bills[name] <= min(bills.values()) * (1.0 + 1e-12) or high < 1.05 * low


def test_plan_names_ties(capsys):
    assert _cheapest({"FGM": 3.0, "AGS": 2.0, "SAE": 2.0 * (1 + 1e-15)}) == "AGS, tied with SAE"
    assert _cheapest({"A": 1.0, "B": 1.0, "C": 1.0}) == "A, tied with B and C"
    assert _cheapest({"A": 1.0, "B": 1.0 + 1e-6}) == "A"
    assert main([*PLAN, "--price-h", "0", "--price-g", "0"]) == 0
    assert "smallest bill: FGM, tied with AGS and SAE" in capsys.readouterr().out


def test_version(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"geartrain {geartrain.__version__}\n"


COMMANDS = ("plan", "bench", "reproduce")


@pytest.mark.parametrize("arguments", [["--help"], *([c, "--help"] for c in COMMANDS)])
def test_help(arguments, capsys):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 0
    out = capsys.readouterr().out
    assert "--debug" in out and "usage: geartrain" in out
    if arguments[0] == "plan":
        for option in ("--L-h", "--L-g", "--mu", "--eps", "--R", "--n", "--m", "--price-h"):
            assert option in out
        assert "calls that the theory predicts" in out


def one_line(err):
    assert err.endswith("\n") and err.count("\n") == 1 and "Traceback" not in err
    return err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--L-h", "0"], "geartrain: L_h must be positive, got 0"),
        (["--L-g", "-1"], "geartrain: L_g must be positive, got -1"),
        (["--eps", "nan"], "geartrain: eps must be finite, got nan"),
        (["--mu", "-1"], "geartrain: mu must be at least 0, got -1"),
        (["--mu", "1e9"], "geartrain: mu = 1e+09 exceeds L_h + L_g = 10001"),
        (["--n", "0"], "geartrain: n must be at least 1, got 0"),
        (["--m", "-2"], "geartrain: m must be at least 1, got -2"),
        (["--R", "inf"], "geartrain: R must be finite, got inf"),
        (["--price-h", "-1"], "geartrain: --price-h must be at least 0, got -1"),
        (["--price-g", "nan"], "geartrain: --price-g must be finite, got nan"),
    ],
)
def test_bad_numbers(changes, message, capsys):
    assert main([*PLAN, *changes]) == 1
    out, err = capsys.readouterr()
    assert message in one_line(err) and out == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "geartrain: the following arguments are required: command"),
        (["plna"], "geartrain: argument command: invalid choice: 'plna'"),
        (["plan"], "geartrain plan: the following arguments are required: --L-h, --L-g, --eps"),
        ([*PLAN, "--L-h", "one"], "argument --L-h: invalid float value: 'one'"),
        ([*PLAN, "--n", "2.5"], "argument --n: invalid int value: '2.5'"),
        ([*PLAN, "--colour"], "unrecognized arguments: --colour"),
    ],
)
def test_bad_usage(arguments, message, capsys):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    err = one_line(capsys.readouterr().err)
    assert message in err and "--help" in err


@pytest.mark.parametrize("arguments", [["--debug", *PLAN], [*PLAN, "--debug"]])
def test_debug_gives_the_traceback(arguments):
    with pytest.raises(ValueError, match="L_h must be positive"):
        main([*arguments, "--L-h", "0"])
    assert main(arguments) == 0


def test_ctrl_c(monkeypatch, capsys):
    def interrupted(**_):
        raise KeyboardInterrupt

    monkeypatch.setattr(theory, "compare", interrupted)
    assert main(PLAN) == 130
    assert one_line(capsys.readouterr().err) == "geartrain: interrupted\n"


def test_an_interrupt_that_was_swallowed_counts(monkeypatch, capsys):
    """Code that cannot pass a KeyboardInterrupt on, or turns it into another error."""

    def swallowed(**_):
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        return {"FGM": {"h": 1.0, "g": 1.0}, "SAE": {"h": 1.0, "g": 1.0}}

    def turned(**_):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise RuntimeError("the solver failed") from None

    before = signal.getsignal(signal.SIGINT)
    for function in (swallowed, turned):
        monkeypatch.setattr(theory, "compare", function)
        assert main(PLAN) == 130
        assert one_line(capsys.readouterr().err) == "geartrain: interrupted\n"
    assert signal.getsignal(signal.SIGINT) is before


def test_bench_shows_the_traceback_with_debug(monkeypatch, capsys):
    def run(**_):
        raise ValueError("no data")

    monkeypatch.setattr("geartrain_lab.benches.frontier.run", run)
    assert main(["bench", "frontier"]) == 1
    assert one_line(capsys.readouterr().err) == "geartrain: no data\n"
    with pytest.raises(ValueError, match="no data"):
        main(["bench", "frontier", "--debug"])


@pytest.mark.outside
@pytest.mark.parametrize("module", ["geartrain", "geartrain.cli"])
def test_as_a_process(module):
    command = [sys.executable, "-m", module]
    good = subprocess.run([*command, *PLAN], capture_output=True, text=True, check=False)
    assert good.returncode == 0 and "smallest bill" in good.stdout and good.stderr == ""
    bad = [*command, *PLAN, "--L-h", "0"]
    told = subprocess.run(bad, capture_output=True, text=True, check=False)
    assert told.returncode == 1 and told.stdout == "" and "L_h" in one_line(told.stderr)
    shown = subprocess.run([*bad, "--debug"], capture_output=True, text=True, check=False)
    assert shown.returncode == 1 and shown.stderr.startswith("Traceback")
