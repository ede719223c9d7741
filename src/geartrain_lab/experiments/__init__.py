"""The experiments of Section 5 of the paper; `geartrain_lab.report` draws from their tables."""
