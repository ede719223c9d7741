"""Methods that do not separate, or separate otherwise: what to compare with."""
