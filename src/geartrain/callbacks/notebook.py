"""A progress bar in a notebook."""

from __future__ import annotations

import sys
from html import escape
from importlib import import_module
from typing import Any


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook; IPython is not imported to find out."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


class NotebookBar:
    """One output of the cell, replaced whenever there is news: a bar and a line of text."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, text: str, done: float, over: bool = False) -> None:
        """Draw the bar.

        Parameters
        ----------
        text : str
            The line beside the bar.
        done : float
            Part of the run that is done, from 0 to 1; 0 where nothing is known.
        over : bool
            Whether the run has ended.
        """
        ipython = import_module("IPython.display")
        value = f"value='{1.0 if over else done:.3f}' " if over or done > 0.0 else ""
        bar = ipython.HTML(
            "<div style='display:flex;align-items:center;gap:0.8em;font-family:monospace'>"
            f"<progress {value}max='1' style='width:14em'></progress>"
            f"<span>{escape(text)}</span></div>"
        )
        if self._handle is None:
            self._handle = ipython.display(bar, display_id=True)
        else:
            self._handle.update(bar)
