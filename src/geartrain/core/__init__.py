"""One driver for all loops: stepping, stopping, history, results."""
