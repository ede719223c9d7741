"""The report and its figures: complete, from tables only, about the data that they name."""

from __future__ import annotations

import html
import re

import numpy as np
import pandas
import pytest
from matplotlib import image

import geartrain as gt
from geartrain.cli import main
from geartrain_lab import runner, static
from geartrain_lab.experiments import densities, kernel_svm, log_density
from geartrain_lab.report.charts import spread_out
from geartrain_lab.report.page import prose
from report_run import reproduce, small

pytestmark = [
    pytest.mark.outside,  # all experiments in a small form
    pytest.mark.same_everywhere,  # what a page contains
]

FIGURES = ("kernel_svm", "kernel_svm_gamma", "log_density_time", "log_density_calls", "densities")


def test_every_figure_is_there_and_drawn(report):
    for name in FIGURES:
        picture = image.imread(report.folder / "figures" / f"{name}.png")
        colours = np.unique((picture[..., :3] * 255).astype(int) @ (65536, 256, 1))
        assert len(colours) > 100, name
        assert "<svg" in (report.folder / "figures" / f"{name}.svg").read_text()[:1000]


def test_every_curve_has_its_two_files_with_all_seeds(report):
    files = {p.stem for p in (report.folder / "tables").glob("*.csv")}
    assert files == {p.stem for p in (report.folder / "tables").glob("*.parquet")}
    entries = (*kernel_svm.ENTRIES, *2 * kernel_svm.GAMMA_ENTRIES, *log_density.ENTRIES)
    assert len(files) == len(entries) + 2  # the spectra and one density
    for entry in kernel_svm.ENTRIES:
        name = runner._file_name("kernel-svm", "gamma 0.1", entry.label)
        table = pandas.read_parquet(report.folder / "tables" / f"{name}.parquet")
        assert tuple(dict.fromkeys(table.seed)) == entry.seeds
        assert len(entry.seeds) == (5 if entry.randomised else 1)


def page_text(report):
    """What a reader sees, without markup."""
    text = re.sub(r"<(script|style).*?</\1>", "", report.page.read_text(), flags=re.S)
    return html.unescape(re.sub(r"<[^>]+>", "", text.replace("</p>", "\n")))


def test_missing_data_is_one_line(report):
    text = page_text(report)
    (line,) = [part for part in text.splitlines() if "not found" in part]
    assert line.count("not found") == 2  # the gas sensors, and the data sets of the densities
    assert "digits" in line and "text8 words, Old Faithful" in line
    assert "synthetic" in line and len(line) < 350


def test_what_the_paper_does_not_state_is_told_at_the_figures(report):
    text = page_text(report)
    told = text.index("6,200 rows")
    assert "states no lambda, mu or gamma" in text[told : told + 200]
    assert "lambda = 0.01, mu = 0.1, gamma = 0.1" in text[told : told + 400]
    assert told < text.index("In seconds")  # with the first figure, not in the settings


def test_every_curve_says_what_it_is_and_which_constant_it_has(report):
    text = page_text(report)
    settings = text[text.index("What each curve is") :]
    for entry in (*kernel_svm.ENTRIES, *log_density.ENTRIES):
        assert prose(entry.meaning).replace("<sub>", "").replace("</sub>", "") in settings
        assert entry.L_h in settings
    assert "They do not all have the same Lh" in text
    assert "same constants" not in text.split("What each curve is")[0]


def test_order_of_the_page(report):
    text = page_text(report)
    place = 0
    for part in (
        "measured again",
        "holds",
        "instead of",
        "Data:",
        "Section 5.1 of the paper:",
        "Tables",
        "Settings",
        "Python ",
    ):
        place = text.index(part, place)  # which raises unless it is after the one before


def test_the_headline_says_what_the_table_of_claims_says(report):
    page = report.page.read_text()
    headline = re.search("<h1>(.*?)</h1>", page)[1]
    rows = re.search("<tbody>(.*?)</tbody>", page)[1].split("</tr>")[:-1]
    holds = [re.search('class="(yes|no|open)"', row)[1] for row in rows]
    assert len(holds) == 7 and all("instead of" in row for row in rows)

    def worst(some):
        found = next(w for w in ("no", "open", "yes") if w in some)
        return {"yes": "holds", "no": "does not hold", "open": "stays open"}[found]

    assert f"Section 5.1 of the paper {worst(holds[:3])};" in headline
    assert f"Section 5.2 {worst(holds[4:6])} with the paper's settings" in headline


def test_the_orders_of_the_paper_stand_beside_the_numbers(report):
    text = page_text(report)
    for number, order in ((1, "O((R/ε) √s (ms + n²))"), (2, "O(√(nR²/ε) (ps + n²))")):
        assert order in text[text.index(f"Table {number} of the paper, predicted and measured") :]


def test_equal_rows_are_explained(report):
    assert "SAE (tuned) and R-SAE (tuned) have the same numbers" in page_text(report)


def test_page_loads_nothing(report):
    text = re.sub(r"<script.*?</script>", "", report.page.read_text(), flags=re.S)
    assert re.findall(r'(?:src|href)="([^"]*)"', text) == ["data:,"]


def test_claims_and_path_are_printed_last(report):
    *printed, last = report.printed.splitlines()
    assert last == f"report: {report.page.resolve()}"
    assert [line[5:8] for line in printed] == ["5.1"] * 3 + ["Tab"] + ["5.2"] * 3
    assert {line.split()[0] for line in printed} <= {"yes", "no", "open"}
    assert "f - f*" in report.told and "[71/71]" in report.told


def test_prose_is_escaped_and_typeset():
    assert prose("a < b & **3 [2, 4] times**") == (
        'a &lt; b &amp; <strong>3 <span class="quartiles">[2, 4]</span> times</strong>'
    )
    assert prose("f* to 1e-3, 2.5e-07 and 1e+04 with L_h") == (
        "f* to 10<sup>&minus;3</sup>, 2.5&#8239;&times;&#8239;10<sup>&minus;7</sup> and "
        "10<sup>4</sup> with L<sub>h</sub>"
    )


def test_second_run_draws_from_the_tables_alone(report, data, monkeypatch):
    before = report.page.read_text()
    small(monkeypatch)

    def again(*args, **kwargs):
        raise AssertionError("a run was made again")

    for module in (runner, densities):
        monkeypatch.setattr(module, "run_whole", again)
    monkeypatch.setattr(static, "sheet", lambda *args: None)  # the slow part, seen above
    report.page.unlink()
    again = reproduce(report.folder, data)
    assert again.printed == report.printed
    assert again.told.count("(kept)") == report.told.count("f - f*")
    assert again.page.read_text() == before


def test_bad_folder_is_one_line(capsys):
    assert main(["reproduce", "--data", "/no/such/folder"]) == 1
    assert capsys.readouterr().err == "geartrain: --data /no/such/folder is not a folder\n"


def test_an_output_that_cannot_be_written_is_found_before_the_measurement(
    tmp_path, capsys, monkeypatch
):
    def measured(*args, **kwargs):
        raise AssertionError("it was measured")

    monkeypatch.setattr(gt, "minimize", measured)
    monkeypatch.setattr(kernel_svm, "stages", measured)
    file = tmp_path / "file"
    file.write_text("")
    for out, told in (("", "--out is empty"), (str(file), "cannot be written")):
        assert main(["reproduce", "--quick", "--out", out]) == 1
        err = capsys.readouterr().err
        assert told in err and err.count("\n") == 1
    for path, told in (("", "--json must be the path of a file"), (f"{file}/x.json", "cannot be")):
        assert main(["bench", "frontier", "--quick", "--json", path]) == 1
        err = capsys.readouterr().err
        assert told in err and err.count("\n") == 1


@pytest.mark.parametrize("size", [1, 2, 700, 40_000])
def test_spread_has_both_ends_and_few_points(size):
    kept = spread_out(size, 600)
    assert kept[0] == 0 and kept[-1] == size - 1
    assert len(kept) <= 601 and kept == sorted(set(kept))
