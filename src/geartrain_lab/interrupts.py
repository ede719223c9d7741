"""Ctrl-C ends a measurement, wherever it strikes: half a run makes no table."""

from __future__ import annotations

from typing import Any

import geartrain as gt
from geartrain.core.status import Status


def run_whole(*args: Any, **kwargs: Any) -> Any:
    """`geartrain.minimize`, except that Ctrl-C raises instead of returning the point so far."""
    res = gt.minimize(*args, **kwargs)
    if res.status == Status.INTERRUPTED:
        raise KeyboardInterrupt
    return res
