"""The numbers that steer the learned method, each with its unit, its reason and its source."""

from __future__ import annotations

from dataclasses import dataclass

Candidate = tuple[str, int]  # kind of model, and the number of pairs it uses


@dataclass(frozen=True)
class Tuning:
    """Numbers of `geartrain.SAEQN`; chosen on development problems, not on those reported."""

    convex_models: tuple[Candidate, ...] = (("block", 60), ("sequential", 20), ("plain", 50))
    other_models: tuple[Candidate, ...] = (("correction", 5), ("correction", 20), ("plain", 50))
    discount: float = 0.7  # weight of older errors in the score of a model, per trial point
    handicap: float = 0.5  # of models that keep g, in logarithms of their relative bill
    handicap_low: float = 4.5  # more of it, divided by rho
    alone: float = 1.5  # the plain model is alone up to this rho
    start_plain: float = 5.0  # a non-convex h starts with the plain model up to this rho
    effect: float = 5.0  # up to this rho the effect of a model counts, inner residual included
    eta: float = 0.03  # |grad phi| over |grad f(p)| at the end of an inner run, convex h
    eta_other: float = 0.1  # the same for an h that may be non-convex
    inner_memory: int = 20  # pairs of an inner run
    inner_limit: int = 300  # gradients of g per inner run
    budget: float = 10.0  # gradients of g per trial point: at least this, else rho
    refreshes: float = 0.5  # pairs whose curvature of g is measured again, over sqrt(rho)
    calm: float = 0.05  # change of that curvature below which it need not be measured again
    first_lam: float = 0.1  # lam over the curvature of g, at the start
    first_lam_other: float = 0.01
    armijo: float = 1e-4
    rounding: float = 1e-10  # values closer than this part of f are compared by slopes
    far: float = 1.5  # trial points are at most so many trust radii away
    local: float = 4.0  # the curvature of h at v is within this factor of its mean over the step
    longest: float = 0.7  # part of a rejected step that may be tried next
    wild: float = 100.0  # increase over predicted decrease beyond which the radius falls tenfold
    trials: int = 40  # trial points per step


DEFAULT = Tuning()
