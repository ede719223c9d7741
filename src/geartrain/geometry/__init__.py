"""Inner products other than the Euclidean one, for ``minimize(..., geometry=...)``."""

from geartrain.geometry.base import EUCLIDEAN, Geometry, as_geometry
from geartrain.geometry.preconditioned import Diagonal, LowRankPlusDiagonal, Preconditioned
from geartrain.geometry.rkhs import RKHS
from geartrain.oracles.vectors import norm

__all__ = [
    "EUCLIDEAN",
    "RKHS",
    "Diagonal",
    "Geometry",
    "LowRankPlusDiagonal",
    "Preconditioned",
    "as_geometry",
    "norm",
]
