"""Figures and a page from the tables of `geartrain_lab.experiments`; nothing is computed anew."""
