r"""Trial points with a non-smooth term: minimisers of models of f within the trust radius.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
R          ``radius``      the trust radius
mu         ``mu``          added to B until the minimiser is within the radius
=========  ==============  ==================================================================

A proximal operator knows no radius. A larger mu is tried instead, which asks g and not h. With
mu = \|r\|/R, r the shortest known subgradient at p, the minimiser of a convex model is within R.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from geartrain.methods.base import solve_model
from geartrain.methods.inner.proxqn import ProxQN, ProxQNState
from geartrain.methods.quasi_newton.composite_state import CompositeQNState
from geartrain.methods.quasi_newton.contest import is_plain
from geartrain.methods.quasi_newton.low_rank import LowRank, Small
from geartrain.methods.quasi_newton.prox_step import ProxStep, minimised
from geartrain.methods.quasi_newton.trial import larger
from geartrain.methods.quasi_newton.tuning import Candidate, LearnedTuning
from geartrain.oracles.protocols import Vector
from geartrain.problem import Model, Sum, norm

# Proximal steps per model that asks no g.
_MOST = 1000
# Values of mu per trial point, and radii beyond which an inner run is lost.
_SHIFTS, _LOST = 6, 8.0
# A model bends down where B takes more than this part of the curvature of g.
_BENT = 0.95


@dataclass(frozen=True)
class LearnedModel(Model):
    """phi with the low-rank part of a model of h, centred at p, in place of h's curvature."""

    small: Small | None = None
    p: Vector = field(default_factory=lambda: np.zeros(0))

    def grad(self, v: Vector, grad_g: Vector) -> Vector:
        """Gradient of phi, without psi, at v, where that of g is known."""
        plain = super().grad(v, grad_g)
        return plain if self.small is None else plain + self.small(v - self.p)

    def quadratic(self, S: Vector) -> Vector:
        """The Hessian of the quadratic part times a vector, or times each row of S."""
        plain = super().quadratic(S)
        if self.small is None or S.size == 0:
            return plain
        return plain + (self.small(S) if S.ndim == 1 else np.array(self.small.all(list(S))))


@dataclass(frozen=True)
class Proposal:
    """A trial point, and how it was found."""

    step: ProxStep
    B: LowRank
    candidate: Candidate
    grad_g: Vector | None = None  # gradient of g at the trial point, where the inner run knows it
    inner: ProxQNState | None = None
    bent: bool = False  # the model bends down between p and the trial point


def propose(
    problem: Sum,
    state: CompositeQNState,
    B: LowRank,
    candidate: Candidate,
    tuning: LearnedTuning,
) -> Proposal:
    """Minimise the model within the trust radius."""
    p, R, size = state.at.v, state.radius, norm(state.grad)
    convex, mu, redone = problem.h_is_convex, 0.0, False
    enough = (tuning.eta if convex else tuning.eta_other) * size
    for k in range(_SHIFTS):
        trial = _minimiser(problem, state, B, mu, candidate, enough, tuning.inner_limit)
        length = norm(trial.step.w - p)
        if trial.bent and not redone:
            redone, B = True, B.positive()
        elif length <= tuning.far * R:
            break
        else:
            mu = larger(mu, size, length, R) if k < _SHIFTS - 3 else max(2.0 * mu, size / R)
    return trial


def _minimiser(
    problem: Sum,
    state: CompositeQNState,
    B: LowRank,
    mu: float,
    candidate: Candidate,
    enough: float,
    most: int,
) -> Proposal:
    """The model with B + mu I."""
    p, psi, R = state.at, problem.psi, state.radius
    assert psi is not None
    if is_plain(candidate):
        return Proposal(minimised(B, mu, p.grad, psi, p.v, enough, _MOST), B, candidate)
    spherical = getattr(problem.g.term, "spherical", None)
    if spherical is not None:  # g is c/2 |v|^2 - <b, v>, or nothing
        step = minimised(B, mu + spherical[0], p.grad, psi, p.v, enough, _MOST)
        grad_g = p.grad_g + spherical[0] * (step.w - p.v)
        return Proposal(step, B, candidate, grad_g)
    alpha = B.lam + mu
    phi = LearnedModel(
        problem.g,
        beta=p.grad_h - alpha * p.v,
        alpha=alpha,
        L_g=problem.L_g.value or 10.0 * state.scale,
        psi=psi,
        small=B.small,
        p=p.v,
    )

    def bends(v: Vector, grad_g: Vector) -> bool:
        """Whether phi bends down between p and v: g flattens on the way, and B does not."""
        if problem.h_is_convex:
            return False
        s = v - p.v
        return float(s @ B(s, mu)) < -_BENT * float(s @ (grad_g - p.grad_g))

    def accept(v: Vector, grad_g: Vector, grad_phi: Vector) -> bool:
        if norm(grad_phi) <= enough or norm(v - p.v) > _LOST * R:
            return True
        return bends(v, grad_g)

    inner = ProxQN(max_steps=most)
    run = solve_model(inner, phi, p.v, accept, grad_g0=p.grad_g, warm=state.inner)
    assert run.grad_psi is not None
    step = ProxStep(run.v, run.state.grad_psi, run.residual)
    return Proposal(step, B, candidate, run.grad_g, run.state, bends(run.v, run.grad_g))


def rejected_radius(slope: float, change: float, length: float, longest: float) -> float:
    """Where a parabola through f has its minimum along a step that was rejected."""
    part = slope / min(slope - (change - slope) * 2.0, -1e-300)
    return min(max(part, 0.1), longest) * length
