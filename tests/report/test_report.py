"""The report: complete, from tables only, about the data that it names, and right in a browser.

In a real browser there is no error, no request, text that can be read and figures that react; every
figure lies inside its box, with titled axes and a legend beside it, at any width. The tables of the
documentation sort in the same browser.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import html
import io
import json
import re
import sys
import time
from pathlib import Path

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
from report_browser import SPACE, picture, resize, show, start

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))
import benchmark_pages

pytestmark = [
    pytest.mark.outside,  # all experiments in a small form, and a browser
    pytest.mark.same_everywhere,  # what a page contains, and what a browser draws
]

FIGURES = ("kernel_svm", "kernel_svm_gamma", "log_density_time", "log_density_calls", "densities")


@dataclasses.dataclass
class Reproduction:
    folder: object
    printed: str
    told: str  # on stderr

    @property
    def page(self):
        return self.folder / "report.html"


def small(patch):
    """Both experiments on small instances; only the paper's setting is cut off by the clock."""
    density = log_density.stages

    def small_density(quick):
        (stage,) = density(quick)
        entries = [
            dataclasses.replace(e, limit=0.05) if e.label == log_density.SAE_PAPER.label else e
            for e in stage.entries
        ]
        build = functools.partial(log_density.build, 40, 300, 0.05)
        return [dataclasses.replace(stage, entries=entries, build=build)]

    patch.setattr(kernel_svm, "QUICK_ROWS", 100)
    patch.setattr(log_density, "stages", small_density)


def reproduce(folder, data):
    """Run the command; the folder and what it printed."""
    out, err = io.StringIO(), io.StringIO()
    command = ["--debug", "reproduce", "all", "--quick", "--out", str(folder), "--data", str(data)]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(command)
    assert code == 0
    return Reproduction(folder, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with counts of three characters and nothing else."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "text8_char_counts.tsv").write_text("' '\t50\n'e'\t30\n'a'\t20\n")
    return folder


@pytest.fixture(scope="module")
def report(tmp_path_factory, data):
    with pytest.MonkeyPatch.context() as patch:
        small(patch)
        return reproduce(tmp_path_factory.mktemp("out"), data)


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
    assert report.told.count("f - f*") == 71


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


# In a browser -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    driver = start(tmp_path_factory.mktemp("profile"))
    driver.get("about:blank")  # away from the page that the browser opens itself
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def wide(browser, report):
    """The page, opened at 1280 pixels."""
    browser.get_log("performance")
    show(browser, report.page, 1280)
    return browser


def test_nothing_is_missing_and_no_host_is_asked(wide, report):
    assert "WebGL is not supported" not in wide.find_element("css selector", "main").text
    asked = []
    for entry in wide.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            asked.append(message["params"]["request"]["url"])
    assert report.page.as_uri() in asked
    assert [u for u in asked if not u.startswith(("file:", "data:", "blob:"))] == []


def test_the_verdict_is_on_the_first_screen(wide):
    """Headline, claims and the beginning of the picture, before anything else."""
    tops = wide.execute_script(
        "return ['h1', 'table', 'tbody tr:last-child', '.plot']"
        ".map(s => document.querySelector(s).getBoundingClientRect().top)"
    )
    assert tops == sorted(tops) and tops[1] < 250 and tops[-1] < 900


def test_a_legend_serves_all_figures_beside_each_other(wide):
    group = wide.execute_script(
        "return [...document.querySelectorAll('.group')]"
        ".find(g => g.querySelectorAll('.plot').length > 1 && g.querySelector('[data-name=FGM]'))"
    )
    shown = (
        "return [...arguments[0].querySelectorAll('.plot')].map(p => p.data"
        ".filter(t => t.meta === 'FGM' && t.visible !== false).length)"
    )
    before = wide.execute_script(shown, group)
    assert len(before) > 1 and min(before) > 0
    key = group.find_element("css selector", "[data-name=FGM]")
    wide.execute_script("arguments[0].click()", key)
    assert wide.execute_script(shown, group) == [0] * len(before)
    wide.execute_script("arguments[0].click()", key)
    assert wide.execute_script(shown, group) == before


def test_a_method_has_one_colour_in_all_figures(wide):
    pairs = wide.execute_script(
        "return [...document.querySelectorAll('.plot')].flatMap(p => p.data)"
        ".filter(t => t.mode === 'lines' && t.line.width > 0 && t.name)"
        ".map(t => [t.name, t.line.color])"
    )
    colours = {}
    for name, colour in pairs:
        colours.setdefault(name, set()).add(colour)
    assert {"SAE (tuned)", "AGS", "FGM", "FCD", "L-BFGS", "pqn"} <= set(colours)
    assert all(len(c) == 1 for c in colours.values())


def test_space_is_drawn_and_turns_with_a_drag(wide):
    from selenium.webdriver.common.action_chains import ActionChains

    figure = wide.execute_script(SPACE)
    assert figure is not None
    wide.execute_script("arguments[0].scrollIntoView({block: 'center'})", figure)
    time.sleep(1.0)
    before = picture(figure)
    colours = np.unique((before[..., :3] * 255).astype(int) @ (65536, 256, 1))
    assert len(colours) > 50
    eye = "return arguments[0]._fullLayout.scene._scene.getCamera().eye"
    start = wide.execute_script(eye, figure)
    canvas = figure.find_element("css selector", "canvas")
    ActionChains(wide).move_to_element(canvas).click_and_hold().move_by_offset(120, 40).pause(
        0.3
    ).release().perform()
    time.sleep(1.0)
    end = wide.execute_script(eye, figure)
    assert sum((start[c] - end[c]) ** 2 for c in "xyz") > 1e-3
    assert (np.abs(picture(figure) - before) > 0.1).any(axis=-1).mean() > 0.002


WIDTHS = (390, 1280, 1920)

MEASURE = """
const PIXEL = 1.0;
const box = e => e.getBoundingClientRect();
const name = f => f.id || 'figure';
const inside = (a, b) => a.left >= b.left - PIXEL && a.right <= b.right + PIXEL
    && a.top >= b.top - PIXEL && a.bottom <= b.bottom + PIXEL;
const apart = (a, b) => a.right <= b.left + PIXEL || b.right <= a.left + PIXEL
    || a.bottom <= b.top + PIXEL || b.bottom <= a.top + PIXEL;
const wrong = [];
const root = document.documentElement;
if (root.scrollWidth > root.clientWidth) wrong.push('the page scrolls sideways');
const figures = [...document.querySelectorAll('.plotly-graph-div, .js-plotly-plot')];
if (!figures.length) wrong.push('no figure');
for (const f of new Set(figures)) {
  const frame = box(f.closest('figure') || f.parentElement);
  const drawing = f.querySelector('.main-svg');
  if (!drawing) { wrong.push(`${name(f)}: not drawn`); continue; }
  const page = {left: 0, right: root.clientWidth, top: -1e9, bottom: 1e9};
  if (!inside(box(drawing), frame)) {
    wrong.push(`${name(f)}: drawn ${Math.round(box(drawing).width)} px wide in a box of `
      + `${Math.round(frame.width)} px`);
  }
  if (!inside(frame, page)) wrong.push(`${name(f)}: its box leaves the page`);
  const texts = [...f.querySelectorAll('.main-svg text')].filter(t => t.textContent.trim());
  for (const t of texts) {
    if (!inside(box(t), frame)) wrong.push(`${name(f)}: '${t.textContent}' is cut off`);
  }
  const layout = f._fullLayout;
  const scene = layout.scene;
  const axes = scene ? [scene.xaxis, scene.yaxis, scene.zaxis] : [layout.xaxis, layout.yaxis];
  for (const axis of axes) {
    const title = axis.title.text || '';
    const told = title.trim() && !title.startsWith('Click');
    if (!told && !(axis.type === 'category' && axis.showticklabels)) {
      wrong.push(`${name(f)}: ${axis._name || axis._id} has no title`);
    }
  }
  if (!scene) {
    const size = layout._size;
    if (size.w < 120 || size.h < 120) wrong.push(`${name(f)}: squeezed to ${size.w} x ${size.h}`);
    const area = box(drawing);
    const plot = {left: area.left + size.l, right: area.left + size.l + size.w,
                  top: area.top + size.t, bottom: area.top + size.t + size.h};
    const parts = [plot, ...[...f.querySelectorAll('.xtick text, .ytick text, .xtitle, .ytitle')]
        .map(box)];
    const group = f.closest('.group') || f;
    for (const legend of group.querySelectorAll('.legend')) {
      if (box(legend).width > 0 && !parts.every(p => apart(box(legend), p))) {
        wrong.push(`${name(f)}: the legend lies over the axis or the curves`);
      }
    }
    const ticks = [...f.querySelectorAll('.xtick text')].map(box).sort((a, b) => a.left - b.left);
    for (let i = 1; i < ticks.length; i++) {
      if (ticks[i].left < ticks[i - 1].right - PIXEL) {
        wrong.push(`${name(f)}: labels of the horizontal axis overlap`); break;
      }
    }
  }
}
for (const e of document.querySelectorAll('p, td, th, figcaption, button')) {
  const size = parseFloat(getComputedStyle(e).fontSize);
  if (size < 12) { wrong.push(`text of ${size} px: '${e.textContent.slice(0, 30)}'`); break; }
}
return wrong;
"""

COLOURS = """
const ink = (s, what) => getComputedStyle(document.querySelector(s))[what];
return [ink('body', 'backgroundColor'), ink('main p', 'color'), ink('.data', 'color'),
        ink('.xtick text', 'fill'), ink('strong', 'color')];
"""


def luminance(text):
    """Relative luminance of a CSS colour, between 0 and 1."""
    numbers = [float(n) for n in text[text.index("(") + 1 : text.index(")")].split(",")[:3]]
    return float(np.dot([(c / 255) ** 2.2 for c in numbers], (0.2126, 0.7152, 0.0722)))


def cut_in_space(browser):
    """Sides of its box at which the figure in space is cut off: ink in the outermost pixels.

    Its texts are pixels of a canvas, whose places the page does not know.
    """
    figure = browser.execute_script(SPACE)
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", figure)
    pixels = picture(figure)[..., :3]
    sides = {
        "left": pixels[:, :3],
        "right": pixels[:, -3:],
        "top": pixels[:3],
        "bottom": pixels[-3:],
    }
    paper = pixels[0, 0]
    return [name for name, strip in sides.items() if np.abs(strip - paper).max() > 0.1]


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1280, "dark"), (1920, "light")])
def test_figures_lie_inside_their_boxes(browser, report, width, scheme):
    show(browser, report.page, width, scheme)
    assert browser.execute_script(MEASURE) == [], f"after loading at {width} px"
    assert cut_in_space(browser) == [], f"after loading at {width} px"
    other = WIDTHS[(WIDTHS.index(width) + 1) % len(WIDTHS)]
    resize(browser, other)
    assert browser.execute_script(MEASURE) == [], f"{width} px, resized to {other} px"
    assert cut_in_space(browser) == [], f"{width} px, resized to {other} px"
    paper, *inks = map(luminance, browser.execute_script(COLOURS))
    assert (paper < 0.1) == (scheme == "dark")
    for ink in inks:
        assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) > 4.5
    errors = [e for e in browser.get_log("browser") if e["level"] == "SEVERE"]
    assert errors == []


READ = """
const table = document.querySelector("table.sortable");
return Array.from(table.tBodies[0].rows).map(row => row.cells[arguments[0]].textContent);
"""
CLICK = """
const head = document.querySelector("table.sortable").tHead.rows[0];
head.cells[arguments[0]].querySelector("button").click();
return head.cells[arguments[0]].getAttribute("aria-sort");
"""


def test_a_click_sorts_and_another_one_turns_the_order(browser, tmp_path):
    rows = [["b", "16k"], ["a", "9.5"], ["d", "-"], ["c", "> 100 / 3"]]
    table = benchmark_pages.page_table((["name", "bill"], rows), "a table")
    page, script = tmp_path / "page.html", Path(benchmark_pages.__file__).parent / "static/sort.js"
    page.write_text(f"<script>{script.read_text()}</script>{table}")
    browser.get(page.as_uri())
    assert browser.execute_script(READ, 0) == ["b", "a", "d", "c"]
    assert browser.execute_script(CLICK, 0) == "ascending"
    assert browser.execute_script(READ, 0) == ["a", "b", "c", "d"]
    assert browser.execute_script(CLICK, 1) == "ascending"  # by numbers, what is none comes last
    assert browser.execute_script(READ, 1) == ["9.5", "> 100 / 3", "16k", "-"]
    assert browser.execute_script(CLICK, 1) == "descending"
    assert browser.execute_script(READ, 1) == ["-", "16k", "> 100 / 3", "9.5"]
