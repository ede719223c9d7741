"""From tables to figures and the page."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from geartrain.lab import tables
from geartrain.lab.report import figures, findings, interactive
from geartrain.lab.report.curves import SVM_AXES
from geartrain.lab.report.page import Page
from geartrain.lab.store import pandas

_CALLS = {"h calls": "gradients of h", "g calls": "gradients of g", "seconds": "seconds"}


@dataclass
class Results:
    """Tables of a reproduction; None where a part was not asked for."""

    svm: Any = None
    spectra: Any = None
    density: Any = None
    observed: Any = None
    notes: list[str] = field(default_factory=list)


def write(results: Results, folder: Path, *, quick: bool) -> Path:
    """Figures into ``folder/figures`` and the page into ``folder/report.html``; its path."""
    drawn = folder / "figures"
    drawn.mkdir(parents=True, exist_ok=True)
    page = Page("Oracle complexity separation: the experiments of Section 5")
    first = next(t for t in (results.svm, results.density) if t is not None)
    page.text(
        f"geartrain {first.version.iloc[0]} on {first.machine.iloc[0]}; matrix products on one "
        "core, as the compiled loops. Seconds are those of the method; looking at f is not timed "
        "and not counted. Every method gets the same constants and the same oracles; dashed "
        "curves are the paper's own settings and baselines without restarts."
    )
    busy = max(_loads(results.svm, results.density))
    if busy > 1.5:
        page.text(
            f"The machine had other work (load average up to {busy:.1f}, these runs are 1 of it): "
            "seconds are noisy, counts are not."
        )
    if quick:
        page.text(
            "This is the quick form: fewer rows of data for the kernel SVM, lower accuracies and "
            "shorter time limits. A run that did not reach an accuracy in its time is shown as "
            "'>' its last count. The full form takes about 15 minutes and shows more."
        )
    for note in results.notes:
        page.text(note)
    page.heading("What is seen")
    for sentence in findings.sentences(results.svm, results.density):
        page.text(sentence)
    page.lines(tables.lines(results.svm, results.density))
    page.table(
        pandas().DataFrame(
            [
                {"claim": c.claim, "measured": c.measured, "holds here": c.holds}
                for c in findings.claims(results.svm, results.density)
            ]
        )
    )
    if results.svm is not None:
        _svm(page, results, drawn)
    if results.density is not None:
        _density(page, results, drawn)
    if results.observed is not None:
        _observed(page, results.observed, drawn)
    _settings(page, results)
    path = folder / "report.html"
    page.write(path)
    return path


def _loads(*tables_of_runs: Any) -> list[float]:
    """Load averages at the end of every run."""
    present = [t for t in tables_of_runs if t is not None]
    settings = {text for table in present for text in table.settings.unique()}
    return [json.loads(text)["load average"] for text in settings]


def _svm(page: Page, results: Results, drawn: Path) -> None:
    main = tables.main_case(results.svm)
    facts = tables.facts(main)
    page.heading("Kernel SVM (Section 5.1)")
    page.text(
        f"Data: {main.data.iloc[0]}; lambda = {facts['lambda']:g}, mu = {facts['mu']:g}, "
        f"gamma = {facts['gamma']:g}; L_h = {facts['L_h']:.4g}, L_g = {facts['L_g']:.4g}. "
        f"f* = {facts['f_star']:.12g} by {facts['reference']}, duality gap "
        f"{facts['f_star_error']:.1e}.",
        "data",
    )
    page.figures(interactive.svm(main), main.data.iloc[0])
    page.text("To f - f* = 1e-3:")
    page.table(tables.summary(tables.with_costs(main), tables.SVM_EPS, SVM_AXES))
    page.heading("Several gamma")
    page.figures(interactive.gamma(results.svm, results.spectra), main.data.iloc[0])
    page.heading("Table 1: predicted and measured")
    page.text(
        "Bounds of the corollaries with constant 1, for L_h, L_g and R = |x*| of this instance, "
        "to f - f* = 1e-3, in gradients of h and gradients of summands. Operations: as "
        "Table 1 counts them, with dense rows; its O(R/eps) rows suppose mu = eps, so they compare "
        "only with each other."
    )
    page.table(tables.table_1(results.svm))
    figures.svm_convergence(main, drawn)
    figures.svm_gamma(results.svm, results.spectra, drawn)


def _density(page: Page, results: Results, drawn: Path) -> None:
    table = results.density
    facts = tables.facts(table)
    page.heading("Log-density (Section 5.2)")
    page.text(
        f"Data: synthetic as the paper says, {table.data.iloc[0]}; L_h = {facts['L_h']:.4g} "
        f"(the paper's estimate {facts['L_h of the paper']:.4g}), L_g = {facts['L_g']:.5g}. "
        f"f* = {facts['f_star']:.12g} by {facts['reference']}, estimated error "
        f"{facts['f_star_error']:.1e}.",
        "data",
    )
    data = f"synthetic, {table.data.iloc[0]}"
    page.figures(interactive.density_time(table), data)
    page.figures([interactive.density_space(table)], data)
    page.text(
        "n partial derivatives are one call. Curves end at f - f* = 1e-6. The clipped projections "
        "show the paper's three methods up to the least number of calls among them."
    )
    flat = interactive.density_projections(table)
    page.figures(flat[:2], data)
    page.figures(flat[2:], data)
    page.text("To f - f* = 1e-6:")
    page.table(tables.summary(tables.with_costs(table), tables.DENSITY_EPS, _CALLS))
    page.heading("Table 2: predicted and measured")
    page.text(
        "To f - f* = 1e-6. Calls of h are gradients for FGM and SAE and partial derivatives for "
        "FCD; operations as Table 2 counts them."
    )
    page.table(tables.table_2(table))
    figures.density_time(table, drawn)
    figures.density_calls(table, drawn)


def _observed(page: Page, table: Any, drawn: Path) -> None:
    page.heading("Observed counts with a Gaussian prior")
    for data in dict.fromkeys(table.data):
        asked = json.loads(table[table.data == data].settings.iloc[0])["calls"]
        words = "; ".join(
            f"{name}: {calls['h.grad']} gradients of h, {calls['g.grad']} of g"
            for name, calls in asked.items()
        )
        page.text(f"{data}. {words}.", "data")
    page.figures(interactive.densities(table), list(dict.fromkeys(table.data)))
    figures.densities(table, drawn)


def _settings(page: Page, results: Results) -> None:
    page.heading("Settings")
    rows = []
    for table in (results.svm, results.density):
        if table is None:
            continue
        for (case, method), run in table.groupby(["case", "method"], sort=False):
            used = json.loads(run.settings.iloc[0])
            rows.append(
                {
                    "case": case,
                    "curve": method,
                    "method": used["method"],
                    "L_h": f"{used['L_h used']:.4g}",
                    "seed": run.seed.iloc[0],
                    "limit, s": used["limit"],
                    "ended": run.status.iloc[0].lower(),
                }
            )
    page.table(pandas().DataFrame(rows))
