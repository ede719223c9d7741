"""Imports go from a room to the rooms that the table in CONTRIBUTING.md allows."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.same_everywhere  # imports

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "geartrain"


def table():
    """Room -> rooms that it may import."""
    rows = re.findall(r"^\| `(\w+)` \|.*\|(.*)\|$", (ROOT / "CONTRIBUTING.md").read_text(), re.M)
    return {room: set(re.findall(r"`(\w+)`", allowed)) for room, allowed in rows}


def imports(text):
    """Modules of geartrain that a file imports, anywhere in it, as lists of names."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "write imports in full"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name.split(".") for name in names if name.split(".")[0] == "geartrain")


def against(allowed, files):
    """What the rooms import against the table; `files` are pairs of a path and its text."""
    for path, text in files:
        room = path.parts[0].removesuffix(".py")
        for _, *inside in imports(text):
            other = inside[0] if inside and inside[0] in ROOMS else "geartrain"
            if other != room and other not in allowed[room]:
                yield f"{path} imports {other}"


FILES = [(p.relative_to(SOURCE), p.read_text()) for p in sorted(SOURCE.rglob("*.py"))]
FILES = [(path, text) for path, text in FILES if str(path) not in ("__init__.py", "__main__.py")]
ROOMS = {path.parts[0].removesuffix(".py") for path, _ in FILES}


def test_every_room_has_a_row_and_every_row_a_room():
    assert set(table()) == ROOMS


def test_imports_go_the_way_of_the_table():
    assert list(against(table(), FILES)) == []


def test_the_table_has_no_circle():
    left = table()
    while left:
        free = {room for room, allowed in left.items() if not allowed & set(left)}
        assert free, f"a circle among {sorted(left)}"
        left = {room: allowed for room, allowed in left.items() if room not in free}


def test_an_import_against_the_table_is_found():
    turned = [
        (Path("oracles/ledger.py"), "def f():\n    from geartrain.core import driver"),
        (Path("core/loop.py"), "import geartrain.methods.sae"),
        (Path("methods/sae.py"), "from geartrain import __version__"),
    ]
    found = list(against(table(), turned))
    assert found == [
        "oracles/ledger.py imports core",
        "core/loop.py imports methods",
        "methods/sae.py imports geartrain",
    ]
