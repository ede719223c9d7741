"""The table of the paper: complete, and true of the code."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.same_everywhere  # text

ROOT = Path(__file__).parent.parent


def load():
    spec = importlib.util.spec_from_file_location("paper_table", ROOT / "docs" / "paper_table.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["paper_table"] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


paper_table = load()
FOUND = paper_table.collect()
# How many of each the paper has.
NUMBERED = {
    "Definition": 1,
    "Assumption": 4,
    "Algorithm": 3,
    "Lemma": 4,
    "Theorem": 3,
    "Corollary": 3,
    "Table": 2,
    "Figure": 4,
}


def test_every_numbered_item_of_the_paper_has_a_row():
    wanted = {f"{kind} {k}" for kind, count in NUMBERED.items() for k in range(1, count + 1)}
    kinds = tuple(NUMBERED)
    assert {item for item in paper_table.ITEMS if item.startswith(kinds)} == wanted


@pytest.mark.parametrize("item", paper_table.ITEMS)
def test_every_item_is_in_the_code_and_held_by_a_test_or_says_why_not(item):
    places = FOUND.get(item, [])
    if item in paper_table.ABSENT:
        assert not places
        return
    tests = [p for p in places if p.path.startswith("tests/")]
    assert tests, f"no test is marked '# Paper: {item}'"
    assert len(tests) < len(places), f"nothing in the code is marked '# Paper: {item}'"
    assert all(p.name.startswith("test_") for p in tests)


def test_every_marker_names_an_item():
    assert set(FOUND) <= set(paper_table.ITEMS), set(FOUND) - set(paper_table.ITEMS)
    assert set(paper_table.ABSENT) <= set(paper_table.ITEMS)


def test_every_named_object_exists():
    for place in {place for places in FOUND.values() for place in places if place.name}:
        path = ROOT / place.path
        if place.path.startswith("src/"):
            module = place.path.removeprefix("src/").removesuffix(".py").replace("/", ".")
            assert hasattr(importlib.import_module(module), place.name)
        else:
            names = {getattr(node, "name", None) for node in ast.parse(path.read_text()).body}
            assert place.name in names


def test_the_table():
    lines = paper_table.table().replace("<wbr>", "").splitlines()
    assert len(lines) == 2 + len(paper_table.ITEMS)
    rows = {line[len("| **") :].split("**")[0]: line for line in lines[2:]}
    assert set(rows) == set(paper_table.ITEMS)
    assert "<code>theory.orders.theorem_1</code>" in rows["Theorem 1"]
    assert "test: <code>test_theory.py::test_theorem_1</code>" in rows["Theorem 1"]
    assert "the middle loop takes at least one step" in rows["Theorem 1"].lower()
    assert "<code>methods.sae.SAE</code>" in rows["Algorithm 1"]
    assert "<code>examples/black_box_attack.py</code>" in rows["adversarial attack"]
    assert "<code>methods.cgs.CGS</code>" in rows["conditional gradient sliding"]
    assert "<code>oracles.operators.Saddle</code>" in rows["saddle-point problems"]
    assert "<code>methods.operators.hpe.HPE</code>" in rows["variational inequalities"]
    assert "not here" in rows["adaptive proximal method"]


def test_markers_are_read_from_a_file(tmp_path, monkeypatch):
    """A marker above a function, above decorators, and at the head of a file."""
    monkeypatch.setattr(paper_table, "ROOT", tmp_path)
    path = tmp_path / "one.py"
    path.write_text(
        '"""Head.\n\nDeviation: the head differs,\nover two lines.\n"""\n\n# Paper: Figure 9\n\n'
        "import math\n\n\n# Paper: Lemma 8\n# Paper: Lemma 9\n@decorated\ndef f():\n"
        '    """Say.\n\n    # Deviation: a misprint\n    # of the paper.\n\n    More.\n    """\n'
    )
    found = paper_table.places(path)
    assert found["Figure 9"] == [
        paper_table.Place("one.py", "", ("the head differs, over two lines.",))
    ]
    for item in ("Lemma 8", "Lemma 9"):
        assert found[item] == [paper_table.Place("one.py", "f", ("a misprint of the paper.",))]
