"""Small tables for notebooks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

_LEFT, _RIGHT = "text-align:left", "text-align:right"
# Texts of several lines keep them; a caption may be wider than its table.
_TEXT, _CAPTION = f"{_LEFT};white-space:pre-line", f"{_LEFT};white-space:nowrap"


def facts(rows: Iterable[tuple[str, str]], caption: str) -> str:
    """A table of two columns, a name and what is to be said about it."""
    body = "".join(
        f"<tr><th style='{_LEFT}'>{escape(name)}</th><td style='{_TEXT}'>{escape(text)}</td></tr>"
        for name, text in rows
    )
    return f"<table><caption style='{_CAPTION}'>{escape(caption)}</caption>{body}</table>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str) -> str:
    """A table with a line of names; the first column is left-aligned, the others are not."""

    def line(cells: Sequence[str], tag: str) -> str:
        styles = [_LEFT] + [_RIGHT] * (len(cells) - 1)
        return "".join(
            f"<{tag} style='{style}'>{escape(cell)}</{tag}>"
            for style, cell in zip(styles, cells, strict=True)
        )

    body = "".join(f"<tr>{line(cells, 'td')}</tr>" for cells in rows)
    return (
        "<div style='overflow-x:auto'>"
        f"<table><caption style='{_CAPTION}'>{escape(caption)}</caption>"
        f"<thead><tr>{line(head, 'th')}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def number(value: float) -> str:
    """A number as a cell shows it; whole numbers in full, what is not known as a dash."""
    if math.isnan(value):
        return "-"
    whole = abs(value) < 1e15 and value == int(value)
    return str(int(value)) if whole else f"{value:.4g}"
