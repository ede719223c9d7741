r"""Trial points for SAE-QN: where F_{L,x} is small, by what was learned about h.

Both ways start at p, the last point where the gradients are known, and ask h for nothing.

- `Proximal`: the minimiser of <grad h(p), v> + 1/2 <v - p, B(v - p)> + g(v) + L/2 \|v - x\|^2 with
  B from `geartrain.methods.secant.clipped_sr1`.
- `BFGSTrial`: a BFGS step on F_{L,x} with the Hessian of g + L/2 \|.\|^2 as initial matrix.

For a convex h the first. For an h that may be non-convex, such as a difference f - f_1, clipping
loses half of what was learned, and without it the model is not convex; the BFGS matrix of f is.
There the first is taken while h is so small beside g that its points pass, then the second.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from geartrain.core.loop import AcceptRule, InnerRun, solve_model
from geartrain.methods.inner.lbfgs import LBFGS
from geartrain.methods.inner.lbfgs import Pairs as InnerPairs
from geartrain.methods.secant import LowRank, Pairs, clipped_sr1, two_loops
from geartrain.oracles.protocols import Vector
from geartrain.problem import Envelope, Model, norm


@dataclass(frozen=True)
class Known:
    """A point and all that is known there."""

    v: Vector
    grad_h: Vector
    grad_g: Vector
    pairs: Pairs  # of h and g along the middle steps
    inner_pairs: InnerPairs  # of g along the inner steps

    @property
    def grad(self) -> Vector:
        """Gradient of f."""
        return self.grad_h + self.grad_g


@dataclass(frozen=True)
class Trial:
    """A trial point, before h is asked."""

    v: Vector
    grad_g: Vector  # gradient of g at v
    predicted: Vector  # gradient of F_{L,x} at v, as far as the model knows
    inner_pairs: InnerPairs
    exhausted: bool  # the inner run was given up


class TrialMaker(Protocol):
    """A way to make trial points."""

    @property
    def safety(self) -> float:
        """The next L is this times the error of the model along the step."""

    @property
    def first(self) -> float:
        """The first L is this times the curvature of g along the gradient."""

    @property
    def cautious(self) -> bool:
        """Whether a trial that did not pass at once ends the momentum."""

    def __call__(self, F: Envelope, p: Known) -> Trial:
        """A trial point from p."""


@dataclass(frozen=True)
class LearnedModel(Model):
    """phi(v) = <beta, v> + alpha/2 |v|^2 + 1/2 <v - p, B (v - p)> + g(v)."""

    p: Vector = field(kw_only=True)
    B: LowRank = field(kw_only=True)

    def grad(self, v: Vector, grad_g: Vector) -> Vector:
        """Gradient of phi at v."""
        return self.beta + self.alpha * v + self.B @ (v - self.p) + grad_g

    def quadratic(self, s: Vector) -> Vector:
        """The Hessian of the quadratic part times s."""
        return self.alpha * s + self.B @ s


@dataclass(frozen=True)
class Proximal:
    r"""Minimise h's learned model + g + L/2 \|. - x\|^2 to \|grad phi\| <= accuracy L \|v - x\|."""

    inner: LBFGS
    accuracy: float = 0.45
    safety: float = 2.0
    first: float = 1.0
    cautious: bool = False

    def __call__(self, F: Envelope, p: Known) -> Trial:
        """A trial point from p."""
        L, x, f = F.L, F.x, F.f
        phi = LearnedModel(f.g, p.grad_h - L * x, L, f.L_g.value, p=p.v, B=clipped_sr1(p.pairs))

        def accept(v: Vector, grad_g: Vector, grad_phi: Vector) -> bool:
            return norm(grad_phi) <= self.accuracy * L * norm(v - x)

        run = _solve(self.inner, phi, p, accept)
        predicted = phi.grad(run.v, run.grad_g)
        return Trial(run.v, run.grad_g, predicted, run.state.pairs, _exhausted(run))


@dataclass(frozen=True)
class BFGSTrial:
    r"""The two loops of L-BFGS over the pairs of F_{L,x}, g + L/2 \|.\|^2 between them.

    Between the loops stands the minimiser of <q, v> + D_g(v, p) + L/2 \|v - p\|^2, D_g the Bregman
    distance of g, to a residual of accuracy \|q\|.
    """

    inner: LBFGS
    accuracy: float = 0.125
    safety: float = 0.5
    first: float = 0.1
    cautious: bool = True

    def __call__(self, F: Envelope, p: Known) -> Trial:
        """A trial point from p."""
        L, g = F.L, F.f.g
        runs: list[InnerRun] = []

        def initial(q: Vector) -> Vector:
            phi = Model(g, q - p.grad_g - L * p.v, L, F.f.L_g.value)
            allowed = self.accuracy * norm(q)
            runs.append(_solve(self.inner, phi, p, lambda v, grad_g, r: norm(r) <= allowed))
            return runs[0].v - p.v

        d = two_loops(p.pairs, L, F.grad(p.v, p.grad), initial)
        v = p.v + d
        run = runs[0]
        # With no pairs yet the step is the inner solution, whose gradient is known.
        grad_g = run.grad_g if np.array_equal(v, run.v) else g.grad(v)
        return Trial(v, grad_g, np.zeros_like(v), run.state.pairs, _exhausted(run))


def difference_trials(inner: LBFGS) -> tuple[TrialMaker, ...]:
    """For an h that may be non-convex: a bold `Proximal` until it fails, then `BFGSTrial`."""
    bold = Proximal(inner, accuracy=0.3, safety=0.35, first=0.01, cautious=True)
    return bold, BFGSTrial(inner)


def _solve(inner: LBFGS, phi: Model, p: Known, accept: AcceptRule) -> InnerRun:
    """An inner run from p that goes on with the pairs of the last one."""
    return solve_model(replace(inner, start=p.inner_pairs), phi, p.v, accept, grad_g0=p.grad_g)


def _exhausted(run: InnerRun) -> bool:
    return not (run.accepted or run.floor)
