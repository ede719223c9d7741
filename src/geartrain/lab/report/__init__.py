"""Figures and a page from the tables of `geartrain.lab.experiments`; nothing is computed anew."""
