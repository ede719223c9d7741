"""How the gallery runs the examples."""

from typing import Any

from threadpoolctl import threadpool_limits


def arguments(gallery_conf: Any, script_vars: Any) -> list[str]:
    """The command line of an example.

    No pictures on disk: the gallery takes them from the figures. One thread: the matrices are too
    small for more.
    """
    threadpool_limits(1)
    return ["--out", ""]
