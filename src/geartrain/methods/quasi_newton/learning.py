r"""What the answer at a trial point teaches: pairs, lam, the trust radius, the scores of models."""

from __future__ import annotations

import math
from collections.abc import Callable

from geartrain.geometry import Geometry
from geartrain.methods.quasi_newton.along import KinkFit, lowest
from geartrain.methods.quasi_newton.contest import Contest, is_plain
from geartrain.methods.quasi_newton.cuts import Cuts
from geartrain.methods.quasi_newton.doubt import evidence_against_convexity
from geartrain.methods.quasi_newton.memory import Memory, Pair
from geartrain.methods.quasi_newton.models import Shelf
from geartrain.methods.quasi_newton.products import StepProducts
from geartrain.methods.quasi_newton.records import replace
from geartrain.methods.quasi_newton.state import SAEQNState
from geartrain.methods.quasi_newton.step import Step
from geartrain.methods.quasi_newton.terms import CountedTerms
from geartrain.methods.quasi_newton.trial import Trial
from geartrain.methods.quasi_newton.tuning import LearnedTuning
from geartrain.oracles.protocols import Vector

_TINY = 1e-300
# lam changes by at most these factors per trial point, for an h that may be non-convex.
_FALL, _GROW = 0.03, 16.0
# The trust radius grows fourfold, and more where the slopes tell that a step was far too short: to
# this part of the way to the minimum that they predict.
_PART = 0.01
# Steps that show that h is not convex, before that is believed; one of them may be noise.
_DISPROOF = 2


def judged(
    state: SAEQNState,
    step: Step,
    shelf: Shelf,
    trial: Trial,
    products: StepProducts,
    tuning: LearnedTuning,
    terms: CountedTerms,
) -> SAEQNState:
    """Which model would have known; for a non-convex h, how large lam should have been."""
    contest, norm, chosen = state.contest, terms.geometry.norm, trial.candidate
    if len(contest.candidates) == 1:
        return state
    if len(state.memory) > 1:
        errors = [
            products.error(trial.B if c == chosen else shelf[c], shelf.part(c))
            for c in contest.candidates
        ]
        size = norm(step.p.grad)
        contest = contest.erred(errors, size)
        if math.isfinite(state.rho):
            lower = step.is_descent(tuning.armijo, tuning.rounding)
            gain = math.log(size / max(norm(step.v.grad), _TINY)) if lower else 0.0
            contest = contest.gained(is_plain(chosen), gain, state.rho + 1.0 + trial.calls)
        if state.rho <= tuning.effect:
            if not is_plain(chosen):
                contest = contest.ended_at(trial.residual / size)
            missed = 0.0 if state.convex and state.memory.even else contest.missed
            for j, c in enumerate(contest.candidates):
                if not is_plain(c):
                    inexact = errors[j] + missed * size
                    errors[j] = norm(step.v.grad) if c == chosen else inexact
        contest = contest.scored(errors, 1e-12 * norm(step.y_h), tuning.discount)
    lam = state.lam
    if not state.convex:
        B = trial.B if shelf.part(chosen) == 1.0 else shelf[contest.candidates[0]]
        plain = tuning.starts_plain(state.rho, False, terms.exact, contest.unlike)
        if state.memory.pairs or not plain:
            error = products.error(B, 1.0) / step.length
            lam = min(max(tuning.lam_error * error, _FALL * lam), _GROW * lam)
        else:
            lam = tuning.lam_error * norm(step.y_h) / step.length
    base = state.base.after_step(products.own)
    return replace(state, contest=contest, lam=max(lam, _TINY), base=base)


def accepted(
    state: SAEQNState,
    step: Step,
    products: StepProducts,
    ratio: float,
    tuning: LearnedTuning,
    memory: int,
    geometry: Geometry,
) -> SAEQNState:
    """p_+ = v, with the pair learned; `ratio` is the actual over the predicted change of f."""
    norm, lam, learned = geometry.norm, state.lam, state.memory
    pair = pair_of(step)
    if _is_usable(state, step, norm):
        # The curvature of h at v, not its mean over the step; and that along the step, which steps
        # into unknown directions will meet: |y_h|/|s| is larger by curvature that the pair tells.
        bend = step.h.fit.curvature_at_end / step.h.rise
        bend = min(max(bend, 1.0 / tuning.local), tuning.local)
        lam = lam_after(lam, step, bend, norm(step.y_h), step.length, tuning)
        learned = learned.add(replace(pair, scale=bend), geometry, memory, products)
    elif step.f_bends(norm):
        # a convex h is flat along the step, as far as rounding shows
        scale = 0.0 if state.convex else 1.0
        learned = learned.add(replace(pair, scale=scale), geometry, memory, products)
    certificate = state.certificate.lowered(step.drop, geometry)
    cuts, ahead = state.cuts, -step.f.slope / max(step.f.rise, _TINY)
    radius = accepted_radius(state.radius, state.convex, step.length, ratio, ahead)
    if state.convex:
        cuts = cuts.moved(step.v.v, geometry).add(step.v, tuning.cuts_beside(memory), geometry)
    return replace(
        state,
        at=step.v,
        cuts=cuts,
        memory=learned,
        lam=max(lam, _TINY),
        radius=radius,
        certificate=certificate.with_cut(step.v.v, step.v.grad, 0.0, geometry),
        guard=state.guard.called(0, secant(state, step, norm)),
        tries=0,
        collapses=0,
        accepted=True,
    )


def rejected(
    state: SAEQNState,
    step: Step,
    products: StepProducts,
    ratio: float,
    tuning: LearnedTuning,
    memory: int,
    geometry: Geometry,
) -> SAEQNState:
    """The radius shrinks to where f would have been lowest; h is known at one more point."""
    cuts, beyond = state.cuts, ratio < -tuning.wild
    mean, radius = shorter(step, step.f.slope, state.convex, beyond, state.tries, tuning)
    if state.tries >= tuning.patience:
        radius = min(radius, 0.1 * step.length)
    if state.convex:
        cuts = cuts.add(step.v, tuning.cuts_beside(memory), geometry)
    return replace(
        _shortened(state, step, products, mean, radius, memory, geometry),
        cuts=cuts,
        certificate=state.certificate.with_cut(step.v.v, step.v.grad, step.above, geometry),
        guard=state.guard.called(0, secant(state, step, geometry.norm)),
        tries=state.tries + 1,
    )


def foreseen(
    state: SAEQNState,
    step: Step,
    products: StepProducts,
    tuning: LearnedTuning,
    memory: int,
    geometry: Geometry,
) -> SAEQNState:
    """The step is shortened before h is asked, by what a cut tells about h at its end.

    Along the step, h is taken to be the larger one of its linearisation at p and of the cut. What
    it does before the two cross is not known, so that the step may go there; a smooth fit would
    have h bend from p on, and leave next to nothing of a step towards a steep cut.
    """
    h, g, slope = step.h, step.g.fit, step.f.slope
    kink = KinkFit.of(h.change - h.slope, h.rise)
    part = min(max(lowest(slope, [kink, g]), tuning.shortest), tuning.longest)
    # the subgradient of h there with which f is level
    rise = min(max(-slope - g.rise(part), 0.0), kink.total)
    return _shortened(state, step, products, rise / part, part * step.length, memory, geometry)


def _shortened(
    state: SAEQNState,
    step: Step,
    products: StepProducts,
    mean: float,
    radius: float,
    memory: int,
    geometry: Geometry,
) -> SAEQNState:
    """The radius shrinks; a pair with the mean curvature up to there helps to get there."""
    lam, learned, pair = state.lam, state.memory, pair_of(step)
    if _is_usable(state, step, geometry.norm) and mean > 0.0 and _is_clear(state, step):
        scale = mean / step.h.rise
        learned = learned.add(
            replace(pair, scale=scale, in_f=(scale, 1.0)), geometry, memory, products
        )
        lam = max(lam, mean / step.length / step.length)
    elif not state.convex:
        scale = mean / max(step.f.rise, _TINY)
        learned = learned.add(replace(pair, in_f=(scale, scale)), geometry, memory, products)
    return replace(state, memory=learned, lam=lam, radius=radius)


def shorter(
    step: Step, slope: float, convex: bool, beyond: bool, tries: int, tuning: LearnedTuning
) -> tuple[float, float]:
    """Mean curvature up to where f would have been lowest, of h or of f, and the radius there.

    `slope` is that of f at p. `beyond`: f has risen beyond all measure, for the first time or after
    so many `tries`; what is known at v tells little about f near p then.
    """
    ends = [step.h.fit, step.g.fit] if convex else [step.f.fit]
    fits = [fit.from_far() for fit in ends] if beyond else ends
    part = min(lowest(slope, fits), tuning.longest)
    radius = part * step.length
    if beyond and tries > 0:
        radius = min(radius, 10.0 ** -(tries + 1) * step.length)
    return fits[0].rise(part) / part, radius


def lam_after(
    lam: float, step: Step, bend: float, size: float, length: float, tuning: LearnedTuning
) -> float:
    """lam after a step along which a convex h bends; `size` is that of y_h, `length` that of s.

    It is the curvature along the step, which steps into unknown directions will meet; but one flat
    step does not lower it by much, unless h bends less in all directions.
    """
    lam = min(tuning.lam_fall * lam, bend * size / length)
    return max(lam, bend * step.h.rise / length / length)


def without_convexity(
    state: SAEQNState, step: Step, tuning: LearnedTuning, terms: CountedTerms
) -> SAEQNState:
    """The same state; if the step shows that h is not convex, with the models for such an h."""
    unsure = state.doubt.idle > 0 and math.isnan(step.v.f)  # near the floor of noise, perhaps
    if not state.convex or unsure:
        return state
    bends = state.bends + evidence_against_convexity(step, terms.geometry)
    if bends < _DISPROOF:
        return replace(state, bends=bends)
    pairs = tuple(Pair(p.s, p.y_h, p.y_g) for p in state.memory.pairs)
    candidates = tuning.candidates(state.rho, False, terms.exact)
    return replace(
        state,
        memory=Memory(pairs, state.memory.gram),
        cuts=Cuts(state.at.v),
        lam=max(tuning.lam_error * terms.geometry.norm(step.y_h) / step.length, _TINY),
        contest=Contest.between(candidates, state.contest.unlike),
        guard=replace(state.guard, convex=False),
        note="the gradients of h show that h is not convex: it is treated as a non-convex term",
    )


def pair_of(step: Step) -> Pair:
    """The pair of a step, divided by its length."""
    return Pair(step.s / step.length, step.y_h / step.length, step.y_g / step.length)


def secant(state: SAEQNState, step: Step, norm: Callable[[Vector], float]) -> float:
    """|change of grad h|/|step|; 0 outside the level set of x_0 and for very short steps."""
    inside = not (step.v.f > state.top or step.p.f > state.top)
    if not inside or step.length <= 1e-7 * max(norm(step.p.v), norm(step.v.v)):
        return 0.0
    return norm(step.y_h) / step.length


def is_usable_for_h(state: SAEQNState, step: Step, norm: Callable[[Vector], float]) -> bool:
    """Whether a pair of this step may enter the memory."""
    return step.length > 0.0 and (not state.convex or _is_usable(state, step, norm))


def _is_usable(state: SAEQNState, step: Step, norm: Callable[[Vector], float]) -> bool:
    """Whether the pair shows curvature of a convex h."""
    return state.convex and step.h_bends(norm)


def _is_clear(state: SAEQNState, step: Step) -> bool:
    """Whether f has risen along a rejected step, and not by rounding or noise."""
    if math.isnan(step.v.f):
        return state.doubt.idle == 0
    return step.v.f - step.p.f > step.p.rounding + step.v.rounding


def accepted_radius(
    R: float, convex: bool, length: float, ratio: float, ahead: float = 1.0
) -> float:
    """The trust radius after an accepted step; `ratio` is the actual over the predicted change.

    `ahead`: lengths of the step from p to the minimum along it, by its slopes at both ends.
    """
    if ratio < 0.25:
        R = 0.5 * length
    elif ratio > 0.75:
        R = max(R, max(4.0, _PART * ahead) * length)
    elif not math.isinf(R):
        R = max(R, length)
    return max(10.0, ahead) * length if math.isinf(R) and not convex else R
