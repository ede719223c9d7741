"""Several methods on one problem: one call, one table, one figure."""

from geartrain.comparison.comparing import compare
from geartrain.comparison.table import ComparedRun, Comparison

__all__ = ["ComparedRun", "Comparison", "compare"]
