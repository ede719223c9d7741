"""What ``method="auto"`` has chosen, why, and what it costs: data, and the words for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from geartrain.methods.base import AnyMethod
from geartrain.methods.similar_newton import SimilarNewton
from geartrain.oracles.ledger import Ledger, given_price
from geartrain.oracles.protocols import can
from geartrain.oracles.questions import counted_in_words
from geartrain.oracles.validation import as_positive
from geartrain.problem import Sum


class Reason(Enum):
    """Why a method was chosen or, from `CHEAP` on, left; the value is the sentence."""

    GEOMETRY = "it works in {where} and needs no constants"
    NO_GRADIENTS = "g gives no gradients"
    NO_SMOOTH_PART = "g has no smooth part"
    IN_MEMORY = "h is a linear model in memory, and few coordinates at a time take part in a step"
    INNER_GIVEN = "the inner method decides"
    MEASURED = "prices are measured as the run goes"
    ALIKE = "prices are alike (ratio {ratio:.2g}), so the sum is modelled as a whole"
    EXACT = "{cheap} is a quadratic, so that models of {dear} are minimised exactly"
    EXPENSIVE = "a gradient of {dear} costs {ratio:.4g} times one of the other term"
    PRODUCTS = (
        "an iteration with Hessian products of h costs {ratio:.3g} gradients of h, and fewer are "
        "needed"
    )
    CHEAP = "an evaluation of both terms takes {evaluation:.2g} s"
    SLOWER = "after {seconds:.2g} s, {name} has gained less per second"
    STALLED = "{name} stalled"
    NON_FINITE = "an answer to L-BFGS was not finite"


# Reasons after which there are no further changes.
LAST = (Reason.STALLED, Reason.NON_FINITE)

# Price ratio below which prices are alike.
ALIKE = 2.0


@dataclass(frozen=True)
class Prices:
    """What a call costs: given, or the seconds measured so far.

    Parameters
    ----------
    given : dict, optional
        By key, as in ``res.calls``, e.g. ``{"h.grad": 100.0, "g.grad": 1.0}``. A gradient whose
        price is not given costs 1, and a proximal step as much as a gradient of its term; other
        calls whose price is not given are not on the bill.
    """

    given: dict[str, float] | None = None

    @staticmethod
    def checked(given: Mapping[str, float] | None, ledger: Ledger) -> Prices:
        """`given`, if its keys are those of the ledger and its prices are positive numbers."""
        if given is None:
            return Prices()
        known = ", ".join(ledger.calls)
        if not isinstance(given, Mapping):
            raise TypeError(
                f"prices must be a dict such as {{'h.grad': 100.0, 'g.grad': 1.0}}, got "
                f"{given!r:.60}; its keys are {known}"
            )
        for key in given:
            if key not in ledger.calls:
                raise ValueError(f"prices has the unknown key {key!r}; the keys are {known}")
        return Prices(
            {key: as_positive(price, f"the price of {key!r}") for key, price in given.items()}
        )

    def of(self, name: str, problem: Sum) -> float:
        """The price of a gradient of the term `name`; 1 where nothing is known."""
        price = self.of_call(f"{name}.grad", problem.ledger)
        return 1.0 if math.isnan(price) else price

    def of_product(self, name: str, problem: Sum) -> float:
        """The price of a Hessian product of the term `name`: that of a gradient by default."""
        price = self.of_call(f"{name}.product", problem.ledger)
        return self.of(name, problem) if math.isnan(price) else price

    def of_call(self, key: str, ledger: Ledger) -> float:
        """The price of one call by its key; nan where nothing is known."""
        if self.given is not None:
            return given_price(key, self.given)
        return ledger.seconds[key] / ledger.calls[key] if ledger.calls[key] else math.nan


@dataclass(frozen=True)
class Bill:
    """Everything that was asked in a run, and what it costs."""

    calls: dict[str, int]  # by key, those that were made
    prices: dict[str, float]  # of one call, by the same keys; nan where there is none
    unit: str  # " s" where prices are measured

    @staticmethod
    def of(ledger: Ledger, prices: Prices) -> Bill:
        """The bill so far."""
        calls = {key: count for key, count in ledger.calls.items() if count}
        unit = "" if prices.given is not None else " s"
        return Bill(calls, {key: prices.of_call(key, ledger) for key in calls}, unit)

    @property
    def total(self) -> float:
        """The sum over all calls that have a price."""
        parts = (self.calls[key] * price for key, price in self.prices.items())
        return sum(part for part in parts if not math.isnan(part))

    def __str__(self) -> str:
        parts = []
        for key, count in self.calls.items():
            name, kind = key.rsplit(".", 1)
            price = self.prices[key]
            at = "without a price" if math.isnan(price) else f"at {price:.3g}{self.unit}"
            parts.append(f"{count} {counted_in_words(kind) or kind} of {name} {at}")
        *first, last = parts or ["nothing"]
        return f"bill: {' and '.join([', '.join(first), last] if first else [last])}" + (
            f" = {self.total:.4g}{self.unit}"
        )


@dataclass(frozen=True)
class Change:
    """A change of method during a run."""

    reason: Reason
    told: str  # the reason with its numbers


# Methods in words.
_WORDS_OF = {
    "lbfgs": "L-BFGS on the sum",
    "pqn": "pqn",
    "similar-newton": "similar-newton",
}
# Gradients of the cheaper term that pqn asks for per iteration, at least.
_FEWEST = 2.0


@dataclass(frozen=True)
class Alternative:
    """A method that was not chosen, and what one of its iterations costs."""

    name: str
    price: float  # of an iteration, or of an evaluation, at the prices of the run
    at_least: bool  # the price is a lower bound
    unit: str  # what there is one of at that price

    def told(self, total: float, unit: str) -> str:
        """In words, next to the bill of the run."""
        bound = " or more" if self.at_least else ""
        price = f"{_WORDS_OF[self.name]} at {self.price:.4g}{unit}{bound} per {self.unit}"
        if self.price >= total:
            return f"{price}, which is more than this run cost"
        return f"{price}, cheaper below {total / self.price:.3g} {self.unit}s"


def has_products(problem: Sum) -> bool:
    """Whether both terms answer what `geartrain.methods.SimilarNewton` asks."""
    return all(can(term, "second_order") for term in (problem.h.term, problem.g.term))


def price_of_newton(problem: Sum, prices: Prices) -> float:
    """The price of an iteration of `geartrain.methods.SimilarNewton`, products included."""
    at_h, at_g = SimilarNewton().products_per_step(problem.n)
    h, g = problem.h.name, problem.g.name
    of_h = prices.of(h, problem) + at_h * prices.of_product(h, problem)
    return of_h + prices.of(g, problem) + at_g * prices.of_product(g, problem)


def alternatives(problem: Sum, prices: Prices, chosen: str) -> tuple[Alternative, ...]:
    """The methods that compete, other than the chosen one."""
    names = (problem.h.name, problem.g.name)
    if any(math.isnan(prices.of_call(f"{name}.grad", problem.ledger)) for name in names):
        return ()  # an alternative has a price that was given or measured, or none is named
    low, high = sorted(prices.of(name, problem) for name in names)
    out = [
        Alternative("lbfgs", low + high, False, "evaluation"),
        Alternative("pqn", high + _FEWEST * low, True, "iteration"),
    ]
    if has_products(problem) and problem.psi is None:
        price = price_of_newton(problem, prices)
        out.append(Alternative("similar-newton", price, False, "iteration"))
    return tuple(a for a in out if a.name != chosen)


@dataclass(frozen=True)
class Choice:
    """A method, why it was chosen, and what happened then; `str` tells it in words.

    Parameters
    ----------
    method : method
        To start with.
    name : str
        By which `geartrain.minimize` knows it.
    reason : Reason
        Why it was chosen.
    told : str
        The reason with its numbers.
    runner_up : method, optional
        Goes on where `method` is left or stalls.
    second : str
        The name of the runner-up.
    exchanged : bool
        Whether the method takes g for h and h for g, because a gradient of g costs more.
    changes : tuple of Change
        Of the run so far; each goes from one of the two methods to the other.
    bill : Bill, optional
        After the run.
    others : tuple of Alternative
        What other methods cost per iteration; after the run.
    """

    method: AnyMethod
    name: str
    reason: Reason
    told: str
    runner_up: AnyMethod | None = None
    second: str = "lbfgs"
    exchanged: bool = False
    changes: tuple[Change, ...] = ()
    bill: Bill | None = None
    others: tuple[Alternative, ...] = ()

    @property
    def current_name(self) -> str:
        """The name of the method that goes on after the changes."""
        return self.name if len(self.changes) % 2 == 0 else self.second

    @property
    def current(self) -> AnyMethod:
        """The method that goes on after the changes."""
        if len(self.changes) % 2 == 0:
            return self.method
        assert self.runner_up is not None
        return self.runner_up

    @property
    def settled(self) -> bool:
        """Whether there are no further changes."""
        return self.runner_up is None or any(change.reason in LAST for change in self.changes)

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.told}"]
        words = "; ".join(change.told for change in self.changes)
        if words:
            lines.append(f"left for {_WORDS_OF[self.second]}: {words}")
        if self.bill is not None:
            bill, total = self.bill, self.bill.total
            lines.append(str(bill))
            if self.name in _WORDS_OF and not words:
                for other in self.others:
                    lines.append(f"instead: {other.told(total, bill.unit)}")
        return "\n  ".join(lines)
