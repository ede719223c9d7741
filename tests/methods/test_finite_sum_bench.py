"""`geartrain bench kernels` prints its rows and writes them."""

import json
import subprocess

import pytest

from geartrain.cli import main
from geartrain_lab.benches import compiled_loops as kernels

pytestmark = [
    pytest.mark.outside,  # a bench in a small form
    pytest.mark.same_everywhere,  # times are printed
]


def in_this_process(command, **options):
    """What the child process would print, with kernels that are compiled already."""
    child = command[3]
    rows = kernels.ratios(quick=True) if child == "ratios" else kernels.compilation(child)
    return subprocess.CompletedProcess(command, 0, json.dumps(rows), "")


@pytest.mark.parametrize("children", [False, pytest.param(True, marks=pytest.mark.long)])
def test_bench_kernels(children, tmp_path, capsys, monkeypatch):
    """Figures are times: they are there and positive, and nothing more is asked of them here."""
    monkeypatch.setenv("GEARTRAIN_DATA", str(tmp_path))
    if not children:
        ratio = kernels._ratio
        monkeypatch.setattr(kernels, "_ratio", lambda kernel, unit, _: ratio(kernel, unit, 1))
        monkeypatch.setattr(subprocess, "run", in_this_process)
    target = tmp_path / "rows.json"
    assert main(["bench", "kernels", "--quick", "--json", str(target)]) == 0
    rows = json.loads(target.read_text())["rows"]
    printed = capsys.readouterr().out
    assert len(rows) >= 6 and all(row["what"] in printed for row in rows)
    assert all(row["figure"] > 0 for row in rows)
