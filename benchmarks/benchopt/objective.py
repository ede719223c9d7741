"""f(x) = h(x) + g(x), two terms at different prices."""

import numpy as np
from benchopt import BaseObjective


class Objective(BaseObjective):
    """Minimise h + g; besides f, the gradients of h and of g that a solver asked for are kept."""

    name = "h + g"
    min_benchopt_version = "1.7"
    requirements = ["pip::geartrain"]
    sampling_strategy = "callback"

    def set_data(self, h, g):
        """Terms with ``value_and_grad``."""
        self.h, self.g = h, g

    def get_objective(self):
        """What a solver sees."""
        return {"h": self.h, "g": self.g}

    def evaluate_result(self, x, h_grad, g_grad):
        """F, the norm of its gradient, and the calls so far."""
        (h, dh), (g, dg) = self.h.value_and_grad(x), self.g.value_and_grad(x)
        return {
            "value": h + g,
            "grad_norm": float(np.linalg.norm(dh + dg)),
            "h_grad": h_grad,
            "g_grad": g_grad,
        }

    def get_one_result(self):
        """The starting point."""
        return {"x": np.zeros(self.h.n), "h_grad": 0, "g_grad": 0}
