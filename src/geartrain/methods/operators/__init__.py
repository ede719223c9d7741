"""Methods for 0 in P(z) + Q(z): monotone operators, saddle points, equilibria."""
