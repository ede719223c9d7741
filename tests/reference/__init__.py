"""Literal transcriptions of the algorithm boxes, in plain NumPy, to compare with."""
