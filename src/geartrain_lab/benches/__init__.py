"""Benchmarks that compare seconds: compiled loops, estimators, and rounds on a cluster."""
