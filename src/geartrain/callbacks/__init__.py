"""Stock callbacks for ``minimize(..., callback=[...])``.

`Checkpoint` saves the run, `Progress` shows a bar, and `CSVLog` and `JSONLLog` write a row per
outer iteration. A callback with a method ``close`` has it called at the end of the run.
"""

from geartrain.callbacks.logs import CSVLog, JSONLLog
from geartrain.callbacks.progress import Progress
from geartrain.core.checkpoint import Checkpoint

__all__ = ["CSVLog", "Checkpoint", "JSONLLog", "Progress"]
