"""What a given term answers, and how a method says what it needs.

What can be asked at all is the table of `geartrain.oracles.questions`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

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


class Asked:
    """The answers of a term under the names of the questions, uncounted.

    A question that the term does not answer itself is put together from those that it does, where
    the table of questions has a way.
    """

    estimates = False  # whether ways that are not exact are used

    def __init__(self, term: Any) -> None:
        self.term = term
        known = answers(term)
        for question in QUESTIONS.values():
            if question.name in known:
                answer = self._own(question, getattr(term, question.name))
            elif way := _way(question.name, known, self.estimates):
                answer = partial(way.answer, self)
            else:
                continue
            setattr(self, question.name, answer)

    def _own(self, question: Question, fn: Callable[..., Any]) -> Callable[..., Any]:
        """What stands for an answer of the term itself."""
        return fn

    def __getattr__(self, question: str) -> Callable[..., Any]:
        if question in QUESTIONS:
            raise MissingOracle(
                f"{self._named()} has no {question!r}; it answers only: {_given(self.term)}"
            )
        raise AttributeError(question)

    def _named(self) -> str:
        """How the term is called in an error."""
        return repr(self.term)
