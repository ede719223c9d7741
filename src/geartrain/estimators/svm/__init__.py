"""Kernel support vector machines."""
