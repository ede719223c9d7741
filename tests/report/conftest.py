"""The reproduction that all tests of the report look at."""

from __future__ import annotations

import pytest

from report_browser import start
from report_run import reproduce, small


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A folder with counts of three characters and nothing else."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "text8_char_counts.tsv").write_text("' '\t50\n'e'\t30\n'a'\t20\n")
    return folder


@pytest.fixture(scope="session")
def report(tmp_path_factory, data):
    with pytest.MonkeyPatch.context() as patch:
        small(patch)
        return reproduce(tmp_path_factory.mktemp("out"), data)


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    driver = start(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()
