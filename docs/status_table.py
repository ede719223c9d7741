"""The table of the ways in which a run can end, made of their messages."""

from __future__ import annotations

from pathlib import Path

from geartrain.core.status import Status


def table() -> str:
    """A table in Markdown."""
    rows = [f"| {status.value} | `{status.name}` | {status.message} |" for status in Status]
    return "\n".join(["| value | name | message |", "| --- | --- | --- |", *rows, ""])


def write(folder: Path) -> None:
    """Write the table."""
    folder.mkdir(exist_ok=True)
    (folder / "status.txt").write_text(table())
