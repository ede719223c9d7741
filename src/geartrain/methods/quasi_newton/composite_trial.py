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

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from geartrain.geometry import EUCLIDEAN
from geartrain.methods.base import solve_model
from geartrain.methods.inner.proxqn import ProxQN, ProxQNState
from geartrain.methods.quasi_newton.composite_scaling import Models, ScaledLowRank, base
from geartrain.methods.quasi_newton.composite_state import CompositeQNState
from geartrain.methods.quasi_newton.low_rank import LowRank, Small
from geartrain.methods.quasi_newton.prox_step import ProxStep, minimised
from geartrain.methods.quasi_newton.rows import Rows
from geartrain.methods.quasi_newton.trial import larger
from geartrain.methods.quasi_newton.tuning import Candidate, LearnedTuning
from geartrain.oracles.protocols import Vector
from geartrain.oracles.spectrum import eigh
from geartrain.problem import EPS, Model, Sum, norm

# Proximal steps per model that asks no g.
_MOST = 1000
# Values of mu per trial point, and radii beyond which an inner run is lost.
_SHIFTS, _LOST = 6, 8.0
# Eigenvalues of a convex model below this part of the largest are rounding.
_ROUNDED = 1e-13
# They are looked at again where they are below so many times the rounding errors of coefficients.
_UNSURE = 10.0
# A model bends down where B takes more than this part of the curvature of g.
_BENT = 0.95


@dataclass(frozen=True)
class LearnedModel(Model):
    """phi with a part of g, and the low-rank part of a model of the rest of f, centred at p."""

    part: float = 1.0  # of g
    small: Small | None = None
    uneven: float | Vector = 0.0  # diagonal of the model beyond alpha
    p: Vector = field(default_factory=lambda: np.zeros(0))
    _products: dict[int, tuple[Vector, Vector]] = field(default_factory=dict)

    def grad(self, v: Vector, grad_g: Vector) -> Vector:
        """Gradient of phi, without psi, at v, where that of g is known."""
        s = v - self.p
        plain = super().grad(v, self.part * grad_g) + self.uneven * s
        return plain if self.small is None else plain + self.small(s)

    def changes(self, steps: Sequence[Vector], of_g: Sequence[Vector]) -> list[Vector]:
        """Changes of the gradient of phi along steps, where those of g are known."""
        return super().changes(steps, [self.part * y for y in of_g])

    def quadratic(self, steps: Sequence[Vector]) -> list[Vector]:
        """The Hessian of the quadratic part times each of the steps; known products are kept."""
        if self.small is None:
            return [(self.alpha + self.uneven) * s for s in steps]
        new = [s for s in steps if id(s) not in self._products]
        for s, product in zip(new, self.small.all(new) if new else (), strict=True):
            product += (self.alpha + self.uneven) * s
            self._products[id(s)] = (s, product)  # s is kept, so that no other one has its id
        return [self._products[id(s)][1] for s in steps]


@dataclass(frozen=True)
class Proposal:
    """A trial point, and how it was found."""

    step: ProxStep
    B: LowRank
    candidate: Candidate
    part: float  # of g that the model keeps
    grad_g: Vector | None = None  # gradient of g at the trial point, where the inner run knows it
    inner: ProxQNState | None = None
    bent: bool = False  # the model bends down between p and the trial point


def propose(
    problem: Sum,
    state: CompositeQNState,
    models: Models,
    candidate: Candidate,
    tuning: LearnedTuning,
) -> Proposal:
    """Minimise the model within the trust radius."""
    p, R, size = state.at.v, state.radius, norm(state.grad)
    B, part = models[candidate], models.part(candidate)
    convex, mu, redone = problem.h_is_convex, 0.0, False
    if convex or part == 0.0:
        B = without_rounding(B)
    fine = convex or math.isinf(state.rho)  # gradients of g cost nothing
    enough = tuning.eta_at(state.contest.error, state.rho, fine) * size
    for k in range(_SHIFTS):
        trial = _minimiser(problem, state, B, mu, candidate, part, enough, tuning.inner_limit)
        length = norm(trial.step.w - p)
        if trial.bent and not redone:
            redone, B = True, B.positive()
        elif length <= tuning.far * R:
            break
        else:
            shorter = larger(mu, state.grad, trial.step.w - p, R, EUCLIDEAN)
            mu = shorter if k < _SHIFTS - 3 else max(2.0 * mu, size / R)
    return trial


def _minimiser(
    problem: Sum,
    state: CompositeQNState,
    B: LowRank,
    mu: float,
    candidate: Candidate,
    part: float,
    enough: float,
    most: int,
) -> Proposal:
    """The model with B + mu I and the part of g that it keeps."""
    p, psi, R = state.at, problem.psi, state.radius
    assert psi is not None
    if part == 0.0:
        return Proposal(minimised(B, mu, p.grad, psi, p.v, enough, _MOST), B, candidate, part)
    spherical = getattr(problem.g.term, "spherical", None)
    if spherical is not None:  # g is c/2 |v|^2 - <b, v>, or nothing
        step = minimised(B, mu + part * spherical[0], p.grad, psi, p.v, enough, _MOST)
        grad_g = p.grad_g + spherical[0] * (step.w - p.v)
        return Proposal(step, B, candidate, part, grad_g)
    diagonal = base(B, mu)
    alpha = float(np.min(diagonal))
    phi = LearnedModel(
        problem.g,
        beta=p.grad_h + (1.0 - part) * p.grad_g - alpha * p.v,
        alpha=alpha,
        L_g=part * (problem.L_g.value or 10.0 * state.scale),
        psi=psi,
        part=part,
        small=B.small,
        uneven=diagonal - alpha,
        p=p.v,
    )

    def bends(v: Vector, grad_g: Vector) -> bool:
        """Whether phi bends down between p and v: g flattens on the way, and B does not."""
        if problem.h_is_convex:
            return False
        s = v - p.v
        return float(s @ B(s, mu)) < -_BENT * part * float(s @ (grad_g - p.grad_g))

    def accept(v: Vector, grad_g: Vector, grad_phi: Vector) -> bool:
        if norm(grad_phi) <= enough or norm(v - p.v) > _LOST * R:
            return True
        return bends(v, grad_g)

    inner = ProxQN(max_steps=most)
    pairs = () if state.inner is None else state.inner.pairs
    warm = ProxQNState(p.v, p.grad_g, state.grad_psi, pairs)
    run = solve_model(inner, phi, p.v, accept, grad_g0=p.grad_g, warm=warm)
    assert run.grad_psi is not None
    step = ProxStep(run.v, run.state.grad_psi, run.residual)
    bent = bends(run.v, run.grad_g)
    return Proposal(step, B, candidate, part, run.grad_g, run.state, bent)


def without_rounding(B: LowRank) -> LowRank:
    """B, which stands for a convex function: it is positive but for rounding errors.

    Where many steps depend on each other, these may exceed the curvature in a flat direction, and a
    model that bends down has no minimum. B is then made anew from orthonormal rows. A negative
    eigenvalue tells how large the errors are: smaller ones are raised to its size.
    """
    if B.small is None:
        return B
    w, sizes = B.small.spectrum[0], np.sqrt(np.maximum(B.small.G.diagonal(), 0.0))
    top = B.lam + max(0.0, float(w.max(initial=0.0)))
    errors = EPS * float(np.max(np.abs(B.small.M) * (sizes[:, None] * sizes), initial=0.0))
    if B.lam + float(w.min(initial=0.0)) > max(_ROUNDED * top, _UNSURE * errors):
        return B
    T = np.sqrt(B.D) if isinstance(B, ScaledLowRank) else 1.0
    M, V = B.small.factors
    Q, R = np.linalg.qr((V / T).T)
    S = R @ M @ R.T
    w, U = eigh(0.5 * (S + S.T))
    least = max(-B.lam - float(w.min()), _ROUNDED * top)
    rows = np.ascontiguousarray(((Q @ U) * (T[:, None] if isinstance(T, np.ndarray) else T)).T)
    one = np.eye(len(rows))
    small = Small(Rows(rows), one, one, np.diag(np.maximum(w, least - B.lam)), EUCLIDEAN)
    return replace(B, small=small)


def rejected_radius(slope: float, change: float, length: float, longest: float) -> float:
    """Where a parabola through f has its minimum along a step that was rejected."""
    part = slope / min(slope - (change - slope) * 2.0, -1e-300)
    return min(max(part, 0.1), longest) * length
