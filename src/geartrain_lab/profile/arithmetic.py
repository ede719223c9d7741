"""Data profiles, performance profiles and the figures that go with them.

A *cost* is what a solver paid until it solved a problem, and infinity where it did not. The costs
of a solver are an array over the problems, in the same order for all solvers.

- Data profile (Moré and Wild, 2009): the share of problems that a solver solves at a cost of at
  most alpha. They count in units of n + 1 values, the price of a simplex gradient; here gradients
  are given and the unit is one of them.
- Performance profile (Dolan and Moré, 2002): the share of problems that a solver solves at a cost
  of at most tau times the least cost of all solvers.

References
----------
.. [1] J. J. Moré, S. M. Wild, Benchmarking derivative-free optimization algorithms, SIAM J. Optim.
   20 (2009).
.. [2] E. D. Dolan, J. J. Moré, Benchmarking optimization software with performance profiles, Math.
   Program. 91 (2002).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np

from geartrain.oracles.protocols import Vector

UNSOLVED = 1000.0  # the ratio of an unsolved problem in a geometric mean


def within(costs: Vector, limits: Vector) -> Vector:
    """The share of problems with a cost of at most each of the limits."""
    return np.searchsorted(np.sort(costs), limits, side="right") / costs.size


def ratios_to_best(costs: Mapping[str, Vector]) -> dict[str, Vector]:
    """Costs over the least cost of all solvers; infinity where the problem was not solved."""
    best = np.min(np.stack(list(costs.values())), axis=0)
    return {name: ratios(own, best) for name, own in costs.items()}


def ratios(costs: Vector, others: Vector) -> Vector:
    """``costs / others``: infinity where `costs` is, zero where only `others` is."""
    out = np.full(costs.shape, math.inf)
    solved = np.isfinite(costs)
    out[solved] = costs[solved] / others[solved]
    return out


def best_of(costs: Mapping[str, Vector], *names: str) -> Vector:
    """The least cost of the named solvers, problem by problem."""
    return np.min(np.stack([costs[name] for name in names]), axis=0)


@dataclass(frozen=True)
class Figures:
    """What the ratios come to, over the problems that the other side solved."""

    problems: int
    geometric_mean: float  # an unsolved problem counts as `UNSOLVED`
    percentile_95: float  # the least bound of 95 in 100 ratios
    worst: float
    unsolved: int  # of these, by us
    alone: int  # further problems, which we solved and the other side did not

    def as_dict(self) -> dict[str, float]:
        """For a file."""
        return asdict(self)


def figures(costs: Vector, others: Vector) -> Figures:
    """The figures of ``costs / others``.

    Parameters
    ----------
    costs, others : array
        Of one solver, and of the one it is compared with.

    Returns
    -------
    Figures
        Over the problems that the other one solved.
    """
    known = np.isfinite(others)
    alone = int(np.isfinite(costs[~known]).sum())
    r = ratios(costs, others)[known]
    if r.size == 0:
        return Figures(0, math.nan, math.nan, math.nan, 0, alone)
    finite = np.where(np.isinf(r), UNSOLVED, r)
    return Figures(
        problems=int(r.size),
        geometric_mean=float(np.exp(np.mean(np.log(finite)))),
        percentile_95=float(np.quantile(r, 0.95, method="inverted_cdf")),
        worst=float(r.max()),
        unsolved=int(np.isinf(r).sum()),
        alone=alone,
    )
