"""Data for experiments: files from the folder named by GEARTRAIN_DATA, and problems made here."""

from geartrain.datasets.download import fetch_gas_sensors
from geartrain.datasets.files import (
    DATA_VARIABLE,
    GAS_UCI,
    Table,
    data_file,
    load_counts,
    load_gas_sensors,
    load_libsvm,
    load_old_faithful,
)
from geartrain.datasets.generators import KnownProblem, make_logistic, make_quadratics

__all__ = [
    "DATA_VARIABLE",
    "GAS_UCI",
    "KnownProblem",
    "Table",
    "data_file",
    "fetch_gas_sensors",
    "load_counts",
    "load_gas_sensors",
    "load_libsvm",
    "load_old_faithful",
    "make_logistic",
    "make_quadratics",
]
