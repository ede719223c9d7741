"""Columns of a history in the words of an axis, and which of them belong on a logarithmic axis."""

from __future__ import annotations

from geartrain.oracles.questions import counted_in_words

_COLUMNS = {
    "seconds": "seconds",
    "iter": "outer iterations",
    "f": "$f(x)$",
    "grad_norm": r"$\|\nabla f(x)\|$",
    "L": "$L$",
    "A": "$A_k$",
    "ms_ratio": "Monteiro-Svaiter ratio",
}
# Positive columns whose orders of magnitude matter.
LOGARITHMIC = ("grad_norm", "L", "A")


def label(column: str) -> str:
    """The title of an axis for a column of the history."""
    name, _, kind = column.rpartition(".")
    if name and (counted := counted_in_words(kind)):
        return f"{counted} of {f'${name}$' if len(name) == 1 else name}"
    return _COLUMNS.get(column, column)
