"""The laboratory imports the library; nothing but the command line imports the laboratory."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import geartrain

pytestmark = pytest.mark.same_everywhere  # imports

ROOT = Path(geartrain.__file__).parents[1]
PACKAGES = ("geartrain", "geartrain_lab")
IMPORTERS = {"geartrain.cli"}


def imported(path, modules):
    """The modules of the package that a file imports, at its top or inside a function."""
    out = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            out |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            out |= (names & modules) or {node.module}
    return out & modules


def graph():
    """Module -> the modules that it imports, for all of both packages."""
    files = {}
    for path in (path for name in PACKAGES for path in (ROOT / name).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return {name: imported(path, files.keys()) for name, path in files.items()}


def test_only_the_command_line_imports_the_laboratory():
    outside = {
        name
        for name, uses in graph().items()
        if not name.startswith("geartrain_lab") and any(u.startswith("geartrain_lab") for u in uses)
    }
    assert outside <= IMPORTERS


def test_the_laboratory_has_no_import_cycle():
    lab = {k: {u for u in v if u != k} for k, v in graph().items() if k.startswith("geartrain_lab")}
    assert len(lab) > 20
    inside = {k: {u for u in v if u in lab} for k, v in lab.items()}
    assert list(TopologicalSorter(inside).static_order())
