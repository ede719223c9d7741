"""The tables of the benchmarks sort in a browser."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import report_browser

sys.path.insert(0, str(Path(__file__).parent.parent / "docs"))
import benchmark_pages

pytestmark = [
    pytest.mark.outside,  # a browser
    pytest.mark.same_everywhere,  # what a browser draws
]

DOCS = Path(benchmark_pages.__file__).parent

READ = """
const table = document.querySelector("table.sortable");
return Array.from(table.tBodies[0].rows).map(row => row.cells[arguments[0]].textContent);
"""
CLICK = """
const head = document.querySelector("table.sortable").tHead.rows[0];
head.cells[arguments[0]].querySelector("button").click();
return head.cells[arguments[0]].getAttribute("aria-sort");
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    driver = report_browser.start(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


def test_a_click_sorts_and_another_one_turns_the_order(browser, tmp_path):
    rows = [["b", "16k"], ["a", "9.5"], ["d", "-"], ["c", "> 100 / 3"]]
    table = benchmark_pages.page_table((["name", "bill"], rows), "a table")
    page = tmp_path / "page.html"
    page.write_text(f"<script>{(DOCS / 'static' / 'sort.js').read_text()}</script>{table}")
    browser.get(page.as_uri())
    assert browser.execute_script(READ, 0) == ["b", "a", "d", "c"]
    assert browser.execute_script(CLICK, 0) == "ascending"
    assert browser.execute_script(READ, 0) == ["a", "b", "c", "d"]
    assert browser.execute_script(CLICK, 1) == "ascending"  # by numbers, what is none comes last
    assert browser.execute_script(READ, 1) == ["9.5", "> 100 / 3", "16k", "-"]
    assert browser.execute_script(CLICK, 1) == "descending"
    assert browser.execute_script(READ, 1) == ["-", "16k", "> 100 / 3", "9.5"]
