"""Stock callbacks for ``minimize(..., callback=[...])``.

`Checkpoint` saves the run, `Progress` shows a line, `CSVLog` and `JSONLLog` write a row per outer
iteration, which `watch` plots while the file grows, and `TensorBoard` writes scalars. A callback
with a method ``close`` has it called at the end of the run.
"""

from geartrain.callbacks.logs import CSVLog, JSONLLog
from geartrain.callbacks.progress import Progress
from geartrain.callbacks.tensorboard import TensorBoard
from geartrain.callbacks.watching import watch
from geartrain.core.checkpoint import Checkpoint

__all__ = ["CSVLog", "Checkpoint", "JSONLLog", "Progress", "TensorBoard", "watch"]
