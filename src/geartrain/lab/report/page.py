"""One self-contained page: figures by plotly with its script inside, tables, and a short text."""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_CONFIG = {"responsive": True, "displaylogo": False, "showSendToCloud": False}

_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.55 system-ui, sans-serif; color: #1b1b1b; background: #fff; margin: 0; }
main { max-width: 1360px; margin: 0 auto; padding: 0 16px 48px; }
h1 { font-size: 1.7rem; line-height: 1.25; } h2 { font-size: 1.3rem; margin-top: 2.2rem; }
p, li { max-width: 46rem; }
.grid { display: grid; gap: 12px;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); }
figure { min-width: 0; margin: .5rem 0; } figcaption { text-align: center; font-weight: 600; }
.data, small { color: #555; font-size: .9rem; font-weight: 400; } small { font-size: .78rem; }
.table { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid #ddd; text-align: left; }
td { font-variant-numeric: tabular-nums; }
td.yes { color: #00674b; font-weight: 600; } td.no { color: #b03a00; font-weight: 600; }
code { overflow-wrap: anywhere; }
"""


@dataclass
class Page:
    """A page that is put together part by part.

    Parameters
    ----------
    title : str
    """

    title: str
    _parts: list[str] = field(default_factory=list)
    _figures: int = 0

    def heading(self, text: str) -> None:
        """A section begins."""
        self._parts.append(f"<h2>{html.escape(text)}</h2>")

    def text(self, sentence: str, kind: str = "") -> None:
        """A paragraph."""
        mark = f' class="{kind}"' if kind else ""
        self._parts.append(f"<p{mark}>{html.escape(sentence)}</p>")

    def lines(self, items: Sequence[str]) -> None:
        """A list."""
        body = "".join(f"<li>{html.escape(item)}</li>" for item in items)
        self._parts.append(f"<ul>{body}</ul>")

    def figures(self, figures: Sequence[Any], data: str | Sequence[str]) -> None:
        """Figures beside each other where there is room, each with the data it shows."""
        shown = [data] * len(figures) if isinstance(data, str) else data
        body = "".join(self._draw(f, words) for f, words in zip(figures, shown, strict=True))
        self._parts.append(f'<div class="grid">{body}</div>')

    def table(self, frame: Any) -> None:
        """A table that scrolls by itself where the screen is narrow."""
        head = "".join(f"<th>{html.escape(str(c))}</th>" for c in frame.columns)
        rows = "".join(f"<tr>{_cells(row)}</tr>" for row in frame.itertuples(index=False))
        self._parts.append(
            f'<div class="table"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{rows}</tbody></table></div>"
        )

    def _draw(self, figure: Any, data: str) -> str:
        self._figures += 1
        drawn = figure.to_html(
            full_html=False,
            include_plotlyjs=False,
            include_mathjax=False,
            config=_CONFIG,
            div_id=f"figure-{self._figures}",
            default_width="100%",
        )
        title = html.escape(figure.layout.meta["title"])
        caption = f"<figcaption>{title}<br><small>{html.escape(data)}</small></figcaption>"
        return f"<figure>{caption}{drawn}</figure>"

    def write(self, path: Path) -> None:
        """The file, with plotly's script in it."""
        from plotly.offline import get_plotlyjs

        title = html.escape(self.title)
        document = (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<link rel="icon" href="data:,">'
            f"<title>{title}</title><style>{_STYLE}</style>"
            f"<script>{get_plotlyjs()}</script></head>"
            f"<body><main><h1>{title}</h1>{''.join(self._parts)}</main></body></html>\n"
        )
        unfinished = path.with_name(f".part-{path.name}")
        unfinished.write_text(document, encoding="utf-8")
        os.replace(unfinished, path)


def _cells(row: Sequence[Any]) -> str:
    out = []
    for value in row:
        text = html.escape(str(value))
        mark = f' class="{text}"' if text in ("yes", "no") else ""
        out.append(f"<td{mark}>{text}</td>")
    return "".join(out)
