"""The table of questions for the pages that include it."""

from __future__ import annotations

from pathlib import Path

from geartrain.oracles.questions import markdown_table


def write(folder: Path) -> None:
    """Write the table to ``folder/questions.md``."""
    folder.mkdir(exist_ok=True)
    (folder / "questions.md").write_text(markdown_table() + "\n")
