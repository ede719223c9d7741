"""From tables to figures and the page: story, findings, tables, settings."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from geartrain_lab import static, tables
from geartrain_lab.chart import Chart
from geartrain_lab.experiments import kernel_svm, log_density
from geartrain_lab.report import charts, findings
from geartrain_lab.report.findings import Finding
from geartrain_lab.report.interactive import Group, group
from geartrain_lab.report.page import Page
from geartrain_lab.store import pandas
from geartrain_lab.tables import COUNTS, DENSITY_EPS, SVM_COUNTS, SVM_EPS

KICKER = "Oracle complexity separation: the experiments of the paper, measured again with geartrain"
_SECONDS = {"seconds": "seconds"}
_CUT_OFF = "Methods that were cut off before are in the tables only."
_BUSY = 1.5  # a load average above this is told: the runs themselves are 1 of it


@dataclass
class Results:
    """Tables of a reproduction; None where a part was not asked for."""

    quick: bool
    svm: Any = None
    spectra: Any = None
    stand_in: bool = False  # whether the data of the SVM take the place of the gas sensors
    density: Any = None
    observed: Any = None
    missing: list[str] = field(default_factory=list)  # data sets of the densities


def write(results: Results, folder: Path) -> Path:
    """Write figures into ``folder/figures`` and the page into ``folder/report.html``."""
    drawn = folder / "figures"
    drawn.mkdir(parents=True, exist_ok=True)
    both = results.svm, results.density
    page = Page(findings.headline(*both))
    page.opening(KICKER)
    page.table(_claims(findings.claims(*both)))
    page.text(findings.lead(*both))
    page.figures(group(_stories(results)), f"{_CUT_OFF} {findings.twins(results.svm)}")
    page.note(_data(results))
    if results.svm is not None:
        _svm(page, results, drawn)
    if results.density is not None:
        _density(page, results, drawn)
    if results.observed is not None:
        _observed(page, results.observed, drawn)
    _tables(page, results)
    _settings(page, results)
    path = folder / "report.html"
    page.write(path)
    return path


def _stories(results: Results) -> list[Chart]:
    out = []
    if results.svm is not None:
        main = tables.main_case(results.svm)
        out.append(charts.asked("Kernel support vector machine", main, SVM_EPS))
    if results.density is not None:
        out.append(charts.asked("Log-density", results.density, DENSITY_EPS))
    return out


def _data(results: Results) -> str:
    """One line on the data: what it is, what is missing, and the quick form."""
    told = []
    if results.svm is not None:
        source = results.svm.data.iloc[0]
        instead = " in place of the gas sensor data, which were not found" * results.stand_in
        told.append(f"kernel SVM: {source}{instead}")
    if results.density is not None:
        told.append(f"log-density: synthetic as in the paper, {results.density.data.iloc[0]}")
    if results.missing:
        told.append(f"not found: {', '.join(results.missing)}")
    quick = " Quick form: less data and lower accuracy than the full one." * results.quick
    return f"Data: {'; '.join(told)}.{quick}"


def _claims(found: list[findings.Claim]) -> Any:
    rows = [{"claim": c.claim, "measured here": c.measured, "holds": c.holds} for c in found]
    return pandas().DataFrame(rows)


def _finding(page: Page, finding: Finding, group: Group, note: str = "") -> None:
    page.finding(finding.title, finding.paragraphs, group, note)


def _busy(table: Any) -> str:
    """A remark on the seconds of runs."""
    loads = [json.loads(text)["load average"] for text in table.settings.unique()]
    told = "Seconds are those of the method on one core; looking at f is not timed. "
    once = "Methods without random numbers are run once, so their seconds have no quartiles. "
    if max(loads) > _BUSY:
        once += f"The machine had other work (load average up to {max(loads):.1f}). "
    return told + once


def _svm(page: Page, results: Results, folder: Path) -> None:
    main = tables.main_case(results.svm)
    c = tables.facts(main)
    page.heading(
        "Kernel support vector machine",
        "Section 5.1 of the paper: the hinge loss is smoothed, h(x) = lambda/2 ⟨x, Kx⟩, and g is "
        "the mean loss over the rows.",
    )
    chosen = (
        f"{kernel_svm.NOT_STATED} Chosen here: {main.data.iloc[0]}, lambda = {c['lambda']:g}, "
        f"mu = {c['mu']:g}, gamma = {c['gamma']:g}, hence L_h = {c['L_h']:.4g} and "
        f"L_g = {c['L_g']:.4g}. f* is from {c['reference']}, with a duality gap of "
        f"{c['f_star_error']:.0e}. Curves are medians over five seeds and bands the quartiles."
    )
    counts, seconds = charts.svm_counts(main), charts.seconds(main, SVM_EPS)
    spectrum, gamma = charts.spectrum(results.spectra), charts.gamma(results.svm)
    _finding(page, findings.svm_counts(results.svm), group(counts, main), chosen)
    _finding(page, findings.svm_seconds(results.svm), group(seconds, main), _busy(main))
    _finding(page, findings.svm_spectrum(results.spectra), group(spectrum))
    _finding(page, findings.svm_gamma(results.svm), group(gamma, results.svm))
    data = main.data.iloc[0]
    title = f"Kernel SVM: {data}, {main.case.iloc[0]}"
    static.sheet(folder, "kernel_svm", title, [*counts, *seconds], 3)
    title = f"Kernel SVM for several gamma: {data}"
    static.sheet(folder, "kernel_svm_gamma", title, [*spectrum, *gamma], 3)


def _density(page: Page, results: Results, folder: Path) -> None:
    table = results.density
    c = tables.facts(table)
    page.heading(
        "Log-density with a Gaussian prior",
        "Section 5.2 of the paper: h(x) = ln Σ exp⟨a, x⟩ over the rows a of a sparse matrix, and "
        "g(x) = ½‖Gx‖² with a dense G.",
    )
    note = (
        f"Instance: {table.data.iloc[0]}, L_h ≤ {c['L_h']:.4g} (the paper's estimate gives "
        f"{c['L_h of the paper']:.4g}), L_g = {c['L_g']:.4g}. f* is from {c['reference']}, with an "
        f"estimated error of {c['f_star_error']:.0e}. Curves are medians over five seeds and bands "
        "the quartiles."
    )
    counts, seconds = charts.density_counts(table), charts.seconds(table, DENSITY_EPS)
    space, clipped = charts.density_space(table), charts.density_clipped(table)
    _finding(page, findings.density_counts(table), group(counts, table), note)
    _finding(page, findings.density_seconds(table), group(seconds, table), _busy(table))
    panels = charts.density_time(table)
    page.finding(
        "Figure 3 of the paper",
        [
            "Its two panels have a linear axis of time, from the start and from 0.5 s on. SAE has "
            "the paper's settings; R-SAE with ours is drawn beside it."
        ],
        group(panels, table),
    )
    page.finding(
        "Figure 4 of the paper",
        [
            "The paper draws f over the calls of both gradients at once; its curves end at a "
            "common accuracy, here 1e-6."
        ],
        group(space, table),
    )
    page.finding(
        "Its projections",
        [
            "The paper also shows the three methods over the gradients of each term alone. Each "
            "picture ends where the method that needs the fewest of these gradients has arrived. "
            "SAE has our settings here."
        ],
        group(clipped, table),
    )
    title = f"Log-density: {table.data.iloc[0]}"
    static.sheet(folder, "log_density_time", title, [*seconds, *panels], 3)
    title += "; n partial derivatives are one gradient"
    static.sheet(folder, "log_density_calls", title, [*space, *clipped, *counts], 3)


def _observed(page: Page, table: Any, folder: Path) -> None:
    fitted = charts.densities(table)
    page.finding(
        "The same model on observed counts",
        [
            "Densities of the paper's Bayesian model, fitted to counts to a relative gradient norm "
            "of 1e-5. The tables below list how many gradients this took."
        ],
        group(fitted),
    )
    static.sheet(folder, "densities", "Fitted densities", fitted, len(fitted))


def _observed_table(table: Any) -> Any:
    rows = []
    for data in dict.fromkeys(table.data):
        asked = json.loads(table[table.data == data].settings.iloc[0])["calls"]
        for method, calls in asked.items():
            h, g = f"{calls['h.grad']:,}", f"{calls['g.grad']:,}"
            rows.append({"method": method, "data": data, "gradients of h": h, "of g": g})
    return pandas().DataFrame(rows)


def _tables(page: Page, results: Results) -> None:
    page.heading("Tables", "Medians; brackets hold the quartiles over five seeds.")
    page.subheading("Not claimed by the paper")
    page.table(_claims(findings.more(results.svm, results.density)))
    for name, table, eps, columns in (
        ("Kernel SVM, to 1e-3", results.svm, SVM_EPS, SVM_COUNTS),
        ("Log-density, to 1e-6", results.density, DENSITY_EPS, COUNTS),
    ):
        if table is None:
            continue
        costs = tables.with_costs(tables.main_case(table) if table is results.svm else table)
        page.subheading(f"{name}: counts")
        page.table(tables.summary(costs, eps, columns))
        page.subheading(f"{name}: seconds")
        page.table(tables.summary(costs, eps, _SECONDS))
    if results.observed is not None:
        page.subheading("Observed counts")
        page.table(_observed_table(results.observed))
    if results.svm is not None:
        page.subheading("Table 1 of the paper, predicted and measured")
        page.text(
            "Bounds of the corollaries with constant 1 for L_h, L_g and R = |x*| of this instance. "
            "Operations are counted as in Table 1, with dense rows; its O(R/eps) rows suppose "
            "mu = eps, so they compare only with each other."
        )
        page.table(tables.table_1(results.svm))
    if results.density is not None:
        page.subheading("Table 2 of the paper, predicted and measured")
        page.text(
            "Calls of h are gradients for FGM and SAE and partial derivatives for FCD; operations "
            "are counted as in Table 2."
        )
        page.table(tables.table_2(results.density))


def _settings(page: Page, results: Results) -> None:
    page.heading(
        "Settings",
        "All methods have the same oracles, the same L_g and the same stopping rule. They do not "
        "all have the same L_h: the last table says which value each one uses, and its origin.",
    )
    curves, rows = [], []
    for table in (results.svm, results.density):
        if table is None:
            continue
        for (experiment, case, method), run in table.groupby(
            ["experiment", "case", "method"], sort=False
        ):
            used = json.loads(run.settings.iloc[0])
            if case in (kernel_svm.MAIN_CASE, log_density.CASE):
                curves.append(
                    {"curve": method, "experiment": experiment, "what it is": used["meaning"]}
                )
            ended = ", ".join(word.lower() for word in dict.fromkeys(run.status))
            rows.append(
                {
                    "curve": method,
                    "case": case,
                    "L_h": f"{used['L_h used']:.4g}",
                    "L_h is from": used["L_h from"],
                    "seeds": run.seed.nunique() if used["randomised"] else "none",
                    "limit (s)": f"{used['limit']:g}",
                    "ended": ended,
                    "method": used["changed"],
                }
            )
    page.subheading("What each curve is")
    page.table(pandas().DataFrame(curves))
    page.subheading("Runs")
    page.text("Arguments of a method that have their default values are not shown.")
    page.table(pandas().DataFrame(rows), code=["method"])
    first = next(t for t in (results.svm, results.density) if t is not None)
    page.text(
        f"geartrain {first.version.iloc[0]} on {first.machine.iloc[0]}; all runs use one core."
    )
