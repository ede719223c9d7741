"""Quasi-Newton methods: what was learned about curvature is used for the next step."""
