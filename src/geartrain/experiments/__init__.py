"""The experiments of Section 5: configuration -> tables; `geartrain.report` draws from tables."""
