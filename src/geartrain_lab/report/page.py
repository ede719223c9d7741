"""One self-contained page: text, figures with plotly's script inside, tables."""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from geartrain_lab.report.interactive import Group, Key


@dataclass
class Page:
    """A page that is put together part by part.

    Text may hold ``**emphasis**`` for the numbers that matter; everything else is escaped.

    Parameters
    ----------
    title : str
        Title of the document.
    """

    title: str
    _parts: list[str] = field(default_factory=list)
    _figures: dict[str, str] = field(default_factory=dict)  # id -> JSON

    def opening(self, kicker: str, story: Mapping[str, str], group: Group, data: str) -> None:
        """The story: a headline, a sentence per subject, one picture, and the data it is about."""
        told = "".join(
            f"<section><h2>{prose(subject)}</h2><p>{prose(sentence)}</p></section>"
            for subject, sentence in story.items()
        )
        self._parts.append(
            f'<header class="opening"><p class="kicker">{prose(kicker)}</p>'
            f"<h1>{prose(self.title)}</h1>"
            f'<div class="story">{told}</div>{self._group(group)}'
            f'<p class="data">{prose(data)}</p></header>'
        )

    def heading(self, text: str, introduction: str = "") -> None:
        """A section begins."""
        below = f"<p>{prose(introduction)}</p>" if introduction else ""
        self._parts.append(f'<div class="chapter"><h2>{prose(text)}</h2>{below}</div>')

    def finding(self, title: str, paragraphs: Sequence[str], group: Group, note: str = "") -> None:
        """A finding with its figures beside it."""
        told = "".join(f"<p>{prose(p)}</p>" for p in paragraphs)
        small = f'<p class="data">{prose(note)}</p>' if note else ""
        wide = " wide" if len(group.panels) > 1 else ""
        self._parts.append(
            f'<section class="finding{wide}"><div class="told"><h3>{prose(title)}</h3>{told}{small}'
            f"</div>{self._group(group)}</section>"
        )

    def text(self, sentence: str) -> None:
        """A paragraph."""
        self._parts.append(f"<p>{prose(sentence)}</p>")

    def subheading(self, text: str) -> None:
        """A heading within a section."""
        self._parts.append(f"<h3>{prose(text)}</h3>")

    def table(self, frame: Any, code: Sequence[str] = ()) -> None:
        """A table that scrolls inside its box where the screen is narrow; some columns are code."""
        head = "".join(f"<th>{prose(str(c))}</th>" for c in frame.columns)
        literal = {list(frame.columns).index(name) for name in code}
        rows = "".join(f"<tr>{_cells(row, literal)}</tr>" for row in frame.itertuples(index=False))
        self._parts.append(
            f'<div class="table" tabindex="0"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{rows}</tbody></table></div>"
        )

    def _group(self, group: Group) -> str:
        keys = "".join(map(_key, group.keys))
        # A figure without a curve, because no run got far enough, is left out.
        drawn = [p for p in group.panels if p.figure.data]
        figures = "".join(self._figure(p.title, p.figure) for p in drawn)
        return (
            f'<div class="group"><div class="legend" role="group" aria-label="Legend">{keys}</div>'
            f'<div class="panels">{figures}</div></div>'
        )

    def _figure(self, title: str, figure: Any) -> str:
        name = f"figure-{len(self._figures) + 1}"
        self._figures[name] = figure.to_json()
        return (
            f"<figure><figcaption>{prose(title)}</figcaption>"
            f'<div class="plot" id="{name}" style="height:{figure.layout.height}px"></div></figure>'
        )

    def write(self, path: Path) -> None:
        """Write the file, with plotly's script in it; it needs no network."""
        from plotly.offline import get_plotlyjs

        here = resources.files("geartrain_lab.report")
        style, script = ((here / name).read_text("utf-8") for name in ("page.css", "page.js"))
        figures = ",".join(f"{json.dumps(name)}:{data}" for name, data in self._figures.items())
        figures = figures.replace("</", "<\\/")
        title = html.escape(self.title)
        document = (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<meta name="color-scheme" content="light dark">'
            '<link rel="icon" href="data:,">'
            f"<title>{title}</title><style>{style}</style></head>"
            f"<body><main>{''.join(self._parts)}</main>"
            "<noscript><p>The figures are drawn by a script; the folder "
            "<code>figures</code> beside this page has them as pictures.</p></noscript>"
            f"<script>{get_plotlyjs()}</script>"
            f"<script>const FIGURES = {{{figures}}};\n{script}</script></body></html>\n"
        )
        unfinished = path.with_name(f".part-{path.name}")
        unfinished.write_text(document, encoding="utf-8")
        os.replace(unfinished, path)


def prose(text: str) -> str:
    """Escaped text: ``**...**`` is emphasised, 1e-3 a power of ten, L_h has an index.

    Quartiles in brackets stay on one line.
    """
    out = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", html.escape(text, quote=False))
    out = re.sub(r"\b([Lg])_(h|g|k)\b", r"\1<sub>\2</sub>", out)
    out = re.sub(r"(\[[^\]]+, [^\]]+\])", r'<span class="quartiles">\1</span>', out)
    return re.sub(r"\b(\d(?:\.\d+)?)e([+-])0*(\d+)\b", _power, out)


def _power(number: re.Match[str]) -> str:
    mantissa, sign, exponent = number.groups()
    factor = "" if mantissa == "1" else f"{mantissa}&#8239;&times;&#8239;"
    return f"{factor}10<sup>{'&minus;' if sign == '-' else ''}{exponent}</sup>"


def _key(key: Key) -> str:
    marks = {
        "line": '<line x1="1" y1="6" x2="25" y2="6"/>',
        "dash": '<line x1="1" y1="6" x2="25" y2="6" stroke-dasharray="6 4"/>',
        "dot": '<circle cx="13" cy="6" r="5" fill="currentColor" stroke="none"/>',
        "bar": '<rect x="5" y="1" width="16" height="10" fill="currentColor" stroke="none"/>',
    }
    name = html.escape(key.name)
    meaning = f' title="{html.escape(key.meaning)}"' if key.meaning else ""
    return (
        f'<button type="button" aria-pressed="true" data-name="{name}"{meaning}>'
        f'<svg width="26" height="12" style="color:{key.colour}" aria-hidden="true">'
        f"{marks[key.mark]}</svg>{name}</button>"
    )


def _cells(row: Sequence[Any], code: set[int]) -> str:
    out = []
    for j, value in enumerate(row):
        text = str(value)
        mark = f' class="{text}"' if text in ("yes", "no", "open") else ""
        shown = f"<code>{html.escape(text)}</code>" if j in code else prose(text)
        out.append(f"<td{mark}>{shown}</td>")
    return "".join(out)
