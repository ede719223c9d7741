"""What ``method="auto"`` has chosen, why, and what it costs: data, and the words for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from geartrain.methods.base import AnyMethod
from geartrain.oracles.validation import as_positive
from geartrain.problem import Sum


class Reason(Enum):
    """Why a method was chosen or, from `CHEAP` on, left; the value is the sentence."""

    GEOMETRY = "it works in {where}"
    NO_GRADIENTS = "g gives no gradients"
    INNER_GIVEN = "the inner method decides"
    MEASURED = "prices are measured as the run goes"
    ALIKE = "prices are alike (ratio {ratio:.2g}), separation does not pay"
    EXPENSIVE = "a gradient of {dear} costs {ratio:.4g} times one of the other term"
    CHEAP = "a gradient of {dear} costs {ratio:.2g} times one of {cheap}"
    OUT_OF_HAND = "{ratio:.0f} gradients of {cheap} for one of {dear}"
    NOT_SMALL = "{dear} is not small beside {cheap} along the last step"
    STALLED = "it stalled, sae-qn goes on"


@dataclass(frozen=True)
class ChoiceTuning:
    """The numbers behind a choice; prices are those of one gradient.

    They were chosen on the problems of ``geartrain bench frontier``, on which L-BFGS on the sum and
    SAE-QN cost the same at price ratios between 2 and 20.
    """

    # Price ratio below which L-BFGS on the sum is chosen at once.
    try_from: float = 2.0
    # Price ratio below which SAE-QN is kept only while the gradient of h changes along the last
    # step by at most `small` (convex h) or `small_difference` times the change of that of g.
    separate_from: float = 5.0
    small: float = 10.0
    small_difference: float = 0.6
    # Below the price ratio `sure_from`, a difference h whose gradient changes along the first two
    # steps by more than `unlike` times the change of that of g is given up.
    sure_from: float = 30.0
    unlike: float = 1.4
    # SAE-QN is left where g's part of the bill exceeds this multiple of h's, tested from `patience`
    # gradients of h on.
    out_of_hand: float = 14.0
    patience: int = 5


@dataclass(frozen=True)
class Prices:
    """What a call costs: given, or the seconds measured so far.

    Parameters
    ----------
    given : dict, optional
        By key, as in ``res.calls``, e.g. ``{"h.grad": 100.0, "g.grad": 1.0}``.
    """

    given: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        for key, price in (self.given or {}).items():
            as_positive(price, f"the price of {key!r}")

    def of(self, name: str, problem: Sum) -> float:
        """The price of a gradient of the term `name`; 1 where nothing is known."""
        key = f"{name}.grad"
        if self.given is not None:
            return float(self.given.get(key, 1.0))
        calls = problem.ledger.calls[key]
        return problem.ledger.seconds[key] / calls if calls else 1.0


@dataclass(frozen=True)
class Bill:
    """Gradients of both terms and their prices, after a run."""

    calls: dict[str, int]  # by term
    prices: dict[str, float]  # by term
    unit: str  # " s" where prices are measured

    @staticmethod
    def of(problem: Sum, prices: Prices) -> Bill:
        """The bill so far."""
        names = ("h", "g")
        return Bill(
            {name: problem.ledger.calls[f"{name}.grad"] for name in names},
            {name: prices.of(name, problem) for name in names},
            "" if prices.given is not None else " s",
        )

    @property
    def total(self) -> float:
        """The sum."""
        return sum(self.calls[name] * self.prices[name] for name in self.calls)

    def __str__(self) -> str:
        calls, prices, unit = self.calls, self.prices, self.unit
        return (
            f"bill: {calls['h']} gradients of h at {prices['h']:.3g}{unit} and {calls['g']} of g "
            f"at {prices['g']:.3g}{unit} = {self.total:.4g}{unit}"
        )


@dataclass(frozen=True)
class Change:
    """A change of method during a run."""

    reason: Reason
    told: str  # the reason with its numbers

    def __str__(self) -> str:
        return "L-BFGS stalled" if self.reason is Reason.STALLED else self.told


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
    exchanged : bool
        Whether the method takes g for h and h for g, because a gradient of g costs more.
    changes : tuple of Change
        Of the run so far; each goes from one of the two methods to the other.
    bill : Bill, optional
        After the run.
    """

    method: AnyMethod
    name: str
    reason: Reason
    told: str
    runner_up: AnyMethod | None = None
    exchanged: bool = False
    changes: tuple[Change, ...] = ()
    bill: Bill | None = None

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
        stalled = any(change.reason is Reason.STALLED for change in self.changes)
        return self.runner_up is None or stalled

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.told}"]
        words = "; ".join(change.told for change in self.changes)
        if words:
            left = self.changes[0].reason is not Reason.STALLED
            where = "left for SciPy's L-BFGS on the sum" if left else "L-BFGS on the sum"
            lines.append(f"{where}: {words}")
        if self.bill is not None:
            lines.append(str(self.bill))
            if self.name == "sae-qn" and not words:
                even = self.bill.total / sum(self.bill.prices.values())
                lines.append(
                    f"runner-up: L-BFGS on the sum, cheaper only if it needs fewer than {even:.0f} "
                    "evaluations"
                )
        return "\n  ".join(lines)
