"""The two terms as the learned method asks them."""

from __future__ import annotations

import math

from geartrain.methods.quasi_newton.quadratic import is_learnable, is_solvable
from geartrain.methods.quasi_newton.step import Known
from geartrain.oracles.protocols import Vector, answers, can
from geartrain.problem import Sum


class CountedTerms:
    """Gradients of both terms, with values where they come with the gradients of h.

    Parameters
    ----------
    problem : Sum
        The counted problem.
    """

    def __init__(self, problem: Sum) -> None:
        self.problem, self.geometry = problem, problem.geometry
        h, g = answers(problem.h.term), answers(problem.g.term)
        # A value of h on its own would be a call of h; one of g is worth its price.
        self.values = "value_and_grad" in h and can(problem.g.term, "value")
        self._fused = "value_and_grad" in g
        self.quadratic_h = is_learnable(problem.h)
        self.exact = is_solvable(problem.g)  # a model with this g is minimised exactly

    def h(self, v: Vector) -> tuple[float, Vector]:
        """Value and gradient of h: one call. The value is nan where there is none."""
        if self.values:
            return self.problem.h.value_and_grad(v)
        return math.nan, self.problem.h.grad(v)

    def g(self, v: Vector) -> tuple[float, Vector]:
        """Gradient of g, and its value where that costs no call of its own."""
        if self.values and self._fused:
            return self.problem.g.value_and_grad(v)
        return math.nan, self.problem.g.grad(v)

    def both(self, v: Vector, known_g: tuple[float, Vector] | None = None) -> Known:
        """All that the method wants to know at v, g as given or asked."""
        h, grad_h = self.h(v)
        g, grad_g = self.all_of_g(v, known_g)
        return Known(v, h, g, grad_h, grad_g)

    def all_of_g(self, v: Vector, known: tuple[float, Vector] | None) -> tuple[float, Vector]:
        """Value and gradient of g; what is known is not asked for again."""
        g, grad_g = self.g(v) if known is None else known
        if self.values and math.isnan(g):
            g = self.problem.g.value(v)
        return g, grad_g
