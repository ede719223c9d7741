"""``method="auto"``: separate or not, which term is h, how exact the inner runs are.

The bill of a run is N_h p_h + N_g p_g with the prices p of a gradient. What the choice rests on:

- L-BFGS on the sum asks both terms N times. SAE-QN asks h for N_h and g for gamma N_h gradients,
  N_h a fraction of N. With prices alike that loses, with p_h >> gamma p_g it wins; on the problems
  of ``geartrain bench frontier`` the two meet between price ratios of 2 and 20. Between `TRY_FROM`
  and `SEPARATE_FROM` SAE-QN is tried, and goes on while h is small beside g.
- gamma shows only in the run. So the run is watched: where g's part of the bill gets out of hand,
  the rest is left to L-BFGS, from the point that was reached. Where SciPy's L-BFGS stalls before
  the stopping rule is met, SAE-QN, whose test is not a comparison of values, goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from geartrain.geometry import EUCLIDEAN
from geartrain.methods.baselines.scipy_lbfgs import ScipyLBFGS
from geartrain.methods.quasi_newton.sae_qn import SAEQN, SAEQNState
from geartrain.methods.registry import make_method
from geartrain.oracles.protocols import answers, can
from geartrain.oracles.validation import as_positive
from geartrain.problem import Sum

# Below this ratio of prices L-BFGS on the sum is cheaper as a rule ...
SEPARATE_FROM = 5.0
# ... but from this one on it is worth a try, as long as the gradient of h changes along a step by
# less than so many times that of g: for a convex h, and for one that may not be.
TRY_FROM = 2.0
SMALL, SMALL_DIFFERENCE = 10.0, 0.6
# A difference whose parts disagree in the first two steps is not small; below this ratio of prices
# that is reason enough to give up.
UNLIKE, SURE_FROM = 1.4, 30.0
# SAE-QN is given up where g's part of the bill exceeds this multiple of h's, ...
OUT_OF_HAND = 14.0
# ... looked at from so many gradients of h on.
PATIENCE = 5


@dataclass(frozen=True)
class Prices:
    """What a gradient costs: given, or the seconds measured so far."""

    given: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        for key, price in (self.given or {}).items():
            as_positive(price, f"the price of {key!r}")

    def of(self, name: str, problem: Sum) -> float:
        """The price of a gradient of the term `name`, "h" or "g"."""
        key = f"{name}.grad"
        if self.given is not None:
            return float(self.given.get(key, 1.0))
        calls = problem.ledger.calls[key]
        return problem.ledger.seconds[key] / calls if calls else 1.0


@dataclass(frozen=True)
class Plan:
    """What was chosen."""

    problem: Any  # a Sum, with h and g exchanged where g is the expensive term
    method: Any
    fallback: Any  # to go on with when the bill gets out of hand, or None
    prices: Prices
    why: str
    rescue: Any = None  # to go on with where L-BFGS stalls, or None

    def without_problem(self) -> Plan:
        """The plan for a state that is kept."""
        return replace(self, problem=None)

    def stalled(self, left: str) -> tuple[str, str]:
        """Why `rescue` goes on, and what was said on leaving with that added."""
        told = "it stalled, sae-qn goes on"
        return "L-BFGS stalled", f"{left}; {told}" if left else told

    def settled(self) -> Plan:
        """The plan with no more changes of method."""
        return replace(self, fallback=None, rescue=None)

    def leave(self, state: SAEQNState) -> str:
        """Why `method` should be left now, or nothing."""
        if self.fallback is None:
            return ""
        p, ledger = self.problem, self.problem.ledger
        p_h, p_g = self.prices.of(p.h.name, p), self.prices.of(p.g.name, p)
        n_h, n_g = ledger.calls[f"{p.h.name}.grad"], ledger.calls[f"{p.g.name}.grad"]
        if self.prices.given is None and n_h == 1 and p_h < TRY_FROM * p_g:
            return f"a gradient of {p.h.name} costs {p_h / p_g:.2g} times one of {p.g.name}"
        if n_h >= PATIENCE and n_g * p_g > OUT_OF_HAND * n_h * p_h:
            return f"{n_g / n_h:.0f} gradients of {p.g.name} for one of {p.h.name}"
        ratio = state.newest_ratio
        small = SMALL if p.h_is_convex else SMALL_DIFFERENCE
        alike = p_h < SEPARATE_FROM * p_g and ratio > small
        early = p_h < SURE_FROM * p_g and n_h <= 3 and not p.h_is_convex
        if alike or (early and ratio > UNLIKE):
            return f"{p.h.name} is not small beside {p.g.name} along the last step"
        return ""

    def told(self, left: str) -> str:
        """The plan in words and numbers, after the run."""
        p, ledger = self.problem, self.problem.ledger
        lines = [self.why]
        if left and isinstance(self.method, SAEQN):
            lines.append(f"left for SciPy's L-BFGS on the sum: {left}")
        elif left:
            lines.append(f"L-BFGS on the sum: {left}")
        price = {name: self.prices.of(name, p) for name in ("h", "g")}
        count = {name: ledger.calls[f"{name}.grad"] for name in ("h", "g")}
        bill = sum(price[name] * count[name] for name in price)
        unit = "" if self.prices.given is not None else " s"
        lines.append(
            f"bill: {count['h']} gradients of h at {price['h']:.3g}{unit} and {count['g']} of g at "
            f"{price['g']:.3g}{unit} = {bill:.4g}{unit}"
        )
        if not left and isinstance(self.method, SAEQN):
            even = bill / (price["h"] + price["g"])
            lines.append(
                f"runner-up: L-BFGS on the sum, cheaper only if it needs fewer than {even:.0f} "
                "evaluations"
            )
        return "\n  ".join(lines)


def exchanged(problem: Sum) -> Sum:
    """The same sum with h and g in each other's place."""
    return replace(problem, h=problem.g, g=problem.h, L_h=problem.L_g, L_g=problem.L_h)


def make_plan(problem: Sum, inner: Any, given: Mapping[str, float] | None) -> Plan:
    """Choose a method for `problem`."""
    prices = Prices(given)
    plain = all(
        not answers(t).isdisjoint(("grad", "value_and_grad"))
        for t in (problem.h.term, problem.g.term)
    )
    euclidean = problem.geometry is EUCLIDEAN
    if not plain or inner != "auto" or not euclidean:
        name = "afb" if problem.h_is_convex else "sc-sae"
        if inner == "auto" and plain:
            inner = "lbfgs"
        method = make_method(name, inner, problem)
        why = f"{name}: the inner method decides" if plain else f"{name}: g gives no gradients"
        if not euclidean:
            why = f"{name}: it works in {problem.geometry!r}"
        return Plan(problem, method, None, prices, why)
    values = all(can(t, "value") for t in (problem.h.term, problem.g.term))
    fallback = ScipyLBFGS(50) if values else None
    if given is None:
        why = "sae-qn: prices are measured as the run goes"
        return Plan(problem, SAEQN(), fallback, prices, why, SAEQN())
    p_h, p_g = prices.of("h", problem), prices.of("g", problem)
    if p_g > p_h:
        problem = exchanged(problem)
    rho = max(p_h, p_g) / min(p_h, p_g)
    expensive = problem.h.name
    if rho < TRY_FROM and fallback is not None:
        why = f"lbfgs: prices are alike (ratio {rho:.2g}), separation does not pay"
        return Plan(problem, fallback, None, prices, why, SAEQN())
    why = f"sae-qn: a gradient of {expensive} costs {rho:.4g} times one of the other term"
    method = SAEQN(rho=rho)
    return Plan(problem, method, fallback, prices, why, method)
