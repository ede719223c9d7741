r"""Trial points for SAE-QN: where F_{L,x} is small, by what was learned about h.

Both ways start from p, where the gradients are known, ask h for nothing, and minimise
<grad h(p), v> + 1/2 <v - p, B(v - p)> + g(v) + L/2 \|v - x\|^2. They differ in the matrix B.

- `Proximal`, for a convex h: `geartrain.methods.quasi_newton.secant.clipped_sr1`.
- `Difference`, for an h that may be non-convex, such as f - f_1. There clipping loses half of what
  was learned, and without it the model is not convex;
  `geartrain.methods.quasi_newton.secant.bfgs_correction` keeps all of it, and the sum
  with g convex.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from geartrain.methods.base import InnerState, solve_model
from geartrain.methods.inner.lbfgs import LBFGS
from geartrain.methods.quasi_newton.secant import LowRank, Pairs, bfgs_correction, clipped_sr1
from geartrain.oracles.protocols import Vector
from geartrain.problem import Envelope, Model, norm

# Part of g's curvature along a step that the model of h may take away.
_BENT = 0.95


@dataclass(frozen=True)
class Known:
    """A point and all that is known there."""

    v: Vector
    grad_h: Vector
    grad_g: Vector
    pairs: Pairs  # of h and g along the middle steps
    inner: InnerState | None  # in which the last inner run ended, for a warm start

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
    inner: InnerState  # in which the inner run ended
    reached: bool = True  # the inner run ended as it should
    cut_off: bool = False  # its steps ran out


class TrialMaker(Protocol):
    """A way to make trial points."""

    @property
    def safety(self) -> float:
        """The next L is this times the error of the model along the step."""

    @property
    def first(self) -> float:
        """The first L is this times the curvature of g along the gradient."""

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
    safety: float = 0.5
    first: float = 0.5

    def __call__(self, F: Envelope, p: Known) -> Trial:
        """A trial point from p."""
        return _minimised(F, p, clipped_sr1(p.pairs), self.inner, self.accuracy)


@dataclass(frozen=True)
class Difference:
    r"""Minimise as `Proximal` does, with the BFGS correction from the last `last` steps as B.

    g may flatten on the way, and the correction does not; then the model may bend down. Where the
    inner run notices in a line search, it ends before; where only its end shows it, the positive
    part of the correction is used instead.
    """

    inner: LBFGS
    accuracy: float = 0.3
    safety: float = 0.2
    first: float = 0.01
    last: int = 5

    def __call__(self, F: Envelope, p: Known) -> Trial:
        """A trial point from p."""
        C = bfgs_correction(p.pairs.newest(self.last).refreshed(F.f.g, p.v, p.grad_g))

        def bent(v: Vector, grad_g: Vector) -> bool:
            s = v - p.v
            return float(s @ (C @ s)) < -_BENT * float(s @ (grad_g - p.grad_g))

        trial = _minimised(F, p, C, self.inner, self.accuracy, bent)
        if bent(trial.v, trial.grad_g) or trial.v is p.v:
            trial = _minimised(F, p, C.positive_part(), self.inner, self.accuracy)
        return trial


def _minimised(
    F: Envelope,
    p: Known,
    B: LowRank,
    inner: LBFGS,
    accuracy: float,
    leave: Callable[[Vector, Vector], bool] = lambda v, grad_g: False,
) -> Trial:
    """The minimiser of the learned model, by an inner run from p with the pairs of the last one."""
    L, x = F.L, F.x
    phi = LearnedModel(F.f.g, p.grad_h - L * x, L, F.f.L_g.value, p=p.v, B=B)

    def accept(v: Vector, grad_g: Vector, grad_phi: Vector) -> bool:
        return norm(grad_phi) <= accuracy * L * norm(v - x) or leave(v, grad_g)

    run = solve_model(inner, phi, p.v, accept, grad_g0=p.grad_g, warm=p.inner)
    reached = run.accepted or run.floor
    return Trial(
        v=run.v,
        grad_g=run.grad_g,
        predicted=phi.grad(run.v, run.grad_g),
        inner=run.state,
        reached=reached,
        cut_off=not (reached or run.gave_up),
    )
