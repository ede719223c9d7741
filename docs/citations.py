"""Citations by name and year: ``[1]_`` becomes ``Monteiro and Svaiter (2013)`` in the pages.

Docstrings number their references, which is short in a terminal. In the pages the number becomes
the authors and the year, and the list of references becomes a list without numbers.
"""

from __future__ import annotations

import re
from typing import Any

_ENTRY = re.compile(r"^\.\. \[(\d+)\] (.*)$")
_AUTHOR = re.compile(r"^(?:[A-Z][a-z]?\.[- ]?)+ ?(?P<name>[A-Z][\w'-]+)(?P<more> et al\.)?$")
_YEAR = re.compile(r"\((?:[^()]*\b)?((?:19|20)\d\d)\)")


def label(reference: str) -> str:
    """``Monteiro and Svaiter (2013)`` of a reference that begins with its authors."""
    names, more = [], False
    for part in reference.split(", "):
        match = _AUTHOR.match(part)
        if match is None:
            break
        names.append(match["name"])
        more = more or match["more"] is not None
    year = _YEAR.search(reference)
    if not names or year is None:
        raise ValueError(f"a reference needs authors and a year in brackets: {reference}")
    if more or len(names) > 2:
        return f"{names[0]} et al. ({year[1]})"
    return f"{' and '.join(names)} ({year[1]})"


def cite(lines: list[str]) -> None:
    """Replace the numbers in the lines of a docstring, in place."""
    entries: dict[str, str] = {}
    kept: list[str] = []
    current: list[str] | None = None
    for line in lines:
        match = _ENTRY.match(line)
        if match:
            current = [match[2]]
            entries[match[1]] = ""
            kept.append(f"\0{match[1]}")
        elif current is not None and line.startswith("   ") and line.strip():
            current.append(line.strip())
        else:
            current = None
            kept.append(line)
        if current is not None:
            number = kept[-1][1:]
            entries[number] = " ".join(current)
    labels = {number: label(text) for number, text in entries.items()}
    out: list[str] = []
    for line in kept:
        if line.startswith("\0"):
            # "A. Ivanova" would begin a list with letters; an escaped letter is a letter.
            out += [f"- \\{entries[line[1:]]}", ""]
        else:
            out.append(re.sub(r"\[(\d+)\]_", lambda m: labels.get(m[1], m[0]), line))
    lines[:] = out


def process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """The hook of autodoc, called before numpydoc renames the numbers."""
    cite(lines)
