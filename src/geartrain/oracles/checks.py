"""`check_term`: are the answers of a term consistent? For terms that users write themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from geartrain.oracles.checker import Broken, Checker, OutOfCalls
from geartrain.oracles.constant_checks import CONSTANT_CHECKS
from geartrain.oracles.protocols import AnyTerm
from geartrain.oracles.questions import QUESTIONS
from geartrain.oracles.validation import as_positive, as_vector, as_whole


@dataclass(frozen=True)
class TermReport:
    """What `check_term` found; true if nothing is wrong.

    Attributes
    ----------
    problems : tuple of str
        One sentence for each thing that is wrong.
    checked : tuple of str
        What was checked.
    unchecked : tuple of str
        What was not, or not to its end, because the calls that were granted were spent.
    calls : dict
        How often each question was asked.
    """

    problems: tuple[str, ...]
    checked: tuple[str, ...]
    unchecked: tuple[str, ...] = ()
    calls: Mapping[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        lines = [f"checked: {', '.join(self.checked)}"]
        if self.unchecked:
            lines.append(f"not finished: {', '.join(self.unchecked)}; allow more calls")
        asked = ", ".join(f"{count} {name}" for name, count in self.calls.items())
        lines.append(f"calls: {asked or 'none'}")
        return "\n".join([*lines, *([f"- {p}" for p in self.problems] or ["nothing wrong found"])])


# Paper: Assumption 1
def check_term(
    term: AnyTerm, x: Any = None, *, n: int | None = None, seed: int = 0, calls: float = 60
) -> TermReport:
    """Look for contradictions between what `term` answers and what it states.

    The checks are: shapes and finiteness; changes of x; the noise of values and gradients; fused
    against separate answers; the gradient against the values (Taylor's formula), against the mean
    of the components and against the partial derivatives; that a proximal step minimises and is
    firmly non-expansive; and that the stated L, mu, L_coord, L_components and lower_bound are not
    violated.

    Parameters
    ----------
    term : object
        Anything that answers some of the questions of `geartrain.oracles.questions`.
    x : array, optional
        Where to look; random if not given.
    n : int, optional
        Dimension, if neither `x` is given nor the term knows its own.
    seed : int
        Seed of the random points.
    calls : float
        How many calls may be made. n partial derivatives or `n_components` summands count as one
        call, and a product with the Hessian as one call per column.

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
    >>> report.problems[0].partition(':')[0]
    'the gradient does not fit the value'
    """
    rng = np.random.default_rng(as_whole(seed, "seed"))
    n = getattr(term, "n", None) if n is None else as_whole(n, "n", 1)
    if x is None:
        if n is None:
            raise ValueError("check_term needs a point x or the dimension n")
        x = rng.standard_normal(n)
    checker = Checker(term, as_vector(x, "x", n), rng, as_positive(calls, "calls"))
    if not checker.known:
        return TermReport(("the term answers no question: see geartrain.Term",), ())
    if "component" in checker.known and getattr(term, "n_components", None) is None:
        return TermReport(("the term has component but no n_components",), ())
    _examine(checker)
    return TermReport(
        tuple(checker.problems),
        tuple(checker.checked),
        tuple(checker.unchecked),
        dict(checker.calls),
    )


def _examine(checker: Checker) -> None:
    """Run the checks of questions and of constants, as long as calls are left."""
    checks = {q.name: q.check for q in QUESTIONS.values() if checker.has(q.name)}
    for name, check in {**checks, **CONSTANT_CHECKS}.items():
        if check is None:
            continue
        try:
            with np.errstate(all="ignore"):
                check(checker)
        except OutOfCalls:
            checker.unchecked.append(name)
        except Broken:
            checker.broken.add(name)
            if name in ("grad", "value"):  # which all other checks compare with
                return
