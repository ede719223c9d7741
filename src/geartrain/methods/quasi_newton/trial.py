r"""Trial points: the minimiser of a model of f around p, not farther than the trust radius.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
p          ``p``           the iterate
R          ``radius``      the trust radius
mu         ``mu``          weight of 1/2 |v - p|^2 that keeps the minimiser near p
phi        --              <grad h(p), v> + 1/2 <v - p, (B + mu I)(v - p)> + g(v)
=========  ==============  ==================================================================

phi is minimised in one of three ways: by conjugate gradients with the factorisation of a quadratic
g (`geartrain.methods.quasi_newton.quadratic`), by an inner method that was asked for, or by the
L-BFGS of `geartrain.methods.quasi_newton.inner`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from geartrain.geometry import Geometry
from geartrain.methods.base import InnerMethod, solve_model
from geartrain.methods.quasi_newton import quadratic
from geartrain.methods.quasi_newton.contest import is_plain
from geartrain.methods.quasi_newton.inner import Phi, Point, descend
from geartrain.methods.quasi_newton.inner_pairs import InnerPairs
from geartrain.methods.quasi_newton.low_rank import Bowl, LowRank, Raised
from geartrain.methods.quasi_newton.products import StepProducts
from geartrain.methods.quasi_newton.step import Known, Step
from geartrain.methods.quasi_newton.terms import CountedTerms
from geartrain.methods.quasi_newton.tuning import Candidate, LearnedTuning
from geartrain.oracles.protocols import Vector
from geartrain.oracles.together import gradients
from geartrain.problem import EPS, Model

# Part of g's curvature along a step that a model of h may take away.
_BENT = 0.95
# Trials of mu, and how many radii an inner run may go before it is left.
_SHIFTS, _LOST = 8, 8.0
# mu > 0 is at least this part of the one that is surely large enough.
_LEAST_SHIFT = 1e-3
_TINY = 1e-300
# Vectors up to this length are short: more pairs of inner runs are kept.
_SHORT = 20_000
# The proximal step of the guard: its name among the models, and how much longer its run may be.
_PROX, _LONGER = ("prox", 0), 10


@dataclass(frozen=True)
class Trial:
    """A trial point, before h is asked."""

    v: Vector
    candidate: Candidate  # the model
    B: LowRank  # its matrix, as used
    pairs: InnerPairs  # of g
    factor: quadratic.Factor | None
    known_g: tuple[float, Vector] | None = None  # value and gradient of g at v, where known
    residual: float = 0.0  # |grad phi| at the end of the inner run
    calls: int = 0  # gradients and proximal steps of g
    part: float = 1.0  # of g that a model other than the plain one keeps

    def ratio(self, step: Step, products: StepProducts) -> float:
        """The change of f over the one that the model promised; -1 where that was no decrease."""
        promised = 0.5 * products.bend(self.B)
        if is_plain(self.candidate):
            promised += step.f.slope
        else:  # what the model keeps of g changes as it does
            promised += step.h.slope + step.g.change
        if self.part < 1.0:
            promised -= (1.0 - self.part) * (step.g.change - step.g.slope)
        return step.f.change / promised if promised < 0.0 else -1.0


@dataclass(frozen=True)
class _Enough:
    """Where an inner run ends: |grad phi| <= max(absolute, relative |v - p|)."""

    absolute: float
    relative: float = 0.0

    def __call__(self, residual: float, length: float) -> bool:
        return residual <= max(self.absolute, self.relative * length)


@dataclass(frozen=True)
class _Run:
    """Outcome of one inner run."""

    v: Vector
    known_g: tuple[float, Vector] | None
    residual: float
    calls: int
    bent: bool  # phi was seen to bend down


@dataclass
class Proposer:
    """Makes trial points from p; what inner runs learn about g is kept in `pairs` and `factor`."""

    terms: CountedTerms
    p: Known
    radius: float
    pairs: InnerPairs
    factor: quadratic.Factor | None
    convex: bool  # h is
    budget: float  # gradients of g
    inner: InnerMethod | None
    tuning: LearnedTuning
    error: float = np.inf  # of the model at the last trial point, over |grad f|
    rho: float = np.inf  # price of a call of h over that of a gradient of g
    coarsest: float = 0.0  # |grad phi|/|grad f(p)| below which inner runs do not pay
    even: float = 0.0  # curvature of g where it is alike in all directions that are known

    def keeping_g(self, candidate: Candidate, B: LowRank) -> Trial:
        """Minimise <grad h(p), v> + 1/2 <v - p, B (v - p)> + g(v) near p."""
        if self.even > 0.0 and self.inner is None:
            return self._shifted(candidate, B, self.even)
        geometry, t, p, R = self.terms.geometry, self.tuning, self.p, self.radius
        size = geometry.norm(p.grad)
        # where the model was nearly right, it is worth more than the usual accuracy
        eta = max(t.eta_at(self.error, self.rho, self.convex), self.coarsest)
        enough = _Enough(eta * size)
        run, calls, mu, redone = _Run(p.v, None, size, 0, False), 0, 0.0, False
        for _ in range(_SHIFTS):
            most = int(min(t.inner_limit, self.budget - calls))
            if most <= 0:
                break
            run = self._run(B, mu, enough, most)
            calls += run.calls
            length = geometry.norm(run.v - p.v)
            if not (self.convex or redone) and (length == 0.0 or run.bent):
                redone, B = True, B.positive()
            elif length <= t.far * R:
                break
            else:
                mu = larger(mu, p.grad, run.v - p.v, R, geometry)
        trial = Trial(
            run.v, candidate, B, self.pairs, self.factor, run.known_g, run.residual, calls
        )
        return self._within(trial)

    def keeping_part(self, candidate: Candidate, B: LowRank, part: float) -> Trial:
        """The same with a part of g: the model is divided by it, so that it holds g itself."""
        if part == 1.0:
            return self.keeping_g(candidate, B)
        p = replace(self.p, grad_h=self.p.grad / part - self.p.grad_g)
        trial = replace(self, p=p).keeping_g(candidate, B.times(1.0 / part))
        return replace(trial, B=trial.B.times(part), residual=part * trial.residual, part=part)

    def plain(self, candidate: Candidate, B: LowRank) -> Trial:
        """Minimise the quadratic model of f itself near p."""
        return self._shifted(candidate, B, 0.0)

    def _shifted(self, candidate: Candidate, B: LowRank, tau: float) -> Trial:
        """Minimise <grad f(p), v> + 1/2 <v - p, (B + tau I)(v - p)> near p: no call of g."""
        norm, p, R, grad = self.terms.geometry.norm, self.p, self.radius, self.p.grad
        mu = 0.0
        for _ in range(_SHIFTS):
            v = p.v - B.solve(grad, mu + tau)
            length = norm(v - p.v)
            if length <= self.tuning.far * R:
                break
            mu = larger(mu, grad, v - p.v, R, self.terms.geometry)
        return self._within(Trial(v, candidate, B, self.pairs, self.factor))

    def near_prox(self, alpha: float, relative: float) -> Trial:
        """Minimise <grad h(p), v> + g(v) + alpha/2 |v - p|^2 to |grad phi| <= relative |v - p|.

        The run ends earlier where |grad phi| is rounding error.
        """
        p, norm, B = self.p, self.terms.geometry.norm, LowRank(alpha)
        rounding = 10.0 * EPS * (norm(p.grad_h) + norm(p.grad_g))
        most = _LONGER * self.tuning.inner_limit
        run = self._run(B, 0.0, _Enough(rounding, relative), most)
        return Trial(run.v, _PROX, B, self.pairs, self.factor, run.known_g, run.residual, run.calls)

    def _within(self, trial: Trial) -> Trial:
        """The same, cut to the radius where it is farther, and short of it without values."""
        p = self.p.v
        length = self.terms.geometry.norm(trial.v - p)
        part = 1.0 if self.terms.values else self.tuning.short
        if length > self.tuning.far * self.radius:
            part *= self.radius / length
        if part == 1.0:
            return trial
        return replace(trial, v=p + part * (trial.v - p), known_g=None)

    # Inner runs -------------------------------------------------------------------------------

    def _run(self, B: LowRank, mu: float, enough: _Enough, most: int) -> _Run:
        """Minimise phi until `enough`, with at most so many calls of g."""
        if self.inner is not None:
            return self._by_method(self.inner, B, mu, enough)
        if self.terms.exact:
            return self._by_factor(B, mu, enough, most)
        return self._by_lbfgs(B, mu, enough, most)

    def _by_factor(self, B: LowRank, mu: float, enough: _Enough, most: int) -> _Run:
        g, geometry, p = self.terms.problem.g, self.terms.geometry, self.p
        solved = quadratic.minimised(g, B, mu, p, enough, self.factor, most, geometry)
        self.factor = solved.factor
        return _Run(p.v + solved.s, None, solved.residual, solved.calls, solved.bent)

    def _by_lbfgs(self, B: LowRank, mu: float, enough: _Enough, most: int) -> _Run:
        p, norm, t = self.p, self.terms.geometry.norm, self.tuning

        def leave(at: Point, residual: float) -> bool:
            length = norm(at.v - p.v)
            if enough(residual, length) or length > _LOST * self.radius:
                return True
            return not self.convex and self._bent(at.v, at.grad_g, at.linear - p.grad_h)

        run = descend(
            Phi(self.terms.g, B, mu, self.terms.geometry),
            Point(p.v, p.g, p.grad_g, p.grad_h),
            enough.absolute,
            self.pairs,
            leave,
            most=most,
            memory=t.inner_memory if p.v.size <= _SHORT else t.inner_memory_long,
        )
        self.pairs, end = run.pairs, run.end
        bent = run.bent or (
            not self.convex
            and norm(end.v - p.v) <= _LOST * self.radius
            and self._bent(end.v, end.grad_g, end.linear - p.grad_h)
        )
        return _Run(end.v, (end.g, end.grad_g), run.residual, run.calls, bent)

    def _by_method(self, inner: InnerMethod, B: LowRank, mu: float, enough: _Enough) -> _Run:
        """An inner method of the library, with the low-rank part of the model added to g."""
        problem, p, norm = self.terms.problem, self.p, self.terms.geometry.norm
        alpha = B.lam + mu
        g = problem.g
        if B.small is not None:
            bowl = Bowl(np.zeros_like(p.v), LowRank(0.0, B.small), p.v, self.terms.geometry)
            g = Raised(g, bowl)
        L_g = problem.L_g.value
        top = 0.0 if B.small is None else max(float(B.small.spectrum[0].max(initial=0.0)), 0.0)
        phi = Model(
            g,
            p.grad_h - alpha * p.v,
            alpha,
            None if L_g is None else L_g + top,
            geometry=self.terms.geometry,
        )

        def accept(v: Vector, grad_g: Vector, grad_phi: Vector) -> bool:
            length = norm(v - p.v)
            return enough(norm(grad_phi), length) or length > _LOST * self.radius

        before, _ = gradients(problem.g)
        run = solve_model(inner, phi, p.v, accept, grad_g0=p.grad_g)
        calls = gradients(problem.g)[0] - before
        step = run.v - p.v
        if getattr(inner, "recalls", False):
            own = problem.g.grad(run.v)  # no call, and no rounding of the low-rank part
        else:
            own = run.grad_g if B.small is None else run.grad_g - B.small(step)
        bent = not self.convex and self._bent(run.v, own, B(step, mu))
        return _Run(run.v, (np.nan, own), run.residual, calls, bent)

    def _bent(self, v: Vector, grad_g: Vector, along_h: Vector) -> bool:
        """Whether phi bends down between p and v: g flattens on the way, and B does not."""
        dot, s = self.terms.geometry.dot, v - self.p.v
        along_g = float(dot(s, grad_g - self.p.grad_g))
        return float(dot(s, along_h)) < -_BENT * along_g


def larger(mu: float, grad: Vector, s: Vector, R: float, geometry: Geometry) -> float:
    """A larger mu for a shorter step, at most |grad|/R; s is the one with mu.

    Where s solves (H + mu I) s = -grad, -<grad, s>/|s|^2 is the curvature of H along s plus mu. If
    the next step has the same direction, it has the length R.
    """
    length, size, R = geometry.norm(s), geometry.norm(grad), max(R, _TINY)
    bend = max(-float(geometry.dot(grad, s)) / length / length, 0.0)
    larger = mu + bend * (length / R - 1.0)
    return min(max(larger, 2.0 * mu, _LEAST_SHIFT * size / R), size / R)
