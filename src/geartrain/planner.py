"""The planner: prices and capabilities of the terms become a `Choice` of method, with its reason.

The bill of a run is N_h p_h + N_g p_g with the prices p of one gradient. L-BFGS on the sum asks
both terms N times. SAE-QN asks h for N_h gradients, a fraction of N, and g for gamma N_h of them.
At equal prices that loses; where p_h is much larger than gamma p_g it wins. Between the price
ratios ``try_from`` and ``separate_from`` of `geartrain.methods.choice.ChoiceTuning`, SAE-QN is
tried, and goes on while h is small beside g. Since gamma shows only in the run,
`geartrain.methods.auto.Auto` may change the method later.
"""

from __future__ import annotations

from geartrain.geometry import EUCLIDEAN
from geartrain.methods.auto import Auto
from geartrain.methods.base import AnyMethod, InnerMethod
from geartrain.methods.choice import Choice, ChoiceTuning, Prices, Reason
from geartrain.methods.quasi_newton.composite import CompositeQN
from geartrain.methods.quasi_newton.sae_qn import SAEQN
from geartrain.methods.registry import lbfgs_on_the_sum, make_method
from geartrain.oracles.protocols import answers, can
from geartrain.oracles.splitting import Zero
from geartrain.problem import Sum

# Pairs that L-BFGS on the sum keeps where it takes the place of SAE-QN.
_MEMORY = 50


def make_auto(problem: Sum, inner: str | InnerMethod, prices: Prices) -> Auto:
    """The method "auto" for `problem`."""
    return Auto(choose(problem, inner, prices), prices)


def choose(
    problem: Sum, inner: str | InnerMethod, prices: Prices, tuning: ChoiceTuning | None = None
) -> Choice:
    """The method to start with, and why."""
    tuning = ChoiceTuning() if tuning is None else tuning
    plain = all(
        not answers(t).isdisjoint(("grad", "value_and_grad"))
        for t in (problem.h.term, problem.g.term)
    )
    if not plain or inner != "auto" or problem.geometry is not EUCLIDEAN:
        return _by_capabilities(problem, inner, plain)
    values = all(can(t, "value") for t in (problem.h.term, problem.g.term))
    lbfgs = lbfgs_on_the_sum(problem, _MEMORY) if values else None
    if isinstance(problem.g.term, Zero):
        reason = Reason.NO_SMOOTH_PART
        return Choice(_learned(problem), "sae-qn", reason, reason.value)
    if prices.given is None:
        return Choice(_learned(problem), "sae-qn", Reason.MEASURED, Reason.MEASURED.value, lbfgs)
    return _by_prices(problem, prices, tuning, lbfgs)


def _learned(problem: Sum, rho: float | None = None) -> SAEQN | CompositeQN:
    """The learned method, at a price ratio if one is given; with a psi it has another form."""
    if problem.psi is None:
        return SAEQN(rho=rho)
    return CompositeQN() if rho is None else CompositeQN(rho=rho)


def _by_capabilities(problem: Sum, inner: str | InnerMethod, plain: bool) -> Choice:
    """Where g, an inner method or a geometry that is given leaves no choice by prices."""
    name = "afb" if problem.h_is_convex else "sc-sae"
    if inner == "auto" and plain:
        inner = "lbfgs" if problem.psi is None else "proxqn"
    reason = Reason.INNER_GIVEN if plain else Reason.NO_GRADIENTS
    if problem.geometry is not EUCLIDEAN:
        reason = Reason.GEOMETRY
    told = reason.value.format(where=repr(problem.geometry))
    return Choice(make_method(name, inner, problem), name, reason, told)


def _by_prices(
    problem: Sum, prices: Prices, tuning: ChoiceTuning, lbfgs: AnyMethod | None
) -> Choice:
    """SAE-QN on the dearer term as h, unless prices are alike."""
    p_h, p_g = prices.of("h", problem), prices.of("g", problem)
    swap = p_g > p_h
    dear = problem.g if swap else problem.h
    ratio = max(p_h, p_g) / min(p_h, p_g)
    if ratio < tuning.try_from and lbfgs is not None:
        told = Reason.ALIKE.value.format(ratio=ratio)
        return Choice(lbfgs, "lbfgs", Reason.ALIKE, told, _learned(problem), swap)
    method = _learned(problem, ratio)
    told = Reason.EXPENSIVE.value.format(dear=dear.name, ratio=ratio)
    return Choice(method, "sae-qn", Reason.EXPENSIVE, told, lbfgs, swap)
