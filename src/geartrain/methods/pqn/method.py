r"""The learned method: models of h compete, and every accepted point is lower.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
p          ``at``          the iterate; all terms are known there
r          ``at.r``        shortest known subgradient of f = h + g + psi at p
v          ``new``         a trial point, where h is asked next
s          ``step.s``      v - p
B          ``B``           matrix that stands for the curvature of h, or of more of f
a          ``part``        of g that the model keeps
lam        ``lam``         curvature of h where the pairs tell nothing
mu         ``shift``       added to B after rejected steps
A          ``A``           of the certificate: f(p) - f* <= \|x_0 - x*\|^2/(2A)
rho        ``rho``         price of a call of h over that of a gradient of g
=========  ==============  ==================================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from geartrain.geometry import EUCLIDEAN
from geartrain.methods.pqn import inner_method, inner_prox, inner_quadratic, inner_smooth
from geartrain.methods.pqn.certificate import CutCertificate
from geartrain.methods.pqn.evaluation import Point, Step, TermEvaluator, fall
from geartrain.methods.pqn.inner import InnerOutcome, Leave, Phi
from geartrain.methods.pqn.line_models import lowest
from geartrain.methods.pqn.low_rank import LowRank
from geartrain.methods.pqn.memory import Memory
from geartrain.methods.pqn.model_selection import Selection
from geartrain.methods.pqn.models import KEEP, PLAIN, Models, Share, Updated
from geartrain.methods.pqn.noise_detection import ProgressMonitor, look, shows_nonconvexity
from geartrain.methods.pqn.prices import WARM, Stopwatch, Usage
from geartrain.methods.pqn.prox_step import minimised
from geartrain.methods.pqn.records import replace
from geartrain.methods.pqn.safeguard import Safeguard
from geartrain.methods.pqn.scaling import diagonal_scale, gain, learns, pays, rescaled
from geartrain.methods.pqn.state import Learned, PQNState
from geartrain.methods.pqn.tuning import DEFAULT, Tuning
from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.oracles.protocols import Vector
from geartrain.oracles.sum_oracle import gradients
from geartrain.oracles.validation import as_whole
from geartrain.problem import EPS, Sum

_TINY = 1e-300
# Answers that are not finite, one after the other, before the run ends with them.
_LOST = 10
# Trial points per iteration; a step that finds no lower point returns all the same.
_TRIALS = 12
# No minimiser is within so many times max(|x_0|, 1), or the first step, or a step after which the
# gradient would vanish by the curvature of f: f is unbounded below. A change of the gradient that
# is a smaller part of it than `_BENT` may be rounding.
_UNBOUNDED, _BENT = 1e10, 1e-8
# The proven step's inner run may take so many times as many gradients of g as others.
_LONGER = 10


@dataclass(frozen=True)
class _Trial:
    """A trial point, before h is asked."""

    v: Vector
    name: str  # of the model
    B: LowRank  # its matrix, as used
    part: float
    known_g: tuple[float, Vector] | None = None
    w: Vector | None = None  # element of dpsi(v)
    residual: float = 0.0  # |grad phi| at the end of the inner run


@dataclass(frozen=True)
class ProximalQuasiNewton:
    r"""The learned method: proximal quasi-Newton with competing models; needs no constants.

    f = h + g + psi convex; h alone may be non-convex; psi, with a proximal operator, may be absent.

    Algorithm, from p = x_0:

    1. choose the model that would have predicted the last changes of the gradients best
    2. v ~ argmin <c, v> + 1/2 <v - p, (B + mu) (v - p)> + a g(v) + psi(v), where the model keeps
       the part a of g and c = grad h(p) + (1 - a) grad g(p)
    3. ask h at v: one call
    4. the pair (v - p, changes of gradients) is learned: with the curvature of h at v, or, where f
       has risen, with the mean curvature up to where it would have been lowest
    5. if f has fallen enough, p_+ = v and mu falls; otherwise 1 is repeated, with a larger mu from
       the second time on, or where a step of the last iteration was rejected, too

    Whenever the certificate A lags behind its rate, a proven accelerated step takes the place of
    lines 1 to 5 (`geartrain.methods.pqn.safeguard`), and where mu has grown until steps vanish.

    Guarantee: every accepted point is lower than the one before. For convex f with an L_h-smooth h
    and whatever the models are worth, f(p) - f* <= R^2/(2 A) from x_0 on, and an accuracy eps is
    reached after at most const + 5.16 sqrt(L_h R^2/eps) calls of h, independently of g and psi (for
    convex h; the theorem is in the documentation, on the page about the theory). One gradient of h
    per trial point, and usually one trial point per iteration; two per proven step.

    Parameters
    ----------
    rho : float, optional
        Price of a gradient of h over that of a gradient of g. It bounds the inner runs and
        handicaps the models that need them. inf: only calls of h count. None: the seconds that are
        measured, the method's own arithmetic included.
    memory : int, optional
        Number of pairs kept; a pair takes three vectors of length n. By default 60, and fewer for
        long vectors: 8 from n = 100,000 on.
    inner : inner method, optional
        For the model. By default proximal quasi-Newton steps from the matrix of the model, which
        are L-BFGS where there is no psi, and for a quadratic g with a proximal step conjugate
        gradients with its factorisation, which ask g for no gradient. With several terms h, another
        `ProximalQuasiNewton` for the second level, see `geartrain.methods.LearnedTrain`.
    tuning : Tuning
        The numbers that steer the method.

    Notes
    -----
    Values of h are used where they come with its gradient (``value_and_grad``). Without them a
    point is accepted where <r(v), v - p> <= 0, which proves descent by convexity.

    Where the terms tell their curvature along coordinates (``L_coord``), the method works in
    variables that are scaled by its root; of data, the rows count in which a variable is not zero.

    References
    ----------
    .. [1] R. Monteiro, B. Svaiter, An accelerated hybrid proximal extragradient method for convex
       optimization, SIAM J. Optim. 23 (2013).
    .. [2] J. D. Lee, Y. Sun, M. A. Saunders, Proximal Newton-type methods for minimizing composite
       functions, SIAM J. Optim. 24 (2014).
    """

    rho: float | None = math.inf
    memory: int | None = None
    inner: Any = None  # an inner method, or the same for a second level
    tuning: Tuning = DEFAULT

    needs: ClassVar[tuple[str, ...]] = ("grad",)
    any_geometry: ClassVar[bool] = True
    takes_psi: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.rho is not None and not self.rho > 0.0:
            raise ValueError(f"rho must be positive or None, got {self.rho!r}")
        if self.memory is not None:
            as_whole(self.memory, "memory", 1)
        needs = getattr(self.inner, "needs", ("grad",))  # a name is looked up by `minimize`
        if tuple(needs) != ("grad",):
            raise TypeError(
                f"ProximalQuasiNewton asks g for gradients alone, but {type(self.inner).__name__} "
                f"inside it needs {', '.join(needs)}; choose gt.inner.AGM() or "
                "gt.inner.LBFGS()"
            )

    # The start --------------------------------------------------------------------------------

    def init(self, problem: Sum, x0: Vector) -> PQNState:
        """All terms at x0, and one more gradient of g for a first guess of lam."""
        scale = diagonal_scale(problem) if self.inner is None else None
        terms = TermEvaluator(problem, scale)
        return self.start(terms, terms.both(x0 if scale is None else scale * x0))

    def start(self, terms: TermEvaluator, at: Point) -> PQNState:
        """The same where all terms are known at x0."""
        t, problem, norm = self.tuning, terms.problem, terms.norm
        convex, exact = problem.h_is_convex, self._is_exact(terms)
        rho = math.inf if self.rho is None else self.rho
        size, size_h, size_g = norm(at.r), norm(at.grad_h), norm(at.grad_g)
        unlike = size_h / size_g if size_h < size_g else 1.0
        selection = Selection.of(rho, convex, exact, t)
        if t.starts_plain(rho, convex, exact, unlike):
            flat = lam = size or 1.0
        else:
            flat = _curvature_of_g(terms, at, size)
            lam = max(unlike**4, 0.01) * flat
        if convex:
            # h like a loss c/2 |x - a|^2 with its value and gradient; without a value that tells
            # anything, a step as long as x_0, and from x_0 = 0 one of length one, as in L-BFGS
            away = norm(at.v) or 1.0
            loss = 0.5 * size_h * (size_h / at.h) if at.h > 0.0 else size_h / away
            lam = max(loss, 1e-3 * flat) if 0.0 < loss < 1e100 else 0.1 * flat
        memory = Memory.empty(at.v.size)
        return self.begin(terms, at, Learned(convex, lam, flat, selection, Share(), memory))

    def begin(self, terms: TermEvaluator, at: Point, learned: Learned) -> PQNState:
        """The start of a run that knows all terms at a point, and something about them."""
        size = terms.norm(at.r)
        return PQNState(
            k=0,
            at=at,
            scale=terms.scale,
            rho=math.inf if self.rho is None else self.rho,
            convex=learned.convex,
            memory=learned.memory,
            lam=learned.lam,
            flat=learned.flat,
            selection=learned.selection,
            share=learned.share,
            inner_pairs=learned.inner_pairs,
            certificate=CutCertificate(terms.outside(at.v), np.zeros_like(at.v)),
            safeguard=Safeguard(learned.convex),
            progress=ProgressMonitor(size, at.f, at.f),
        )

    def _is_exact(self, terms: TermEvaluator) -> bool:
        """Whether models with g are minimised by its own proximal step."""
        usable = terms.smooth and self.inner is None and terms.scale is None
        return usable and inner_quadratic.is_solvable(terms.problem.g)

    def _may_scale(self, terms: TermEvaluator) -> bool:
        """Whether inner runs may work in variables of their own."""
        return self.inner is None and not self._is_exact(terms)

    # One iteration ----------------------------------------------------------------------------

    def step(self, problem: Sum, state: PQNState) -> PQNState:
        """One iteration: trial points until one is accepted, or one proven step."""
        terms = TermEvaluator(problem, state.scale)
        if self._may_scale(terms) and pays(terms, state):
            state = rescaled(state)
            terms = TermEvaluator(problem, state.scale)
        rho = self.rho
        if rho is None:
            rho = Usage.of(problem, state.own).ratio(state.first)
        state = replace(state, rho=rho, note="", accepted=False, trials=0)
        while not (state.accepted or state.stalled or state.trials >= _TRIALS):
            state = self._looked(terms, state)
            if state.stalled:
                break
            if state.safeguard.is_due(state.A, rho):
                state = self._prove(terms, state)
            else:
                state = self._attempt(terms, state)
        first = Usage.of(problem, state.own) if state.k + 1 == WARM else state.first
        return replace(state, k=state.k + 1, first=first)

    def _looked(self, terms: TermEvaluator, state: PQNState) -> PQNState:
        """Whether the run can go on from p: neither rounding, nor noise, nor f unbounded below."""
        p, norm = state.at, terms.norm
        if p.is_level(norm):
            return replace(state, stalled=True, rounding=True)
        certificate = state.certificate
        unit = max(norm(certificate.x0), 1.0, state.unit)
        if state.unit > 0.0 and certificate.c > _UNBOUNDED * unit * norm(certificate.G):
            return replace(state, stalled=True, unbounded=True)
        size = norm(p.r)
        progress = state.progress.at(p, size)
        if progress.is_doubtful:
            return self._doubted(terms, replace(state, progress=progress.looked()), size, False)
        return state if progress is state.progress else replace(state, progress=progress)

    def _doubted(self, terms: TermEvaluator, state: PQNState, size: float, end: bool) -> PQNState:
        """A second look at the answers; the run ends if they are wrong, or by `end`."""
        state = replace(state, safeguard=state.safeguard.called(1), trials=state.trials + 1)
        try:
            seen = look(terms, state.at, size, state.steepest)
        except NonFiniteAnswer:
            return replace(state, stalled=end)
        stalled = end or seen.noise or seen.rounding
        return replace(state, stalled=stalled, rounding=seen.rounding, noisy=seen.noise)

    def _attempt(self, terms: TermEvaluator, state: PQNState) -> PQNState:
        """Lines 1 to 5 for one trial point."""
        t, norm, p = self.tuning, terms.norm, state.at
        size = norm(p.r)
        # 1. and 2.
        watch = Stopwatch(terms.problem)
        state, models, trial = self._propose(terms, state, size)
        inside = watch.own()
        if norm(trial.v - p.v) <= 2.0 * EPS * norm(p.v):
            if not terms.psi.has_residual:  # the subgradient is that of the last step
                r = terms.psi.residual(p.v, p.grad)
                if norm(r) < 0.9 * size:
                    return replace(state, at=replace(p, r=r), accepted=True)
            if state.shift == 0.0 or state.tries >= t.trials:
                return self._doubted(terms, state, size, True)
            return self._prove(terms, replace(state, tries=state.tries + 1))
        # 3.
        state = replace(
            state,
            safeguard=state.safeguard.called(1),
            progress=state.progress.after_trial(),
            trials=state.trials + 1,
        )
        try:
            new = terms.both(trial.v, trial.known_g, trial.w)
        except NonFiniteAnswer:
            if state.tries >= _LOST:
                raise
            length = norm(trial.v - p.v)
            shift = max(10.0 * state.shift, 10.0 * size / length)
            return replace(state, shift=shift, tries=state.tries + 1)
        step = Step.between(p, new, terms)
        products = state.memory.products(step.s, step.y_h, step.y_g, terms.geometry)
        sizes = size, norm(new.r)
        lower = step.is_lower(*sizes)
        # 4.
        state = self._judged(terms, state, step, models, trial, products, sizes)
        if state.convex and shows_nonconvexity(step, terms):
            state = self._without_convexity(terms, state)
        length, y_f = step.length, norm(step.y_h + step.y_g)
        state = replace(
            state,
            share=state.share.after(step),
            steepest=max(state.steepest, y_f / length),
            unit=max(state.unit, _reach(norm(terms.outside(step.s)), y_f, size, state.unit)),
        )
        if self._may_scale(terms) and learns(terms, state):
            state = replace(state, gain=gain(state.gain, state.memory, step))
        # 5.
        if lower:
            state = self._accepted(terms, state, step, trial, products)
        else:
            state = self._rejected(terms, state, step, trial, products)
        if state.tries >= t.trials:
            state = replace(state, stalled=True)
        inner, outer = (0.0, inside) if trial.part == 0.0 else (inside, 0.0)
        return replace(state, own=(state.own[0] + inner, state.own[1] + outer + watch.own()))

    # Lines 1 and 2 ----------------------------------------------------------------------------

    def _propose(
        self, terms: TermEvaluator, state: PQNState, size: float
    ) -> tuple[PQNState, Models, _Trial]:
        """The models, with pairs refreshed where it pays, and a trial point."""
        t, p, rho, selection = self.tuning, state.at, state.rho, state.selection
        plain_first = (
            selection.weight == 0.0
            and len(selection.names) > 1
            and t.starts_plain(rho, state.convex, self._is_exact(terms), _unlike(terms, p))
        )
        name = selection.best(rho, plain_first, t)
        before = 0 if name == PLAIN else _asked(terms)[0]
        memory = state.memory
        if not state.convex and len(memory) and name != PLAIN:
            memory = self._refreshed(terms, state)
            if math.isfinite(rho):
                state = replace(state, memory=memory)
        models = Models(
            memory, state.lam, state.flat, state.share.parts, state.convex, terms.geometry, t
        )
        B, part = models[name], models.part(name)
        if part > 0.0:
            state, trial = self._keeping(terms, state, name, B, part, size, before)
            length = terms.norm(trial.v - p.v)
            lost = length == 0.0
            if not (lost or state.convex):
                plain = terms.norm(models[PLAIN].inverse(state.shift)(p.r))
                lost = trial.residual > 2.0 * size or length < 1e-4 * plain
            state = replace(state, length=length)
            if not lost:
                return state, models, trial
            name, B = PLAIN, models[PLAIN]
        to = minimised(B, state.shift, p.grad, p.r, terms.psi, p.v, 0.01 * size)
        return state, models, _Trial(to.w, name, B, 0.0, None, to.grad_psi)

    def _keeping(
        self,
        terms: TermEvaluator,
        state: PQNState,
        name: str,
        B: LowRank,
        part: float,
        size: float,
        before: int,
    ) -> tuple[PQNState, _Trial]:
        """The minimiser of a model that keeps a part of g, by an inner run."""
        t, p, rho = self.tuning, state.at, state.rho
        enough = state.selection.accuracy(rho, state.convex, t) * size
        most = t.inner_limit
        if math.isfinite(rho):
            spent = _asked(terms)[0] - before
            free = t.budget if terms.smooth else t.budget_psi
            most = int(min(most, max(2.0, max(free, rho) * 0.5**state.tries) - spent))
        run = InnerOutcome(p.v, None, size, state.inner_pairs)
        if most > 0:
            phi = Phi(terms, p, B, state.shift, part)
            state, run = self._run(terms, state, phi, enough, lambda v, residual: False, most)
        calls = _asked(terms)[0] - before
        selection = state.selection.ran(rho, calls, run.residual / size)
        state = replace(state, selection=selection)
        return state, _Trial(run.v, name, B, part, run.known_g, run.w, run.residual)

    def _run(
        self,
        terms: TermEvaluator,
        state: PQNState,
        phi: Phi,
        enough: float,
        leave: Leave,
        most: int,
    ) -> tuple[PQNState, InnerOutcome]:
        """An inner run."""
        if self.inner is not None:
            return state, inner_method.solve(self.inner, phi, enough, leave)
        if self._is_exact(terms):
            run, factored = inner_quadratic.solve(
                phi, enough, state.inner_pairs, leave, most, state.factored
            )
            return replace(state, factored=factored), run
        c = inner_quadratic.spherical(terms)
        if terms.smooth and c is not None and terms.geometry is EUCLIDEAN:
            return state, inner_quadratic.direct(phi, c, state.inner_pairs)
        descend = inner_smooth.descend if terms.smooth else inner_prox.descend
        memory = self.tuning.inner_pairs(phi.p.v.size)
        run = descend(phi, enough, state.inner_pairs, leave, most, memory)
        return replace(state, inner_pairs=run.pairs), run

    def _refreshed(self, terms: TermEvaluator, state: PQNState) -> Memory:
        """The pairs as they would be at p: y_g measured there, y_h scaled as y_g along s.

        Newest first. The curvature of h is taken to have changed as that of g has, which is so for
        a difference f - f_1 of means of one loss. Where g has a price, until two in a row have not
        changed.
        """
        t, p, memory, rho = self.tuning, state.at, state.memory, state.rho
        priced, k = math.isfinite(rho), len(state.memory)
        most = math.ceil(t.refreshes * math.sqrt(rho)) if priced else k
        e, calm = 1e-4 * max(terms.norm(p.v), state.length), 0
        changes: list[tuple[Vector, float]] = []
        if e == 0.0:
            return memory
        for i in range(k - 1, max(k - 1 - most, -1), -1):
            s, _, y_g = memory.pair(i)
            now = (terms.g(p.v + e * s)[1] - p.grad_g) / e
            along = float(terms.dot(s, y_g))
            factor = 1.0
            if along > 0.0:
                factor = min(max(float(terms.dot(s, now)) / along, 1e-6), 3.0)
            same = terms.norm(now - y_g) <= 0.05 * terms.norm(now)
            changes.append((now, factor))
            calm = calm + 1 if same else 0
            if priced and calm == 2:
                break
        return memory.with_changes(changes, terms.geometry)

    # Lines 4 and 5 ----------------------------------------------------------------------------

    def _judged(
        self,
        terms: TermEvaluator,
        state: PQNState,
        step: Step,
        models: Models,
        trial: _Trial,
        products: Vector,
        sizes: tuple[float, float],
    ) -> PQNState:
        """With the scores of the models, and lam of a non-convex h, after the step."""
        t, selection, (size, size_v) = self.tuning, state.selection, sizes
        if len(selection.names) == 1:
            return state

        def error(name: str) -> float:
            B = trial.B if name == trial.name else models[name]
            if B.basis is not None and B.basis.rows is not state.memory.rows:
                own = models.memory.products(step.s, step.y_h, step.y_g, terms.geometry)
                return models.error(B, models.part(name), step, own)
            return models.error(B, models.part(name), step, products)

        if len(state.memory) > 1:
            errors = {name: error(name) for name in selection.names}
            shown = errors
            if state.rho <= t.effect:
                selection, shown = selection.by_effect(
                    errors, trial.name, size_v, size, trial.residual
                )
            least = 1e-12 * step.size(1)
            selection = selection.judged(shown, size, least, t.discount)
            kept = min(e for name, e in errors.items() if name != PLAIN)
            selection = replace(selection, error=kept / size)
        lam = state.lam
        if not state.convex:
            if len(state.memory) or trial.part > 0.0:
                wrong = error(KEEP) if trial.part != 1.0 else error(trial.name)
                lam = min(max(t.lam_error * wrong / step.length, 0.03 * lam), 16.0 * lam)
                lam = min(lam, max(state.steepest, step.size(1) / step.length))
            else:
                lam = t.lam_error * step.size(1) / step.length
        return replace(state, selection=selection, lam=min(max(lam, _TINY), 1e150))

    def _without_convexity(self, terms: TermEvaluator, state: PQNState) -> PQNState:
        """The same state with the models for an h that is not convex."""
        selection = Selection.of(state.rho, False, self._is_exact(terms), self.tuning)
        return replace(
            state,
            convex=False,
            refuted=True,
            selection=selection,
            safeguard=replace(state.safeguard, convex=False),
            note="the gradients of h show that h is not convex: it is treated as a non-convex term",
        )

    def _accepted(
        self, terms: TermEvaluator, state: PQNState, step: Step, trial: _Trial, products: Vector
    ) -> PQNState:
        """p_+ = v, with the pair learned."""
        t, length, lam = self.tuning, step.length, state.lam
        c = 1.0
        if state.convex:
            if step.bends(1.0, 0.0):
                # the curvature of h at v, not its mean over the step
                c = min(max(step.h.fit.end, 1.0 / t.local), t.local)
                fallen = min(t.lam_fall * lam, c * step.size(1) / length)
                lam = max(fallen, c * step.h.rise / length / length)
            else:  # h is straight along s, as far as rounding shows
                c = 0.0
                lam *= t.lam_fall if step.h.rise >= 0.0 else 1.0
        memory = state.memory
        if step.bends(c, 1.0):
            memory = self._with_pair(memory, step, products, c, trial)
        predicted = self._predicted(step, trial, products, state)
        ratio = step.change / predicted if predicted < 0.0 else -1.0
        shift = state.shift * (1.0 if ratio < 0.25 else 0.1 if ratio > 0.75 else 0.5)
        if shift <= 1e-6 * terms.norm(step.p.r) / length:
            shift = 0.0
        certificate = state.certificate.lowered(step.fall(terms), terms.geometry)
        certificate = certificate.with_cut(*terms.cut(step.v), 0.0, terms.geometry)
        return replace(
            state,
            at=step.v,
            memory=memory,
            lam=max(lam, _TINY),
            flat=state.flat if len(state.memory) else t.lam_fall * state.flat,
            shift=shift,
            certificate=certificate,
            safeguard=state.safeguard.called(0, _secant(step, terms)),
            lost=state.tries > 0,
            tries=0,
            accepted=True,
        )

    def _rejected(
        self, terms: TermEvaluator, state: PQNState, step: Step, trial: _Trial, products: Vector
    ) -> PQNState:
        """A pair with the mean curvature up to the minimum along s.

        mu grows from the second rejected step on. It also grows at the first one if the iteration
        before had a rejected step: where h is flat near p and steep further on, each iteration
        would otherwise begin with the same step that is too long, and end with a short one.
        """
        t, length, lam, shift = self.tuning, step.length, state.lam, state.shift
        fits = [step.h.fit, step.g.fit] if state.convex else [step.f.fit]
        part = min(lowest(min(step.slope, -_TINY), fits), t.longest)
        mean = fits[0].rise(part) / part
        if state.tries > 0 or state.lost or not state.convex:
            missed = terms.norm(step.y_h + (1.0 - trial.part) * step.y_g - trial.B(step.s)) / length
            steep = 0.1 * terms.norm(step.p.r) / length / part if part < 0.05 else 0.0
            shift = max(4.0 * shift, missed, 0.1 * lam, steep)
        memory, c = state.memory, 1.0
        curved = state.convex and step.bends(1.0, 0.0)
        if curved:
            c, lam = mean / step.h.rise, max(lam, mean / length / length)
        if not state.convex or (curved and mean > 0.0):
            memory = self._with_pair(memory, step, products, c, trial)
        above = fall(step.v, step.p, terms)
        certificate = state.certificate.with_cut(*terms.cut(step.v), above, terms.geometry)
        return replace(
            state,
            memory=memory,
            lam=lam,
            shift=min(shift, 1e150),
            certificate=certificate,
            tries=state.tries + 1,
        )

    def _with_pair(
        self, memory: Memory, step: Step, products: Vector, c: float, trial: _Trial
    ) -> Memory:
        """The memory with the pair (s, c y_h, y_g), divided by |s|."""
        factors = np.array([1.0, c, 1.0]) / step.length
        pair = tuple(
            factor * vector
            for factor, vector in zip(factors, (step.s, step.y_h, step.y_g), strict=True)
        )
        own = step.own * (factors[:, None] * factors)
        most = self._most(memory, trial)
        return memory.add(pair, products * factors, own, most)

    def _most(self, memory: Memory, trial: _Trial) -> int:
        """How many pairs are kept; more where all of them agree, as they do for a quadratic h."""
        t, k, n = self.tuning, len(memory), memory.rows.shape[1]
        most = self.memory or t.pairs(n)
        if self.memory is not None or k < most:
            return most
        if trial.part == 0.0:  # the plain model tells nothing about h alone
            return k
        agree = isinstance(trial.B, Updated) and trial.B.all_agree
        return max(most, min(k + 1, t.pairs(n, agreeing=True))) if agree else most

    def _predicted(self, step: Step, trial: _Trial, products: Vector, state: PQNState) -> float:
        """The change of f that the model has promised, with g as it has changed."""
        if trial.part == 0.0 and trial.w is None:  # (B + mu) s = -grad f(p)
            bend = -step.f.slope - state.shift * step.length**2
        elif trial.B.basis is not None and trial.B.basis.rows is not state.memory.rows:
            bend = float(trial.B.geometry.dot(step.s, trial.B(step.s)))
        else:
            bend = trial.B.bend(products[:, 0], step.length)
        g = trial.part * step.g.change + (1.0 - trial.part) * step.g.slope
        return step.h.slope + 0.5 * bend + g + step.rise_psi

    # The proven step --------------------------------------------------------------------------

    def _prove(self, terms: TermEvaluator, state: PQNState) -> PQNState:
        """One step of SAE with unknown L: two calls of h, at x and at v.

        Where it leaves the domain of a term, nothing is proven, and the next one waits.
        """
        before, _ = gradients(terms.problem.h)
        try:
            return self._proven(terms, state)
        except NonFiniteAnswer:
            asked = gradients(terms.problem.h)[0] - before
            safeguard = state.safeguard.called(asked).lost()
            return replace(state, safeguard=safeguard, trials=state.trials + asked)

    def _proven(self, terms: TermEvaluator, state: PQNState) -> PQNState:
        """In the variables x themselves, so that what is proven does not depend on scales."""
        if state.safeguard.L_seen <= 0.0:
            state = _with_secant(terms, state)
        plain, guard, geometry = TermEvaluator(terms.problem), state.safeguard, terms.geometry
        y, norm = plain.moved(state.at, terms), plain.norm
        L, a, x = guard.start(state.certificate, y.v)
        at_x = plain.at(x)
        rounding = 10.0 * EPS * (norm(at_x.grad_h) + norm(at_x.grad_g))

        def is_enough(v: Vector, residual: float) -> bool:
            return residual <= guard.accuracy * L * norm(v - x)

        B = LowRank(guard.weight * L, geometry=geometry)
        phi = Phi(plain, at_x, B, 0.0, 1.0, inside=plain.smooth)
        before, _ = _asked(plain)
        most = _LONGER * self.tuning.inner_limit
        own = state if terms.scale is None else replace(state, inner_pairs=(), factored=None)
        after, run = self._run(plain, own, phi, rounding, is_enough, most)
        state = after if terms.scale is None else state
        spent = _asked(plain)[0] - before
        v = plain.both(run.v, run.known_g, run.w)
        step = Step.between(at_x, v, plain)
        guard = guard.ran(spent).called(2, _secant(step, plain))
        # The subgradient for which the Monteiro-Svaiter test is easiest gives the cut.
        pull = L * (v.v - x)
        w = v.r - v.grad
        u = v.r if plain.smooth else plain.psi.residual(v.v, v.grad + pull, w) - pull
        drop, certificate = fall(y, v, plain), state.certificate
        lower = v.f < y.f if not math.isnan(v.f - y.f) else drop > 0.0
        if lower:
            certificate = certificate.lowered(drop, geometry)
        above = 0.0 if lower else fall(v, y, plain)
        certificate = certificate.with_cut(v.v, u, above, geometry)
        return replace(
            state,
            at=terms.moved(v, plain) if lower else state.at,
            certificate=certificate,
            safeguard=guard.ended(L, state.A, a, certificate.A),
            shift=0.0,
            trials=state.trials + 2,
            tries=0 if lower else state.tries,
            accepted=True,
        )


def _with_secant(terms: TermEvaluator, state: PQNState) -> PQNState:
    """With a secant of h, obtained by one call between the iterate and x_0, or near it."""
    plain, norm = TermEvaluator(terms.problem), terms.norm
    y = plain.moved(state.at, terms)
    s = state.certificate.x0 - y.v
    if norm(s) == 0.0:
        s = -(norm(y.v) or 1.0) / norm(y.r) * y.r
    _, grad_h = plain.h(y.v + 1e-3 * s)
    # a linear h, as far as rounding shows, has the curvature that rounding allows for
    change = max(norm(grad_h - y.grad_h), EPS * (norm(y.grad_h) or norm(y.r)))
    safeguard = state.safeguard.called(1, change / (1e-3 * norm(s)))
    return replace(state, safeguard=safeguard, trials=state.trials + 1)


def _secant(step: Step, terms: TermEvaluator) -> float:
    """|change of grad h|/|step| in the variables x, less what may be rounding; 0 if very short."""
    norm, inside, outside = terms.norm, terms.gradient_outside, terms.outside
    length = norm(outside(step.s))
    if length <= 1e-7 * norm(outside(step.p.v)):
        return 0.0
    rounding = 10.0 * EPS * (norm(inside(step.p.grad_h)) + norm(inside(step.v.grad_h)))
    return max(norm(inside(step.y_h)) - rounding, 0.0) / length


def _reach(length: float, change: float, size: float, known: float) -> float:
    """After what step the gradient vanishes by a line; the step itself before anything is known."""
    if change > _BENT * size:
        return length * (size / change)
    return 0.0 if known else length


def _unlike(terms: TermEvaluator, p: Point) -> float:
    """|grad h|/|grad g|, at most 1: how little g is like f, where h = f - g."""
    size_h, size_g = terms.norm(p.grad_h), terms.norm(p.grad_g)
    return size_h / size_g if size_h < size_g else 1.0


def _asked(terms: TermEvaluator) -> tuple[int, float]:
    """Gradients of g, and proximal steps of a quadratic one, so far."""
    g: Any = terms.problem.g
    calls, seconds = gradients(g)
    if terms.smooth:
        calls += terms.problem.ledger.calls.get(f"{g.name}.prox", 0)
    return calls, seconds


def _polyak(terms: TermEvaluator, at: Point) -> float:
    """|x - a| of a loss c/2 |x - a|^2 with the value and the gradient of h; 0 if unknown."""
    size, value = terms.norm(at.grad_h), 2.0 * abs(at.h)
    return value / size if 0.0 < value < 1e100 * size else 0.0


def _curvature_of_g(terms: TermEvaluator, at: Point, size: float) -> float:
    """|change of grad g|/|step| along the subgradient; where g is flat, one over a length."""
    if size == 0.0:
        return 1.0
    away = terms.norm(at.v)
    e = 1e-3 * (max(away, 1e-6 * _polyak(terms, at)) if away > 0.0 else 1.0)
    bent = terms.g(at.v - (e / size) * at.r)[1]
    scale = terms.norm(bent - at.grad_g) / e
    return scale if 0.0 < scale < math.inf else 1e-3 * size / e
