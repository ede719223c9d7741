"""Compiled loops: the only modules that import Numba, each imported when it is first needed."""
