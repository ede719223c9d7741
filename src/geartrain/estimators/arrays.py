"""The type of the arrays here: of floats, of indices, of one or two dimensions."""

from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]
