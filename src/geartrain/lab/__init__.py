"""The laboratory: problems, measurements, tables and reports. Nothing in the library imports it."""
