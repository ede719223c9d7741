"""The documentation: what it shows runs, what it lists is there, where it links to exists.

Doctests of the pages are collected by pytest itself.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import geartrain as gt
from geartrain.methods.registry import INNER, METHODS, NONSMOOTH

pytestmark = pytest.mark.same_everywhere  # text

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    [
        ROOT / "README.md",
        *(ROOT / "docs").glob("*.md"),
        *(
            page
            for room in ("guide", "howto", "reference", "theory")
            for page in (ROOT / "docs" / room).glob("*.md")
        ),
    ]
)


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


method_pages, check_links, citations, benchmark_pages = map(
    load, ("method_pages", "check_links", "citations", "benchmark_pages")
)
readme_example = load("readme_example")
BY_PAGE = method_pages.pages()


def plain_blocks(page):
    """Blocks of Python that are no doctests."""
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    return [b for b in blocks if ">>>" not in b]


WITH_BLOCKS = [page for page in PAGES if plain_blocks(page)]


LINK = re.compile(r"\]\(([^)]+)\)")


def test_the_readme_names_files_of_the_repository():
    """So that its pictures are seen in every clone."""
    for target in LINK.findall((ROOT / "README.md").read_text()):
        known = "://img.shields.io/" in target or target.startswith(("#", "https://doi.org/"))
        assert known or (ROOT / target).exists(), target


def test_on_the_package_index_the_readme_names_addresses():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    text = (ROOT / "README.md").read_text()
    hooks = settings["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    for rule in hooks["substitutions"]:
        text = re.sub(rule["pattern"], rule["replacement"], text)
    assert all(target.startswith(("https://", "#")) for target in LINK.findall(text))
    assert "raw.githubusercontent.com/geartrain/geartrain/main/docs/img/emissions.png)" in text


def test_only_the_page_of_clusters_has_blocks_without_output():
    assert [page.name for page in WITH_BLOCKS] == ["cluster.md"]


# Before the blocks of the page: a cluster of this process for the one that they name.
LOCAL = """
import distributed, numpy as np
class Local(distributed.Client):
    def __init__(self, address):
        super().__init__(processes=False, n_workers=2, dashboard_address=None)
distributed.Client = Local
parts = list(np.load("parts.npy", allow_pickle=False))
parts = [(p[:, :-1], p[:, -1]) for p in parts]
files = ["part0.libsvm", "part1.libsvm", "part2.libsvm"]
"""


@pytest.mark.outside
def test_the_page_of_clusters_runs(tmp_path):
    """In a process of its own, with three files and four nodes."""
    from sklearn.datasets import dump_svmlight_file

    rng = np.random.default_rng(0)
    A = rng.standard_normal((4, 40, 5))
    y = np.where(A[..., 0] + 0.5 * rng.standard_normal((4, 40)) > 0, 1.0, -1.0)
    np.save(tmp_path / "parts.npy", np.concatenate([A, y[..., None]], axis=2))
    for k in range(3):
        dump_svmlight_file(A[k], y[k], str(tmp_path / f"part{k}.libsvm"), zero_based=False)
    first, tiers, lost, gossip = plain_blocks(ROOT / "docs" / "howto" / "cluster.md")
    local, over_mpi = gossip.split("from mpi4py")
    # The cluster is not lost here: the second block finds a run that has ended.
    check = "assert res.success, res.message\n"
    tiers = tiers.replace("local=8", "local=2")  # of three files
    text = [LOCAL, first, check, tiers, check, "new_client = client\n", lost, check, local, check]
    text += ["client.close()\n"]
    command = [sys.executable, "-c", "\n".join(text)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    # Ranks are the matter of tests/distributed; here the call is held against the signature.
    nodes = ast.walk(ast.parse("from mpi4py" + over_mpi))
    (call,) = (node for node in nodes if isinstance(node, ast.Call))
    given = dict.fromkeys(k.arg for k in call.keywords)
    inspect.signature(gt.distributed.Gossip).bind(*call.args, **given)


@pytest.mark.parametrize("name", BY_PAGE)
def test_every_method_has_a_page_with_box_guarantee_calls_and_reference(name):
    call, classes = BY_PAGE[name]
    text = method_pages.page(name, call, classes)
    home = gt.inner if name.startswith("inner-") else gt.methods
    for cls in classes:
        assert f".. autoclass:: {home.__name__}.{cls.__name__}\n" in text
        assert getattr(home, cls.__name__) is cls and cls.__name__ in home.__all__
        doc = inspect.getdoc(cls)
        for part in ("Algorithm", "Guarantee", "References\n---"):
            assert part in doc, f"{cls.__name__} has no {part}"
        guarantee = doc[doc.index("Guarantee") :].partition("\nParameters")[0]
        assert re.search(
            r"(gradient|derivative|value|component|summand|call|proximal step)s?\b", guarantee
        ), f"{cls.__name__} does not say its calls"
        lines = doc.splitlines()
        citations.cite(lines)
        assert not re.search(r"\[\d+\]_", "\n".join(lines)), f"{cls.__name__} cites what is unknown"


def test_the_pages_are_those_of_the_registry():
    assert set(BY_PAGE) == {*METHODS, *NONSMOOTH, *(f"inner-{name}" for name in INNER)}
    assert set(method_pages.OUTER) < {*METHODS, *NONSMOOTH}
    made = [gt.ScipyLBFGS, gt.methods.LBFGSWhole, gt.methods.ProximalQuasiNewton]
    assert method_pages.made_by("lbfgs") == made
    readme = (ROOT / "README.md").read_text()
    for name in {*METHODS, *NONSMOOTH, *INNER}:
        assert f"`{name}`" in readme, f"no row for {name}"


def test_a_list_of_all_pages_is_written(tmp_path):
    method_pages.write(tmp_path / "methods")
    listed = (tmp_path / "methods" / "list.txt").read_text()
    found = {path.stem for path in (tmp_path / "methods").glob("*.md")}
    assert found == {*BY_PAGE, "auto"}
    assert set(re.findall(r"^methods/(.*)$", listed, re.MULTILINE)) == found


def test_what_the_readme_prints_is_of_the_order_of_a_run(tmp_path, monkeypatch):
    """The words to the letter, the numbers within a factor of two: counts change with rounding."""
    shown = readme_example.PRINTED.search((ROOT / "README.md").read_text())
    copy = tmp_path / "README.md"
    copy.write_text((ROOT / "README.md").read_text())
    monkeypatch.setattr(readme_example, "README", copy)
    readme_example.write()
    made = readme_example.PRINTED.search(copy.read_text())
    number = re.compile(r"\d+(?:\.\d+)?")
    assert number.sub("#", made["bill"]) == number.sub("#", shown["bill"])
    for one, other in zip(*(number.findall(m[0]) for m in (shown, made)), strict=True):
        assert 0.5 <= float(one) / float(other) <= 2.0, (
            f"{other}, not {one}: run docs/readme_example.py"
        )


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


def test_the_page_of_the_benchmarks_shows_what_was_printed(tmp_path):
    folder = ROOT / "docs" / "benchmarks"
    shown = (ROOT / "docs" / "benchmarks.md").read_text()
    named = re.findall(r"<benchmarks/(\w+)\.txt>", shown)
    assert len(named) == len(set(named)) >= 6 and "goal" not in shown
    for name in named:
        text = (folder / f"{name}.txt").read_text()
        assert text.startswith("$ ") and len(text.splitlines()) > 5
    benchmark_pages.write(folder, tmp_path)
    for name, (file, _) in benchmark_pages.TABLES.items():
        text = (folder / f"{file}.txt").read_text()
        head, rows = benchmark_pages.read(folder, name)
        assert len(rows) >= 6 and all(len(row) == len(head) for row in rows), name
        words = text.split()
        assert all(word in words for row in rows for cell in row for word in cell.split()), name
        page = (tmp_path / f"{name}.html").read_text()
        assert page.count("<tr>") == len(rows) + 1 and 'class="table sortable"' in page
        assert "goal" not in text
    for picture in re.findall(r"\]\(generated/benchmarks/(\w+\.png)\)", shown):
        assert (tmp_path / picture).stat().st_size > 10_000
    assert shown.count("**Where we lose.**") == shown.count("![") == 7


def test_every_function_of_the_theory_is_on_one_page():
    pages = [ROOT / "docs" / "theory" / f"{name}.md" for name in ("functions", "statements")]
    text = "".join(page.read_text() for page in pages)
    shown = re.findall(r"^\.\. auto(?:class|data|function):: (\w+)$", text, re.MULTILINE)
    assert sorted(shown) == sorted(gt.theory.__all__)


def test_citations_are_names_and_years():
    lines = inspect.getdoc(gt.methods.SAE).splitlines()
    citations.cite(lines)
    text = "\n".join(lines)
    assert not re.search(r"\[\d+\]", text)
    assert "Ivanova et al. (2022)" in text
    assert citations.label("R. Monteiro, B. Svaiter, A title, J. 23 (2013).") == (
        "Monteiro and Svaiter (2013)"
    )
    assert citations.label("Yu. Nesterov, Lectures (2018).") == "Nesterov (2018)"
    with pytest.raises(ValueError, match="authors and a year"):
        citations.label("Some book")


def test_the_constants_of_the_guide_are_those_of_the_table():
    """Gradients of h over the order, geometric means."""
    table = (ROOT / "docs" / "benchmarks" / "theory_factors.txt").read_text().splitlines()
    means = {line.split()[0]: line.split()[2] for line in table if line[:1].islower()}
    told = (ROOT / "docs" / "guide" / "limits.md").read_text()
    (sentence,) = re.findall(
        r"R-SAE needs (\S+) times.*?SC-SAE (\S+) times, AFB (\S+) times", told, re.S
    )
    assert sentence == (means["r-sae"], means["sc-sae"], means["afb"])
