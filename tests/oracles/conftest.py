"""Where there is no PyTorch and no JAX to install, the set-up leaves them out (pyproject.toml)."""

import platform
import sys

if sys.platform == "darwin" and platform.machine() != "arm64":
    collect_ignore = ["test_autodiff.py"]
