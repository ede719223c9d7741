"""Compiled loops; every module here imports Numba, so import them only where they run."""
