"""Log-densities on the line."""
