"""Every problem f = h + g of the benchmarks and experiments, built in one place.

A function that builds a problem returns the terms ``(h, g)``, or a `KnownProblem` where the
minimiser follows from the construction. Runs start at x0 = 0.
"""

from geartrain.datasets import KnownProblem
from geartrain_lab.problems.density import log_density, newton
from geartrain_lab.problems.opposed import opposed_finite_sum, opposed_quadratics
from geartrain_lab.problems.regularised import graph_laplacian, total_variation
from geartrain_lab.problems.shards import (
    libsvm_shards,
    logistic_in_shards,
    random_shards,
    similarity_constants,
    synthetic_shards,
    with_unit_rows,
)
from geartrain_lab.problems.svm import (
    gas_sensors_svm,
    kernel_svm,
    random_kernel_svm,
    rbf_kernel,
    rings_kernel_svm,
)
from geartrain_lab.problems.svm_reference import kernel_svm_minimum

__all__ = [
    "KnownProblem",
    "gas_sensors_svm",
    "graph_laplacian",
    "kernel_svm",
    "kernel_svm_minimum",
    "libsvm_shards",
    "log_density",
    "logistic_in_shards",
    "newton",
    "opposed_finite_sum",
    "opposed_quadratics",
    "random_kernel_svm",
    "random_shards",
    "rbf_kernel",
    "rings_kernel_svm",
    "similarity_constants",
    "synthetic_shards",
    "total_variation",
    "with_unit_rows",
]
