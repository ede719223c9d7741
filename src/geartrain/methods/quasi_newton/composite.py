r"""The learned method with a non-smooth term: f = h + g + psi.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
p          ``at``          the iterate; values and gradients of h and g are known there
u          ``grad_psi``    element of dpsi(p); r = grad h + grad g + u is the shortest known
v          ``new``         a trial point, where h is asked next
B          ``B``           matrix that stands for the curvature of h, or of h + g
lam        ``lam``         curvature where the pairs tell nothing
R          ``radius``      trust radius
A          ``A``           of the certificate: f(p) - f* <= \|x_0 - x*\|^2/(2A)
=========  ==============  ==================================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, cast

import numpy as np

from geartrain.methods.quasi_newton.certificate import CutCertificate
from geartrain.methods.quasi_newton.composite_guard import Lowest, drop_between, proven_step
from geartrain.methods.quasi_newton.composite_scaling import Models, learned_diagonal
from geartrain.methods.quasi_newton.composite_state import CompositeQNState
from geartrain.methods.quasi_newton.composite_trial import Proposal, propose, rejected_radius
from geartrain.methods.quasi_newton.contest import Contest, is_plain
from geartrain.methods.quasi_newton.guard import Guard
from geartrain.methods.quasi_newton.learning import (
    accepted_radius,
    lam_after,
    pair_of,
    shorter,
)
from geartrain.methods.quasi_newton.memory import Memory
from geartrain.methods.quasi_newton.models import Shelf
from geartrain.methods.quasi_newton.prox_step import change_of, value_at
from geartrain.methods.quasi_newton.refreshing import refreshed
from geartrain.methods.quasi_newton.state import SAEQNState
from geartrain.methods.quasi_newton.step import Known, Step
from geartrain.methods.quasi_newton.terms import CountedTerms
from geartrain.methods.quasi_newton.tuning import DEFAULT, Candidate, LearnedTuning
from geartrain.methods.separable import by_numbers
from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.oracles.protocols import Vector
from geartrain.oracles.splitting import Psi
from geartrain.problem import EPS, Sum, norm

_TINY = 1e-300
# Squares of lengths beyond this overflow: the proximal operator, or a constant, is wrong.
_FAR = 1e150
# Mean logarithm by which the error of a model that keeps a non-convex h has to be below that of the
# plain one. A model is most wrong along the steps that it proposes itself, and the correction,
# which may bend down, more so than the plain one. Flat from 0.6 to 1; 0.3 costs 2 percent on
# shards, and 2.5 a third.
_AHEAD = 0.7
# Price ratio up to which a run on an h that may be non-convex starts with the plain model. The rule
# of the smooth method, which looks at |grad h|/|grad g|, costs 2 to 4 percent on shards with an l1
# norm at ratios of 3 and 10.
_START_PLAIN = 5.0
# The first lam over that without psi, where it comes from the curvature of g: a third of it costs 5
# percent for a non-convex h, and three times as much 1 to 4.
_FIRST = 0.3


@dataclass(frozen=True)
class CompositeQN:
    r"""The learned method for f = h + g + psi; needs no constants.

    h + g convex; h alone may be non-convex. psi is a non-smooth term with a proximal operator.

    Algorithm, from p = x_0:

    1. choose the model that would have predicted the last changes of the gradients best
    2. v ~ argmin <grad h(p), v> + 1/2 <v - p, B (v - p)> + g(v) + psi(v) within the trust radius by
       `geartrain.inner.ProxQN`; for the plain model, with B the curvature of h + g,
       v ~ argmin <grad (h + g)(p), v> + 1/2 <v - p, B (v - p)> + psi(v), which asks no g
    3. ask h at v: one call; the pair (v - p, change of gradients) is learned
    4. if f has fallen enough, p_+ = v; otherwise the radius shrinks, and 1 is repeated

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
    diagonal : bool
        Whether the scales of the variables are learned, where psi is separable.
    tuning : LearnedTuning
        Numbers that are shared with `geartrain.methods.SAEQN`.

    Notes
    -----
    The models of h, how they compete, and the trust radius are those of `geartrain.methods.SAEQN`;
    `geartrain.methods.quasi_newton.composite_trial` has the trial points. With an l1 norm or a box,
    lam I in the models becomes lam D where the variables are seen to have different scales
    (`geartrain.methods.quasi_newton.composite_scaling`).

    References
    ----------
    .. [1] J. D. Lee, Y. Sun, M. A. Saunders, Proximal Newton-type methods for minimizing composite
       functions, SIAM J. Optim. 24 (2014).
    """

    rho: float = math.inf
    memory: int = 60
    diagonal: bool = True
    tuning: LearnedTuning = DEFAULT

    needs: ClassVar[tuple[str, ...]] = ("grad",)
    takes_psi: ClassVar[bool] = True

    def init(self, problem: Sum, x0: Vector) -> CompositeQNState:
        """Both terms at x0, and one more gradient of g for a first guess of lam."""
        psi, terms = _psi(problem), CountedTerms(problem)
        at, t, convex = terms.both(x0), self.tuning, problem.h_is_convex
        r = psi.residual(x0, at.grad)
        value = value_at(psi, x0)
        scale = _curvature_of_g(terms, psi, at, r)
        lam = t.lam_at_start(convex, _FIRST * scale, at.unlike(norm), at.as_loss(norm))
        return CompositeQNState(
            k=0,
            at=at,
            psi=value,
            grad_psi=r - at.grad,
            memory=Memory(),
            lam=lam,
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
        inside = not step.v.f > state.top
        if inside and step.length > 0.0 and (step.h.rise if convex else step.f.rise) > 0.0:
            memory = memory.add(pair_of(step), problem.geometry, self.memory)
        return replace(
            state,
            at=to.best.at,
            psi=to.best.psi,
            grad_psi=to.best.u - to.best.at.grad,
            memory=memory,
            certificate=to.certificate,
            guard=to.guard,
            inner=to.inner,
            radius=max(state.radius, norm(to.best.at.v - state.at.v)),
            trials=state.trials + 2,
        )

    def _attempt(self, problem: Sum, state: CompositeQNState) -> CompositeQNState:
        """Lines 1 to 4 for one trial point."""
        p, terms, t = state.at, CountedTerms(problem), self.tuning
        if norm(state.grad) <= 10.0 * EPS * (norm(p.grad_h) + norm(p.grad_g)):
            return replace(state, stalled=True)
        # 1.
        candidate, models = self._choose(problem, state, terms)
        # 2.
        trial = propose(problem, state, models, candidate, t)
        length = norm(trial.step.w - p.v)
        if length <= 2.0 * EPS * norm(p.v):
            return _at_rest(problem, state, trial)
        if not length < _FAR:
            raise NonFiniteAnswer(f"a proximal step of {_psi(problem)!r} ends {length:.3g} away")
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
            if length <= 1e-12 * max(norm(p.v), 1.0):
                raise
            return replace(state, radius=0.1 * length)
        step = Step.between(p, new, problem.geometry)
        slope = step.f.slope + change_of(_psi(problem), p.v, p.grad, trial.step)
        if new.f > state.top and step.f.change > t.wild * abs(slope):  # nothing to learn from
            tries, convex = state.trials - 1, problem.h_is_convex
            _, radius = shorter(step, min(slope, -_TINY), convex, True, tries, t)
            return replace(state, radius=min(radius, 0.5 * state.radius))
        # 4.
        learned = self._learned(problem, state, step, models, trial)
        return self._judged(problem, learned, step, trial)

    def _choose(
        self, problem: Sum, state: CompositeQNState, terms: CountedTerms
    ) -> tuple[Candidate, Models]:
        """Line 1: the best candidate, and all models."""
        t, convex, contest = self.tuning, problem.h_is_convex, state.contest
        start_plain = self.rho <= (t.alone if convex else _START_PLAIN)
        chosen = contest.favourite(self.rho, t, start_plain)
        candidate = contest.candidates[chosen]
        k = next((i for i, c in enumerate(contest.candidates) if is_plain(c)), chosen)
        ahead = (contest.scores[k] - contest.scores[chosen]) / max(contest.weight, _TINY)
        unsure = not convex and contest.weight > 0.0 and ahead < _AHEAD
        if unsure:
            candidate = contest.candidates[k]
        if is_plain(candidate) and not state.memory.pairs:
            candidate = contest.candidates[0]
        fresh = state.memory
        if not convex and fresh.pairs:
            fresh, _ = refreshed(terms, cast(SAEQNState, state), candidate, t)
        shares, geometry = state.base.shares, problem.geometry
        plain = Shelf(state.memory, fresh, state.lam, state.scale, geometry, shares)
        scaled = self.diagonal and by_numbers(problem.psi, state.at.v.size) is not None
        D = learned_diagonal(state.memory) if scaled else None
        return candidate, Models.of(state.memory, fresh, plain, D, state.gain)

    def _judged(
        self, problem: Sum, state: CompositeQNState, step: Step, trial: Proposal
    ) -> CompositeQNState:
        """Line 4: the trial point is accepted, or the trust radius shrinks."""
        p, new, psi, t, geometry = step.p, step.v, _psi(problem), self.tuning, problem.geometry
        rise = change_of(psi, p.v, p.grad, trial.step)
        slope, change = step.f.slope + rise, step.f.change + rise
        u = psi.residual(new.v, new.grad, trial.step.grad_psi)
        value = value_at(psi, new.v)
        there, here = Lowest(new, value, u), state.lowest
        inside = not there.f > state.top and step.length > 1e-7 * max(norm(p.v), norm(new.v))
        guard = state.guard.called(0, norm(step.y_h) / step.length if inside else 0.0)
        close = abs(change) <= t.rounding * (abs(p.h) + abs(p.g))
        if not (change <= t.armijo * slope < 0.0 or (close and norm(u) < norm(state.grad))):
            above = drop_between(there, here)
            return replace(
                state,
                certificate=state.certificate.with_cut(new.v, u, above, geometry),
                guard=guard,
                radius=min(
                    rejected_radius(slope, change, step.length, t.longest), 0.9 * state.radius
                ),
            )
        own = step.h.slope + (1.0 - trial.part) * step.g.slope + trial.part * step.g.change
        predicted = own + 0.5 * float(step.s @ trial.B(step.s)) + rise
        ratio = change / min(predicted, -_TINY)
        lowered = state.certificate.lowered(drop_between(here, there), geometry)
        return replace(
            state,
            at=new,
            psi=value,
            grad_psi=u - new.grad,
            certificate=lowered.with_cut(new.v, u, 0.0, geometry),
            guard=guard,
            radius=accepted_radius(state.radius, problem.h_is_convex, step.length, ratio),
        )

    def _learned(
        self, problem: Sum, state: CompositeQNState, step: Step, models: Models, trial: Proposal
    ) -> CompositeQNState:
        """The pair in the memory, lam, and the scores of the models."""
        t, contest, lam, convex = self.tuning, state.contest, state.lam, problem.h_is_convex
        size, length = models.size, models.length(step.s)
        y_f, geometry = step.y_h + step.y_g, problem.geometry
        T = 1.0 if models.D is None else np.sqrt(models.D)
        if len(contest.candidates) > 1 and len(state.memory.pairs) > 1:
            errors = [
                size(
                    step.y_h
                    + (1.0 - models.part(c)) * step.y_g
                    - (trial.B if c == trial.candidate else models[c])(step.s)
                )
                for c in contest.candidates
            ]
            contest = contest.erred(errors, max(size(state.grad), _TINY))
            contest = contest.scored(errors, 1e-12 * size(step.y_h), t.discount)
        memory, pair = state.memory, pair_of(step)
        if convex and step.h_bends(norm):
            bend = step.h.fit.curvature_at_end / step.h.rise
            bend = min(max(bend, 1.0 / t.local), t.local)
            lam = lam_after(lam, step, bend, size(step.y_h), length, t)
            memory = memory.add(replace(pair, scale=bend), geometry, self.memory)
        elif step.f_bends(norm):
            memory = memory.add(replace(pair, scale=0.0 if convex else 1.0), geometry, self.memory)
        if not convex:
            first = contest.candidates[0]
            B = trial.B if models.part(trial.candidate) == 1.0 else models[first]
            missed = step.y_h - B(step.s)
            error = t.lam_error * size(missed) / length
            # A model that is too stiff along the step errs by lam itself, and must not keep it.
            along = lam + float(step.s @ missed) / length**2
            error = min(error, max(along, t.lam_fall * lam))
            lam = min(max(error, 0.03 * lam), 16.0 * lam) if state.memory.pairs else error
        return replace(
            state,
            memory=memory,
            lam=max(lam, _TINY),
            contest=contest,
            base=state.base.after(step.y_g / T, T * step.s, y_f / T),
            gain=models.gain(state.gain, step.s, y_f),
        )


def _at_rest(problem: Sum, state: CompositeQNState, trial: Proposal) -> CompositeQNState:
    """The model is lowest at p: there is a shorter subgradient, or no further progress.

    Where the term has no residual, its subgradients are known by proximal steps alone, and that of
    the step that led to p may be long although p is the solution.
    """
    shorter = trial.step.grad_psi
    known = _psi(problem).has_residual
    if known or norm(state.at.grad + shorter) > 0.5 * norm(state.grad):
        return replace(state, stalled=True)
    return replace(state, at=replace(state.at), grad_psi=shorter)  # this ends the iteration


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
