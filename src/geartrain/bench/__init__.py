"""Benchmarks behind ``geartrain bench``."""
