r"""SAE-QN: the learned method. Models of h compete, and every accepted point is lower.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
p          ``at``          the iterate; values and gradients of both terms are known there
v          ``new``         a trial point, where h is asked next
s          ``s``           v - p
B          ``model``       matrix that stands for the curvature of h (or of f)
R          ``radius``      trust radius
A          ``A``           of the certificate: f(p) - f* <= |x_0 - x*|^2/(2A)
=========  ==============  ==================================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from geartrain.geometry import Geometry
from geartrain.methods.base import State
from geartrain.methods.quasi_newton import models
from geartrain.methods.quasi_newton.along import ExponentialFit, change, lowest
from geartrain.methods.quasi_newton.certificate import Certificate
from geartrain.methods.quasi_newton.inner import InnerPairs
from geartrain.methods.quasi_newton.low_rank import LowRank
from geartrain.methods.quasi_newton.memory import Memory, Pair
from geartrain.methods.quasi_newton.trial import Known, Proposer
from geartrain.methods.quasi_newton.tuning import DEFAULT, Candidate, Tuning
from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.oracles.protocols import Vector, answers, can
from geartrain.problem import EPS, Sum

_TINY = 1e-300


@dataclass(frozen=True, kw_only=True)
class SAEQNState(State):
    """State of `SAEQN` after k iterations."""

    k: int
    at: Known  # the iterate
    memory: Memory  # pairs of accepted steps; for a non-convex h of rejected ones, too
    extra: Pair | None = None  # of the last rejected trial point
    lam: float  # curvature where the pairs tell nothing
    curvature_g: float  # of g along the first gradient
    radius: float = math.inf
    convex: bool = True  # whether h is taken to be convex
    scores: tuple[float, ...] = ()
    weight: float = 0.0  # sum of the discounted weights in a score
    bill: float = math.nan  # of a trial point by a model that keeps g, in gradients of g, smoothed
    missed: float = 0.1  # |grad phi|/|grad f(p)| at the end of inner runs, smoothed
    inner_pairs: InnerPairs = ()
    certificate: Certificate
    tries: int = 0  # rejected trial points since the last accepted one
    chosen: int = 0  # the model of the last trial point
    trials: int = 0  # trial points of the last iteration
    accepted: bool = True
    stalled: bool = False
    note: str = ""

    @property
    def A(self) -> float:  # type: ignore[override]
        """f(y) - f* <= |x_0 - x*|^2/(2A)."""
        return self.certificate.A

    @property
    def point(self) -> Vector:
        """The iterate."""
        return self.at.v

    @property
    def y(self) -> Vector:
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

    # ---- what is asked -------------------------------------------------------------------

    def _ask_h(self, problem: Sum, v: Vector) -> tuple[float, Vector]:
        if _has_values(problem):
            return problem.h.value_and_grad(v)
        return math.nan, problem.h.grad(v)

    def _ask_g(self, problem: Sum, v: Vector) -> tuple[float, Vector]:
        if _has_values(problem):
            return problem.g.value_and_grad(v)
        return math.nan, problem.g.grad(v)

    def _candidates(self, state: SAEQNState) -> tuple[Candidate, ...]:
        t = self.tuning
        return t.convex_models if state.convex else t.other_models

    # ---- the method ----------------------------------------------------------------------

    def init(self, problem: Sum, x0: Vector) -> SAEQNState:
        """Both terms at x0, and one more gradient of g for a first guess of lam."""
        h, grad_h = self._ask_h(problem, x0)
        g, grad_g = self._ask_g(problem, x0)
        at = Known(x0, h, g, grad_h, grad_g)
        convex = problem.h_is_convex
        curvature = self._curvature_of_g(problem, at)
        t = self.tuning
        return SAEQNState(
            k=0,
            at=at,
            memory=Memory(),
            lam=(t.first_lam if convex else t.first_lam_other) * curvature,
            curvature_g=curvature,
            convex=convex,
            scores=(0.0,) * len(t.convex_models if convex else t.other_models),
            certificate=Certificate(x0, np.zeros_like(x0)),
        )

    def _curvature_of_g(self, problem: Sum, at: Known) -> float:
        """|change of grad g|/|step| along the gradient of f; where g is flat, one over a length."""
        norm = problem.geometry.norm
        size = norm(at.grad)
        if size == 0.0:
            return 1.0
        length = 1e-3 * max(norm(at.v), 1.0)
        bent = self._ask_g(problem, at.v - (length / size) * at.grad)[1]
        return norm(bent - at.grad_g) / length or size / max(norm(at.v), 1.0)

    def step(self, problem: Sum, state: SAEQNState) -> SAEQNState:
        """One iteration: trial points until one is accepted."""
        trials = 0
        state = replace(state, note="", accepted=False)
        while not (state.accepted or state.stalled or trials == self.tuning.trials):
            state = self._attempt(problem, state)
            trials += 1
        return replace(state, k=state.k + 1, trials=trials)

    def _attempt(self, problem: Sum, state: SAEQNState) -> SAEQNState:
        """One trial point, accepted or rejected."""
        geometry, t = problem.geometry, self.tuning
        dot, norm = geometry.dot, geometry.norm
        p, grad = state.at, state.at.grad
        size = norm(grad)
        if size <= 10.0 * EPS * (norm(p.grad_h) + norm(p.grad_g)):
            return replace(state, stalled=True)
        candidates = self._candidates(state)
        # 1.
        chosen = int(np.argmin(state.scores))
        memory = state.memory
        learned = memory if state.extra is None else memory.add(state.extra, geometry, 10**9)
        if candidates[chosen][0] == "plain" and not learned.pairs:
            chosen = 0
        if not state.convex and memory.pairs:
            learned = self._refreshed(problem, state)
        B = _model(candidates[chosen], learned, state.lam, geometry)
        # 2.
        proposer = Proposer(
            lambda v: self._ask_g(problem, v),
            p,
            state.radius,
            state.inner_pairs,
            state.convex,
            t.inner_limit,
            t,
            geometry,
        )
        is_plain = candidates[chosen][0] == "plain"
        trial = proposer.plain(B) if is_plain else proposer.by_g(B)
        B = trial.B
        s = trial.v - p.v
        length = norm(s)
        if length <= 2.0 * EPS * norm(p.v):
            return replace(state, stalled=True)
        # 3.
        try:
            h, grad_h = self._ask_h(problem, trial.v)
            if trial.end is None:
                g, grad_g = self._ask_g(problem, trial.v)
            else:
                g, grad_g = trial.end.g, trial.end.grad_g
        except NonFiniteAnswer:
            if state.tries >= 10:
                raise
            return replace(state, radius=0.1 * length, tries=state.tries + 1)
        new = Known(trial.v, h, g, grad_h, grad_g)
        state = replace(state, inner_pairs=trial.pairs, chosen=chosen)
        # 4., 5.
        step = Step.of(p, new, geometry)
        sBs = float(dot(s, B(s)))
        expected = step.slope + 0.5 * sBs if is_plain else step.slope_h + 0.5 * sBs + step.change_g
        ratio = step.change / expected if expected < 0.0 else -1.0
        ok = self._is_lower(p, new, step)
        y_h, y_g = new.grad_h - p.grad_h, new.grad_g - p.grad_g
        y_f = y_h + y_g
        # which model would have known
        scores = state.scores
        if len(candidates) > 1 and len(learned) > 1:
            errors = []
            for j, candidate in enumerate(candidates):
                Bj = B if j == chosen else _model(candidate, learned, state.lam, geometry)
                target = y_f if candidate[0] == "plain" else y_h
                errors.append(norm(target - Bj(s)))
            small = 1e-12 * norm(y_h) + _TINY
            scores = tuple(
                t.discount * score + math.log(e + small)
                for score, e in zip(scores, errors, strict=True)
            )
        lam = state.lam
        if not state.convex:
            Bc = _model(candidates[0], learned, lam, geometry) if is_plain else B
            need = norm(y_h - Bc(s)) / length
            lam = min(max(0.2 * need, 0.03 * lam), 16.0 * lam)
        state = replace(state, scores=scores, lam=lam)
        sy = float(dot(s, y_h))
        usable = state.convex and sy > 1e-12 * length * norm(y_h)
        pair = Pair(s / length, y_h / length, y_g / length)
        cert = state.certificate
        fit_h = ExponentialFit.of(step.change_h - step.slope_h, step.rise_h)
        fit_g = ExponentialFit.of(step.change_g - step.slope_g, step.rise_g)
        if ok:
            if usable:
                bend = min(max(fit_h.curvature_at_end / sy, 1.0 / t.local), t.local)
                lam = bend * norm(y_h) / length
                pair = replace(pair, scale=bend)
            if usable or not state.convex:
                memory = memory.add(pair, geometry, self.memory)
            R = state.radius
            if ratio < 0.25:
                R = 0.5 * length
            elif ratio > 0.75:
                R = max(R, 4.0 * length)
            elif not math.isinf(R):
                R = max(R, length)
            if not state.convex and math.isinf(R):
                R = 10.0 * length
            drop = max(-step.slope_v, -step.change - 8 * EPS * (abs(p.f) + abs(new.f)), 0.0)
            cert = cert.lowered(drop).with_cut(new.v, new.grad, 0.0, geometry)
            return replace(
                state,
                at=new,
                memory=memory,
                lam=lam,
                radius=R,
                certificate=cert,
                accepted=True,
                extra=None,
                tries=0,
            )
        # rejected
        if state.convex:
            fits = [fit_h, fit_g]
        else:
            fits = [ExponentialFit.of(step.change - step.slope, step.rise)]
        part = min(lowest(step.slope, fits), t.longest)
        mean = fits[0].rise(part) / part
        R = part * length
        if ratio < -t.wild and state.tries > 0:
            R = min(R, 10.0 ** -(state.tries + 1) * length)
        extra = state.extra
        if usable and mean > 0.0:
            extra = replace(pair, scale=mean / sy, in_f=(mean / sy, 1.0))
            lam = max(lam, mean / sy * norm(y_h) / length)
        if not state.convex:
            factor = mean / max(step.rise, _TINY)
            memory = memory.add(replace(pair, in_f=(factor, factor)), geometry, self.memory)
        cert = cert.with_cut(new.v, new.grad, max(step.change, step.slope), geometry)
        return replace(
            state,
            memory=memory,
            lam=lam,
            radius=R,
            certificate=cert,
            extra=extra,
            tries=state.tries + 1,
        )

    def _is_lower(self, p: Known, v: Known, step: Step) -> bool:
        t = self.tuning
        if math.isnan(v.f):
            return step.slope_v <= 0.0
        if v.f <= p.f + t.armijo * step.slope:
            return True
        close = abs(v.f - p.f) <= t.rounding * abs(p.f)
        return close and step.slope_v <= (2.0 * t.armijo - 1.0) * step.slope

    def _refreshed(self, problem: Sum, state: SAEQNState) -> Memory:
        """The last 20 pairs with the curvature of g along their steps measured at p."""
        geometry, p = problem.geometry, state.at
        length = 1e-4 * max(geometry.norm(p.v), 1.0)
        memory = state.memory.newest(20)
        for i, pair in enumerate(memory.pairs):
            now = (self._ask_g(problem, p.v + length * pair.s)[1] - p.grad_g) / length
            before = float(geometry.dot(pair.s, pair.y_g))
            ratio = 1.0
            if before > 0.0:
                ratio = min(max(float(geometry.dot(pair.s, now)) / before, 1e-6), 3.0)
            memory = memory.with_curvature_of_g(i, now, ratio, geometry)
        return memory


@dataclass(frozen=True)
class Step:
    """Changes and slopes of the terms along v - p."""

    slope_h: float  # <grad h(p), v - p>
    slope_g: float
    rise_h: float  # <grad h(v) - grad h(p), v - p>
    rise_g: float
    change_h: float  # h(v) - h(p)
    change_g: float

    @staticmethod
    def of(p: Known, v: Known, geometry: Geometry) -> Step:
        """From p to v."""
        s = v.v - p.v
        dot = geometry.dot
        slope_h, slope_g = float(dot(p.grad_h, s)), float(dot(p.grad_g, s))
        end_h, end_g = float(dot(v.grad_h, s)), float(dot(v.grad_g, s))
        return Step(
            slope_h,
            slope_g,
            float(dot(v.grad_h - p.grad_h, s)),
            float(dot(v.grad_g - p.grad_g, s)),
            change(p.h, v.h, slope_h, end_h),
            change(p.g, v.g, slope_g, end_g),
        )

    @property
    def slope(self) -> float:
        """<grad f(p), v - p>."""
        return self.slope_h + self.slope_g

    @property
    def rise(self) -> float:
        """<grad f(v) - grad f(p), v - p>."""
        return self.rise_h + self.rise_g

    @property
    def slope_v(self) -> float:
        """<grad f(v), v - p>."""
        return self.slope + self.rise

    @property
    def change(self) -> float:
        """f(v) - f(p)."""
        return self.change_h + self.change_g


def _has_values(problem: Sum) -> bool:
    return "value_and_grad" in answers(problem.h.term) and can(problem.g.term, "value")


def _model(candidate: Candidate, memory: Memory, lam: float, geometry: Geometry) -> LowRank:
    kind, size = candidate
    memory = memory.newest(size)
    if kind == "plain":
        return models.plain(memory, geometry)
    return getattr(models, kind)(memory, lam, geometry)
