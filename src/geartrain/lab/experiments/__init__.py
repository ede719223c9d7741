"""The experiments of Section 5 of the paper; `geartrain.lab.report` draws from their tables."""
