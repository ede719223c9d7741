"""Figures and a page from the tables of `geartrain.experiments`; nothing is computed anew."""
