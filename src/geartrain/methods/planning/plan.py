"""A plan: the method for a sum, the levels of its terms, and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from geartrain.methods.nested_sum import Levels
from geartrain.methods.planning.bill import METHOD_WORDS, Alternative, Bill


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
    TURN = "after {seconds:.2g} s, {name} has its turn"
    STALLED = "{name} stalled"


@dataclass(frozen=True)
class Change:
    """A change of method during a run."""

    reason: Reason
    told: str  # the reason with its numbers


@dataclass(frozen=True)
class Plan:
    """A method, why it was chosen, and what happened then.

    Parameters
    ----------
    levels : tuple of tuple of str
        The names of the terms on every level, outermost first. Of two terms, the first level is
        the one that takes the place of h.
    method : method
        To start with, on the terms as they were given; it puts them on these levels itself.
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
    changes : tuple of Change
        Of the run so far; each goes from one of the two methods to the other.
    """

    levels: Levels
    method: Any
    name: str
    reason: Reason
    told: str
    runner_up: Any = None
    second: str = "lbfgs"
    changes: tuple[Change, ...] = ()

    @property
    def current_name(self) -> str:
        """The name of the method that goes on after the changes."""
        return self.name if len(self.changes) % 2 == 0 else self.second

    @property
    def other_name(self) -> str:
        """The name of the other one."""
        return self.second if len(self.changes) % 2 == 0 else self.name

    @property
    def current(self) -> Any:
        """The method that goes on after the changes."""
        return self.method if len(self.changes) % 2 == 0 else self.runner_up

    @property
    def settled(self) -> bool:
        """Whether there are no further changes."""
        return self.runner_up is None or any(
            change.reason is Reason.STALLED for change in self.changes
        )

    def in_words(self, bill: Bill, others: tuple[Alternative, ...]) -> str:
        """The plan, what happened, the bill, and what other methods cost."""
        lines = [f"{self.name}: {self.told}"]
        if self.changes:
            words = "; ".join(change.told for change in self.changes)
            lines.append(f"left for {METHOD_WORDS[self.second]}: {words}")
        lines.append(str(bill))
        if self.name in METHOD_WORDS and not self.changes:
            lines += [f"instead: {other.told(bill.total, bill.unit)}" for other in others]
        return "\n  ".join(lines)
