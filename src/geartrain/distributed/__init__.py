"""Terms whose evaluation is communication: shards on a Dask cluster, nodes of a graph over MPI.

Dask, mpi4py and networkx are imported when they are first needed.
"""

from importlib import import_module
from typing import Any

# Name -> module, and the extra that installs what the module imports.
_WHERE = {
    "ClusterLost": ("rounds", "dask"),
    "Gossip": ("gossip", "mpi"),
    "LogisticRegression": ("estimator", "dask,sklearn"),
    "similarity": ("difference", "dask"),
}

__all__ = ["ClusterLost", "Gossip", "LogisticRegression", "similarity"]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'geartrain.distributed' has no attribute {name!r}")
    module, extra = _WHERE[name]
    try:
        return getattr(import_module(f"geartrain.distributed.{module}"), name)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"geartrain.distributed.{name} needs {error.name}: pip install 'geartrain[{extra}]'"
        ) from error


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
