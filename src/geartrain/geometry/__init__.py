"""Inner products other than the Euclidean one, for ``minimize(..., geometry=...)``."""

from geartrain.geometry.base import EUCLIDEAN, Geometry, as_geometry, norm
from geartrain.geometry.preconditioned import Diagonal, LowRankPlusDiagonal, Preconditioned
from geartrain.geometry.rkhs import RKHS

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
