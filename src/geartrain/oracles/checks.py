"""`check_term`: does a term answer consistently? For terms that users write themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from geartrain.oracles.checker import Checker
from geartrain.oracles.questions import QUESTIONS
from geartrain.oracles.validation import as_vector


@dataclass(frozen=True)
class TermReport:
    """What `check_term` found; true if nothing is wrong.

    Attributes
    ----------
    problems : tuple of str
        One sentence for each thing that is wrong.
    checked : tuple of str
        What was looked at.
    """

    problems: tuple[str, ...]
    checked: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        head = f"checked: {', '.join(self.checked)}"
        if self.ok:
            return f"{head}\nnothing wrong found"
        return "\n".join([head, *(f"- {p}" for p in self.problems)])


# Paper: Assumption 1
def check_term(term: Any, x: Any = None, *, n: int | None = None, seed: int = 0) -> TermReport:
    """Look for contradictions between what `term` answers and what it states.

    Checks the shape of the gradient, side effects, fused against separate answers, the slope of
    the Taylor error, that the mean of the components is the gradient, that partial derivatives
    are its entries, that a proximal step is one, and that the stated L, mu, L_coord and
    L_components are not violated on pairs of points. Asks for some 200 gradients.

    Parameters
    ----------
    term : object
        Anything that answers some of the questions of `geartrain.oracles.protocols`.
    x : array, optional
        Where to look; random if not given.
    n : int, optional
        Dimension, if neither `x` is given nor the term knows its own.
    seed : int
        Seed of the random points.

    Returns
    -------
    TermReport
        True if nothing is wrong; ``print`` it for the sentences.

    Examples
    --------
    >>> import geartrain as gt
    >>> wrong = gt.Term(value=lambda x: x @ x, grad=lambda x: x, n=2)
    >>> report = gt.check_term(wrong)
    >>> report.ok
    False
    >>> report.problems[0][:38]
    'the gradient does not fit the value: t'
    """
    rng = np.random.default_rng(seed)
    n = getattr(term, "n", None) if n is None else n
    if x is None:
        if n is None:
            raise ValueError("check_term needs a point x or the dimension n")
        x = rng.standard_normal(n)
    checker = Checker(term, as_vector(x, "x", n), rng)
    if not checker.known:
        return TermReport(("the term answers no question: see geartrain.Term",), ())
    if "component" in checker.known and getattr(term, "n_components", None) is None:
        return TermReport(("the term has component but no n_components",), ())
    for question in QUESTIONS.values():
        if question.check is not None and not checker.broken and checker.has(question.name):
            question.check(checker)
    return TermReport(tuple(checker.problems), tuple(checker.checked))
