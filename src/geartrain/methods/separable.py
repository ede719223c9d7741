"""Separable non-smooth terms for the methods that change one coordinate at a time."""

from __future__ import annotations

import numpy as np

from geartrain.compiled.records import NOTHING, Separable
from geartrain.oracles.nonsmooth import L1, Box
from geartrain.oracles.protocols import MissingOracle, Vector
from geartrain.oracles.splitting import Psi


def need_separable(psi: Psi | None, method: str) -> None:
    """Raise unless psi is a sum of functions of single coordinates."""
    if psi is not None and not psi.separable:
        raise MissingOracle(
            f"{method} changes one coordinate at a time and needs a separable non-smooth term "
            f"(separable = True), which {psi!r} is not; choose inner='agm' or inner='proxqn'"
        )


def by_numbers(psi: Psi | None, n: int) -> Separable | None:
    """psi by its numbers, for the compiled loops; None for terms that have to be asked."""
    if psi is None:
        return NOTHING
    term, free = psi.term, np.full(n, np.inf)
    if type(term) is L1:
        return Separable(np.zeros(n) + psi.weight * term.lam, -free, free)
    if isinstance(term, Box):
        return Separable(np.zeros(n), np.zeros(n) + term.lower, np.zeros(n) + term.upper)
    return None


def prox_by_coordinates(psi: Separable, u: Vector, step: Vector) -> Vector:
    """The proximal operator with a step length per coordinate."""
    if psi.lam.size == 0:
        return u
    cut = step * psi.lam
    return np.clip(u - np.clip(u, -cut, cut), psi.lower, psi.upper)
