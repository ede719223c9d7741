"""Methods for equilibria: 0 in P(z) + Q(z) + dpsi(z), P dear and Q cheap."""
