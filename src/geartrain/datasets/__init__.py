"""Data for experiments: files from the folder named by GEARTRAIN_DATA, and generated problems."""

from geartrain.datasets.download import fetch_gas_sensors
from geartrain.datasets.files import GAS_UCI, load_counts, load_gas_sensors, load_old_faithful
from geartrain.datasets.generators import KnownProblem, make_logistic, make_quadratics
from geartrain.datasets.libsvm import load_libsvm
from geartrain.datasets.text import DATA_VARIABLE, Table, data_file

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
