"""Which levels terms are put on, by prices and constants, and the learned method on them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from geartrain import theory
from geartrain.methods.learned_train import LearnedTrain, nested
from geartrain.methods.nested_sum import Levels, Train
from geartrain.methods.pqn.method import ProximalQuasiNewton
from geartrain.oracles.protocols import answers
from geartrain.oracles.splitting import Zero
from geartrain.problem import Sum

# Prices are alike up to this ratio: a model of the dearer term, and the inner runs for it, gain
# less than they cost. Of more than two terms, those that are alike are on one level.
ALIKE = 3.0


def levels_of(
    problem: Sum, price: Mapping[str, float], L: Mapping[str, float | None]
) -> tuple[Levels, str]:
    """The levels of the learned method, and why; a single level stands for all terms at once.

    A g that is nothing but a non-smooth term is the last level.
    """
    if isinstance(problem.g.term, Zero):
        names = tuple(price)
        return (names[:-1], names[-1:]), "on two levels, because g has no smooth part"
    levels, why = arrange(price, L, mu=problem.mu.value or 0.0)
    if _falling(levels, price):
        return levels, why
    # A model of a level pays only where the next level is cheaper: constants do not help then.
    return arrange(price, dict.fromkeys(price))


def learned(levels: Levels, why: str, price: Mapping[str, float]) -> Train | LearnedTrain:
    """The learned method on these levels, or on two of them where they are a single one."""
    if len(levels) < 2:
        levels = two_levels(price)
    rho = _ratios(levels, price)
    if len(levels) == 2:
        return Train(levels, ProximalQuasiNewton(rho=rho[0]), f"pqn, {why}")
    return LearnedTrain(levels, nested(rho), why)


def arrange(
    price: Mapping[str, float],
    L: Mapping[str, float | None],
    *,
    mu: float = 0.0,
    last: str | None = None,
) -> tuple[Levels, str]:
    """The levels of the terms with these prices and constants, and why.

    Parameters
    ----------
    price, L : dict of float
        By name: what a gradient costs, and the smoothness, where it is known.
    mu : float
        Strong convexity of the sum; 0 if it is not known.
    last : str, optional
        A term that has to be the last level, alone.
    """
    free = [name for name in price if name != last]
    tail: Levels = () if last is None else ((last,),)
    known = {name: value for name in free if (value := L[name]) is not None}
    cost = {name: price[name] for name in free}
    if len(known) == len(free):
        levels = theory.order(known, cost, mu=mu) + tail
        return levels, _why(levels, price, "by prices and constants")
    levels = _by_price(cost) + tail
    return levels, _why(levels, price, "by prices")


def _falling(levels: Levels, price: Mapping[str, float]) -> bool:
    """Whether every level is clearly dearer than the next one."""
    return all(ratio > ALIKE for ratio in _ratios(levels, price))


def _by_price(price: Mapping[str, float]) -> Levels:
    """Dearest first; a term that is alike in price to the one before joins its level."""
    levels: list[list[str]] = []
    for name in sorted(price, key=lambda name: -price[name]):
        if levels and price[levels[-1][0]] <= ALIKE * price[name]:
            levels[-1].append(name)
        else:
            levels.append([name])
    return tuple(tuple(level) for level in levels)


def _why(levels: Levels, price: Mapping[str, float], otherwise: str) -> str:
    """The reason in words: which terms were merged, and why."""
    parts = []
    for level in levels:
        if len(level) > 1:
            alike = are_alike({name: price[name] for name in level})
            gain = "prices alike" if alike else "a level of its own would not pay"
            parts.append(f"{' + '.join(level)} merged, {gain}")
    return "; ".join(parts) or otherwise


def are_alike(price: Mapping[str, float]) -> bool:
    """Whether no term is much dearer than another one."""
    return max(price.values()) <= ALIKE * min(price.values())


def two_levels(price: Mapping[str, float]) -> Levels:
    """The best two levels: dearest terms first, split where the ratio of prices is largest."""
    names = sorted(price, key=lambda name: -price[name])
    ratios = [price[a] / price[b] for a, b in pairwise(names)]
    cut = 1 + ratios.index(max(ratios))
    return tuple(names[:cut]), tuple(names[cut:])


def listed(problem: Sum) -> Levels:
    """One level per term, in the order in which they were given."""
    return tuple((oracle.name,) for oracle in problem.oracles)


def _ratios(levels: Levels, price: Mapping[str, float]) -> tuple[float, ...]:
    """The price of each level over that of the next."""
    cost = [sum(price[name] for name in level) for level in levels]
    return tuple(a / b for a, b in pairwise(cost))


def pinned(problem: Sum, inner: object) -> str | None:
    """The name of g, if it has to be the last level of AFB.

    That is so where an inner method is chosen for it, where it gives no gradients, where it is
    nothing but a non-smooth term, and where it has not the constant that the levels above need.
    """
    g = problem.g.term
    constant = problem.L_g.value is not None and g.convex
    able = gives_gradients(g) and not isinstance(g, Zero) and constant
    return None if inner == "auto" and able else problem.g.name


def gives_gradients(term: object) -> bool:
    """Whether a term answers with gradients."""
    return not answers(term).isdisjoint(("grad", "value_and_grad"))


def constants(problem: Sum) -> dict[str, float | None]:
    """The smoothness of every term, where it is known."""
    return {s.oracle.name: s.L.value for s in problem.summands}
