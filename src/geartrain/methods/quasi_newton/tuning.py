"""The numbers that steer the learned method, each with its unit, its reason and its source."""

from __future__ import annotations

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

    # Models that compete: for a convex h, and for one that may be non-convex. `block` is best for
    # quadratics, `sequential` far from them, `plain` where the knowledge of g is worth nothing.
    convex_models: tuple[Candidate, ...] = (("block", 60), ("sequential", 50), ("plain", 50))
    other_models: tuple[Candidate, ...] = (("correction", 5), ("correction", 20), ("plain", 50))
    # Weight of an older error in the score of a model, per trial point; flat.
    discount: float = 0.7
    # Handicap of models that keep g, in logarithms of their bill over that of a plain trial point,
    # and what is added to it, divided by rho; for a quadratic h, which a model learns exactly.
    handicap: float = 0.5
    handicap_low: float = 4.5
    handicap_low_quadratic: float = 0.5
    low: float = 3.0  # lower ratios count as this one there
    # Price ratios up to which the plain model is alone, and up to which a run starts with it if h
    # may be non-convex, unless a term is a quadratic; and up to which a model is judged by its
    # effect, the residual of its inner run included. A run that starts with the plain model sees
    # few steps on which another one could show what it is worth, and mostly stays with it.
    alone: float = 1.5
    start_plain: float = 5.0
    effect: float = 50.0
    # |grad phi| over |grad f(p)| at the end of an inner run, for a convex h and for others. A third
    # of it saves 1 to 3 percent of the calls of h and costs 7 to 10 percent of those of g.
    eta: float = 0.03
    eta_other: float = 0.1
    # The same over the error that the best model made at the last trial point, over |grad f(p)|,
    # where that is less: an accurate model deserves an accurate minimiser [1]_. And at least this.
    forcing: float = 0.1
    finest: float = 1e-4
    # Pairs of an inner run, the same for vectors of more than 20,000 entries, where memory counts,
    # and its largest number of gradients of g.
    inner_memory: int = 20
    inner_memory_long: int = 8
    inner_limit: int = 300
    # Gradients of g per trial point: rho, but at least this many; half of it after each rejection.
    budget: float = 10.0
    # Pairs whose curvature of g is measured again, over sqrt(rho), and the relative change of that
    # curvature below which it need not be.
    refreshes: float = 0.5
    calm: float = 0.05
    # lam at the start over the curvature of g; for a non-convex h, later, over the model's error.
    first_lam: float = 0.1
    first_lam_other: float = 0.01
    lam_error: float = 0.2
    # Armijo's constant, and the relative difference of values below which slopes decide [2]_.
    armijo: float = 1e-4
    rounding: float = 1e-10
    # Trial points are at most so many trust radii away.
    far: float = 1.5
    # The curvature of h at the end of a step is believed within this factor of its mean.
    local: float = 4.0
    # Part of a rejected step that is tried next at most; increase of f over the predicted decrease
    # beyond which the radius falls by powers of ten; rejections after which it falls tenfold.
    longest: float = 0.7
    wild: float = 100.0
    patience: int = 6
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

    def starts_plain(self, rho: float, convex: bool, exact: bool) -> bool:
        """Whether the first step is that of L-BFGS, because g is not cheap enough."""
        return not exact and rho <= (self.alone if convex else self.start_plain)

    def for_quadratic_h(self) -> LearnedTuning:
        """The same for an h that is known to be a quadratic, with another g."""
        return replace(self, alone=0.0, start_plain=0.0, handicap_low=self.handicap_low_quadratic)


DEFAULT = LearnedTuning()
