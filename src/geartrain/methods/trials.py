r"""Trial points for SAE-QN: where F_{L,x} is small, by what was learned about h.

Both ways start from p, where the gradients are known, and ask h for nothing.

- `Proximal`, for a convex h: the minimiser of
  <grad h(p), v> + 1/2 <v - p, B(v - p)> + g(v) + L/2 \|v - x\|^2 with B from
  `geartrain.methods.secant.clipped_sr1`.
- `Difference`, for an h that may be non-convex, such as f - f_1. There clipping loses half of what
  was learned, and without it the model is not convex. So what was learned is used where it is sure:
  first to find the best point w on the span of the last steps (`geartrain.methods.span`). From w, a
  proximal step with h linear while h is small beside g, a BFGS step otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from geartrain.core.loop import AcceptRule, InnerRun, solve_model
from geartrain.methods.inner.lbfgs import LBFGS
from geartrain.methods.inner.lbfgs import Pairs as InnerPairs
from geartrain.methods.secant import LowRank, Pairs, clipped_sr1, two_loops
from geartrain.methods.span import lowest_on_span, refreshed
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
        """Whether a lower point that fails the test is taken, with the momentum ended."""

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
    first: float = 0.1
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
class Difference:
    r"""The best point w on the span of the last `last` steps, then a step off it.

    h counts as small beside g while \|y_h\| <= `small` \|y_g\| for all pairs kept. Then v minimises
    <grad h(w), v> + g(v) + L/2 \|v - x\|^2 to a residual of accuracy L \|v - x\|. Otherwise v - w
    is the step of the two loops of L-BFGS over the pairs of F_{L,x}, with the minimiser of
    <q, v> + D_g(v, w) + L/2 \|v - w\|^2 between them, D_g the Bregman distance of g, to a residual
    of bfgs_accuracy \|q\|.
    """

    inner: LBFGS
    accuracy: float = 0.3
    bfgs_accuracy: float = 0.125
    safety: float = 0.25
    first: float = 0.01
    cautious: bool = True
    last: int = 3
    kept: int = 10
    small: float = 0.7

    def __call__(self, F: Envelope, p: Known) -> Trial:
        """A trial point from p."""
        recent = refreshed(F.f.g, p, p.pairs.newest(self.last))
        w = lowest_on_span(F, p, recent)
        pairs = p.pairs.newest(self.kept)
        sizes_h, sizes_g = (np.linalg.norm(Y, axis=1) for Y in (pairs.Y_h, pairs.Y_g))
        return self._proximal(F, w) if np.all(sizes_h <= self.small * sizes_g) else self._bfgs(F, w)

    def _proximal(self, F: Envelope, w: Known) -> Trial:
        L, x = F.L, F.x
        phi = Model(F.f.g, w.grad_h - L * x, L, F.f.L_g.value)
        run = _solve(
            self.inner, phi, w, lambda v, grad_g, r: norm(r) <= self.accuracy * L * norm(v - x)
        )
        predicted = phi.grad(run.v, run.grad_g)
        return Trial(run.v, run.grad_g, predicted, run.state.pairs, _exhausted(run))

    def _bfgs(self, F: Envelope, w: Known) -> Trial:
        L, g = F.L, F.f.g
        runs: list[InnerRun] = []

        def initial(q: Vector) -> Vector:
            phi = Model(g, q - w.grad_g - L * w.v, L, F.f.L_g.value)
            allowed = self.bfgs_accuracy * norm(q)
            runs.append(_solve(self.inner, phi, w, lambda v, grad_g, r: norm(r) <= allowed))
            return runs[0].v - w.v

        v = w.v + two_loops(w.pairs.newest(self.kept), L, F.grad(w.v, w.grad), initial)
        run = runs[0]
        return Trial(v, g.grad(v), np.zeros_like(v), run.state.pairs, _exhausted(run))


def _solve(inner: LBFGS, phi: Model, p: Known, accept: AcceptRule) -> InnerRun:
    """An inner run from p that goes on with the pairs of the last one."""
    return solve_model(replace(inner, start=p.inner_pairs), phi, p.v, accept, grad_g0=p.grad_g)


def _exhausted(run: InnerRun) -> bool:
    return not (run.accepted or run.floor)
