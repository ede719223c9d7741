"""The inner run by an inner method of the library: the low-rank part of the model goes with g."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from geartrain.geometry import Geometry
from geartrain.methods.base import InnerMethod, solve_model
from geartrain.methods.pqn.inner import InnerOutcome, Leave, Phi
from geartrain.methods.pqn.low_rank import LowRank
from geartrain.oracles.protocols import Vector, answers, as_term
from geartrain.oracles.sum_oracle import leaves
from geartrain.problem import Model


class QuadraticModel:
    """The quadratic <c, v> + 1/2 <v - p, B (v - p)>.

    Parameters
    ----------
    c : vector
    B : LowRank
    p : vector
    geometry : Geometry
    """

    def __init__(self, c: Vector, B: LowRank, p: Vector, geometry: Geometry) -> None:
        self.c, self.B, self.p, self.geometry = c, B, p, geometry

    def value(self, v: Vector) -> float:
        """Its value at v."""
        dot, s = self.geometry.dot, v - self.p
        return float(dot(self.c, v)) + 0.5 * float(dot(s, self.B(s)))

    def grad(self, v: Vector) -> Vector:
        """Its gradient at v."""
        return self.c + self.B(v - self.p)


class ShiftedOracle:
    """g with a quadratic added, as an oracle that counts the calls of g.

    Parameters
    ----------
    g : Oracle
        The counted term, or several of them together.
    quadratic : QuadraticModel
        What is added.
    """

    def __init__(self, g: Any, quadratic: QuadraticModel) -> None:
        self.oracle, self.quadratic = g, quadratic
        self.name, self.n, self.ledger = g.name, g.n, g.ledger
        self.leaves = leaves(g)
        self.kept: dict[str, Any] = {}
        told: dict[str, Any] = {"grad": self.grad}
        if "value_and_grad" in answers(g.term):
            self.value_and_grad, self.value = self._fused, self._value
            told |= {"value_and_grad": self._fused, "value": self._value}
        self.term = as_term(SimpleNamespace(**told, n=g.n))

    def grad(self, v: Vector) -> Vector:
        """Gradient of the sum: one gradient of g."""
        return self.oracle.grad(v) + self.quadratic.grad(v)

    def _fused(self, v: Vector) -> tuple[float, Vector]:
        value, grad = self.oracle.value_and_grad(v)
        return value + self.quadratic.value(v), grad + self.quadratic.grad(v)

    def _value(self, v: Vector) -> float:
        return self.oracle.value(v) + self.quadratic.value(v)


def solve(inner: InnerMethod, phi: Phi, enough: float, leave: Leave) -> InnerOutcome:
    """Until |grad phi| <= `enough` or `leave`; the model is divided by the part of g in it."""
    terms, p, B, a = phi.terms, phi.p, phi.B, phi.part
    problem, geometry = terms.problem, terms.geometry
    alpha = (B.lam + phi.mu) / a
    grad_h = p.grad_h if a == 1.0 else (p.grad_h + (1.0 - a) * p.grad_g) / a
    g, rest = problem.g, None
    if B.basis is not None:
        rest = LowRank(0.0, B.basis, B.T / a, geometry)
        g = ShiftedOracle(g, QuadraticModel(np.zeros_like(p.v), rest, p.v, geometry))
    psi = problem.psi
    if psi is not None and a != 1.0:
        psi = psi.weighted(psi.weight / a)
    L_g = problem.L_g.value
    top = 0.0 if rest is None else rest.top
    phi_a = Model(
        g,
        grad_h - alpha * p.v,
        alpha,
        None if L_g is None else L_g + top,
        geometry=geometry,
        psi=psi,
    )

    def accept(v: Vector, grad_g: Vector, grad_phi: Vector) -> bool:
        residual = a * terms.norm(grad_phi)
        return residual <= enough or leave(v, residual)

    run = solve_model(inner, phi_a, p.v, accept, grad_g0=p.grad_g)
    if getattr(inner, "recalls", False):
        grad_g = problem.g.grad(run.v)  # no call, and no rounding of the low-rank part
    else:
        grad_g = run.grad_g if rest is None else run.grad_g - rest(run.v - p.v)
    w = None if run.grad_psi is None else a * run.grad_psi
    return InnerOutcome(run.v, (math.nan, grad_g), a * run.residual, (), w)
