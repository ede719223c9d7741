"""The constants that the functions of `geartrain.theory` are given."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from geartrain.oracles.validation import as_nonnegative, as_number, as_positive

Calls = dict[str, float]

# Setting -> the size that it needs.
SETTINGS = {"full": None, "coordinate": "n", "finite-sum": "m", "values": "n"}


@dataclass(frozen=True, kw_only=True)
class Constants:
    """What Theorem 1 and its corollaries know of a problem, checked.

    Parameters
    ----------
    setting : {"full", "coordinate", "finite-sum", "values"}
        What g is asked for: gradients, partial derivatives (needs `n`), gradients of one of `m`
        summands, or values (needs `n`).
    L_h, L_g : float
        Smoothness; see the head of `geartrain.theory` for L_g in each setting.
    mu : float
        Strong convexity of f; 0 for the convex case.
    eps, R, delta : float
        Accuracy in f, bound on the distance to the solution, probability of failure.
    n, m : int, optional
        Dimension, number of summands.
    """

    setting: str = "full"
    L_h: float
    L_g: float
    mu: float = 0.0
    eps: float
    R: float = 1.0
    delta: float = 0.05
    n: int | None = None
    m: int | None = None

    def __post_init__(self) -> None:
        if self.setting not in SETTINGS:
            known = ", ".join(SETTINGS)
            raise ValueError(f"unknown setting {self.setting!r}; choose one of {known}")
        for name in ("L_h", "L_g", "eps", "R"):
            as_positive(getattr(self, name), name)
        most = self.L_h + self.L_g
        if as_nonnegative(self.mu, "mu") > most:
            raise ValueError(f"mu = {self.mu:g} exceeds L_h + L_g = {most:g}: no function has that")
        if not 0.0 < as_number(self.delta, "delta") < 1.0:
            raise ValueError(f"delta must be between 0 and 1, got {self.delta:g}")
        for name, size in (("n", self.n), ("m", self.m)):
            if size is None and SETTINGS[self.setting] == name:
                raise ValueError(f"setting {self.setting!r} needs {name}=")
            if size is not None and size < 1:
                raise ValueError(f"{name} must be at least 1, got {size}")

    @property
    def size(self) -> int:
        """The dimension or the number of summands, whichever the setting needs; 1 if neither."""
        size = {"n": self.n, "m": self.m, None: 1}[SETTINGS[self.setting]]
        assert size is not None
        return size

    @property
    def factor(self) -> float:
        return accuracy_factor(self.mu, self.eps, self.R)

    @property
    def sure(self) -> float:
        """ln(1/delta), the price of a probability."""
        return log_at_least_1(1.0 / self.delta)


def accuracy_factor(mu: float, eps: float, R: float) -> float:
    """Factor of sqrt(L) in Corollaries 1 to 3: ln(mu R^2/eps)/sqrt(mu), or sqrt(R^2/eps).

    # Deviation: the corollaries print ln(1/eps), short for the ln(mu R^2/eps) of Theorem 1.
    """
    if mu > 0.0:
        return log_at_least_1(mu * R**2 / eps) / math.sqrt(mu)
    return math.sqrt(R**2 / eps)


def log_at_least_1(ratio: float) -> float:
    """max(1, ln ratio): a logarithm that never makes a number of calls vanish."""
    return max(1.0, math.log(ratio))


def by_name(L_h: Mapping[str, float] | Sequence[float]) -> dict[str, float]:
    """Constants of several terms by name: h1, h2, ... for a list, h for a list of one."""
    if not L_h:
        raise ValueError("L_h is empty: give one constant per term")
    if not isinstance(L_h, Mapping):
        L_h = {f"h{i + 1}" if len(L_h) > 1 else "h": L for i, L in enumerate(L_h)}
    if "g" in L_h:
        raise ValueError("L_h must not have the key 'g': the constant of g is L_g")
    return {name: as_positive(L, f"L_{name}") for name, L in L_h.items()}
