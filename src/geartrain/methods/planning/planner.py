"""The planner: prices and capabilities of the terms become a `Plan`, with its reason.

The bill of a run is N_h p_h + N_g p_g with the prices p of one gradient. L-BFGS on the sum asks
both terms N times. `ProximalQuasiNewton` asks h for N_h gradients, a fraction of N, and g for
gamma N_h of them, with gamma at most about p_h/p_g, and has L-BFGS among its models. So it is
chosen on the dearer term as h, or, where prices are alike, with a quadratic term as g, which is
minimised exactly with gamma about 2. Where h is not convex, as f less a shard of it, and both terms
give Hessian products at a low price, `SimilarNewton` is chosen. `WorkingSet` is chosen for large
linear models in memory with an l1 penalty or bounds, where g has no smooth part but a ridge: there
is nothing to separate, and its seconds are fewer.

More than two terms are put on levels, the dearest ones first, with `ProximalQuasiNewton` or, from
three levels on, `LearnedTrain`. Where no prices are given, the plan is made again by the seconds of
the gradients at x0 and of the first iteration (`geartrain.methods.Planned`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from geartrain import theory
from geartrain.geometry import EUCLIDEAN
from geartrain.methods.base import AnyMethod, InnerMethod
from geartrain.methods.nested_sum import Levels, Train
from geartrain.methods.planning.bill import Prices, has_products, price_of_newton
from geartrain.methods.planning.level_order import (
    ALIKE,
    are_alike,
    constants,
    gives_gradients,
    learned,
    levels_of,
    listed,
    two_levels,
)
from geartrain.methods.planning.plan import Plan, Reason
from geartrain.methods.planning.several_terms import afb_on_levels
from geartrain.methods.pqn.inner_quadratic import is_solvable
from geartrain.methods.pqn.method import ProximalQuasiNewton
from geartrain.methods.projected_lbfgs import ProjectedLBFGS
from geartrain.methods.registry import make_method
from geartrain.methods.similar_newton import SimilarNewton
from geartrain.methods.sparsa import SpaRSA
from geartrain.methods.working_set import WorkingSet, fits, is_large
from geartrain.oracles.ledger import Oracle
from geartrain.oracles.nonsmooth import Box
from geartrain.oracles.protocols import can
from geartrain.oracles.splitting import Zero
from geartrain.problem import Sum

# SimilarNewton needs 0.6 times the calls of h that pqn needs where g is a shard of f. It is
# chosen up to this price of its iteration over that of a gradient of h.
_NEWTON = 1.25
# Pairs that L-BFGS on the sum keeps where it takes the place of pqn: as many as take it this part
# of the seconds of an evaluation, at so many seconds per pair and per entry, within limits.
_ARITHMETIC, _PER_PAIR, _PER_ENTRY = 0.5, 3e-6, 2e-9
_FEWEST, _MOST = 10, 50
# Seconds of the library's own arithmetic per gradient, about what an inner step takes for some
# thousand variables. Terms that answer faster than that are alike.
_OWN = 1e-4
# Levels are changed after the first iteration where the bill falls by this factor at least; half
# of that is within the noise of two calls and the error of the cost model.
_WORTH = 1.25


def plan(problem: Sum, inner: str | InnerMethod, prices: Prices) -> Plan:
    """The method to start with, the levels of the terms, and why."""
    plain = all(gives_gradients(oracle.term) for oracle in problem.oracles)
    if not plain or inner != "auto":
        return _by_capabilities(problem, inner, prices, plain)
    if prices.given is None:
        return _before_prices(problem)
    return _by_prices(problem, prices)


def _by_capabilities(problem: Sum, inner: str | InnerMethod, prices: Prices, plain: bool) -> Plan:
    """Where g or an inner method that is given leaves no choice by prices."""
    reason = Reason.INNER_GIVEN if plain else Reason.NO_GRADIENTS
    if problem.expensive:
        train = afb_on_levels(problem, inner, prices)
        return Plan(train.levels, train, "afb", reason, reason.value)
    name = "afb" if problem.h_is_convex else "sc-sae"
    method = make_method(name, inner, problem)
    return Plan(listed(problem), method, name, reason, reason.value)


# Measured prices -----------------------------------------------------------------------------


def _before_prices(problem: Sum) -> Plan:
    """The plan before anything is measured: levels as listed."""
    method, reason = ProximalQuasiNewton(rho=None), Reason.MEASURED
    if problem.expensive:
        return _as_listed(problem, reason.value)
    if problem.geometry is not EUCLIDEAN:
        told = Reason.GEOMETRY.value.format(where=repr(problem.geometry))
        return Plan(listed(problem), method, "pqn", Reason.GEOMETRY, told)
    if fits(problem) and is_large(problem):
        reason = Reason.IN_MEMORY
        return Plan(
            listed(problem), WorkingSet(), "working-set", reason, reason.value, method, "pqn"
        )
    if isinstance(problem.g.term, Zero):
        reason = Reason.NO_SMOOTH_PART
    return Plan(listed(problem), method, "pqn", reason, reason.value, *rival(problem, 0.0))


def rival(problem: Sum, evaluation: float) -> tuple[AnyMethod | None, str]:
    """A method with little arithmetic of its own, and its name, for evaluations that take so long.

    None where the terms do not give what it asks for.
    """
    psi = problem.psi
    if not all(can(t, "value") for t in (problem.h.term, problem.g.term)):
        return None, "lbfgs"
    if psi is not None and not isinstance(psi.term, Box):
        return (SpaRSA(memory=1) if psi.has_prox and psi.has_value else None), "sparsa"
    pairs = int(_ARITHMETIC * evaluation / (_PER_PAIR + _PER_ENTRY * problem.n))
    return ProjectedLBFGS(min(max(pairs, _FEWEST), _MOST), scaled=True), "lbfgs"


def plan_by_seconds(
    problem: Sum, first: Plan, seconds: Mapping[str, float], L: Mapping[str, float | None]
) -> Plan:
    """The plan by measured seconds per gradient, where `first` was made before.

    Parameters
    ----------
    problem : Sum
        With its terms as they were given.
    first : Plan
        Levels as listed.
    seconds, L : dict of float
        By name: what a gradient has taken, and the smoothness, known or shown so far.
    """
    price = _with_own(seconds)
    if problem.expensive:
        return _levels_by_seconds(problem, price, L)
    levels = two_levels(price)
    stays = isinstance(problem.g.term, Zero) or not problem.h_is_convex
    if stays or are_alike(price) or levels == first.levels:
        return first
    (dear,), (cheap,) = levels
    told = Reason.EXPENSIVE.value.format(dear=dear, ratio=_ratio(seconds[dear], seconds[cheap]))
    return replace(
        first, levels=levels, method=Train(levels, first.method), reason=Reason.EXPENSIVE, told=told
    )


def _levels_by_seconds(
    problem: Sum, price: Mapping[str, float], L: Mapping[str, float | None]
) -> Plan:
    if are_alike(price):
        return _as_listed(problem, "because a gradient of each term takes about as long")
    levels, why = levels_of(problem, price, L)
    why += f" (measured: {', '.join(f'{name} {price[name]:.2g} s' for name in price)})"
    method = learned(levels, why, price)
    return Plan(method.levels, method, "pqn", Reason.MEASURED, why)


def _as_listed(problem: Sum, why: str) -> Plan:
    """More than two terms in the order in which they were given, on two levels."""
    (first, *others) = listed(problem)
    levels: Levels = (first, sum(others, ()))
    # It has L-BFGS on the sum among its models.
    method = Train(levels, ProximalQuasiNewton(rho=None), f"pqn, as listed, {why}")
    return Plan(levels, method, "pqn", Reason.MEASURED, why)


def _with_own(seconds: Mapping[str, float]) -> dict[str, float]:
    return {name: taken + _OWN for name, taken in seconds.items()}


def _ratio(dear: float, cheap: float) -> float:
    return dear / cheap if cheap > 0.0 else math.inf


def pays(
    problem: Sum,
    old: Levels,
    new: Levels,
    seconds: Mapping[str, float],
    L: Mapping[str, float | None],
) -> bool:
    """Whether new levels cost much less than the old ones."""
    known = {name: value for name, value in L.items() if value is not None}
    if len(known) < len(seconds):
        return False
    price = _with_own(seconds)
    mu = problem.mu.value or 0.0
    before, after = (theory.level_bill(levels, known, price, mu=mu) for levels in (old, new))
    return before > _WORTH * after


# Given prices --------------------------------------------------------------------------------


def _by_prices(problem: Sum, prices: Prices) -> Plan:
    """The learned method, the dearest terms first."""
    price = prices.by_term(problem)
    if problem.expensive:
        levels, why = levels_of(problem, price, constants(problem))
        method = learned(levels, why, price)
        return Plan(method.levels, method, "pqn", Reason.EXPENSIVE, why)
    if problem.geometry is not EUCLIDEAN:
        told = Reason.GEOMETRY.value.format(where=repr(problem.geometry))
        return _on_two_levels(problem, two_levels(price), price, Reason.GEOMETRY, told)
    if isinstance(problem.g.term, Zero):
        reason, only_h = Reason.NO_SMOOTH_PART, ProximalQuasiNewton(rho=math.inf)
        return Plan(listed(problem), only_h, "pqn", reason, reason.value)
    return _of_two(problem, prices, price)


def _of_two(problem: Sum, prices: Prices, price: Mapping[str, float]) -> Plan:
    """pqn on the dearer term as h; where prices are alike, with a quadratic term as g."""
    levels, reason = two_levels(price), Reason.EXPENSIVE
    if max(price.values()) < ALIKE * min(price.values()):
        levels, reason = _of_two_alike(problem, prices, levels)
    (dear,), (cheap,) = levels
    told = reason.value.format(dear=dear, cheap=cheap, ratio=price[dear] / price[cheap])
    chosen = _on_two_levels(problem, levels, price, reason, told)
    if not _is_newton(problem, prices):
        return chosen
    reason, of_h = Reason.PRODUCTS, price[problem.h.name]
    told = reason.value.format(ratio=price_of_newton(problem, prices) / of_h)
    name, after = "similar-newton", ProximalQuasiNewton(rho=price[dear] / price[cheap])
    return Plan(listed(problem), SimilarNewton(), name, reason, told, after, "pqn")


def _of_two_alike(problem: Sum, prices: Prices, by_price: Levels) -> tuple[Levels, Reason]:
    """A quadratic term is the last level, and of two of them the cheaper one."""
    h, g = listed(problem)
    exact = [_is_exact(term, problem, prices) for term in (problem.h, problem.g)]
    if all(exact):
        return by_price, Reason.EXACT
    if any(exact):
        return ((h, g) if exact[1] else (g, h)), Reason.EXACT
    # A quadratic whose proximal steps are dear is not factorised.
    if is_solvable(problem.g):
        return (g, h), Reason.ALIKE
    return (h, g) if is_solvable(problem.h) else by_price, Reason.ALIKE


def _on_two_levels(
    problem: Sum, levels: Levels, price: Mapping[str, float], reason: Reason, told: str
) -> Plan:
    """The learned method for two terms; where g is the first level, it takes the place of h."""
    (dear,), (cheap,) = levels
    method: AnyMethod = ProximalQuasiNewton(rho=price[dear] / price[cheap])
    if levels != listed(problem):
        method = Train(levels, method)
    return Plan(levels, method, "pqn", reason, told)


def _is_newton(problem: Sum, prices: Prices) -> bool:
    """Whether `SimilarNewton` is the cheapest: g stands for f, and products cost little."""
    if problem.h_is_convex or problem.psi is not None or not has_products(problem):
        return False
    return price_of_newton(problem, prices) <= _NEWTON * prices.of(problem.h.name, problem)


def _is_exact(term: Oracle, problem: Sum, prices: Prices) -> bool:
    """Whether it is a quadratic with proximal steps that cost about as much as a gradient."""
    gradient = max(prices.by_term(problem).values())
    step = prices.of_call(f"{term.name}.prox", term.ledger)
    return problem.psi is None and is_solvable(term) and step < ALIKE * gradient
