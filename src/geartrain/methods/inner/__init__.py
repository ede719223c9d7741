"""Methods for the inner problem phi(v) = <beta, v> + alpha/2 |v|^2 + g(v)."""
