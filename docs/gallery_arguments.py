"""The command line with which the gallery runs the examples."""

from typing import Any


def arguments(gallery_conf: Any, script_vars: Any) -> list[str]:
    """No pictures on disk: the gallery takes them from the figures."""
    return ["--out", ""]
