"""``gt.compare``: its numbers are those of the runs, and they survive a file."""

from __future__ import annotations

import csv
import re

import matplotlib as mpl
import numpy as np
import pytest

import geartrain as gt
from problems import logistic

mpl.use("Agg")


@pytest.fixture(scope="module")
def table():
    p = logistic()
    return gt.compare(
        p.h,
        p.g,
        methods={"AFB": "afb", "L-BFGS": "lbfgs", "FGM": "fgm"},
        tol=1e-7,
        prices={"h.grad": 100.0, "g.grad": 1.0},
    )


def test_the_numbers_are_those_of_the_runs(table):
    p = logistic()
    frame = table.to_pandas()
    assert list(frame.index) == list(table.methods) == ["AFB", "L-BFGS", "FGM"]
    for name, method in zip(table.methods, ("afb", "lbfgs", "fgm"), strict=True):
        res = gt.minimize(p.h, p.g, method=method, tol=1e-7)
        row = frame.loc[name]
        assert row["status"] == "CONVERGED" and row["f"] == res.fun
        for kind in table.kinds:
            assert row[kind] == res.calls[kind]
        assert row["bill"] == 100 * res.calls["h.grad"] + res.calls["g.grad"]
    assert table.f_star == min(v for t in table.trials for v in (t.f, *t.column("f")))
    assert table.f_star >= p.f_star - 1e-14 and (frame["gap"] >= 0.0).all()


def test_a_given_minimum_is_used():
    p = logistic()
    table = gt.compare(p.h, p.g, methods=["afb"], f_star=p.f_star - 1.0)
    assert table.f_star_source == "given" and table.to_pandas()["gap"]["afb"] >= 1.0
    assert table.methods == ("afb",) and "given" in repr(table)


def test_randomised_methods_have_a_spread_over_the_seeds():
    p = logistic()
    table = gt.compare(
        p.h, p.g, methods={"K": gt.methods.AFB(inner=gt.Katyusha())}, seeds=[3, 5, 7], tol=1e-4
    )
    runs = table.to_pandas(runs=True)
    assert list(runs["seed"]) == [3, 5, 7]
    calls = sorted(runs["g.component"])
    assert calls[0] < calls[2]
    assert table.to_pandas()["g.component"]["K"] == calls[1]
    assert f"{calls[1]:.0f} ({calls[0]:.0f} to {calls[2]:.0f})" in repr(table)
    ax = table.plot("g.component")
    (line,), (band,) = ax.get_lines(), ax.collections
    assert band.get_paths()[0].get_extents().ymin <= np.min(line.get_ydata())
    mpl.pyplot.close("all")


def test_a_method_that_cannot_run_has_a_row_that_says_why():
    p = logistic()
    h = gt.Term(lambda x: (p.h.value(x), p.h.grad(x)), n=10)
    table = gt.compare(h, p.g, methods=["fgm", "lbfgs"])
    frame = table.to_pandas()
    assert frame.loc["fgm", "status"] == "CANNOT RUN" and np.isnan(frame.loc["fgm", "f"])
    assert frame.loc["lbfgs", "status"] == "CONVERGED"
    assert "fgm: " in repr(table) and "needs L_h" in repr(table)
    table.plot()
    mpl.pyplot.close("all")


def test_an_error_of_the_terms_is_not_hidden():
    def broken(x):
        raise ZeroDivisionError("my own")

    with pytest.raises(ZeroDivisionError, match="my own"):
        gt.compare(gt.Term(broken, n=3), gt.Quadratic(np.eye(3)), methods=["lbfgs"])


def test_files_hold_everything(table, tmp_path):
    table.save(tmp_path / "table.npz")
    again = gt.Comparison.load(tmp_path / "table.npz")
    assert repr(again) == repr(table) and again.prices == table.prices
    for old, new in zip(table.trials, again.trials, strict=True):
        np.testing.assert_array_equal(old.rows, new.rows)
        np.testing.assert_array_equal(old.x, new.x)
        assert old.columns == new.columns and old.calls == new.calls
    table.to_csv(tmp_path / "table.csv")
    with (tmp_path / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["method"] for row in rows] == ["AFB", "L-BFGS", "FGM"]
    assert [int(row["h.grad"]) for row in rows] == [t.calls["h.grad"] for t in table.trials]


def test_other_files_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError):
        gt.Comparison.load(tmp_path / "nothing.npz")
    (tmp_path / "text.npz").write_text("text")
    np.savez(tmp_path / "other.npz", header=np.array('{"format": "x"}'))
    np.savez(tmp_path / "pickle.npz", header=np.array([{}], dtype=object))
    for name in ("text", "other", "pickle"):
        with pytest.raises(ValueError, match=f"{name}.npz is not a comparison of geartrain"):
            gt.Comparison.load(tmp_path / f"{name}.npz")


def test_the_table_in_latex_is_well_formed(table):
    lines = table.to_latex().splitlines()
    body = [line for line in lines if line.endswith(r"\\")]
    columns = re.search(r"\{tabular\}\{(\w+)\}", "\n".join(lines)).group(1)
    assert len(body) == 4 and all(line.count("&") == len(columns) - 1 for line in body)


def test_the_table_in_a_notebook_escapes_and_tells_the_minimum():
    p = logistic()
    page = gt.compare(p.h, p.g, methods={"<b>": "afb"})._repr_html_()
    assert "&lt;b&gt;" in page and "<b>" not in page and "the smallest value of these runs" in page


def test_the_figure_has_a_panel_per_kind_of_call_and_one_legend(table):
    figure = table.plot()
    titles = [ax.get_xlabel() for ax in figure.axes]
    assert titles == ["gradients of $h$", "gradients of $g$", "seconds"]
    assert all(ax.get_yscale() == "log" and len(ax.get_lines()) == 3 for ax in figure.axes)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == list(table.methods)
    figure.canvas.draw()
    width, height = figure.canvas.get_width_height()
    for ax in figure.axes:
        box = ax.get_tightbbox()
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height
        lines = ax.get_lines()
        assert all(np.all(np.diff(line.get_ydata()) <= 0) for line in lines)
    with pytest.raises(KeyError, match=r"nothing is known about 'h\.coord'"):
        table.plot("h.coord")
    mpl.pyplot.close("all")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"methods": []}, ValueError, "methods is empty"),
        ({"methods": ["afb", "afb"]}, ValueError, "afb is given twice"),
        ({"methods": "afb", "seed": 1}, TypeError, "seed belongs to a single run"),
        ({"methods": "afb", "seeds": 0}, ValueError, "seeds must be at least 1"),
        ({"methods": "afb", "f_star": "a"}, TypeError, "f_star must be a number"),
    ],
)
def test_bad_arguments(arguments, error, message):
    p = logistic()
    with pytest.raises(error, match=message):
        gt.compare(p.h, p.g, **arguments)


def test_the_bill_is_that_of_the_plan():
    """A proximal step costs as much as a gradient of its term, and values have no price."""
    h = gt.Quadratic(np.diag(np.linspace(0.1, 1.0, 12)), b=np.ones(12))
    g = gt.Quadratic(np.diag(np.geomspace(0.1, 50.0, 12)))
    prices = {"h.grad": 100.0, "g.grad": 2.0}
    table = gt.compare(h, g, methods=["auto"], prices=prices)
    res = gt.minimize(h, g, prices=prices)
    calls = res.calls
    expected = 100 * calls["h.grad"] + 2 * (calls["g.grad"] + calls["g.prox"])
    assert calls["g.prox"] > 0 and table.to_pandas()["bill"]["auto"] == expected
    assert f"= {expected}" in res.plan
