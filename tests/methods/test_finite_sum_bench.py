"""`geartrain bench kernels` prints its rows and writes them."""

import json

from geartrain.cli import main


def test_bench_kernels(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("GEARTRAIN_DATA", str(tmp_path))
    target = tmp_path / "rows.json"
    assert main(["bench", "kernels", "--quick", "--json", str(target)]) == 0
    rows = json.loads(target.read_text())
    printed = capsys.readouterr().out
    assert len(rows) >= 6 and all(row["what"] in printed for row in rows)
    assert all(row["figure"] > 0 for row in rows)
    # An accident such as a kernel that falls back to Python shows at once.
    assert all(row["figure"] < 100 for row in rows)
