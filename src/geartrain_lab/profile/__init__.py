"""Data profiles and performance profiles on random convex problems."""
