"""Which method, on which levels of terms, at which prices: ``method="auto"``."""
