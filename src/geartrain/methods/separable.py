"""Separable non-smooth terms for the methods that change one coordinate at a time."""

from __future__ import annotations

import numpy as np

from geartrain.compiled.records import NOTHING, Separable
from geartrain.oracles.nonsmooth import L1, Box, InBox
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
    term, box = psi.term, Box(-np.inf)
    if type(term) is InBox:
        term, box = term.term, term.box
    if isinstance(term, Box):
        lam, box = 0.0, term
    elif type(term) is L1:
        lam = psi.weight * term.lam
    else:
        return None
    return Separable(*(np.zeros(n) + number for number in (lam, box.lower, box.upper)))


def prox_by_coordinates(psi: Separable, u: Vector, step: Vector) -> Vector:
    """The proximal operator with a step length per coordinate."""
    if psi.lam.size == 0:
        return u
    cut = step * psi.lam
    return np.clip(u - np.clip(u, -cut, cut), psi.lower, psi.upper)
