"""What a given term answers, and how a method says what it needs.

What can be asked at all is the table of `geartrain.oracles.questions`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import numpy as np

from geartrain.oracles.questions import QUESTIONS, Question, Way
from geartrain.oracles.vectors import Vector as Vector


class MissingOracle(TypeError, AttributeError):
    """A method asked a term for something that it does not answer.

    It is an AttributeError, too, so that ``hasattr(oracle, "prox")`` tells whether it does.
    """


def answers(term: Any) -> frozenset[str]:
    """Names of the questions that `term` answers itself."""
    return frozenset(name for name in QUESTIONS if callable(getattr(term, name, None)))


def can(term: Any, question: str) -> bool:
    """Whether `question` can be answered exactly, by the term or from its other answers.

    A value can be taken from a fused call, for example, and a gradient can be put together from
    the summands or from the partial derivatives; the ledger counts what was really asked.
    """
    known = answers(term)
    return question in known or _way(question, known) is not None


def require(method: str, role: str, term: Any, *questions: str) -> None:
    """Raise `MissingOracle`, naming method and term, unless `term` can answer all."""
    for question in questions:
        if not can(term, question):
            raise MissingOracle(
                f"{method} asks {role} for {QUESTIONS[question].words} ({question!r}), but "
                f"{role} = {term!r} answers only: {_given(term)}. Give the term a "
                f"{question!r}, or choose a method that does not need it."
            )


def _given(term: Any) -> str:
    return ", ".join(sorted(answers(term))) or "nothing"


def _way(
    question: str, known: frozenset[str], estimates: bool = False, asked_for: tuple[str, ...] = ()
) -> Way | None:
    """The first way to put `question` together; `asked_for` keeps it from going round."""
    asked_for = (*asked_for, question)
    for way in QUESTIONS[question].ways:
        if (way.exact or estimates) and all(
            need in known
            or (need not in asked_for and _way(need, known, estimates, asked_for) is not None)
            for need in way.needs
        ):
            return way
    return None


def calls_user_code(term: Any) -> bool:
    """Whether functions of the user run when `term` is asked.

    These get their arguments read-only, and the arrays that they answer with are copied. The terms
    of the library leave their arguments alone and make a new array for every answer; one that
    calls functions of the user says so by its attribute ``calls_user_code``.
    """
    own = type(term).__module__.partition(".")[0] == "geartrain"
    return not own or bool(getattr(term, "calls_user_code", False))


def read_only(argument: Any) -> Any:
    """An array as a view that cannot be written to; anything else as it is."""
    if not isinstance(argument, np.ndarray):
        return argument
    view = argument.view()
    view.setflags(write=False)
    return view


def _writable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn`, or if Numba has compiled it, `fn` on copies: it may not accept read-only arrays."""
    if not type(fn).__module__.startswith("numba."):
        return fn
    return lambda *args: fn(*(a.copy() if isinstance(a, np.ndarray) else a for a in args))


class ReadOnlyArgument(ValueError):
    """A function of the user could not write to its argument."""


def explain(error: ValueError, asked: str) -> NoReturn:
    """Raise `error` again, in other words if it is about an array that is read-only."""
    if "read-only" not in str(error):
        raise error
    raise ReadOnlyArgument(
        f"{asked} failed: {error}. A term gets its arguments read-only; a function that changes "
        "them, or that needs arrays which it could change, must work on a copy, x = x.copy()"
    ) from error


def extended_valued(term: Any) -> bool:
    """Whether the value of `term` may be plus infinity, as that of an indicator is.

    True for terms with a proximal step and no gradient, unless their attribute of this name
    says otherwise.
    """
    own = getattr(term, "extended_valued", None)
    return "prox" in answers(term) and not can(term, "grad") if own is None else bool(own)


class Asked:
    """The answers of a term under the names of the questions, uncounted.

    A question that the term does not answer itself is put together from those that it does, where
    the table of questions has a way. Functions of the user get their arguments read-only.
    """

    estimates = False  # whether ways that are not exact are used

    def __init__(self, term: Any) -> None:
        self.term = term
        known = answers(term)
        for question in QUESTIONS.values():
            if question.name in known:
                answer = self._own(question, _writable(getattr(term, question.name)))
            elif way := _way(question.name, known, self.estimates):
                answer = partial(way.answer, self)
            else:
                continue
            setattr(self, question.name, answer)

    def _own(self, question: Question, fn: Callable[..., Any]) -> Callable[..., Any]:
        """What stands for an answer of the term itself."""
        if not calls_user_code(self.term):
            return fn

        def ask(*args: Any) -> Any:
            try:
                return fn(*map(read_only, args))
            except ValueError as error:
                explain(error, question.name)

        return ask

    def __getattr__(self, question: str) -> Callable[..., Any]:
        if question in QUESTIONS:
            raise MissingOracle(
                f"{self._named()} has no {question!r}; it answers only: {_given(self.term)}"
            )
        raise AttributeError(question)

    def _named(self) -> str:
        """How the term is called in an error."""
        return repr(self.term)
