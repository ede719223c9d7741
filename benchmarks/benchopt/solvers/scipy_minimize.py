"""SciPy's L-BFGS-B and nonlinear conjugate gradients on the sum."""

import numpy as np
from benchopt import BaseSolver
from scipy.optimize import minimize


class Solver(BaseSolver):
    """Every evaluation asks both terms."""

    name = "SciPy"
    requirements = ["scipy"]
    parameters = {"method": ["L-BFGS-B", "CG"]}

    def set_objective(self, h, g):
        """The terms."""
        self.h, self.g = h, g

    def run(self, callback):
        """One evaluation an iteration."""
        self.x, self.calls = np.zeros(self.h.n), 0

        def f(x):
            self.calls += 1
            (h, dh), (g, dg) = self.h.value_and_grad(x), self.g.value_and_grad(x)
            return h + g, dh + dg

        def record(intermediate_result):
            self.x = intermediate_result.x
            if not callback():
                raise StopIteration

        options = {"maxiter": 10**6, "gtol": 1e-14}
        if self.method == "L-BFGS-B":
            options |= {"maxcor": 20, "ftol": 0.0, "maxfun": 10**6}
        if callback():
            done = minimize(
                f, self.x, jac=True, method=self.method, callback=record, options=options
            )
            self.x = done.x

    def get_result(self):
        """The point and the calls until there."""
        return {"x": self.x, "h_grad": self.calls, "g_grad": self.calls}
