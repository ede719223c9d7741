r"""The certificate and the guard of the learned method with a non-smooth term.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
u          ``u``           a subgradient of f = h + g + psi; the proofs use nothing more
y          ``y``           the lowest point so far
x          ``x``           (A y + a z)/(A + a), where h is linearised
v          ``at``          ~ argmin <grad h(x), v> + g(v) + psi(v) + alpha/2 \|v - x\|^2
=========  ==============  ==================================================================

`geartrain.methods.quasi_newton.certificate` and `geartrain.methods.quasi_newton.guard` have the
statements; here gradients of f are replaced by subgradients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from geartrain.methods.base import solve_model
from geartrain.methods.inner.proxqn import ProxQN, ProxQNState
from geartrain.methods.quasi_newton.certificate import CutCertificate
from geartrain.methods.quasi_newton.guard import ZETA, Guard
from geartrain.methods.quasi_newton.prox_step import value_at
from geartrain.methods.quasi_newton.step import Known, Step
from geartrain.methods.quasi_newton.terms import CountedTerms
from geartrain.oracles.protocols import Vector
from geartrain.oracles.splitting import Psi
from geartrain.problem import Model, norm


@dataclass(frozen=True)
class Lowest:
    """A point, the value of psi there (nan where it gives none), and the shortest subgradient."""

    at: Known
    psi: float
    u: Vector

    @property
    def f(self) -> float:
        """f, or nan."""
        return self.at.f + self.psi


def drop_between(y: Lowest, v: Lowest) -> float:
    """A lower bound of f(y) - f(v): by values less their rounding, and by convexity."""
    by_values = y.f - v.f - y.at.rounding - v.at.rounding
    by_slope = float(v.u @ (y.at.v - v.at.v))
    return by_slope if math.isnan(by_values) else max(by_values, by_slope)


@dataclass(frozen=True)
class Proven:
    """The end of a proven step."""

    best: Lowest  # the lower one of y and v
    certificate: CutCertificate
    guard: Guard
    step: Step  # from x to v, for a pair
    inner: ProxQNState


def proven_step(
    terms: CountedTerms,
    psi: Psi,
    y: Lowest,
    certificate: CutCertificate,
    guard: Guard,
    L_g: float,
    warm: ProxQNState | None,
) -> Proven:
    """One step of SAE with unknown L: two calls of h, at x and at v."""
    problem, geometry = terms.problem, terms.geometry
    L, a, x = guard.start(certificate, y.at.v)
    at_x = terms.both(x)
    alpha = guard.weight * L
    phi = Model(problem.g, at_x.grad_h - alpha * x, alpha, L_g, psi=psi)
    run = solve_model(
        ProxQN(),
        phi,
        x,
        lambda v, grad_g, grad_phi: norm(grad_phi) <= ZETA * L * norm(v - x),
        grad_g0=at_x.grad_g,
        warm=warm,
    )
    at_v = terms.both(run.v, (math.nan, run.grad_g))
    w = run.state.grad_psi
    value = value_at(psi, run.v)
    new = Lowest(at_v, value, psi.residual(run.v, at_v.grad, w))
    drop = drop_between(y, new)
    # The subgradient for which the Monteiro-Svaiter test is easiest gives the cut.
    pull = L * (run.v - x)
    u = psi.residual(run.v, at_v.grad + pull, w) - pull
    before = certificate.A
    if drop >= 0.0:
        best, certificate = new, certificate.lowered(drop, geometry)
        certificate = certificate.with_cut(run.v, u, 0.0, geometry)
    else:
        best = y
        certificate = certificate.with_cut(run.v, u, drop_between(new, y), geometry)
    grown = certificate.A
    step = Step.between(at_x, at_v, geometry)
    secant = norm(step.y_h) / step.length if step.length > 1e-7 * norm(x) else 0.0
    bent = step.bent(guard.convex, norm) if step.length > 0.0 else 0.0
    after = guard.called(2, secant).ended(L, before, a, grown, bent)
    return Proven(best, certificate, after, step, run.state)
