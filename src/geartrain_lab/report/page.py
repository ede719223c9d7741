"""One self-contained page: text, figures with plotly's script inside, tables."""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from geartrain_lab.report.interactive import Group, Key


@dataclass
class Page:
    """A page that is put together part by part.

    Text may hold ``**emphasis**`` for the numbers that matter; everything else is escaped.
    """

    title: str
    _parts: list[str] = field(default_factory=list)
    _figures: dict[str, str] = field(default_factory=dict)  # id -> JSON

    def opening(self, kicker: str) -> None:
        self._add("opening", kicker=prose(kicker), title=prose(self.title))

    def figures(self, group: Group, note: str) -> None:
        self._parts.append(self._group(group))
        self.note(note)

    def note(self, text: str) -> None:
        self._add("note", text=prose(text))

    def heading(self, text: str, introduction: str = "") -> None:
        below = fill("paragraph", text=prose(introduction)) if introduction else ""
        self._add("chapter", text=prose(text), below=below)

    def finding(self, title: str, paragraphs: Sequence[str], group: Group, note: str = "") -> None:
        self._add(
            "finding",
            wide=" wide" if len(group.panels) > 1 else "",
            title=prose(title),
            told="".join(fill("paragraph", text=prose(p)) for p in paragraphs),
            small=fill("note", text=prose(note)) if note else "",
            group=self._group(group),
        )

    def text(self, sentence: str) -> None:
        self._add("paragraph", text=prose(sentence))

    def subheading(self, text: str) -> None:
        self._add("subheading", text=prose(text))

    def table(self, frame: Any, code: Sequence[str] = ()) -> None:
        """A table that scrolls inside its box where the screen is narrow; some columns are code."""
        head = "".join(f"<th>{prose(str(c))}</th>" for c in frame.columns)
        literal = {list(frame.columns).index(name) for name in code}
        rows = (f"<tr>{_cells(row, literal)}</tr>" for row in frame.itertuples(index=False))
        self._add("table", head=head, rows="".join(rows))

    def _add(self, part: str, **words: str) -> None:
        self._parts.append(fill(part, **words))

    def _group(self, group: Group) -> str:
        # A figure without a curve, because no run got far enough, is left out.
        drawn = [self._figure(p.title, p.figure) for p in group.panels if p.figure.data]
        return fill("group", keys="".join(map(_key, group.keys)), figures="".join(drawn))

    def _figure(self, title: str, figure: Any) -> str:
        name = f"figure-{len(self._figures) + 1}"
        self._figures[name] = figure.to_json()
        return fill("figure", title=prose(title), name=name, height=str(figure.layout.height))

    def write(self, path: Path) -> None:
        """Write the file, with plotly's script in it; it needs no network."""
        from plotly.offline import get_plotlyjs

        figures = ",".join(f"{json.dumps(name)}:{data}" for name, data in self._figures.items())
        document = Template(_file("page.html")).substitute(
            title=html.escape(self.title),
            style=_file("page.css"),
            main="".join(self._parts),
            plotly=get_plotlyjs(),
            figures=figures.replace("</", "<\\/"),
            script=_file("page.js"),
        )
        unfinished = path.with_name(f".part-{path.name}")
        unfinished.write_text(document, encoding="utf-8")
        os.replace(unfinished, path)


def _file(name: str) -> str:
    return (resources.files("geartrain_lab.report") / name).read_text("utf-8")


@cache
def _templates() -> dict[str, Template]:
    """The parts of a page by name."""
    parts = re.split(r"^== (\w+)\n", _file("parts.html"), flags=re.MULTILINE)[1:]
    return {n: Template(t.strip()) for n, t in zip(parts[::2], parts[1::2], strict=True)}


def fill(part: str, **words: str) -> str:
    """A part of the page with its words, which are escaped already."""
    return _templates()[part].substitute(words)


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
    meaning = f' title="{html.escape(key.meaning)}"' if key.meaning else ""
    mark = fill(key.mark)
    return fill("key", name=html.escape(key.name), meaning=meaning, colour=key.colour, mark=mark)


def _cells(row: Sequence[Any], code: set[int]) -> str:
    out = []
    for j, value in enumerate(row):
        text = str(value)
        mark = f' class="{text}"' if text in ("yes", "no", "open") else ""
        shown = f"<code>{html.escape(text)}</code>" if j in code else prose(text)
        out.append(f"<td{mark}>{shown}</td>")
    return "".join(out)
