r"""The learned method with a non-smooth term: f = h + g + psi.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
p          ``at``          the iterate; values and gradients of h and g are known there
u          ``grad_psi``    element of dpsi(p); r = grad h + grad g + u is the shortest known
v          ``new``         a trial point, where h is asked next
B          ``B``           matrix that stands for the curvature of h, or of h + g
lam        ``lam``         curvature where the pairs tell nothing
mu         ``mu``          added to B after a trial point that was rejected
A          ``A``           of the certificate: f(p) - f* <= \|x_0 - x*\|^2/(2A)
=========  ==============  ==================================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar, cast

import numpy as np

from geartrain.methods.base import State, solve_model
from geartrain.methods.inner.proxqn import ProxQN, ProxQNState
from geartrain.methods.quasi_newton.certificate import CutCertificate
from geartrain.methods.quasi_newton.composite_guard import Lowest, drop_between, proven_step
from geartrain.methods.quasi_newton.contest import Contest, is_plain
from geartrain.methods.quasi_newton.guard import Guard
from geartrain.methods.quasi_newton.low_rank import LowRank, Small
from geartrain.methods.quasi_newton.memory import Memory, Pair
from geartrain.methods.quasi_newton.models import Shelf
from geartrain.methods.quasi_newton.prox_step import ProxStep, change_of, minimised
from geartrain.methods.quasi_newton.refreshing import refreshed
from geartrain.methods.quasi_newton.state import SAEQNState
from geartrain.methods.quasi_newton.step import Known, Step
from geartrain.methods.quasi_newton.terms import CountedTerms
from geartrain.methods.quasi_newton.tuning import DEFAULT, Candidate, LearnedTuning
from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.oracles.protocols import Vector
from geartrain.oracles.splitting import Psi
from geartrain.problem import EPS, Model, Sum, norm

_TINY = 1e-300
# A pair shows curvature where <s, y> exceeds this part of |s| |y|.
_CURVED = 1e-12
_ARMIJO = 1e-4
# Proximal steps per model that asks no g.
_MOST = 1000


@dataclass(frozen=True)
class LearnedModel(Model):
    """phi with the low-rank part of a model of h, centred at p, in place of h's curvature."""

    small: Small | None = None
    p: Vector = field(default_factory=lambda: np.zeros(0))

    def grad(self, v: Vector, grad_g: Vector) -> Vector:
        """Gradient of phi, without psi, at v, where that of g is known."""
        plain = super().grad(v, grad_g)
        return plain if self.small is None else plain + self.small(v - self.p)

    def quadratic(self, s: Vector) -> Vector:
        """The Hessian of the quadratic part times s."""
        plain = super().quadratic(s)
        return plain if self.small is None else plain + self.small(s)


@dataclass(frozen=True, kw_only=True)
class CompositeQNState(State):
    """State of `CompositeQN` after k iterations."""

    k: int
    at: Known
    psi: float  # its value at the iterate; nan where there is none
    grad_psi: Vector
    memory: Memory
    lam: float
    scale: float  # curvature of h + g at the start
    mu: float = 0.0
    rho: float
    certificate: CutCertificate
    guard: Guard
    top: float  # f(x_0), or nan
    contest: Contest
    inner: ProxQNState | None = None  # where the last inner run ended
    trials: int = 0
    stalled: bool = False
    note: str = ""

    @property
    def A(self) -> float:  # type: ignore[override]
        """f(p) - f* <= |x_0 - x*|^2/(2A)."""
        return self.certificate.A

    @property
    def gap_weight(self) -> float:  # type: ignore[override]
        """A, which holds from x_0 on."""
        return self.certificate.A

    @property
    def lowest(self) -> Lowest:
        """The iterate for the certificate."""
        return Lowest(self.at, self.psi, self.grad)

    @property
    def point(self) -> Vector:
        """The iterate."""
        return self.at.v

    @property
    def value(self) -> float:  # type: ignore[override]
        """f at the iterate."""
        return self.at.f + self.psi

    @property
    def grad(self) -> Vector:
        """The shortest known subgradient of f at the iterate."""
        return self.at.grad + self.grad_psi

    @property
    def rounding(self) -> bool:  # type: ignore[override]
        """Whether the subgradient is rounding error."""
        return norm(self.grad) <= 10.0 * EPS * (norm(self.at.grad_h) + norm(self.at.grad_g))


@dataclass(frozen=True)
class Proposal:
    """A trial point, and how it was found."""

    step: ProxStep
    B: LowRank
    candidate: Candidate
    grad_g: Vector | None = None  # gradient of g at the trial point, where the inner run knows it
    inner: ProxQNState | None = None


@dataclass(frozen=True)
class CompositeQN:
    r"""The learned method for f = h + g + psi; needs no constants.

    h + g convex; h alone may be non-convex. psi is a non-smooth term with a proximal operator.

    Algorithm, from p = x_0:

    1. choose the model that would have predicted the last changes of the gradients best
    2. v ~ argmin <grad h(p), v> + 1/2 <v - p, (B + mu) (v - p)> + g(v) + psi(v) by
       `geartrain.inner.ProxQN`; for the plain model, with B the curvature of h + g,
       v ~ argmin <grad (h + g)(p), v> + 1/2 <v - p, (B + mu) (v - p)> + psi(v), which asks no g
    3. ask h at v: one call; the pair (v - p, change of gradients) is learned
    4. if f has fallen enough, p_+ = v and mu falls; otherwise mu grows, and 1 is repeated

    Whenever the certificate A lags behind its rate, a proven accelerated step takes the place of
    lines 1 to 4 (`geartrain.methods.quasi_newton.composite_guard`).

    Guarantee: every accepted point is lower than the one before. For convex f with an L_h-smooth h
    and whatever the models are worth, f(p) - f* <= R^2/(2 A) from x_0 on, and an accuracy eps is
    reached after at most const + 5.16 sqrt(L_h R^2/eps) calls of h, independently of g (for convex
    h): the proof for `geartrain.methods.SAEQN` uses nothing but subgradients of f. One gradient of
    h per trial point, two per proven step.

    Parameters
    ----------
    rho : float
        Price of a gradient of h over that of a gradient of g; inf: only calls of h count.
    memory : int
        Number of pairs kept.
    tuning : LearnedTuning
        Numbers that are shared with `geartrain.methods.SAEQN`.

    Notes
    -----
    The models of h, and how they compete, are those of `geartrain.methods.SAEQN`. The trust region
    is replaced by mu, because a proximal operator knows no radius.

    References
    ----------
    .. [1] J. D. Lee, Y. Sun, M. A. Saunders, Proximal Newton-type methods for minimizing composite
       functions, SIAM J. Optim. 24 (2014).
    """

    rho: float = math.inf
    memory: int = 60
    tuning: LearnedTuning = field(default=DEFAULT)

    needs: ClassVar[tuple[str, ...]] = ("grad",)
    takes_psi: ClassVar[bool] = True

    def init(self, problem: Sum, x0: Vector) -> CompositeQNState:
        """Both terms at x0, and one more gradient of g for a first guess of lam."""
        psi, terms = _psi(problem), CountedTerms(problem)
        at, t, convex = terms.both(x0), self.tuning, problem.h_is_convex
        r = psi.residual(x0, at.grad)
        value = psi.value(x0) if psi.has_value else math.nan
        scale = _curvature_of_g(terms, psi, at, r)
        return CompositeQNState(
            k=0,
            at=at,
            psi=value,
            grad_psi=r - at.grad,
            memory=Memory(),
            lam=(t.first_lam if convex else t.first_lam_other) * scale,
            scale=scale,
            rho=self.rho,
            certificate=CutCertificate(x0, np.zeros_like(x0)),
            guard=Guard(convex, 1e-6 * norm(r) / max(norm(x0), 1.0)),
            top=at.f + value,
            contest=Contest.between(t.candidates(self.rho, convex, False)),
        )

    def step(self, problem: Sum, state: CompositeQNState) -> CompositeQNState:
        """One iteration: trial points until one is accepted."""
        state = replace(state, note="", trials=0)
        before = state.at
        while state.at is before and not state.stalled and state.trials < self.tuning.trials:
            if state.guard.is_behind(state.A):
                state = self._proven_step(problem, state)
            else:
                state = self._attempt(problem, state)
        return replace(state, k=state.k + 1)

    def _proven_step(self, problem: Sum, state: CompositeQNState) -> CompositeQNState:
        """One step of SAE with unknown L."""
        L_g = problem.L_g.value or 10.0 * state.scale
        to = proven_step(
            CountedTerms(problem),
            _psi(problem),
            state.lowest,
            state.certificate,
            state.guard,
            L_g,
            state.inner,
        )
        memory, step = state.memory, to.step
        convex = problem.h_is_convex
        if step.length > 0.0 and (step.h.rise if convex else step.f.rise) > 0.0:
            memory = memory.add(_pair(step), problem.geometry, self.memory)
        return replace(
            state,
            at=to.best.at,
            psi=to.best.psi,
            grad_psi=to.best.u - to.best.at.grad,
            memory=memory,
            certificate=to.certificate,
            guard=to.guard,
            inner=to.inner,
            mu=0.0,
            trials=state.trials + 2,
        )

    def _attempt(self, problem: Sum, state: CompositeQNState) -> CompositeQNState:
        """Lines 1 to 4 for one trial point."""
        p, psi, terms, t = state.at, _psi(problem), CountedTerms(problem), self.tuning
        size = norm(state.grad)
        if size <= 10.0 * EPS * (norm(p.grad_h) + norm(p.grad_g)):
            return replace(state, stalled=True)
        # 1.
        convex = problem.h_is_convex
        plain_first = self.rho <= (t.alone if convex else t.start_plain)
        chosen = state.contest.favourite(self.rho, t, plain_first)
        candidate = state.contest.candidates[chosen]
        if is_plain(candidate) and not state.memory.pairs:
            candidate = state.contest.candidates[0]
        known = fresh = state.memory
        if not convex and known.pairs:
            fresh, _ = refreshed(terms, cast(SAEQNState, state), candidate, t)
        shelf = Shelf(known, fresh, state.lam, state.scale, problem.geometry)
        # 2.
        trial = self._propose(problem, state, shelf[candidate], candidate, size)
        s = trial.step.w - p.v
        length = norm(s)
        if length <= 2.0 * EPS * norm(p.v):
            return replace(state, stalled=True)
        # 3.
        state = replace(
            state,
            inner=trial.inner or state.inner,
            guard=state.guard.called(1),
            trials=state.trials + 1,
        )
        known_g = None if trial.grad_g is None else (math.nan, trial.grad_g)
        try:
            new = terms.both(trial.step.w, known_g)
        except NonFiniteAnswer:
            if state.mu > 1e12 * (state.lam + state.scale):
                raise
            return replace(state, mu=max(10.0 * state.mu, state.lam + state.scale))
        step = Step.between(p, new, problem.geometry)
        state = self._learned(state, step, shelf, trial, convex)
        # 4.
        rise = change_of(psi, p.v, p.grad, trial.step)
        slope, change = step.f.slope + rise, step.f.change + rise
        bent = 0.5 * float(s @ trial.B(s))
        own = step.f.slope if is_plain(candidate) else step.h.slope + step.g.change
        ratio = change / min(own + bent + rise, -_TINY)
        u = psi.residual(new.v, new.grad, trial.step.grad_psi)
        value = psi.value(new.v) if psi.has_value else math.nan
        there, here = Lowest(new, value, u), state.lowest
        inside = not there.f > state.top and length > 1e-7 * max(norm(p.v), norm(new.v))
        guard = state.guard.called(0, norm(step.y_h) / length if inside else 0.0)
        close = abs(change) <= t.rounding * (abs(p.h) + abs(p.g))
        if change <= _ARMIJO * slope < 0.0 or (close and norm(u) < size):
            mu = 0.1 * state.mu if ratio > 0.5 else state.mu
            lowered = state.certificate.lowered(drop_between(here, there), problem.geometry)
            return replace(
                state,
                at=new,
                psi=value,
                grad_psi=u - new.grad,
                certificate=lowered.with_cut(new.v, u, 0.0, problem.geometry),
                guard=guard,
                mu=mu if mu > 1e-3 * state.lam else 0.0,
            )
        # The pair corrects the curvature along s; mu shortens the step to where f was lowest.
        part = min(max(slope / min(slope - (change - slope) * 2.0, -_TINY), 0.1), 0.7)
        more = max(-slope, 0.0) / length / length * (1.0 / part - 1.0)
        above = drop_between(there, here)
        return replace(
            state,
            certificate=state.certificate.with_cut(new.v, u, above, problem.geometry),
            guard=guard,
            mu=max(2.0 * state.mu, more, 0.1 * state.lam),
        )

    def _propose(
        self, problem: Sum, state: CompositeQNState, B: LowRank, candidate: Candidate, size: float
    ) -> Proposal:
        """Line 2."""
        p, psi, mu, t = state.at, _psi(problem), state.mu, self.tuning
        enough = (t.eta if problem.h_is_convex else t.eta_other) * size
        spherical = getattr(problem.g.term, "spherical", None)
        if is_plain(candidate):
            return Proposal(minimised(B, mu, p.grad, psi, p.v, enough, _MOST), B, candidate)
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
        run = solve_model(
            ProxQN(max_steps=t.inner_limit),
            phi,
            p.v,
            lambda v, grad_g, grad_phi: norm(grad_phi) <= enough,
            grad_g0=p.grad_g,
            warm=state.inner,
        )
        assert run.grad_psi is not None
        return Proposal(
            ProxStep(run.v, run.state.grad_psi, run.residual), B, candidate, run.grad_g, run.state
        )

    def _learned(
        self, state: CompositeQNState, step: Step, shelf: Shelf, trial: Proposal, convex: bool
    ) -> CompositeQNState:
        """The pair in the memory, lam, and the scores of the models."""
        t, contest, lam = self.tuning, state.contest, state.lam
        y_f = step.y_h + step.y_g
        if len(contest.candidates) > 1 and len(state.memory.pairs) > 1:
            errors = [
                norm(
                    (y_f if is_plain(c) else step.y_h)
                    - (trial.B if c == trial.candidate else shelf[c])(step.s)
                )
                for c in contest.candidates
            ]
            contest = contest.scored(errors, 1e-12 * norm(step.y_h), t.discount)
        memory = state.memory
        pair = _pair(step)
        if convex and step.h.rise > _CURVED * step.length * norm(step.y_h):
            bend = step.h.fit.curvature_at_end / step.h.rise
            bend = min(max(bend, 1.0 / t.local), t.local)
            lam = bend * norm(step.y_h) / step.length
            memory = memory.add(replace(pair, scale=bend), shelf.geometry, self.memory)
        elif step.f.rise > _CURVED * step.length * norm(y_f):
            memory = memory.add(
                replace(pair, scale=0.0 if convex else 1.0), shelf.geometry, self.memory
            )
        if not convex:
            B = shelf[contest.candidates[0]] if is_plain(trial.candidate) else trial.B
            error = t.lam_error * norm(step.y_h - B(step.s)) / step.length
            lam = min(max(error, 0.03 * lam), 16.0 * lam) if state.memory.pairs else error
        return replace(state, memory=memory, lam=max(lam, _TINY), contest=contest)


def _pair(step: Step) -> Pair:
    """The pair of a step, divided by its length."""
    return Pair(step.s / step.length, step.y_h / step.length, step.y_g / step.length)


def _psi(problem: Sum) -> Psi:
    assert problem.psi is not None, "CompositeQN is for sums with a non-smooth term"
    return problem.psi


def _curvature_of_g(terms: CountedTerms, psi: Psi, at: Known, r: Vector) -> float:
    """The curvature of g along the subgradient of f; where g is flat, one over a length."""
    size = norm(r)
    if size == 0.0:
        return 1.0
    length = 1e-3 * max(norm(at.v), 1.0)
    near = psi.prox(at.v - (length / size) * r, 1e9 * max(size / length, 1.0))
    moved = norm(near - at.v)
    bent = norm(terms.g(near)[1] - at.grad_g) / moved if moved > 0.0 else 0.0
    return bent or size / max(norm(at.v), 1.0)
