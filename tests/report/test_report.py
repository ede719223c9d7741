"""The report and its figures: complete, from tables only, about the data that they name."""

from __future__ import annotations

import re

import numpy as np
import pytest
from matplotlib import image

import geartrain as gt
from geartrain.cli import main
from geartrain.lab.experiments import kernel_svm, log_density
from geartrain.lab.report import figures
from geartrain.lab.report.interactive import _spread
from report_run import reproduce, small

pytestmark = pytest.mark.same_everywhere  # what a page contains

FIGURES = ("kernel_svm", "kernel_svm_gamma", "log_density_time", "log_density_calls", "densities")


# Paper: Figure 1
# Paper: Figure 2
# Paper: Figure 3
# Paper: Figure 4
def test_every_figure_is_there_and_drawn(report):
    for name in FIGURES:
        picture = image.imread(report.folder / "figures" / f"{name}.png")
        colours = np.unique((picture[..., :3] * 255).astype(int) @ (65536, 256, 1))
        assert len(colours) > 100, name
        assert "<svg" in (report.folder / "figures" / f"{name}.svg").read_text()[:1000]


def test_every_run_has_its_two_files(report):
    files = {p.stem for p in (report.folder / "tables").glob("*.csv")}
    assert files == {p.stem for p in (report.folder / "tables").glob("*.parquet")}
    runs = len(kernel_svm.ENTRIES) + 2 * len(kernel_svm.GAMMA_ENTRIES) + len(log_density.ENTRIES)
    assert len(files) == runs + 2  # the spectra and one density


def test_page_names_its_data_and_what_was_left_out(report):
    text = re.sub(r"<script.*?</script>", "", report.page.read_text(), flags=re.S)
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", text)
    assert len(captions) == text.count("plotly-graph-div") == 15
    assert all(re.search("digits|synthetic|text8", c) for c in captions)
    assert "gas sensor data were not found" in text
    for name in ("text8 words", "old faithful"):
        assert f"The density of {name} is left out" in text


def test_page_loads_nothing(report):
    text = re.sub(r"<script.*?</script>", "", report.page.read_text(), flags=re.S)
    assert re.findall(r'(?:src|href)="([^"]*)"', text) == ["data:,"]


def test_ratios_and_path_are_printed_last(report):
    lines = report.printed.splitlines()
    assert lines[-1] == f"report: {report.page.resolve()}"
    assert [line.split(":")[0] for line in lines[:-1]] == ["kernel SVM"] * 3 + ["log-density"] * 4
    for words in ("component gradients to 1e-3", "h-gradients to 1e-3", "seconds to 1e-3"):
        assert f"SAE / AGS, {words}" in report.printed
    assert "f - f*" in report.told and "left" in report.told


def test_second_run_draws_from_the_tables_alone(report, data, monkeypatch):
    before = report.page.read_text()
    small(monkeypatch)

    def minimize(*args, **kwargs):
        raise AssertionError("a run was made again")

    monkeypatch.setattr(gt, "minimize", minimize)
    monkeypatch.setattr(figures, "_save", lambda *args: [])  # the slow part, seen above
    report.page.unlink()
    again = reproduce(report.folder, data)
    assert again.printed == report.printed
    assert again.told.count("(kept)") == report.told.count("f - f*")
    assert again.page.read_text() == before


def test_bad_folder_is_one_line(capsys):
    assert main(["reproduce", "--data", "/no/such/folder"]) == 1
    assert capsys.readouterr().err == "geartrain: --data /no/such/folder is not a folder\n"


@pytest.mark.parametrize("size", [1, 2, 700, 40_000])
def test_spread_has_both_ends_and_few_points(size):
    kept = _spread(size, 600)
    assert kept[0] == 0 and kept[-1] == size - 1
    assert len(kept) <= 601 and kept == sorted(set(kept))
