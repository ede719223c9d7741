"""The planner: prices and capabilities of the terms become a `Choice` of method, with its reason.

The bill of a run is N_h p_h + N_g p_g with the prices p of one gradient. L-BFGS on the sum asks
both terms N times. `ProximalQuasiNewton` asks h for N_h gradients, a fraction of N, and g for
gamma N_h of them, with gamma at most about p_h/p_g, and has L-BFGS among its models. So it is
chosen on the dearer term as h, or, where prices are alike, with a quadratic term as g, which is
minimised exactly with gamma about 2. Where h is not convex, as f less a shard of it, and both terms
give Hessian products at a low price, `SimilarNewton` is chosen. `WorkingSet` is chosen for large
linear models in memory with an l1 penalty or bounds, where g has no smooth part but a ridge: there
is nothing to separate, and its seconds are fewer.
"""

from __future__ import annotations

import math

from geartrain.geometry import EUCLIDEAN
from geartrain.methods.auto import Auto
from geartrain.methods.base import AnyMethod, InnerMethod
from geartrain.methods.baselines.scipy_lbfgs import ScipyLBFGS
from geartrain.methods.choice import (
    ALIKE,
    Choice,
    Prices,
    Reason,
    has_products,
    price_of_newton,
)
from geartrain.methods.pqn.inner_quadratic import is_solvable
from geartrain.methods.pqn.method import ProximalQuasiNewton
from geartrain.methods.registry import make_method
from geartrain.methods.similar_newton import SimilarNewton
from geartrain.methods.working_set import WorkingSet, fits, is_large
from geartrain.oracles.ledger import Oracle
from geartrain.oracles.nonsmooth import Box
from geartrain.oracles.protocols import answers, can
from geartrain.oracles.splitting import Zero
from geartrain.problem import Sum

# SimilarNewton needs 0.6 times the calls of h that pqn needs where g is a shard of f. It is
# chosen up to this price of its iteration over that of a gradient of h.
_NEWTON = 1.25
# Pairs that L-BFGS on the sum keeps where it takes the place of pqn: with cheap terms, its own
# arithmetic with each pair counts.
_MEMORY = 20


def make_auto(problem: Sum, inner: str | InnerMethod, prices: Prices) -> Auto:
    """The method "auto" for `problem`."""
    return Auto(choose(problem, inner, prices), prices)


def choose(problem: Sum, inner: str | InnerMethod, prices: Prices) -> Choice:
    """The method to start with, and why."""
    plain = all(
        not answers(t).isdisjoint(("grad", "value_and_grad"))
        for t in (problem.h.term, problem.g.term)
    )
    if not plain or inner != "auto":
        return _by_capabilities(problem, inner, plain)
    if problem.geometry is not EUCLIDEAN:
        return _in_geometry(problem, prices)
    if prices.given is not None and not isinstance(problem.g.term, Zero):
        return _by_prices(problem, prices)
    rival = _rival(problem) if prices.given is None else None
    if prices.given is None and fits(problem) and is_large(problem):
        reason, after = Reason.IN_MEMORY, ProximalQuasiNewton(rho=None)
        return Choice(WorkingSet(), "working-set", reason, reason.value, after, "pqn")
    reason = Reason.MEASURED
    if isinstance(problem.g.term, Zero):
        reason = Reason.NO_SMOOTH_PART
    rho = None if prices.given is None else math.inf
    return Choice(ProximalQuasiNewton(rho=rho), "pqn", reason, reason.value, rival)


def _rival(problem: Sum) -> AnyMethod | None:
    """L-BFGS in compiled code, for terms that take microseconds; None where it cannot be used."""
    values = all(can(t, "value") for t in (problem.h.term, problem.g.term))
    bounds = problem.psi is None or isinstance(problem.psi.term, Box)
    return ScipyLBFGS(_MEMORY, scaled=True) if values and bounds else None


def _by_capabilities(problem: Sum, inner: str | InnerMethod, plain: bool) -> Choice:
    """Where g or an inner method that is given leaves no choice by prices."""
    name = "afb" if problem.h_is_convex else "sc-sae"
    if inner == "auto" and plain:
        inner = "lbfgs" if problem.psi is None else "proxqn"
    reason = Reason.INNER_GIVEN if plain else Reason.NO_GRADIENTS
    return Choice(make_method(name, inner, problem), name, reason, reason.value)


def _in_geometry(problem: Sum, prices: Prices) -> Choice:
    """pqn on the dearer term as h: SciPy's L-BFGS is Euclidean."""
    told = Reason.GEOMETRY.value.format(where=repr(problem.geometry))
    ratio, swap = None, False
    if prices.given is not None:
        p_h, p_g = prices.of(problem.h.name, problem), prices.of(problem.g.name, problem)
        ratio, swap = max(p_h, p_g) / min(p_h, p_g), p_g > p_h
    return Choice(ProximalQuasiNewton(rho=ratio), "pqn", Reason.GEOMETRY, told, exchanged=swap)


def _by_prices(problem: Sum, prices: Prices) -> Choice:
    """pqn on the dearer term as h; where prices are alike, with a quadratic term as g."""
    p_h, p_g = prices.of(problem.h.name, problem), prices.of(problem.g.name, problem)
    swap, ratio = p_g > p_h, max(p_h, p_g) / min(p_h, p_g)
    reason = Reason.EXPENSIVE
    if ratio < ALIKE:
        exact = [_is_exact(term, problem, prices) for term in (problem.h, problem.g)]
        reason = Reason.EXACT if any(exact) else Reason.ALIKE
        if any(exact):
            swap = not exact[1]
        else:  # a g whose proximal steps are dear is not factorised as h
            swap = is_solvable(problem.g) or (swap and not is_solvable(problem.h))
        ratio = p_g / p_h if swap else p_h / p_g
    dear, cheap = (problem.g, problem.h) if swap else (problem.h, problem.g)
    told = reason.value.format(dear=dear.name, cheap=cheap.name, ratio=ratio)
    method = ProximalQuasiNewton(rho=ratio)
    if _is_newton(problem, prices):
        told = Reason.PRODUCTS.value.format(ratio=price_of_newton(problem, prices) / p_h)
        return Choice(SimilarNewton(), "similar-newton", Reason.PRODUCTS, told, method, "pqn")
    return Choice(method, "pqn", reason, told, exchanged=swap)


def _is_newton(problem: Sum, prices: Prices) -> bool:
    """Whether `SimilarNewton` is the cheapest: g stands for f, and products cost little."""
    if problem.h_is_convex or problem.psi is not None or not has_products(problem):
        return False
    return price_of_newton(problem, prices) <= _NEWTON * prices.of(problem.h.name, problem)


def _is_exact(term: Oracle, problem: Sum, prices: Prices) -> bool:
    """Whether it is a quadratic with proximal steps that cost about as much as a gradient."""
    gradient = max(prices.of(name, problem) for name in (problem.h.name, problem.g.name))
    step = prices.of_call(f"{term.name}.prox", term.ledger)
    return problem.psi is None and is_solvable(term) and step < ALIKE * gradient
