"""The columns f and grad_norm of the history, plots and tables of a run, and what it says."""

from __future__ import annotations

import logging

import matplotlib as mpl
import numpy as np
import pytest

import geartrain as gt
from problems import logistic, quadratics

mpl.use("Agg")
METHODS = ["sae", "pqn", "afb", "aeg", "ags", "fgm", "lbfgs"]


@pytest.mark.parametrize("method", METHODS)
def test_recorded_columns_are_complete_and_nothing_is_counted(method):
    p = logistic()
    plain = gt.minimize(p.h, p.g, method=method, tol=1e-4)
    res = gt.minimize(p.h, p.g, method=method, tol=1e-4, record=("f", "grad_norm"))
    assert res.calls == plain.calls and np.array_equal(res.x, plain.x)
    assert res.nit == plain.nit and res.status == plain.status
    f, slope = res.history["f"], res.history["grad_norm"]
    assert np.isfinite(f).all() and np.isfinite(slope).all()
    assert (f >= p.f_star - 1e-12).all()
    assert f[-1] - p.f_star <= slope[-1] ** 2 / (2 * p.mu) + 1e-12


def test_the_record_is_of_the_points_of_the_method():
    p = logistic()
    res = gt.minimize(p.h, p.g, method="fgm", max_iter=8, record=["f"])
    assert res.history["f"][0] == pytest.approx(p.f(np.zeros(10)), rel=1e-14)
    assert res.history["f"][-1] == pytest.approx(p.f(res.state.state.point), rel=1e-14)


def test_a_note_tells_what_was_evaluated_for_the_record():
    p = logistic()
    res = gt.minimize(p.h, p.g, method="afb", max_iter=5, record="f")
    (note,) = [text for _, text in res.history.notes if "record" in text]
    assert note == "evaluated for the record, not counted: f 6 times"
    plain = gt.minimize(p.h, p.g, method="afb", max_iter=5)
    assert not any("record" in text for _, text in plain.history.notes)


def test_values_that_come_with_gradients_are_recorded_without_being_asked_for():
    p, asked = quadratics(), []

    def fused(term):
        def ask(x):
            asked.append(1)
            return term.value(x), term.grad(x)

        return gt.Term(ask, L=term.L, n=term.n)

    res = gt.minimize(fused(p.h), fused(p.g), method="sae", tol=1e-3)
    known = np.isfinite(res.history["f"])
    assert known.mean() > 0.9
    assert len(asked) == res.calls["h.grad"] + res.calls["g.grad"]


def test_bad_records_are_refused():
    p = logistic()
    with pytest.raises(ValueError, match="record must be 'f', 'grad_norm' or both"):
        gt.minimize(p.h, p.g, record="h")
    blind = gt.Term(grad=p.h.grad, L=1.0, n=10)
    with pytest.raises(TypeError, match="record='f' needs terms that give values"):
        gt.minimize(blind, p.g, record="f")


@pytest.mark.parametrize("method", ["auto", *METHODS])
def test_a_warm_start_at_the_solution_costs_one_evaluation(method):
    p = logistic()
    res = gt.minimize(p.h, p.g, p.x_star, method=method)
    assert res.success and res.nit == 0
    assert res.calls["h.grad"] == 1 and res.calls["g.grad"] <= 2


@pytest.mark.parametrize("method", ["afb", "pqn"])
def test_a_warm_start_near_the_solution_ends_by_the_rule(method):
    p = logistic()
    x0 = p.x_star + 1e-5
    res = gt.minimize(p.h, p.g, x0, method=method)
    scale = min(np.linalg.norm(p.h.grad(x0)), np.linalg.norm(p.g.grad(x0)))
    assert res.success
    assert np.linalg.norm(p.grad(res.x)) <= 1e-6 * scale * (1 + 1e-6)


def test_far_from_the_solution_tol_is_relative_to_the_gradient_of_f():
    p = logistic()
    x0 = p.x_star + 10.0
    norms = [np.linalg.norm(t(x0)) for t in (p.h.grad, p.g.grad, p.grad)]
    assert min(norms) < norms[2]
    by_tol = gt.minimize(p.h, p.g, x0, method="fgm", tol=1e-3)
    by_rule = gt.minimize(p.h, p.g, x0, method="fgm", stop=gt.stop.Gradient(rel=1e-3))
    assert by_tol.calls == by_rule.calls


def test_plots_show_what_is_known_and_are_labelled():
    p = logistic()
    res = gt.minimize(p.h, p.g, method="afb")  # knows its gradient in two rows
    ax = res.history.plot(label="afb")
    (line,) = ax.get_lines()
    assert len(line.get_xdata()) == np.isfinite(res.history["grad_norm"]).sum() >= 2
    assert ax.get_yscale() == "log" and ax.get_xlabel() == "gradients of $h$"
    assert ax.get_legend().get_texts()[0].get_text() == "afb"
    other = gt.minimize(p.h, p.g, method="fgm", record="f")
    assert other.history.plot(ax=ax, label="fgm") is ax and len(ax.get_lines()) == 2
    ax = other.history.plot("seconds", "f")
    assert ax.get_yscale() == "linear" and ax.get_xlabel() == "seconds"
    ax = other.history.plot("h.grad", "f", f_star=p.f_star)
    assert ax.get_yscale() == "log" and ax.get_ylabel() == "$f(x) - f^*$"
    mpl.pyplot.close("all")


def test_a_plot_of_nothing_says_how_to_record_it():
    p = logistic()
    res = gt.minimize(p.h, p.g, method="fgm", max_iter=0)
    res.history.rows[:] = [(*row[:2], np.nan, np.nan, *row[4:]) for row in res.history.rows]
    with pytest.raises(ValueError, match=r"f is not known .* record='f'"):
        res.history.plot(y="f")
    with pytest.raises(ValueError, match="f_star belongs to y='f'"):
        res.history.plot(f_star=0.0)


def test_results_and_histories_are_tables_in_notebooks():
    p = logistic()
    res = gt.minimize(p.h, p.g, method="fgm", record="f", mu=p.mu)
    page = res._repr_html_()
    assert "Result: CONVERGED" in page and f"{res.fun:.12g}" in page
    assert f">{res.calls['h.grad']}<" in page and "f - f* &lt;=" in page and "g.coord" not in page
    rows = res.history._repr_html_()
    assert f"History of {len(res.history.rows)} rows" in rows and "…" in rows
    assert rows.count("<tr>") == 1 + 11 + 1 and "evaluated for the record" in rows
    assert ">ms_ratio<" not in rows  # there is nothing in it


def test_verbose_prints_and_the_logger_hears(capsys, caplog):
    p = logistic()
    with caplog.at_level(logging.INFO, "geartrain"):
        res = gt.minimize(p.h, p.g, method="afb", max_iter=3)
    assert capsys.readouterr().out == ""
    first, last = [record.getMessage() for record in caplog.records]
    assert first == "minimise h + g in 10 variables by the method afb"
    assert last.startswith("MAX_ITER after 3 iterations") and res.message in last
    gt.minimize(p.h, p.g, method="afb", max_iter=3, verbose=1)
    assert len(capsys.readouterr().out.splitlines()) == 2
    plain = res.calls
    res = gt.minimize(p.h, p.g, method="afb", max_iter=3, verbose=2)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6 and lines[2].startswith("iteration 1, ") and res.calls == plain
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "geartrain"):
        gt.minimize(p.h, p.g, method="afb", max_iter=3)
    assert [r.levelname for r in caplog.records].count("DEBUG") == 4


# A start that is a solution up to rounding, with a non-smooth term -----------------------------

EPS = np.finfo(float).eps
WITH_PSI = ["auto", "pqn", "afb", "fgm"]


def nearly_solved(error, size=1.0):
    """1/2 |x - b|^2 + |x|_1, whose subgradient at (1, 0, 0) has the length `error`.

    All numbers are sums of a few powers of two, so that nothing is rounded.
    """
    b = size * np.array([2.0 + error, 0.5, -0.25])
    return gt.Quadratic(np.eye(3), b=b), gt.L1(size), size * np.array([1.0, 0.0, 0.0])


@pytest.mark.parametrize("size", [1.0, 2.0**40, 2.0**-40])
@pytest.mark.parametrize("method", WITH_PSI)
def test_it_ends_at_once_with_success(method, size):
    h, psi, x0 = nearly_solved(4 * EPS, size)
    assert np.linalg.norm(psi.residual(x0, h.grad(x0))) == 4 * EPS * size
    res = gt.minimize(h, psi, x0, method=method)
    assert res.success and res.nit == 0 and res.calls["h.grad"] == 1
    np.testing.assert_array_equal(res.x, x0)


@pytest.mark.parametrize("method", WITH_PSI)
def test_what_is_more_than_rounding_is_not_a_solution(method):
    """The length is 2^-40, some 10^-12."""
    h, psi, x0 = nearly_solved(2.0**-40)
    assert gt.minimize(h, psi, x0, method=method, max_iter=50).nit > 0


def test_an_absolute_rule_means_what_it_says():
    h, psi, x0 = nearly_solved(4 * EPS)
    for rule in (gt.stop.Gradient(abs=EPS), gt.stop.Gradient(rel=1e-3)):
        assert gt.minimize(h, psi, x0, method="fgm", stop=rule, max_iter=3).nit > 0


def test_a_gradient_that_overflows_is_no_solution():
    h = gt.Term(lambda x: (0.0, np.full(3, 1e308)), n=3, L=1.0)
    assert not gt.minimize(h, gt.L1(1.0), np.ones(3), method="fgm", max_iter=2).success
