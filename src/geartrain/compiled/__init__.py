"""Compiled loops. Numba is imported here only, and these modules only when a kernel is needed."""
