"""geartrain, by method and inner method."""

import numpy as np
from benchopt import BaseSolver

import geartrain as gt


class Solver(BaseSolver):
    """``gt.minimize(h, g)``; auto is told that a gradient of h costs 100 of g."""

    name = "geartrain"
    requirements = ["pip::geartrain"]
    parameters = {"method": ["pqn", "auto", "sae+katyusha"]}

    def skip(self, h, g):
        """SAE asks for a convex h, Katyusha for the summands of g."""
        if self.method == "sae+katyusha" and not h.convex:
            return True, "SAE needs a convex h"
        return False, None

    def set_objective(self, h, g):
        """The terms."""
        self.h, self.g = h, g
        self.seed = self.get_seed(use_repetition=True)

    def warm_up(self):
        """Compile the kernels."""
        self.run_once()

    def run(self, callback):
        """One evaluation an outer iteration."""
        method, _, inner = self.method.partition("+")
        self._result = np.zeros(self.h.n), 0, 0

        def record(intermediate_result):
            calls = intermediate_result.calls
            # A full gradient is a call; m summands are one, too.
            parts = calls["g.component"] / (self.g.n_components or 1)
            self._result = intermediate_result.x, calls["h.grad"], calls["g.grad"] + parts
            return not callback()

        gt.minimize(
            self.h,
            self.g,
            method=method,
            inner=inner or "auto",
            tol=1e-12,
            seed=self.seed,
            prices={"h.grad": 100.0, "g.grad": 1.0},
            callback=record,
        )

    def get_result(self):
        """The point and the calls until there."""
        return dict(zip(("x", "h_grad", "g_grad"), self._result, strict=True))
