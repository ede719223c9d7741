"""Estimators for scikit-learn: `KernelSVC` and `LogDensity`."""

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise ImportError(
        "geartrain.estimators needs scikit-learn; install it with pip install 'geartrain[sklearn]'"
    ) from error

from geartrain.estimators.kernel_svc import KernelSVC
from geartrain.estimators.log_density import LogDensity

__all__ = ["KernelSVC", "LogDensity"]
