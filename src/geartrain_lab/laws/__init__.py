"""How the oracle calls grow with the constants of the problem, measured against the theory."""
