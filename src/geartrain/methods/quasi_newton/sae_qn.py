r"""SAE-QN: the learned method. Models of h compete, and every accepted point is lower.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
p          ``at``          the iterate; values and gradients of both terms are known there
v          ``new``         a trial point, where h is asked next
s          ``step``        v - p
B          ``B``           matrix that stands for the curvature of h, or of f
lam        ``lam``         curvature where the pairs tell nothing
R          ``radius``      trust radius
A          ``A``           of the certificate: f(p) - f* <= \|x_0 - x*\|^2/(2A)
rho        ``rho``         price of a call of h over that of a gradient of g
=========  ==============  ==================================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from geartrain.geometry import Geometry
from geartrain.methods.base import State
from geartrain.methods.quasi_newton.along import lowest
from geartrain.methods.quasi_newton.certificate import Certificate
from geartrain.methods.quasi_newton.contest import Contest, is_plain
from geartrain.methods.quasi_newton.guard import ZETA, Guard
from geartrain.methods.quasi_newton.inner import InnerPairs, Phi, Point, descend
from geartrain.methods.quasi_newton.low_rank import LowRank
from geartrain.methods.quasi_newton.memory import Memory, Pair
from geartrain.methods.quasi_newton.models import Shelf
from geartrain.methods.quasi_newton.step import Known, Step
from geartrain.methods.quasi_newton.trial import Proposer, Trial
from geartrain.methods.quasi_newton.tuning import DEFAULT, Candidate, Tuning
from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.oracles.protocols import Vector, answers, can
from geartrain.problem import EPS, Sum, norm

_TINY = 1e-300
# A pair shows curvature where <s, y> exceeds this part of |s| |y|.
_CURVED = 1e-12


@dataclass(frozen=True, kw_only=True)
class SAEQNState(State):
    """State of `SAEQN` after k iterations."""

    k: int
    at: Known  # the iterate
    memory: Memory  # pairs of accepted steps; for a non-convex h of rejected ones, too
    extra: Pair | None = None  # of the last rejected trial point
    lam: float
    scale: float  # of the first plain step: the curvature of f along its gradient, or a guess
    radius: float = math.inf
    contest: Contest
    inner_pairs: InnerPairs = ()
    certificate: Certificate
    guard: Guard
    top: float  # f(x_0)
    tries: int = 0  # rejected trial points since the last accepted one
    trials: int = 0  # trial points of the last iteration
    accepted: bool = True
    stalled: bool = False
    note: str = ""

    @property
    def A(self) -> float:  # type: ignore[override]
        """f(y) - f* <= |x_0 - x*|^2/(2A)."""
        return self.certificate.A

    @property
    def convex(self) -> bool:
        """Whether h is taken to be convex."""
        return self.guard.convex

    @property
    def gap_weight(self) -> float:  # type: ignore[override]
        """A, which no restart touches."""
        return self.certificate.A

    @property
    def rounding(self) -> bool:  # type: ignore[override]
        """Whether the gradient of f is rounding error."""
        size = norm(self.at.grad_h) + norm(self.at.grad_g)
        return norm(self.at.grad) <= 10.0 * EPS * size

    @property
    def point(self) -> Vector:
        """The iterate."""
        return self.at.v

    @property
    def value(self) -> float:  # type: ignore[override]
        """f at the iterate."""
        return self.at.f

    @property
    def grad(self) -> Vector:
        """Gradient of f at the iterate."""
        return self.at.grad

    @property
    def bend_ratio(self) -> float:
        """|y_h|/|y_g| of the newest pair; 0 without one."""
        if not self.memory.pairs:
            return 0.0
        _, y_h, y_g = np.diag(self.memory.gram)[-3:]
        return math.sqrt(y_h / max(y_g, _TINY))


@dataclass(frozen=True)
class SAEQN:
    r"""The learned method: proximal quasi-Newton with competing models of h; needs no constants.

    f = h + g convex; h alone may be non-convex.

    Algorithm, from p = x_0:

    1. choose the model that would have predicted the last changes of the gradients best
    2. v ~ argmin <grad h(p), v> + 1/2 <v - p, B (v - p)> + g(v) within the trust radius, or, for
       the plain model, p - B^{-1} grad f(p)
    3. ask h at v: one call
    4. if f has fallen enough, p_+ = v; the pair (v - p, change of gradients) is learned
    5. otherwise the radius shrinks to where a fit along the step has its minimum, and 1 is repeated

    Whenever the certificate A lags behind its rate, a proven accelerated step takes the place of
    lines 1 to 5 (`geartrain.methods.quasi_newton.guard`).

    Guarantee: every accepted point is lower than the one before. For convex f with an L_h-smooth h
    and whatever the models are worth, f(p) - f* <= R^2/(2 A) from x_0 on, and an accuracy eps is
    reached after at most const + 5.16 sqrt(L_h R^2/eps) calls of h, independently of g (for convex
    h; the theorem is in the documentation, on the page about the theory). One gradient of h per
    trial point, and usually one trial point per iteration; g is evaluated in inner runs, about
    `rho` times per trial point at most where `rho` is finite.

    Parameters
    ----------
    rho : float
        Price of a gradient of h over that of a gradient of g; inf: only calls of h count.
    memory : int
        Number of pairs kept.
    tuning : Tuning
        The numbers that steer the method.

    References
    ----------
    .. [1] J. Nocedal, S. Wright, Numerical Optimization, 2nd ed. (2006), Section 7.2.
    """

    rho: float = math.inf
    memory: int = 60
    tuning: Tuning = field(default=DEFAULT)

    needs: ClassVar[tuple[str, ...]] = ("grad",)
    any_geometry: ClassVar[bool] = True

    # What is asked ----------------------------------------------------------------------------

    def _ask_h(self, problem: Sum, v: Vector) -> tuple[float, Vector]:
        if _has_values(problem):
            return problem.h.value_and_grad(v)
        return math.nan, problem.h.grad(v)

    def _ask_g(self, problem: Sum, v: Vector) -> tuple[float, Vector]:
        if _has_values(problem):
            return problem.g.value_and_grad(v)
        return math.nan, problem.g.grad(v)

    def _ask(self, problem: Sum, v: Vector, end: Point | None = None) -> Known:
        h, grad_h = self._ask_h(problem, v)
        g, grad_g = self._ask_g(problem, v) if end is None else (end.g, end.grad_g)
        return Known(v, h, g, grad_h, grad_g)

    # The method -------------------------------------------------------------------------------

    def init(self, problem: Sum, x0: Vector) -> SAEQNState:
        """Both terms at x0, and one more gradient of g for a first guess of lam."""
        at, convex, t = self._ask(problem, x0), problem.h_is_convex, self.tuning
        norm = problem.geometry.norm
        size = norm(at.grad)
        if self._starts_plain(convex):
            scale = max(1.0, size)
        else:
            scale = self._curvature_of_g(problem, at, size)
        candidates = t.convex_models if convex else t.other_models
        if self.rho <= t.alone:
            candidates = tuple(c for c in candidates if is_plain(c))
        return SAEQNState(
            k=0,
            at=at,
            memory=Memory(),
            lam=(t.first_lam if convex else t.first_lam_other) * scale,
            scale=scale,
            contest=Contest.between(candidates),
            certificate=Certificate(x0, np.zeros_like(x0)),
            guard=Guard(convex, 1e-6 * size / max(norm(x0), 1.0)),
            top=at.f,
        )

    def _starts_plain(self, convex: bool) -> bool:
        """Whether the first step is that of L-BFGS, because g is not cheap enough."""
        return self.rho <= (self.tuning.alone if convex else self.tuning.start_plain)

    def _curvature_of_g(self, problem: Sum, at: Known, size: float) -> float:
        """|change of grad g|/|step| along the gradient of f; where g is flat, one over a length."""
        norm = problem.geometry.norm
        if size == 0.0:
            return 1.0
        length = 1e-3 * max(norm(at.v), 1.0)
        bent = self._ask_g(problem, at.v - (length / size) * at.grad)[1]
        return norm(bent - at.grad_g) / length or size / max(norm(at.v), 1.0)

    def step(self, problem: Sum, state: SAEQNState) -> SAEQNState:
        """One iteration: trial points until one is accepted, or one proven step."""
        state = replace(state, note="", accepted=False, trials=0)
        while not (state.accepted or state.stalled or state.trials >= self.tuning.trials):
            if state.guard.is_behind(state.A):
                state = self._proven_step(problem, state)
            else:
                state = self._attempt(problem, state)
        return replace(state, k=state.k + 1)

    def _attempt(self, problem: Sum, state: SAEQNState) -> SAEQNState:
        """Lines 1 to 5 for one trial point."""
        geometry, p = problem.geometry, state.at
        norm = geometry.norm
        size = norm(p.grad)
        if size <= 10.0 * EPS * (norm(p.grad_h) + norm(p.grad_g)):
            return replace(state, stalled=True)
        # 1.
        start_plain = self._starts_plain(state.convex)
        chosen = state.contest.favourite(self.rho, self.tuning, start_plain)
        if is_plain(state.contest.candidates[chosen]) and not (_pairs(state) or start_plain):
            chosen = 0
        state, shelf, calls = self._models(problem, state, chosen)
        # 2.
        trial, chosen = self._propose(problem, state, shelf, chosen)
        length = norm(trial.v - p.v)
        if length <= 2.0 * EPS * norm(p.v):
            return replace(state, stalled=True)
        # 3.
        state = replace(
            state, inner_pairs=trial.pairs, guard=state.guard.called(1), trials=state.trials + 1
        )
        try:
            new = self._ask(problem, trial.v, trial.end)
        except NonFiniteAnswer:
            if state.tries >= 10:
                raise
            return replace(state, radius=0.1 * length, tries=state.tries + 1)
        step = Step.between(p, new, geometry)
        keeps_g = not is_plain(state.contest.candidates[chosen])
        contest = state.contest
        if keeps_g:
            contest = contest.billed(self.rho + calls + trial.calls + (trial.end is None))
        state = replace(state, contest=contest)
        state = self._judged(state, step, shelf, chosen, trial, geometry)
        expected = _expected(step, trial.B, keeps_g, geometry)
        ratio = step.f.change / expected if expected < 0.0 else -1.0
        # 4., 5.
        if step.is_descent(self.tuning.armijo, self.tuning.rounding):
            return self._accepted(state, step, ratio, geometry)
        return self._rejected(state, step, ratio, geometry)

    # Lines 1 and 2 ----------------------------------------------------------------------------

    def _models(
        self, problem: Sum, state: SAEQNState, chosen: int
    ) -> tuple[SAEQNState, Shelf, int]:
        """The pairs that the models are made of, refreshed where it pays, and calls of g for it."""
        geometry, memory, calls = problem.geometry, state.memory, 0
        known = (
            memory if state.extra is None else memory.add(state.extra, geometry, len(memory) + 1)
        )
        fresh = known
        keeps_g = not is_plain(state.contest.candidates[chosen])
        if not state.convex and memory.pairs and (keeps_g or math.isinf(self.rho)):
            fresh, calls = self._refreshed(problem, state, state.contest.candidates[chosen])
            if math.isfinite(self.rho):
                state = replace(state, memory=fresh)
        return state, Shelf(known, fresh, state.lam, state.scale, geometry), calls

    def _refreshed(
        self, problem: Sum, state: SAEQNState, candidate: Candidate
    ) -> tuple[Memory, int]:
        """The curvature of g along the last steps, measured at p; that of h scaled alike."""
        geometry, p, t = problem.geometry, state.at, self.tuning
        memory, dot, norm = state.memory, geometry.dot, geometry.norm
        length = 1e-4 * max(norm(p.v), 1.0)
        priced = math.isfinite(self.rho)
        most = min(candidate[1], math.ceil(t.refreshes * math.sqrt(self.rho))) if priced else 20
        calls = calm = 0
        for i in range(len(memory) - 1, -1, -1):  # newest first
            if calls == most or calm == 2:
                break
            pair = memory.pairs[i]
            now = (self._ask_g(problem, p.v + length * pair.s)[1] - p.grad_g) / length
            calls += 1
            calm = calm + 1 if priced and norm(now - pair.y_g) <= t.calm * norm(now) else 0
            before = float(dot(pair.s, pair.y_g))
            ratio = min(max(float(dot(pair.s, now)) / before, 1e-6), 3.0) if before > 0.0 else 1.0
            memory = memory.with_curvature_of_g(i, now, ratio, geometry)
        return memory, calls

    def _propose(
        self, problem: Sum, state: SAEQNState, shelf: Shelf, chosen: int
    ) -> tuple[Trial, int]:
        """Line 2, and the model that it was made by."""
        t, candidates = self.tuning, state.contest.candidates
        norm, p = problem.geometry.norm, state.at
        budget = max(2.0, max(t.budget, self.rho) * 0.5**state.tries)
        proposer = Proposer(
            lambda v: self._ask_g(problem, v),
            p,
            state.radius,
            state.inner_pairs,
            state.convex,
            budget,
            t,
            problem.geometry,
        )
        if is_plain(candidates[chosen]):
            return proposer.plain(shelf[candidates[chosen]]), chosen
        trial = proposer.keeping_g(shelf[candidates[chosen]])
        # An inner run may lead nowhere.
        length = norm(trial.v - p.v)
        lost = length == 0.0
        B = shelf[candidates[-1]]
        if not (state.convex or lost):
            plain = norm(B.solve(p.grad, 0.0))
            lost = trial.residual > 2.0 * norm(p.grad)
            lost = lost or (bool(_pairs(state)) and length < 1e-4 * min(plain, state.radius))
        if not lost:
            return trial, chosen
        rescue = replace(proposer, pairs=trial.pairs).plain(B)
        return replace(rescue, calls=trial.calls), len(candidates) - 1

    # Lines 4 and 5 ----------------------------------------------------------------------------

    def _judged(
        self,
        state: SAEQNState,
        step: Step,
        shelf: Shelf,
        chosen: int,
        trial: Trial,
        geometry: Geometry,
    ) -> SAEQNState:
        """Which model would have known; for a non-convex h, how large lam should have been."""
        t, norm = self.tuning, geometry.norm
        contest, candidates = state.contest, state.contest.candidates
        keeps_g = not is_plain(candidates[chosen])
        y_f = step.y_h + step.y_g
        if len(candidates) > 1 and len(_pairs(state)) > 1:
            errors = [
                norm(
                    (y_f if is_plain(c) else step.y_h)
                    - (trial.B if j == chosen else shelf[c])(step.s)
                )
                for j, c in enumerate(candidates)
            ]
            if self.rho <= t.effect:
                size = norm(step.p.grad)
                if keeps_g:
                    contest = contest.ended_at(trial.residual / size)
                for j, c in enumerate(candidates):
                    if not is_plain(c):
                        inexact = errors[j] + contest.missed * size
                        errors[j] = norm(step.v.grad) if j == chosen else inexact
            contest = contest.scored(errors, 1e-12 * norm(step.y_h), t.discount)
        lam = state.lam
        if not state.convex and len(candidates) > 1:
            B = trial.B if keeps_g else shelf[candidates[0]]
            need = 0.2 * norm(step.y_h - B(step.s)) / step.length
            if state.memory.pairs or not self._starts_plain(False):
                lam = min(max(need, 0.03 * lam), 16.0 * lam)
            else:
                lam = 0.2 * norm(step.y_h) / step.length
        return replace(state, contest=contest, lam=lam)

    def _accepted(
        self, state: SAEQNState, step: Step, ratio: float, geometry: Geometry
    ) -> SAEQNState:
        """p_+ = v, with the pair learned."""
        t, norm, lam = self.tuning, geometry.norm, state.lam
        memory, pair = state.memory, _pair(step)
        if _is_usable(state, step, norm(step.y_h)):
            # h's curvature at v, not its mean over the step
            bend = step.h.fit.curvature_at_end / step.h.rise
            bend = min(max(bend, 1.0 / t.local), t.local)
            lam = bend * norm(step.y_h) / step.length
            memory = memory.add(replace(pair, scale=bend), geometry, self.memory)
        elif step.f.rise > _CURVED * step.length * norm(step.y_h + step.y_g):
            # a convex h is flat along the step, as far as rounding lets see
            scale = 0.0 if state.convex else 1.0
            memory = memory.add(replace(pair, scale=scale), geometry, self.memory)
        R = state.radius
        if ratio < 0.25:
            R = 0.5 * step.length
        elif ratio > 0.75:
            R = max(R, 4.0 * step.length)
        elif not math.isinf(R):
            R = max(R, step.length)
        if not state.convex and math.isinf(R):
            R = 10.0 * step.length
        certificate = state.certificate.lowered(step.drop)
        return replace(
            state,
            at=step.v,
            memory=memory,
            extra=None,
            lam=lam,
            radius=R,
            certificate=certificate.with_cut(step.v.v, step.v.grad, 0.0, geometry),
            guard=state.guard.called(0, _secant(state, step, norm)),
            tries=0,
            accepted=True,
        )

    def _rejected(
        self, state: SAEQNState, step: Step, ratio: float, geometry: Geometry
    ) -> SAEQNState:
        """The radius shrinks to where f would have been lowest; the pair helps to get there."""
        t, norm, lam = self.tuning, geometry.norm, state.lam
        memory, extra, pair = state.memory, state.extra, _pair(step)
        fits = [step.h.fit, step.g.fit] if state.convex else [step.f.fit]
        part = min(lowest(step.f.slope, fits), t.longest)
        mean = fits[0].rise(part) / part  # curvature over [0, part], of h or of f
        R = part * step.length
        if ratio < -t.wild and state.tries > 0:  # still beyond all measure
            R = min(R, 10.0 ** -(state.tries + 1) * step.length)
        if _is_usable(state, step, norm(step.y_h)) and mean > 0.0:
            scale = mean / step.h.rise
            extra = replace(pair, scale=scale, in_f=(scale, 1.0))
            lam = max(lam, scale * norm(step.y_h) / step.length)
        elif not state.convex:
            scale = mean / max(step.f.rise, _TINY)
            memory = memory.add(replace(pair, in_f=(scale, scale)), geometry, self.memory)
        cut = state.certificate.with_cut(step.v.v, step.v.grad, step.above, geometry)
        return replace(
            state,
            memory=memory,
            extra=extra,
            lam=lam,
            radius=R,
            certificate=cut,
            guard=state.guard.called(0, _secant(state, step, norm)),
            tries=state.tries + 1,
        )

    # The guard --------------------------------------------------------------------------------

    def _proven_step(self, problem: Sum, state: SAEQNState) -> SAEQNState:
        """One step of SAE with unknown L: two calls of h, at x and at v."""
        geometry, y = problem.geometry, state.at
        norm = geometry.norm
        L, a, x = state.guard.start(state.certificate, y.v)
        at_x = self._ask(problem, x)
        weight = state.guard.weight * L

        def close(at: Point, residual: float) -> bool:
            return residual <= ZETA * L * norm(at.v - x)

        run = descend(
            Phi(lambda v: self._ask_g(problem, v), LowRank(weight), 0.0, geometry),
            Point(x, at_x.g, at_x.grad_g, at_x.grad_h),
            10.0 * EPS * (norm(at_x.grad_h) + norm(at_x.grad_g)),
            state.inner_pairs,
            close,
            most=10 * self.tuning.inner_limit,
            memory=self.tuning.inner_memory,
        )
        at_v = self._ask(problem, run.end.v, run.end)
        certificate, at = state.certificate, y
        for new in (at_v, at_x):
            step = Step.between(at, new, geometry)
            lower = new.f < at.f if math.isfinite(new.f) else new is at_v
            if lower:
                certificate, at = certificate.lowered(step.drop), new
            above = 0.0 if lower else step.above
            certificate = certificate.with_cut(new.v, new.grad, above, geometry)
            if new is at_v:
                grown = certificate.A
        step = Step.between(at_x, at_v, geometry)
        guard = state.guard.called(2, _secant(state, step, norm))
        memory = state.memory
        if step.length > 0.0 and (not state.convex or _is_usable(state, step, norm(step.y_h))):
            memory = memory.add(_pair(step), geometry, self.memory)
        return replace(
            state,
            at=at,
            memory=memory,
            extra=None,
            inner_pairs=run.pairs,
            certificate=certificate,
            guard=guard.ended(L, state.A, a, grown),
            trials=state.trials + 2,
            tries=0,
            accepted=True,
        )


def _has_values(problem: Sum) -> bool:
    """Whether values come with the gradients of h, and g can be asked for them."""
    return "value_and_grad" in answers(problem.h.term) and can(problem.g.term, "value")


def _pairs(state: SAEQNState) -> tuple[Pair, ...]:
    """The pairs that are known, that of a rejected trial point included."""
    extra = () if state.extra is None else (state.extra,)
    return state.memory.pairs + extra


def _pair(step: Step) -> Pair:
    return Pair(step.s / step.length, step.y_h / step.length, step.y_g / step.length)


def _is_usable(state: SAEQNState, step: Step, size: float) -> bool:
    """Whether the pair shows curvature of a convex h."""
    return state.convex and step.h.rise > _CURVED * step.length * size


def _secant(state: SAEQNState, step: Step, norm: object) -> float:
    """|change of grad h|/|step|; 0 outside the level set of x_0 and for very short steps."""
    assert callable(norm)
    inside = not (step.v.f > state.top or step.p.f > state.top)
    if not inside or step.length <= 1e-7 * max(norm(step.p.v), norm(step.v.v)):
        return 0.0
    return float(norm(step.y_h)) / step.length


def _expected(step: Step, B: LowRank, keeps_g: bool, geometry: Geometry) -> float:
    """The change of f that the model predicts, g's own change included where it is known."""
    bent = 0.5 * float(geometry.dot(step.s, B(step.s)))
    if keeps_g:
        return step.h.slope + bent + step.g.change
    return step.f.slope + bent
