"""Measurements behind ``geartrain bench``."""
