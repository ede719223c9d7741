"""Compiled loops: the only modules that import Numba, each imported when it is first needed.

Numba keeps compiled code beside the sources and looks at the age of the file of each function
alone. Code that was compiled before any of these modules changed may name classes that are gone or
contain functions as they were, so that it is deleted here, before Numba reads it.
Their ``njit`` is that of `geartrain.compiled.jit`, which keeps compilation off the clocks.
"""

from __future__ import annotations

import contextlib
from pathlib import Path


def forget_stale(folder: Path) -> None:
    """Delete compiled code in `folder` that is older than the newest module there."""
    with contextlib.suppress(OSError):  # a folder that cannot be written, or another process
        newest = max((module.stat().st_mtime for module in folder.glob("*.py")), default=0.0)
        for index in folder.glob("__pycache__/*.nbi"):
            if index.stat().st_mtime < newest:
                index.unlink()


forget_stale(Path(__file__).parent)
