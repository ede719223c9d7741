"""scikit-learn's LogisticRegression, where the problem is one."""

import warnings

import numpy as np
from benchopt import BaseSolver
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression


class Solver(BaseSolver):
    """Newton's method with conjugate gradients; a pass over all data is counted a step.

    scikit-learn does not tell how often it asks for gradients and products with the Hessian: calls
    are a lower bound.
    """

    name = "scikit-learn"
    requirements = ["scikit-learn"]
    sampling_strategy = "iteration"

    def skip(self, h, g):
        """Only a difference of logistic models is one of its problems."""
        parts = getattr(h, "parts", [])
        if not parts or any(getattr(t, "loss", None) is None for _, t in parts):
            return True, "not a logistic regression"
        return False, None

    def set_objective(self, h, g):
        """The data is that of the first part of h; C is 1/(m l2)."""
        whole = h.parts[0][1]
        self.A, self.y, self.l2 = whole.A, whole.y, g.l2

    def run(self, n_iter):
        """From scratch, for so many iterations."""
        self.x, self.steps = np.zeros(self.A.shape[1]), 0
        if n_iter:
            model = LogisticRegression(
                C=1.0 / (self.l2 * self.y.size),
                fit_intercept=False,
                solver="newton-cg",
                max_iter=n_iter,
                tol=1e-14,
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # few iterations are asked for
                model.fit(self.A, self.y)
            self.x, self.steps = model.coef_.ravel(), int(model.n_iter_[0])

    def get_result(self):
        """The point, and one call a step."""
        return {"x": self.x, "h_grad": self.steps, "g_grad": self.steps}
