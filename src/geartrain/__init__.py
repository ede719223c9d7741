"""Minimise h + g, two convex terms at different prices, asking each as rarely as possible.

Terms, `minimize`, `equilibrium`, `resume` and `compare` are here; everything else is in the
modules: `methods`, `inner`, `stop`, `geometry`, `theory`, `callbacks`, `estimators`, `distributed`
and `datasets`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from geartrain.comparison import Comparison, compare
from geartrain.core import stopping as stop
from geartrain.equilibrium import equilibrium
from geartrain.minimize import minimize
from geartrain.oracles import LinearModel, LogSumExp, Quadratic, Term, check_term
from geartrain.oracles.adapters import from_jax, from_pyproximal, from_torch
from geartrain.oracles.linear import Linear
from geartrain.oracles.nonsmooth import L1, Ball, Box, GroupL1, NonNegative, Simplex
from geartrain.oracles.operators import Operator, Saddle
from geartrain.resume import resume
from geartrain.structured import HuberTV, NuclearNorm, TotalVariation

if TYPE_CHECKING:
    from geartrain import callbacks, datasets, distributed, estimators, geometry, methods, theory
    from geartrain.methods import SAE, ScipyLBFGS, inner
    from geartrain.methods.inner import Katyusha

__version__ = "0.1.0"

__all__ = [
    "L1",
    "SAE",
    "Ball",
    "Box",
    "Comparison",
    "GroupL1",
    "HuberTV",
    "Katyusha",
    "Linear",
    "LinearModel",
    "LogSumExp",
    "NonNegative",
    "NuclearNorm",
    "Operator",
    "Quadratic",
    "Saddle",
    "ScipyLBFGS",
    "Simplex",
    "Term",
    "TotalVariation",
    "callbacks",
    "check_term",
    "compare",
    "datasets",
    "distributed",
    "equilibrium",
    "estimators",
    "from_jax",
    "from_pyproximal",
    "from_torch",
    "geometry",
    "inner",
    "methods",
    "minimize",
    "resume",
    "stop",
    "theory",
]

# Imported when they are asked for, so that ``import geartrain`` is quick.
_MODULES = {
    "callbacks": "geartrain.callbacks",
    "datasets": "geartrain.datasets",
    "distributed": "geartrain.distributed",
    "estimators": "geartrain.estimators",
    "geometry": "geartrain.geometry",
    "inner": "geartrain.methods.inner",
    "methods": "geartrain.methods",
    "theory": "geartrain.theory",
}
# Methods that have a name here, too.
_METHODS = {"SAE": "methods", "ScipyLBFGS": "methods", "Katyusha": "inner"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name in _METHODS:
        return getattr(import_module(_MODULES[_METHODS[name]]), name)
    raise AttributeError(f"module 'geartrain' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
