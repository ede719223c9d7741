"""When a run ends: rules to hand to ``minimize(..., stop=...)``.

A rule looks at the run after every outer iteration and answers with a status or None. Rules of time
and calls also look before every call of an oracle. Rules combine with `any_of`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from geartrain.core.status import Status
from geartrain.oracles.validation import as_nonnegative, as_number, as_positive

# The smallest relative gradient that is asked of terms in single precision: four times the root of
# its unit roundoff, below which values do not show that a step leads downwards.
SINGLE = 1e-3


class Look(Protocol):
    """What a rule can see of a run."""

    calls: dict[str, int]

    @property
    def seconds(self) -> float:
        """Seconds since the start, records not included."""

    def f(self) -> float:
        """f at the current point; asks without being counted."""

    def grad_norm(self, threshold: float) -> float:
        """|grad f|, or nan where it is not known and not likely to be below `threshold`."""

    def initial_grad_norm(self) -> float:
        """The norm of the gradient of f at x0."""

    def initial_gap(self) -> float:
        """The Frank-Wolfe gap at x0 of a method that goes by it (cgs, frank-wolfe); else nan."""

    def gradient_scale(self) -> float:
        """The larger one of |grad f(x0)| and min(|grad h(x0)|, |grad g(x0)|)."""

    def single_precision(self) -> str:
        """The names of terms that answer in single precision; empty if there are none."""

    def starts_at_solution(self) -> bool:
        """Whether x0 is seen, before the first iteration, to be a solution up to rounding."""

    def can_bound_gap(self) -> bool:
        """Whether a bound on f - f* may follow from the terms alone."""

    def gap(self, threshold: float = math.inf) -> float:
        """The smallest bound on f - f* that is proven with what the rule states; inf if none.

        What it rests on is asked for, and counted, where it may be below `threshold`.
        """


class Rule(Protocol):
    """A stopping rule.

    Optional parts: ``exceeded(look, key) -> Status | None``, which is asked before every call of an
    oracle and looks at ``calls`` and ``seconds`` alone; ``room(look, key) -> float``, the number of
    calls that may still be made, by which compiled loops are cut; ``R`` and ``mu``, a bound on the
    distance from x0 to a solution and the strong convexity of f, on which ``res.certificate`` may
    rest.
    """

    def check(self, look: Look) -> Status | None:
        """The status to end with, or None to go on; called after every outer iteration."""


@dataclass(frozen=True)
class Value:
    """Stop at f <= target. f is evaluated once per iteration, without being counted.

    Parameters
    ----------
    target : float
        The value to reach.
    """

    target: float

    def __post_init__(self) -> None:
        as_number(self.target, "target")

    def check(self, look: Look) -> Status | None:
        return Status.CONVERGED if look.f() <= self.target else None


@dataclass(frozen=True)
class Gradient:
    """Stop at ``|grad f(x)| <= max(rel |grad f(x0)|, abs)``.

    The gradient is the one that the method knows anyway. For a method that does not know one (afb,
    ags) it is asked for, and counted, when the bound of the method suggests that the rule is met.
    The methods that ask for linear minimisations (cgs, frank-wolfe) have no shortest subgradient
    and refuse this rule.

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
        if not math.isnan(look.initial_gap()):
            raise TypeError(
                "stop.Gradient needs the shortest subgradient at a point, which linear "
                "minimisations do not show; use tol=, stop.Gap(eps) or stop.Value"
            )
        threshold = self.abs
        if (rel := self._rel(look)) > 0.0:
            threshold = max(threshold, rel * self._scale(look))
        return _converged(look.grad_norm(threshold), threshold)

    def _rel(self, look: Look) -> float:
        return self.rel

    def _scale(self, look: Look) -> float:
        return look.initial_grad_norm()


class Tolerance(Gradient):
    """The rule of ``minimize(..., tol=)``, which suits warm starts, too.

    Stop at ``|grad f(x)| <= max(rel s, abs)`` with the scale
    ``s = max(|grad f(x0)|, min(|grad h(x0)|, |grad g(x0)|))``. (Of more than two
    terms, it is the second largest norm instead of the minimum.) It matters only if the gradients
    of the terms nearly cancel at x0, that is, if x0 is close to a solution. A gradient of f
    that is small beside them is small, even though it may not be small beside ``|grad f(x0)|``.
    A run with a non-smooth term also ends where x0 is a solution up to rounding: where the shortest
    subgradient of f there is at most ``10 eps (|grad h(x0)| + |grad g(x0)|)``. Where a term answers
    in single precision, `rel` is at least 1e-3, and ``res.message`` says so.

    Methods that ask for linear minimisations (cgs, frank-wolfe) know no such subgradient. There the
    bound on f - f* that `Gap` goes by takes the place of the norm, and its value at x0, which is
    the Frank-Wolfe gap there, that of the scale.

    Parameters
    ----------
    rel, abs : float
        The relative and the absolute tolerance; one of them above 0.
    """

    def check(self, look: Look) -> Status | None:
        """Converged if the gradient is small enough, or x0 a solution up to rounding."""
        if math.isnan(first := look.initial_gap()):
            status = super().check(look)
        else:
            threshold = max(self._rel(look) * first, self.abs)
            status = _converged(look.gap(threshold), threshold)
        if status is None and self.rel > 0.0 and look.starts_at_solution():
            return Status.CONVERGED
        return status

    def _rel(self, look: Look) -> float:
        return max(self.rel, SINGLE) if self.rel > 0.0 and look.single_precision() else self.rel

    def _scale(self, look: Look) -> float:
        return look.gradient_scale()


@dataclass(frozen=True)
class Gap:
    """Stop when a proven bound on f(x) - f* is at most eps, for convex f.

    Without `mu` and `R`, by what the terms know: strong convexity that they state, a bounded set (a
    box, a simplex, a ball), or a norm with a lower bound of h + g (an l1 norm, groups, a nuclear
    norm). With `mu`, strong convexity of f: ``|grad f(x)|^2 / (2 mu)``. With ``R >= |x0 - x*|``:
    ``|grad f(x)| (|x - x0| + R)``, or ``R^2 / (2 A_N)`` of the methods that have an A_N (eq. (24)
    of the paper) while they have not been restarted, whichever is smaller. Methods that ask for
    linear minimisations (cgs, frank-wolfe) need neither: they know the Frank-Wolfe gap.

    Parameters
    ----------
    eps : float
        Accuracy in f.
    mu : float, optional
        Strong convexity of f.
    R : float, optional
        Bound on the distance from x0 to a solution; give `mu`, `R` or neither.
    """

    eps: float
    mu: float | None = None
    R: float | None = None

    def __post_init__(self) -> None:
        as_positive(self.eps, "eps")
        if self.mu is not None and self.R is not None:
            raise ValueError("Gap takes one of mu= (strong convexity) and R= (distance), not both")
        for number, name in ((self.mu, "mu"), (self.R, "R")):
            if number is not None:
                as_positive(number, name)

    def check(self, look: Look) -> Status | None:
        if self.mu is not None and math.isnan(look.initial_gap()):
            threshold = math.sqrt(2.0 * self.mu * self.eps)
            return _converged(look.grad_norm(threshold), threshold)
        if self.R is None and not look.can_bound_gap():
            raise ValueError(
                "stop.Gap needs mu= (strong convexity of f) or R= (a bound on |x0 - x*|) here: the "
                "terms state no strong convexity, and there is neither a bounded set nor a norm "
                "with a lower bound of h + g (lower_bound of the terms)"
            )
        return _converged(look.gap(self.eps), self.eps)


def _converged(number: float, threshold: float) -> Status | None:
    """Whether the number is small enough; one that overflowed is not, whatever the threshold."""
    return Status.CONVERGED if math.isfinite(number) and number <= threshold else None


@dataclass(frozen=True, repr=False)
class Calls:
    """Stop when one of the budgets is used up: ``Calls({"h.grad": 50})``.

    It is looked at before every call, so no more than that is asked. Compiled loops are looked at
    before each of their parts.

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
        for key, most in self.budget.items():
            if key not in look.calls:
                known = ", ".join(look.calls)
                raise KeyError(f"no oracle {key!r} to budget; there are {known}")
            if look.calls[key] >= most:
                return Status.BUDGET
        return None

    def exceeded(self, look: Look, key: str) -> Status | None:
        return Status.BUDGET if self.room(look, key) <= 0.0 else None

    def room(self, look: Look, key: str) -> float:
        return self.budget.get(key, math.inf) - look.calls[key]

    def __repr__(self) -> str:
        return f"Calls({self.budget})"


@dataclass(frozen=True)
class Seconds:
    """Stop after so many seconds, looked at before every call of an oracle.

    Parameters
    ----------
    limit : float
        Seconds of the method; recording and callbacks are not included.
    """

    limit: float

    def __post_init__(self) -> None:
        as_positive(self.limit, "limit")

    def check(self, look: Look) -> Status | None:
        return Status.BUDGET if look.seconds >= self.limit else None

    def exceeded(self, look: Look, key: str) -> Status | None:
        return self.check(look)


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
        return next((R for r in self.rules if (R := getattr(r, "R", None)) is not None), None)

    @property
    def mu(self) -> float | None:
        return next((mu for r in self.rules if (mu := getattr(r, "mu", None)) is not None), None)

    def check(self, look: Look) -> Status | None:
        for rule in self.rules:
            status = rule.check(look)
            if status is not None:
                return status
        return None

    def exceeded(self, look: Look, key: str) -> Status | None:
        for rule in self.rules:
            exceeded = getattr(rule, "exceeded", None)
            status = None if exceeded is None else exceeded(look, key)
            if status is not None:
                return status
        return None

    def room(self, look: Look, key: str) -> float:
        rooms = [room for rule in self.rules if (room := getattr(rule, "room", None))]
        return min((room(look, key) for room in rooms), default=math.inf)


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
