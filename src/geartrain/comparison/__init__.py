"""Several methods on one problem: one call, one table, one figure."""

from geartrain.comparison.comparing import compare
from geartrain.comparison.table import Comparison, Trial

__all__ = ["Comparison", "Trial", "compare"]
