"""The documentation: what it shows runs, what it lists is there, where it links to exists.

Doctests of the pages are collected by pytest itself.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
from pathlib import Path

import numpy as np
import pytest

import geartrain as gt
from geartrain.methods.registry import INNER, METHODS

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


method_pages, check_links = load("method_pages"), load("check_links")
BY_PAGE = method_pages.pages()


def plain_blocks(page):
    """Blocks of Python that are no doctests."""
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    return [b for b in blocks if ">>>" not in b]


WITH_BLOCKS = [page for page in PAGES if plain_blocks(page)]


def test_only_the_page_of_clusters_has_blocks_without_output():
    assert [page.name for page in WITH_BLOCKS] == ["distributed.md"]


def test_the_page_of_clusters_runs(tmp_path, monkeypatch):
    """On a cluster in this process, with three files and four nodes of its own."""
    import distributed
    from sklearn.datasets import dump_svmlight_file

    rng = np.random.default_rng(0)
    parts = []
    for k in range(4):
        A = rng.standard_normal((40, 5))
        y = np.where(A[:, 0] + 0.5 * rng.standard_normal(40) > 0, 1.0, -1.0)
        parts.append((A, y))
        dump_svmlight_file(A, y, str(tmp_path / f"part{k}.libsvm"), zero_based=False)
    monkeypatch.chdir(tmp_path)

    class Local(distributed.Client):
        def __init__(self, address):
            super().__init__(processes=False, n_workers=2, dashboard_address=None)

    monkeypatch.setattr(distributed, "Client", Local)
    names = {"parts": parts}
    blocks = plain_blocks(ROOT / "docs" / "distributed.md")
    assert len(blocks) == 2
    try:
        exec(blocks[0], names)
        assert names["res"].success
        local, over_mpi = blocks[1].split("from mpi4py")
        exec(local, names)
        assert names["res"].success
        # Ranks are the matter of tests/distributed; here the call is held against the signature.
        nodes = ast.walk(ast.parse("from mpi4py" + over_mpi))
        (call,) = (node for node in nodes if isinstance(node, ast.Call))
        given = dict.fromkeys(k.arg for k in call.keywords)
        inspect.signature(gt.distributed.Gossip).bind(*call.args, **given)
    finally:
        if "client" in names:
            names["client"].close()


@pytest.mark.parametrize("name", BY_PAGE)
def test_every_method_has_a_page_with_box_guarantee_calls_and_reference(name):
    call, classes = BY_PAGE[name]
    text = method_pages.page(name, call, classes)
    for cls in classes:
        assert f".. autoclass:: geartrain.{cls.__name__}\n" in text
        assert getattr(gt, cls.__name__) is cls
        doc = inspect.getdoc(cls)
        for part in ("Algorithm", "Guarantee", "References\n---"):
            assert part in doc, f"{cls.__name__} has no {part}"
        guarantee = doc[doc.index("Guarantee") :].partition("\nParameters")[0]
        assert re.search(
            r"(gradient|derivative|value|component|summand|call|proximal step)s?\b", guarantee
        ), f"{cls.__name__} does not say its calls"


def test_the_pages_are_those_of_the_registry():
    assert set(BY_PAGE) == {*METHODS, *(f"inner-{name}" for name in INNER)}
    assert set(method_pages.OUTER) < set(METHODS)
    assert method_pages.made_by("lbfgs") == [gt.ScipyLBFGS, gt.LBFGSWhole]
    readme = (ROOT / "README.md").read_text()
    for name in {*METHODS, *INNER}:
        assert f"`{name}`" in readme, f"no row for {name}"


def test_a_list_of_all_pages_is_written(tmp_path):
    method_pages.write(tmp_path / "methods")
    listed = (tmp_path / "methods" / "list.txt").read_text()
    found = {path.stem for path in (tmp_path / "methods").glob("*.md")}
    assert found == {*BY_PAGE, "auto"}
    assert set(re.findall(r"^methods/(.*)$", listed, re.MULTILINE)) == found


def test_broken_links_are_found(tmp_path):
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static" / "a.css").write_text("")
    (tmp_path / "one.html").write_text(
        '<h1 id="top">1</h1><a href="two.html#there">x</a><a href="#top">x</a>'
        '<a href="https://example.org/nowhere">x</a><link href="_static/a.css?v=1">'
    )
    (tmp_path / "two.html").write_text('<p id="there">2</p><a href="one.html">x</a>')
    assert check_links.broken(tmp_path) == []
    (tmp_path / "two.html").write_text(
        '<a href="three.html">x</a><a href="one.html#gone">x</a><img src="no.png">'
    )
    assert check_links.broken(tmp_path) == [
        "one.html: two.html#there",
        "two.html: no.png",
        "two.html: one.html#gone",
        "two.html: three.html",
    ]


def test_tables_of_the_benchmarks_are_there():
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    named = re.findall(r"benchmarks/(\w+)\.txt", page)
    assert len(named) == 5
    for name in named:
        text = (ROOT / "docs" / "benchmarks" / f"{name}.txt").read_text()
        assert text.startswith("$ ") and len(text.splitlines()) > 5
