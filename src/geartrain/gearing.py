"""The method for more than two terms: which levels, in which order, and why."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, TypeVar

from geartrain import theory
from geartrain.geometry import EUCLIDEAN
from geartrain.methods.afb import AFB
from geartrain.methods.base import AnyMethod, InnerMethod, as_method
from geartrain.methods.baselines.scipy_lbfgs import ScipyLBFGS
from geartrain.methods.choice import Prices
from geartrain.methods.learned_train import LearnedTrain
from geartrain.methods.levels import Levels, arranged, innermost, told
from geartrain.methods.quasi_newton.sae_qn import SAEQN
from geartrain.methods.registry import METHODS, make_inner, make_method, require_any_geometry
from geartrain.methods.restart import GradientTest, Restarted
from geartrain.methods.train import Train
from geartrain.oracles.protocols import answers, can, require
from geartrain.problem import MissingConstant, Sum

T = TypeVar("T", Train, LearnedTrain)

# Methods by name that take any number of terms. The last two treat all of them as one.
_NAMES = ("auto", "afb", "fgm", "lbfgs")
# Methods whose proofs rest on a test of the exact gradient at the new point.
_TESTED = ("sae", "rsae", "scsae", "gmco", "aeg")
# Terms are alike in price up to this ratio; where no constants are known, they are merged.
_ALIKE = 3.0
# Pairs of L-BFGS on the sum.
_MEMORY = 50


def make_train(
    method: str | AnyMethod, inner: str | InnerMethod, problem: Sum, prices: Prices
) -> tuple[AnyMethod, str]:
    """The method for a problem with more than two terms, and the words for ``res.plan``."""
    if isinstance(method, str):
        if method not in METHODS and method != "auto":
            make_method(method, "auto", problem)  # an unknown name has an error of its own
        if method not in _NAMES:
            raise ValueError(_refused(repr(method), problem))
        if method in ("fgm", "lbfgs"):
            return make_method(method, inner, problem), f"{method!r} as asked for"
        if method == "afb":
            levels, why = _levels(problem, prices, inner)
            if len(levels) < 2:
                levels, why = _two(problem, prices), f"{why}, but AFB needs two levels"
            return _afb(levels, inner, problem, why), ""
        if problem.psi is not None:
            names = " + ".join(oracle.name for oracle in problem.oracles[:-1])
            made = make_method("sae-qn", inner, problem)
            return made, f"sae-qn, {names} merged, because g has a non-smooth part"
        return _auto(problem, inner, prices)
    made = as_method(method)
    core = getattr(made, "method", made)
    if isinstance(made, LearnedTrain):
        return _checked(made, problem), ""
    if isinstance(made, Train):
        return _checked(made, problem), ""
    if isinstance(core, AFB):
        return _checked(Train(_listed(problem), made, _AS_LISTED), problem), ""
    if getattr(core, "many_terms", False):
        return make_method(made, inner, problem), "given as an object"
    raise ValueError(_refused(type(core).__name__, problem))


# Levels --------------------------------------------------------------------------------------

_AS_LISTED = "as listed"


def _levels(problem: Sum, prices: Prices, inner: str | InnerMethod) -> tuple[Levels, str]:
    """The levels by prices and constants, and why."""
    if prices.given is None:
        return _listed(problem), f"{_AS_LISTED}, because no prices are given"
    price = _price(problem, prices)
    L = {s.oracle.name: s.L.value for s in problem.summands}
    last = problem.g.name
    if inner != "auto" or not _gives_gradients(problem.g):  # then g has to be the last one
        price.pop(last), L.pop(last)
        tail: Levels = ((last,),)
    else:
        tail = ()
    if all(value is not None for value in L.values()):
        known = {name: value for name, value in L.items() if value is not None}
        levels = theory.order(known, price, mu=problem.mu.value or 0.0) + tail
        return levels, _why(levels, price, "by prices and constants")
    levels = _by_price(price) + tail
    return levels, _why(levels, price, "by prices, because not all constants are known")


def _by_price(price: dict[str, float]) -> Levels:
    """Dearest first; a term that is alike in price to the one before joins its level."""
    levels: list[list[str]] = []
    for name in sorted(price, key=lambda name: -price[name]):
        if levels and price[levels[-1][0]] <= _ALIKE * price[name]:
            levels[-1].append(name)
        else:
            levels.append([name])
    return tuple(tuple(level) for level in levels)


def _why(levels: Levels, price: dict[str, float], otherwise: str) -> str:
    """The reason in words: which terms were merged, and why."""
    parts = []
    for level in levels:
        costs = [price[name] for name in level if name in price]
        if len(level) > 1:
            alike = max(costs) <= _ALIKE * min(costs)
            gain = "prices alike" if alike else "a level of its own would not pay"
            parts.append(f"{' + '.join(level)} merged, {gain}")
    return "; ".join(parts) or otherwise


def _two(problem: Sum, prices: Prices) -> Levels:
    """The best two levels: dearest terms first, split where the ratio of prices is largest."""
    price = _price(problem, prices)
    names = sorted(price, key=lambda name: -price[name])
    ratios = [price[a] / price[b] for a, b in pairwise(names)]
    cut = 1 + ratios.index(max(ratios))
    return tuple(names[:cut]), tuple(names[cut:])


def _price(problem: Sum, prices: Prices) -> dict[str, float]:
    return {oracle.name: prices.of(oracle.name, problem) for oracle in problem.oracles}


def _gives_gradients(oracle: Any) -> bool:
    return not answers(oracle.term).isdisjoint(("grad", "value_and_grad"))


def _auto(problem: Sum, inner: str | InnerMethod, prices: Prices) -> tuple[AnyMethod, str]:
    """The learned method on all levels, and AFB where it cannot work."""
    plain = all(map(_gives_gradients, problem.oracles))
    if not plain or inner != "auto":
        levels, why = _levels(problem, prices, inner)
        return _afb(levels, inner, problem, why), ""
    if prices.given is None:
        first, *others = (oracle.name for oracle in problem.oracles)
        told_why = f"sae-qn, {_AS_LISTED}, because no prices are given"
        return Train(((first,), tuple(others)), SAEQN(rho=None), told_why), ""
    levels, why = _levels(problem, prices, inner)
    price = _price(problem, prices)
    values = all(can(oracle.term, "value") for oracle in problem.oracles)
    if len(levels) < 2 and values and problem.geometry is EUCLIDEAN:
        return ScipyLBFGS(_MEMORY), f"lbfgs on the sum: {why}"
    if len(levels) < 2:
        levels = _two(problem, prices)
    cost = [sum(price[name] for name in level) for level in levels]
    if len(levels) == 2:
        return Train(levels, SAEQN(rho=cost[0] / cost[1]), f"sae-qn, {why}"), ""
    return LearnedTrain(levels, tuple(a / b for a, b in pairwise(cost)), why), ""


def _listed(problem: Sum) -> Levels:
    """One level per term, in the order in which they were given."""
    return tuple((oracle.name,) for oracle in problem.oracles)


def _afb(levels: Levels, inner: str | InnerMethod, problem: Sum, reason: str) -> Train:
    """AFB on every level; with restarts on the first one where strong convexity is not known."""
    split = arranged(problem, levels)
    method: Any = AFB(inner=make_inner(inner, innermost(split)))
    if not split.mu_h + split.mu_g:
        method = Restarted(method, GradientTest())
    return _checked(Train(levels, method, reason), problem)


def _checked(train: T, problem: Sum) -> T:
    """`train`, if its levels hold all terms, and the terms have what it needs."""
    names = [oracle.name for oracle in problem.oracles]
    if sorted(name for level in train.levels for name in level) != sorted(names):
        raise ValueError(
            f"the levels {told(train.levels)} must name every term once: {', '.join(names)}"
        )
    if len(train.levels) < 2 or not all(train.levels):
        raise ValueError(f"a train needs two levels or more, each with a term; got {train.levels}")
    if problem.psi is not None:
        raise ValueError(
            f"a train of more than two terms is not made for a non-smooth term, here "
            f"{problem.psi!r}; give two terms, as in minimize(h1 + h2, g + psi), or take "
            "method='fgm'"
        )
    if isinstance(train, LearnedTrain) or not isinstance(train.core, AFB):
        return train
    core, inside = train.core, train.core.inner
    if problem.geometry is not EUCLIDEAN:
        require_any_geometry(train.method, problem)
        require_any_geometry(inside, problem)
    name, last = type(core).__name__, train.levels[-1]
    for oracle, L in problem.summands:
        if oracle.name in last:
            told_inside = f"{name} with {type(inside).__name__} inside"
            require(told_inside, oracle.name, oracle.term, *inside.needs)
            continue
        require(name, oracle.name, oracle.term, *core.needs)
        if not getattr(oracle.term, "convex", True):
            raise ValueError(
                f"{name} needs a convex {oracle.name}, but {oracle.term!r}; add it to a term with "
                "which it is convex, or use method='auto'"
            )
        if L.value is None:
            raise MissingConstant(
                f"{name} needs the smoothness of {oracle.name}, which neither the term nor the "
                "call gives; pass L_h=[...] with one number per term, give the term its L, or use "
                "method='auto', which needs no constants"
            )
    return train


def _refused(name: str, problem: Sum) -> str:
    names = [oracle.name for oracle in problem.oracles]
    why = ""
    if name.strip("'").replace("-", "").lower() in _TESTED:
        why = (
            f" (its test needs the exact gradient of {' + '.join(names[1:])}, which the levels "
            "below know only after one more call of each of their terms; the rule of AFB does not)"
        )
    return (
        f"{name} has no form for more than two terms{why}; choose one of {', '.join(_NAMES)}, or "
        f"add up the terms, minimize({' + '.join(names[:-1])}, g)"
    )
