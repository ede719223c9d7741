"""The learned method on levels: which ones, and which of its forms."""

from __future__ import annotations

from collections.abc import Mapping

from geartrain.methods.arrangement import arrange, falling, ratios, two_levels
from geartrain.methods.learned_train import LearnedTrain
from geartrain.methods.levels import Levels
from geartrain.methods.pqn.method import ProximalQuasiNewton
from geartrain.methods.train import Train
from geartrain.oracles.splitting import Zero
from geartrain.problem import Sum


def levels_of(
    problem: Sum, price: Mapping[str, float], L: Mapping[str, float | None]
) -> tuple[Levels, str]:
    """The levels by prices and constants, and why; one level stands for all terms at once.

    A g that is nothing but a non-smooth term is the last level.
    """
    if isinstance(problem.g.term, Zero):
        names = tuple(price)
        return (names[:-1], names[-1:]), "on two levels, because g has no smooth part"
    levels, why = arrange(price, L, mu=problem.mu.value or 0.0)
    if falling(levels, price):
        return levels, why
    # A model of a level pays only where the next level is cheaper: constants do not help then.
    return arrange(price, dict.fromkeys(price))


def learned(
    problem: Sum, levels: Levels, why: str, price: Mapping[str, float]
) -> Train | LearnedTrain:
    """The learned method on these levels, or on two where it is a single one."""
    if len(levels) < 2:
        levels = two_levels(price)
    rho = ratios(levels, price)
    if len(levels) == 2:
        return Train(levels, ProximalQuasiNewton(rho=rho[0]), f"pqn, {why}")
    return LearnedTrain(levels, rho, why)
