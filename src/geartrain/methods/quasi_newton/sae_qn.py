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
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from geartrain.methods.base import InnerMethod
from geartrain.methods.quasi_newton import learning
from geartrain.methods.quasi_newton.certificate import CutCertificate
from geartrain.methods.quasi_newton.contest import Contest, is_plain
from geartrain.methods.quasi_newton.cuts import Cuts
from geartrain.methods.quasi_newton.doubt import Doubt
from geartrain.methods.quasi_newton.guard import Guard
from geartrain.methods.quasi_newton.inner_pairs import InnerPairs
from geartrain.methods.quasi_newton.memory import Memory
from geartrain.methods.quasi_newton.models import Shelf
from geartrain.methods.quasi_newton.products import StepProducts
from geartrain.methods.quasi_newton.proven import proven_step
from geartrain.methods.quasi_newton.records import replace
from geartrain.methods.quasi_newton.refreshing import refreshed
from geartrain.methods.quasi_newton.seconds import WARM, Stopwatch, Usage
from geartrain.methods.quasi_newton.state import Learned, SAEQNState
from geartrain.methods.quasi_newton.step import Known, Step
from geartrain.methods.quasi_newton.terms import CountedTerms
from geartrain.methods.quasi_newton.trial import Proposer, Trial
from geartrain.methods.quasi_newton.tuning import DEFAULT, Candidate, LearnedTuning
from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.oracles.protocols import Vector
from geartrain.oracles.together import gradients
from geartrain.oracles.validation import as_whole
from geartrain.problem import EPS, Sum

# A slope that decides about descent is rounding error below this part of the gradients.
_UNDECIDED = 1e3 * EPS
# Fewer gradients of g are of no use to an inner run.
_LEAST = 2.0
# Answers that are not finite, one after the other, before the run ends with them.
_LOST = 10
# The trust radius may so often shrink to nothing before f falls again: with answers that contradict
# each other, and without.
_COLLAPSES, _MOST_COLLAPSES = 3, 100
# Rows of length n that the pairs may take by default, beyond which fewer are kept; see `memory`.
_ROOM = 3_300_000


@dataclass(frozen=True)
class SAEQN:
    r"""The learned method: proximal quasi-Newton with competing models of h; needs no constants.

    f = h + g convex; h alone may be non-convex.

    Algorithm, from p = x_0:

    1. choose the model that would have predicted the last changes of the gradients best
    2. v ~ argmin <grad h(p), v> + 1/2 <v - p, B (v - p)> + g(v) within the trust radius, or, for
       the plain model, p - B^{-1} grad f(p); where known linearisations of a convex h show that f
       can hardly fall there, line 5 is next
    3. ask h at v: one call
    4. the pair (v - p, change of gradients) is learned; if f has fallen enough, p_+ = v
    5. otherwise the radius shrinks to where a fit along the step has its minimum, and 1 is repeated

    Whenever the certificate A lags behind its rate, and after 12 rejected trial points in a row, a
    proven accelerated step takes the place of lines 1 to 5
    (`geartrain.methods.quasi_newton.guard`).

    Guarantee: every accepted point is lower than the one before. For convex f with an L_h-smooth h
    and whatever the models are worth, f(p) - f* <= R^2/(2 A) from x_0 on, and an accuracy eps is
    reached after at most const + 5.16 sqrt(L_h R^2/eps) calls of h, independently of g (for convex
    h; the theorem is in the documentation, on the page about the theory). One gradient of h per
    trial point, and usually one trial point per iteration. With a finite `rho`, N_h calls of h come
    with at most (rho + 2) N_h + 3 max(10, rho) gradients and proximal steps of g, those of an
    `inner` that is given and of an h that is known to be a quadratic apart; inner runs of proven
    steps may cost a quarter of the calls of h beyond that, and wait until then.

    Parameters
    ----------
    rho : float, optional
        Price of a gradient of h over that of a gradient of g. It bounds the inner runs and
        handicaps the models that need them. inf: only calls of h count. None: the seconds that are
        measured, the method's own arithmetic included.
    memory : int, optional
        Number of pairs kept; a pair takes three vectors of length n. By default 60, and fewer for
        long vectors: 60 up to n = 18,000, 11 from n = 100,000 on.
    inner : inner method, optional
        For the model; it may ask g for gradients alone (`geartrain.inner.AGM`). By
        default L-BFGS with the model as its base matrix, and for a quadratic g with a proximal step
        conjugate gradients with its factorisation, which ask g for no gradient.
    tuning : LearnedTuning
        The numbers that steer the method.

    Notes
    -----
    Values of h are used where they come with its gradient (``value_and_grad``). Without them a
    point is accepted where <grad f(v), v - p> <= 0, which proves descent by convexity.

    Memory: three vectors per pair; two per inner pair (20 of them, 6 for n > 20,000) in each of the
    states before and after a trial point and in the inner run; and about 27 further vectors. With
    the default `memory` at most 100 vectors of length n from n = 100,000 on.
    The state holds each vector once, and states share them.

    References
    ----------
    .. [1] R. Monteiro, B. Svaiter, An accelerated hybrid proximal extragradient method for convex
       optimization, SIAM J. Optim. 23 (2013).
    .. [2] R. Byrd, J. Nocedal, R. Schnabel, Representations of quasi-Newton matrices and their use
       in limited memory methods, Math. Program. 63 (1994).
    """

    rho: float | None = math.inf
    memory: int | None = None
    inner: InnerMethod | None = None
    tuning: LearnedTuning = DEFAULT

    needs: ClassVar[tuple[str, ...]] = ("grad",)
    any_geometry: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.rho is not None and not self.rho > 0.0:
            raise ValueError(f"rho must be positive or None, got {self.rho!r}")
        if self.memory is not None:
            as_whole(self.memory, "memory", 1)
        if self.inner is not None and tuple(self.inner.needs) != ("grad",):
            raise TypeError(
                f"SAEQN asks g for gradients alone, but {type(self.inner).__name__} inside it "
                f"needs {', '.join(self.inner.needs)}; choose gt.inner.AGM() or gt.inner.LBFGS()"
            )

    def _pairs(self, n: int) -> int:
        """How many pairs are kept."""
        return self.memory or min(60, max(11, _ROOM // (3 * n)))

    def _tuning(self, terms: CountedTerms) -> LearnedTuning:
        """The numbers for this problem."""
        learned = terms.quadratic_h and not terms.exact
        return self.tuning.for_quadratic_h() if learned else self.tuning

    # The method -------------------------------------------------------------------------------

    def init(self, problem: Sum, x0: Vector) -> SAEQNState:
        """Both terms at x0, and one more gradient of g for a first guess of lam."""
        return self.start(problem, CountedTerms(problem).both(x0))

    def start(self, problem: Sum, at: Known) -> SAEQNState:
        """The same where both terms are known at x0."""
        terms, convex = CountedTerms(problem), problem.h_is_convex
        t, norm = self._tuning(terms), problem.geometry.norm
        size = norm(at.grad)
        rho = math.inf if self.rho is None else self.rho
        unlike = at.unlike(norm)
        plain = t.starts_plain(rho, convex, terms.exact, unlike)
        scale = (size or 1.0) if plain else _curvature_of_g(terms, at, size)
        lam = t.lam_at_start(convex, scale, unlike, at.as_loss(norm))
        contest = Contest.between(t.candidates(rho, convex, terms.exact), unlike)
        state = self.begin(problem, at, Learned(convex, lam, scale, contest))
        return replace(state, extra=0 if plain else 1)

    def begin(self, problem: Sum, at: Known, learned: Learned) -> SAEQNState:
        """The start of a run that knows both terms at a point, and something about them."""
        norm = problem.geometry.norm
        size = norm(at.grad)
        return SAEQNState(
            k=0,
            at=at,
            top=at.f,
            rho=math.inf if self.rho is None else self.rho,
            memory=learned.memory,
            lam=learned.lam,
            scale=learned.scale,
            contest=learned.contest,
            cuts=Cuts(at.v).add(at, 1, problem.geometry),
            inner_pairs=learned.inner_pairs,
            certificate=CutCertificate(at.v, np.zeros_like(at.v)),
            guard=Guard(learned.convex, 1e-6 * size / max(norm(at.v), 1.0)),
            doubt=Doubt(size),
        )

    def step(self, problem: Sum, state: SAEQNState) -> SAEQNState:
        """One iteration: trial points until one is accepted, or one proven step."""
        terms = CountedTerms(problem)
        rho = self.rho
        if rho is None:
            rho = Usage.of(problem, state.own).ratio(state.first)
        state = replace(state, rho=rho, note="", accepted=False, trials=0)
        while not (state.accepted or state.stalled or state.trials >= self.tuning.trials):
            guard = state.guard
            due = guard.is_behind(state.A) and guard.affords(rho)
            if due or state.tries >= self.tuning.trials:
                state = self._prove(terms, state)
            else:
                state = self._attempt(terms, state)
        first = Usage.of(problem, state.own) if state.k + 1 == WARM else state.first
        return replace(state, k=state.k + 1, first=first)

    def _prove(self, terms: CountedTerms, state: SAEQNState) -> SAEQNState:
        """A proven step, or none where it would leave the domain of a term."""
        h = terms.problem.h
        before, _ = gradients(h)
        try:
            pairs = self._pairs(state.at.v.size)
            proven = proven_step(terms, state, self.inner, self.tuning, pairs)
        except NonFiniteAnswer:
            asked = gradients(h)[0] - before
            guard = state.guard.called(asked).lost()
            # Not zero tries: it is not rounding that led here.
            return replace(state, guard=guard, trials=state.trials + asked, tries=1)
        p, norm = state.at, terms.geometry.norm
        least = 2.0 * EPS * norm(p.v)
        moved = norm(proven.at.v - p.v) > least or norm(p.grad) > least * proven.guard.L
        if proven.stalled or moved:
            return proven
        # L has grown until the step is nothing.
        collapses = state.collapses + 1
        noisy = collapses >= _COLLAPSES and state.doubt.contradictions > 0
        over = noisy or collapses >= _MOST_COLLAPSES
        return replace(proven, collapses=collapses, stalled=over, noisy=noisy)

    def _attempt(self, terms: CountedTerms, state: SAEQNState) -> SAEQNState:
        """Lines 1 to 5 for one trial point."""
        geometry, t, p = terms.geometry, self._tuning(terms), state.at
        norm, pairs = geometry.norm, self._pairs(p.v.size)
        if p.is_level(norm):
            return replace(state, stalled=True, rounding=True)
        # 1. and 2.
        watch = Stopwatch(terms.problem)
        state, shelf, trial = self._foresee(terms, state)
        inside = watch.own()
        length = norm(trial.v - p.v)
        if length <= 2.0 * EPS * norm(p.v):
            collapses = state.collapses + 1
            if state.tries == 0:
                if state.memory.pairs and collapses <= _COLLAPSES:
                    return replace(self._forgotten(terms, state), collapses=collapses)
                return replace(state, stalled=True, rounding=True)
            # It is not rounding that led here. The proven step may help, unless the answers
            # contradict each other; where they do not, it is the models that mislead.
            noisy = collapses >= _COLLAPSES and state.doubt.contradictions > 0
            over = noisy or collapses >= _MOST_COLLAPSES
            return replace(state, tries=t.trials, collapses=collapses, stalled=over, noisy=noisy)
        # 3.
        state = replace(
            state,
            inner_pairs=trial.pairs,
            factor=trial.factor,
            guard=state.guard.called(1),
            trials=state.trials + 1,
        )
        try:
            new = terms.both(trial.v, trial.known_g)
        except NonFiniteAnswer:
            if state.tries >= _LOST:
                raise
            return replace(state, radius=0.1 * length, tries=state.tries + 1)
        # 4. and 5.
        step = Step.between(p, new, geometry)
        products = StepProducts(step, geometry)
        state = learning.without_convexity(state, step, t, terms)
        if trial.candidate in state.contest.candidates:
            state = learning.judged(state, step, shelf, trial, products, t, terms)
        ratio = trial.ratio(step, products)
        if step.is_descent(t.armijo, t.rounding):
            state = learning.accepted(state, step, products, ratio, t, pairs, geometry)
        elif abs(step.f.slope) <= _UNDECIDED * (norm(p.grad_h) + norm(p.grad_g)) * length:
            state = replace(state, stalled=True, rounding=True)
        else:
            state = learning.rejected(state, step, products, ratio, t, pairs, geometry)
        fallen, L_seen = state.top - state.at.f, state.guard.L_seen
        doubt = state.doubt.after(step, norm(new.grad), fallen, L_seen, geometry)
        if not state.stalled and (doubt.is_noise or doubt.is_rounding):
            noisy = doubt.is_noise and not doubt.is_rounding
            state = replace(state, stalled=True, rounding=not noisy, noisy=noisy)
        inner, outer = (0.0, inside) if is_plain(trial.candidate) else (inside, 0.0)
        own = (state.own[0] + inner, state.own[1] + outer + watch.own())
        inner_pairs = state.inner_pairs.beside(state.memory.rows.rows)
        return replace(state, doubt=doubt, own=own, inner_pairs=inner_pairs)

    def _forgotten(self, terms: CountedTerms, state: SAEQNState) -> SAEQNState:
        """The state without its pairs: too large a curvature may come from points far away.

        Whether rounding is what prevents progress is seen by the next trial point.
        """
        t, norm, at = self._tuning(terms), terms.geometry.norm, state.at
        scale = _curvature_of_g(terms, at, norm(at.grad))
        lam = t.lam_at_start(state.convex, scale, at.unlike(norm), at.as_loss(norm))
        return replace(
            state,
            memory=Memory(),
            lam=lam,
            scale=scale,
            contest=Contest.between(state.contest.candidates, state.contest.unlike),
            radius=math.inf,
            inner_pairs=InnerPairs(),
            extra=state.extra + 1,
        )

    def _foresee(self, terms: CountedTerms, state: SAEQNState) -> tuple[SAEQNState, Shelf, Trial]:
        """Lines 1 and 2, until the cuts of a convex h leave the trial point a chance."""
        t, p, geometry = self._tuning(terms), state.at, terms.geometry
        pairs = self._pairs(p.v.size)
        state, shelf, trial = self._propose(terms, state)
        for _ in range(t.foresight if state.convex and terms.values else 0):
            cut = state.cuts.highest(p, trial.v, geometry)
            if cut is None:
                break
            try:
                known_g = terms.all_of_g(trial.v, trial.known_g)
            except NonFiniteAnswer:  # the trial point itself will show it
                break
            trial = replace(trial, known_g=known_g)
            step = Step.between(p, cut.with_g(*known_g), geometry)
            products = StepProducts(step, geometry)
            if trial.ratio(step, products) >= t.chance:
                break
            state = learning.foreseen(state, step, products, t, pairs, geometry)
            state = replace(state, extra=state.extra + 1)  # g is asked where h is not
            state, shelf, trial = self._propose(terms, state)
        return state, shelf, trial

    def _propose(self, terms: CountedTerms, state: SAEQNState) -> tuple[SAEQNState, Shelf, Trial]:
        """Lines 1 and 2: the models, with pairs refreshed where it pays, and a trial point."""
        geometry, p, contest = terms.geometry, state.at, state.contest
        t = self._tuning(terms)
        norm, candidates, rho = geometry.norm, contest.candidates, state.rho
        # 1.
        known, even = state.memory, state.memory.even if state.convex else 0.0
        allowance = t.allowance(rho, state.guard.calls, state.extra)
        chosen = self._chosen(terms, state, allowance)
        fresh, calls = known, 0
        if not state.convex and known.pairs and (math.isinf(rho) or not is_plain(chosen)):
            fresh, calls = refreshed(terms, state, chosen, t, allowance - 1.0)
            state = replace(state, memory=fresh) if math.isfinite(rho) else state
        a, b = state.base.shares
        shares = (a, b) if a > 0.0 else (1.0, 0.0)  # without g there is the plain model
        shelf = Shelf(known, fresh, state.lam, state.scale, geometry, shares)
        # 2.
        proposer = Proposer(
            terms,
            p,
            state.doubt.radius(state.radius),
            state.inner_pairs,
            state.factor,
            state.convex,
            min(max(2.0, max(t.budget, rho) * 0.5**state.tries), allowance - calls),
            self.inner,
            t,
            contest.error,
            rho,
            contest.coarsest(rho) if math.isfinite(rho) else 0.0,
            even,
        )
        if is_plain(chosen):
            return state, shelf, proposer.plain(chosen, shelf[chosen])
        trial = proposer.keeping_part(chosen, shelf[chosen], shelf.part(chosen))
        spent = calls + trial.calls + (trial.known_g is None)
        contest = contest.billed(rho + spent).ran(trial.residual / norm(p.grad), trial.calls)
        # The inner run may have led nowhere: then the plain model takes over.
        length = norm(trial.v - p.v)
        lost = length == 0.0
        if not (lost or state.convex):
            plain = norm(shelf[candidates[-1]].solve(p.grad, 0.0)) if known.pairs else 0.0
            lost = trial.residual > 2.0 * norm(p.grad) or length < 1e-4 * min(plain, state.radius)
        calls += trial.calls
        if lost:
            trial = proposer.plain(candidates[-1], shelf[candidates[-1]])
        extra = state.extra + calls - (trial.known_g is not None)
        return replace(state, contest=contest, extra=extra), shelf, trial

    def _chosen(self, terms: CountedTerms, state: SAEQNState, allowance: float) -> Candidate:
        """Line 1: the favourite; the plain model where no gradients of g are left for another."""
        t, contest, known = self._tuning(terms), state.contest, state.memory
        if allowance < _LEAST:
            return contest.candidates[-1]
        start_plain = t.starts_plain(state.rho, state.convex, terms.exact, contest.unlike)
        even = state.convex and known.even > 0.0
        chosen = contest.candidates[contest.favourite(state.rho, t, start_plain, even)]
        if is_plain(chosen) and not (known.pairs or start_plain):
            return contest.candidates[0]
        return chosen


def _curvature_of_g(terms: CountedTerms, at: Known, size: float) -> float:
    """|change of grad g|/|step| along the gradient of f; where g is flat, one over a length."""
    norm = terms.geometry.norm
    if size == 0.0:
        return 1.0
    length = 1e-3 * max(norm(at.v), 1.0)
    bent = terms.g(at.v - (length / size) * at.grad)[1]
    return norm(bent - at.grad_g) / length or size / max(norm(at.v), 1.0)
