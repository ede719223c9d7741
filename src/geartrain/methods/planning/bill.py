"""What calls cost: prices, the bill of a run, and what other methods would have cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from geartrain.methods.similar_newton import SimilarNewton
from geartrain.oracles.ledger import Ledger, given_price
from geartrain.oracles.nonsmooth import Box
from geartrain.oracles.protocols import can
from geartrain.oracles.questions import counted_in_words
from geartrain.oracles.validation import as_positive
from geartrain.problem import Sum


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
        out: dict[str, float] = {}
        for key, price in given.items():
            full = key if key in ledger.calls else f"{key}.grad"
            if full not in ledger.calls:
                raise ValueError(
                    f"prices has the unknown key {key!r}; the keys are {known}, and the name of a "
                    "term alone stands for its gradients"
                )
            if full in out:
                raise ValueError(f"prices has two entries for {full!r}")
            out[full] = as_positive(price, f"the price of {key!r}")
        return Prices(out)

    def of(self, name: str, problem: Sum) -> float:
        """The price of a gradient of the term `name`; 1 where nothing is known."""
        price = self.of_call(f"{name}.grad", problem.ledger)
        return 1.0 if math.isnan(price) else price

    def by_term(self, problem: Sum) -> dict[str, float]:
        """The price of a gradient of every term, by its name."""
        return {oracle.name: self.of(oracle.name, problem) for oracle in problem.oracles}

    def of_product(self, name: str, problem: Sum) -> float:
        """The price of a Hessian product of the term `name`: that of a gradient by default."""
        price = self.of_call(f"{name}.product", problem.ledger)
        return self.of(name, problem) if math.isnan(price) else price

    def of_call(self, key: str, ledger: Ledger) -> float:
        """The price of one call by its key; nan where nothing is known."""
        if self.given is not None:
            return given_price(key, self.given)
        return ledger.seconds[key] / ledger.calls[key] if ledger.calls[key] else math.nan


Timings: TypeAlias = dict[str, tuple[int, float]]


def timings(problem: Sum) -> Timings:
    """By term: its gradients so far, and the seconds of these and of its proximal steps."""
    calls, seconds = problem.ledger.calls, problem.ledger.seconds
    return {
        oracle.name: (
            calls[f"{oracle.name}.grad"],
            seconds[f"{oracle.name}.grad"] + seconds[f"{oracle.name}.prox"],
        )
        for oracle in problem.oracles
    }


def seconds_per_gradient(problem: Sum, since: Timings) -> dict[str, float]:
    """What a gradient of every term has taken since then, its proximal steps included.

    A term that was not asked since then has the mean of all its calls.
    """
    found = {}
    for name, (calls, seconds) in timings(problem).items():
        before, spent = since.get(name, (0, 0.0))
        if calls == before:
            before, spent = 0, 0.0
        found[name] = (seconds - spent) / max(calls - before, 1)
    return found


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


# Methods in words; those on the sum as a whole say so.
METHOD_NAMES = {"lbfgs": "L-BFGS", "sparsa": "SpaRSA"}
METHOD_WORDS = {
    **{name: f"{told} on the sum" for name, told in METHOD_NAMES.items()},
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
        price = f"{METHOD_WORDS[self.name]} at {self.price:.4g}{unit}{bound} per {self.unit}"
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
    out = [Alternative("pqn", high + _FEWEST * low, True, "iteration")]
    if problem.psi is None or isinstance(problem.psi.term, Box):  # L-BFGS-B has bounds only
        out.insert(0, Alternative("lbfgs", low + high, False, "evaluation"))
    if has_products(problem) and problem.psi is None:
        price = price_of_newton(problem, prices)
        out.append(Alternative("similar-newton", price, False, "iteration"))
    return tuple(a for a in out if a.name != chosen)
