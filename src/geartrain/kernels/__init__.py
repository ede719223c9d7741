"""Compiled loops of the randomised methods; importing a module here imports Numba."""
