"""Estimators for scikit-learn: `KernelSVC`, `KernelSVR` and `LogDensity`."""

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise ImportError(
        "geartrain.estimators needs scikit-learn; install it with pip install 'geartrain[sklearn]'"
    ) from error

from geartrain.estimators.density.log_density import LogDensity
from geartrain.estimators.svm.kernel_svc import KernelSVC
from geartrain.estimators.svm.kernel_svr import KernelSVR

__all__ = ["KernelSVC", "KernelSVR", "LogDensity"]
