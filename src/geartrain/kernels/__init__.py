"""Numba loops of the randomised methods, dense and CSR, and nothing else."""
