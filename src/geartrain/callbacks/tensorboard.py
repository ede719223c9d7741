"""Scalars of a run for TensorBoard."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geartrain.callbacks.logs import as_row

if TYPE_CHECKING:  # SciPy's part of it takes a while
    from geartrain.core.result import Intermediate


class TensorBoard:
    """Scalars for TensorBoard: f, ``|grad f|``, seconds and calls by outer iteration.

    Needs tensorboardX, or torch with tensorboard.

    Parameters
    ----------
    folder : str or path
        Where TensorBoard looks (its ``--logdir``).
    """

    inside_iterations = False

    def __init__(self, folder: str | Path) -> None:
        self._writer = _summary_writer()(str(folder))

    def __call__(self, intermediate_result: Intermediate) -> None:
        """Add the scalars of an iteration."""
        row = as_row(intermediate_result)
        step = row.pop("nit")
        for name, value in row.items():
            if math.isfinite(value):
                self._writer.add_scalar(name.replace(".", "/"), value, step)

    def close(self) -> None:
        """Write what is left."""
        self._writer.flush()


def _summary_writer() -> Any:
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ImportError(
                "TensorBoard needs tensorboardX (pip install tensorboardX) or torch with "
                "tensorboard"
            ) from None
    return SummaryWriter
