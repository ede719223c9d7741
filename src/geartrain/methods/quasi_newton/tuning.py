"""The numbers that steer the learned method, each with its unit, its reason and its source."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

Candidate = tuple[str, int]  # kind of model, and the number of pairs it uses


@dataclass(frozen=True)
class LearnedTuning:
    """Numbers of `geartrain.methods.SAEQN`.

    They were chosen on the development problems of ``geartrain bench profile``, which share no seed
    with those reported; ``benchmarks/ablation.py`` prints what each part is worth. "Flat" means
    that halving or doubling the number changes the calls of h there by less than 3 percent.

    References
    ----------
    .. [1] S. Eisenstat, H. Walker, Choosing the forcing terms in an inexact Newton method, SIAM J.
       Sci. Comput. 17 (1996).
    .. [2] W. Hager, H. Zhang, A new conjugate gradient method with guaranteed descent and an
       efficient line search, SIAM J. Optim. 16 (2005).
    """

    # Models that compete: for a convex h, and for one that may be non-convex. `plain` is there for
    # an h about which the knowledge of g is worth nothing: without it, it takes 1 percent more
    # calls of h, and half as many again in the worst case. Two other models of a convex h were
    # dropped: one block update with all pairs costs 1 percent beside `mixed`, and BFGS with all
    # pairs one by one spares nothing.
    convex_models: tuple[Candidate, ...] = (("mixed", 60), ("plain", 50))
    # For a non-convex h it takes up to 1 percent more of them without `careful`, and 2 percent more
    # without `shrunk`.
    other_models: tuple[Candidate, ...] = (
        ("correction", 60),
        ("careful", 60),
        ("shrunk", 60),
        ("plain", 50),
    )
    # Weight of an older error in the score of a model, per trial point; flat.
    discount: float = 0.7
    # Handicap of models that keep g, in logarithms of their bill over that of a plain trial point,
    # and what is added to it, divided by rho; for a quadratic h, which a model learns exactly.
    handicap: float = 0.5
    handicap_low: float = 4.5
    handicap_low_quadratic: float = 0.5
    low: float = 3.0  # lower ratios count as this one there
    # Price ratios up to which the plain model is alone, and up to which a model is judged by its
    # effect, the residual of its inner run included.
    alone: float = 1.5
    effect: float = 50.0
    # Gradients of g that a first trial point is worth. A run on an h that may be non-convex starts
    # with the plain model where |grad h|/|grad g| exceeds the bill of a plain trial point over that
    # of one with so many gradients of g. The one is what a step that keeps g leaves of the gradient
    # of f, roughly; the other grows with rho. A run that starts with the plain model sees few steps
    # on which another one could show what it is worth, and mostly stays with it.
    start_plain: float = 14.0
    # |grad phi| over |grad f(p)| at the end of an inner run, for a convex h and for others. A third
    # of it saves 1 percent of the calls of h and costs 8 percent more of g; a tenth saves no more.
    eta: float = 0.03
    eta_other: float = 0.1
    # The same over the error that the best model made at the last trial point, over |grad f(p)|,
    # where that is less: an accurate model deserves an accurate minimiser [1]_. And at least this.
    forcing: float = 0.1
    finest: float = 1e-4
    # Price ratio from which on these are divided by rho over it, for a convex h, and the largest
    # such divisor: where g costs next to nothing, accuracy is worth its gradients. For a non-convex
    # h it saves 1 to 2 percent of the calls of h, and at a ratio of 100 adds 2 percent to the bill:
    # there they are divided only where g costs nothing.
    dear: float = 30.0
    finer: float = 3.0
    # Pairs of an inner run, the same for vectors of more than 20,000 entries, where memory counts,
    # and its largest number of gradients of g.
    inner_memory: int = 20
    inner_memory_long: int = 6
    inner_limit: int = 300
    # Gradients of g per trial point: rho, but at least this many; half of it after each rejection.
    budget: float = 10.0
    # Gradients of g beyond one per call of h, over a run: at most so many times rho + 1 per call of
    # h, and so many budgets more. The bound seldom acts; it is not there for an h that is known to
    # be a quadratic, whose model becomes exact only after as many iterations as directions bend it.
    extra: float = 1.0
    credit: float = 3.0
    # Pairs whose curvature of g is measured again, over sqrt(rho), and the relative change of that
    # curvature below which it need not be.
    refreshes: float = 0.5
    calm: float = 0.05
    # lam at the start over the curvature of g, for a convex h about which nothing else is known at
    # x_0; for a non-convex h this is multiplied by the fourth power of |grad h|/|grad g|, and at
    # least the third number: the better shard 1 is like the others, the smaller both. Later, for a
    # non-convex h, lam over the error of the model, which is flat from 0.1 to 0.5.
    first_lam: float = 0.1
    # The first lam for a convex h is at least this part of the curvature of g: the value of an h
    # that does not nearly vanish anywhere says little. It costs less than 0.3 percent.
    least_lam: float = 1e-3
    first_lam_other: float = 1.0
    least_lam_other: float = 0.01
    lam_error: float = 0.3
    # Part of lam that is left at least after a step along which a convex h bends less, unless it
    # bends less in all directions: one flat step tells little about an h with a wide spectrum.
    # Without it some Laplacians took seven times the calls of L-BFGS; flat from 0.2 to 0.35.
    lam_fall: float = 0.25
    # Armijo's constant, and the relative difference of values below which slopes decide [2]_.
    armijo: float = 1e-4
    rounding: float = 1e-10
    # Trial points are at most so many trust radii away.
    far: float = 1.5
    # The curvature of h at the end of a step is believed within this factor of its mean.
    local: float = 4.0
    # Trust radius after a rejected step, over its length, at most: with `far` the next trial point
    # is at most 0.9 as far away, whatever was learned from the first. Increase of f over the
    # predicted decrease beyond which the radius falls by powers of ten; rejections after which it
    # falls tenfold.
    longest: float = 0.6
    wild: float = 100.0
    patience: int = 6
    # Cuts of a convex h that are kept, a vector each: 10 save as many calls as all of them. One for
    # so many pairs at most, so that long vectors do not fill the memory. How often they may shorten
    # a step before h is asked; the part of the promised decrease of f below which they do, which is
    # flat from 0.25 to 0.75; and the least part of a step that they leave, since answers may be
    # inexact.
    cuts: int = 10
    pairs_per_cut: int = 5
    foresight: int = 3
    chance: float = 0.5
    shortest: float = 0.1
    # Without values only <grad f(v), v - p> <= 0 proves descent: this part of a step is taken, so
    # that an inexact minimiser does not overshoot.
    short: float = 0.9
    # Trial points per iteration; a step that finds none returns all the same.
    trials: int = 12

    def candidates(self, rho: float, convex: bool, exact: bool) -> tuple[Candidate, ...]:
        """The models that compete; `exact`: g is a quadratic that is factorised."""
        models = self.convex_models if convex else self.other_models
        if exact or rho > self.alone:
            return models
        return tuple(c for c in models if c[0] == "plain")

    def lam_at_start(self, convex: bool, curvature: float, unlike: float, as_loss: float) -> float:
        """A first lam from the curvature of g, |grad h|/|grad g| and `Known.as_loss`."""
        if convex:
            told = 0.0 < as_loss < math.inf
            return max(as_loss, self.least_lam * curvature) if told else self.first_lam * curvature
        return max(self.first_lam_other * unlike**4, self.least_lam_other) * curvature

    def starts_plain(self, rho: float, convex: bool, exact: bool, unlike: float) -> bool:
        """Whether the first step is that of L-BFGS: g is not cheap enough, or not like f."""
        if exact or convex or math.isinf(rho):
            return not exact and rho <= self.alone
        return rho <= self.alone or unlike > (rho + 1.0) / (rho + 1.0 + self.start_plain)

    def eta_at(self, error: float, rho: float, convex: bool) -> float:
        """|grad phi|/|grad f(p)| at the end of an inner run, `error` that of the last model."""
        ratio = rho if convex or math.isinf(rho) else 1.0
        finer = min(max(ratio / self.dear, 1.0), self.finer)
        eta = self.eta if convex else self.eta_other
        return min(eta, max(self.forcing * error, self.finest)) / finer

    def cuts_beside(self, pairs: int) -> int:
        """How many cuts are kept beside so many pairs."""
        return max(min(self.cuts, pairs // self.pairs_per_cut), 1)

    def allowance(self, rho: float, calls: int, spent: float) -> float:
        """Gradients of g for the next inner run, after so many calls of h, and of g beyond them."""
        if math.isinf(rho):
            return math.inf
        return self.extra * (rho + 1.0) * calls + self.credit * max(self.budget, rho) - spent

    def for_quadratic_h(self) -> LearnedTuning:
        """The same for an h that is known to be a quadratic, with another g."""
        return replace(
            self,
            alone=0.0,
            start_plain=0.0,
            handicap_low=self.handicap_low_quadratic,
            extra=math.inf,
        )


DEFAULT = LearnedTuning()
