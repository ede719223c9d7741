"""Sums of many quadratics whose terms are badly conditioned in different directions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from geartrain.oracles import Quadratic
from geartrain.oracles.protocols import Vector


@dataclass(frozen=True)
class KnownTrain:
    """Terms, the last of which is g, the minimiser of their sum, and the minimum."""

    terms: tuple[Any, ...]
    x_star: Vector
    f_star: float

    @property
    def names(self) -> tuple[str, ...]:
        """As `geartrain.minimize` names the terms."""
        return (*(f"h{i + 1}" for i in range(len(self.terms) - 1)), "g")


def opposed_train(
    n: int, *, L: Sequence[float], mu: float, seed: int, shared: bool = False
) -> KnownTrain:
    """One quadratic per entry of L, in one random eigenbasis; the last one is g.

    L has their largest eigenvalues, and mu is the smallest one of the sum, which belongs to g. The
    spectrum of every term is in a block of directions of its own, or, `shared`, in all directions
    in a random order.
    """
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.standard_normal((n, n)))[0]
    x_star = rng.standard_normal(n)
    blocks = np.array_split(np.arange(n), len(L))
    terms = []
    for i, (top, block) in enumerate(zip(L, blocks, strict=True)):
        spectrum = np.zeros(n)
        where = rng.permutation(n) if shared else block
        spectrum[where] = np.geomspace(min(mu, top), top, where.size)
        if i == len(L) - 1:
            spectrum = np.maximum(spectrum, mu)
        Q = (U * spectrum) @ U.T
        Q = 0.5 * (Q + Q.T)
        terms.append(Quadratic(Q, b=Q @ x_star))
    return KnownTrain(tuple(terms), x_star, sum(term.value(x_star) for term in terms))
