"""When a run ends: rules to hand to ``minimize(..., stop=...)``.

A rule looks at the run after every outer iteration and answers with a status or None. Rules
combine with `any_of`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from geartrain.core.status import Status
from geartrain.oracles.validation import as_nonnegative, as_number, as_positive


class Look(Protocol):
    """What a rule can see of a run."""

    calls: dict[str, int]

    @property
    def seconds(self) -> float:
        """Seconds since the start, records not included."""

    @property
    def A(self) -> float:
        """The A_k of the outer loop, nan where the method has none."""

    def f(self) -> float:
        """F at the current point; asks without being counted."""

    def grad_norm(self, threshold: float) -> float:
        """|grad f|, or nan where it is not known and not likely to be below `threshold`."""

    def initial_grad_norm(self) -> float:
        """|grad f(x0)|."""


class Rule(Protocol):
    """A stopping rule."""

    def check(self, look: Look) -> Status | None:
        """The status to end with, or None to go on."""


@dataclass(frozen=True)
class Value:
    """Stop at f <= target. f is looked at once an iteration without being counted.

    Parameters
    ----------
    target : float
        The value to reach.
    """

    target: float

    def __post_init__(self) -> None:
        as_number(self.target, "target")

    def check(self, look: Look) -> Status | None:
        """Converged if f <= target."""
        return Status.CONVERGED if look.f() <= self.target else None


@dataclass(frozen=True)
class Gradient:
    """Stop at ``|grad f(x)| <= max(rel |grad f(x0)|, abs)``.

    The gradient is the one the method knows anyway. A method that does not know one (afb, ags)
    is asked for it, counted, when the bound it has suggests that the rule is met.

    Parameters
    ----------
    rel, abs : float
        The two tolerances; one of them above 0.
    """

    rel: float = 0.0
    abs: float = 0.0

    def __post_init__(self) -> None:
        as_nonnegative(self.rel, "rel")
        as_nonnegative(self.abs, "abs")
        if self.rel == 0.0 == self.abs:
            raise ValueError("Gradient needs rel= or abs= above 0")

    def check(self, look: Look) -> Status | None:
        """Converged if the gradient is small enough."""
        threshold = self.abs
        if self.rel > 0.0:
            threshold = max(threshold, self.rel * look.initial_grad_norm())
        return Status.CONVERGED if look.grad_norm(threshold) <= threshold else None


@dataclass(frozen=True)
class Gap:
    """Stop when a proven bound on f(x) - f* is at most eps.

    With `mu`, strong convexity of f: ``|grad f|^2 / (2 mu)``. With ``R >= |x0 - x*|``:
    ``R^2 / (2 A_N)`` of the methods that have an A_N (eq. (24) of the paper).

    Parameters
    ----------
    eps : float
        Accuracy in f.
    mu : float, optional
        Strong convexity of f.
    R : float, optional
        Bound on the distance from x0 to a solution; give `mu` or `R`.
    """

    eps: float
    mu: float | None = None
    R: float | None = None

    def __post_init__(self) -> None:
        as_positive(self.eps, "eps")
        if (self.mu is None) == (self.R is None):
            raise ValueError("Gap needs exactly one of mu= (strong convexity) and R= (distance)")
        as_positive(self.mu if self.R is None else self.R, "mu" if self.R is None else "R")

    def check(self, look: Look) -> Status | None:
        """Converged if the bound is at most eps."""
        if self.mu is not None:
            threshold = math.sqrt(2.0 * self.mu * self.eps)
            return Status.CONVERGED if look.grad_norm(threshold) <= threshold else None
        assert self.R is not None
        return Status.CONVERGED if 2.0 * self.eps * look.A >= self.R**2 else None


@dataclass(frozen=True, repr=False)
class Calls:
    """Stop when one of the budgets is used up: ``Calls({"h.grad": 50})``.

    It is looked at between outer iterations; the last one may go beyond.

    Parameters
    ----------
    budget : dict
        Most calls by key, as in ``res.calls``.
    """

    budget: dict[str, int]

    def __post_init__(self) -> None:
        object.__setattr__(self, "budget", dict(self.budget))
        for key, most in self.budget.items():
            as_positive(most, f"the budget of {key!r}")

    def check(self, look: Look) -> Status | None:
        """Budget if any kind of call has reached its limit."""
        for key, most in self.budget.items():
            if key not in look.calls:
                known = ", ".join(look.calls)
                raise KeyError(f"no oracle {key!r} to budget; there are {known}")
            if look.calls[key] >= most:
                return Status.BUDGET
        return None

    def __repr__(self) -> str:
        return f"Calls({self.budget})"


@dataclass(frozen=True)
class Seconds:
    """Stop after so many seconds (looked at between outer iterations).

    Parameters
    ----------
    limit : float
        Seconds of the method; recording and callbacks are not included.
    """

    limit: float

    def __post_init__(self) -> None:
        as_positive(self.limit, "limit")

    def check(self, look: Look) -> Status | None:
        """Budget if the time is over."""
        return Status.BUDGET if look.seconds >= self.limit else None


@dataclass(frozen=True)
class AnyOf:
    """Stops as soon as one of its rules does.

    Parameters
    ----------
    rules : tuple of rules
        Looked at in this order.
    """

    rules: tuple[Rule, ...]

    @property
    def R(self) -> float | None:
        """The distance that one of the rules states, for the certificate."""
        return next((R for r in self.rules if (R := getattr(r, "R", None)) is not None), None)

    def check(self, look: Look) -> Status | None:
        """The first status that a rule gives."""
        for rule in self.rules:
            status = rule.check(look)
            if status is not None:
                return status
        return None


def any_of(*rules: Rule) -> AnyOf:
    """A rule that stops as soon as one of `rules` does.

    Parameters
    ----------
    *rules : rules
        Looked at in this order.

    Returns
    -------
    AnyOf
        The rule.

    Examples
    --------
    >>> import geartrain as gt
    >>> gt.stop.any_of(gt.stop.Seconds(30), gt.stop.Calls({"h.grad": 50}))
    AnyOf(rules=(Seconds(limit=30), Calls({'h.grad': 50})))
    """
    if not rules:
        raise ValueError("any_of needs at least one rule")
    for rule in rules:
        if not callable(getattr(rule, "check", None)):
            raise TypeError(f"{rule!r} is not a stopping rule: see geartrain.stop")
    return AnyOf(tuple(rules))
