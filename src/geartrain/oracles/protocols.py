"""Which questions a given term answers, and how a method states which ones it needs.

The table of all questions is `geartrain.oracles.questions`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn, TypeAlias
from weakref import WeakValueDictionary

import numpy as np

from geartrain.oracles.questions import QUESTIONS, Question, Way
from geartrain.oracles.vectors import Vector as Vector

# Any object that answers some of the questions; `answers` tells at run time which ones.
AnyTerm: TypeAlias = object

# What a term states besides its answers, and what holds for one that does not.
STATED: dict[str, Any] = {
    "n": None,  # dimension
    "L": None,  # Lipschitz constant of the gradient
    "mu": 0.0,  # strong convexity; of an operator, strong monotonicity
    "convex": True,  # of an operator: monotone
    "n_components": None,  # number of summands
    "L_coord": None,  # Lipschitz constants of the partial derivatives
    "L_occurring": None,  # those over the share of rows in which a variable is not zero
    "L_components": None,  # Lipschitz constants of the gradients of the summands
    "noise": 0.0,  # bound on the error of a value
    "M3": None,  # bound on the third derivative along a coordinate
    "lower_bound": None,  # no value is below it
    "spherical": None,  # (c, b) for the term c/2 |x|^2 - <b, x>
    "subtracted": None,  # the term f_1 of a difference f - f_1
    "takes_vectors": False,  # whether a term that calls functions of the user has x as a vector
    "is_of_signals": False,  # whether the order of the variables matters, so that x is no image
    "diameter": None,  # of a set that has a linear minimisation: no two points are further apart
}


class KnownTerm:
    """A term that states everything in `STATED`; the base class of the terms of the library."""


for _name, _default in STATED.items():
    setattr(KnownTerm, _name, _default)


class UserTerm:
    """An object of the user as a term that states everything in `STATED`.

    It answers, and all else that the object has is found here, too.
    """

    calls_user_code = True

    def __init__(self, term: AnyTerm) -> None:
        self.term: Any = term

    def __getattr__(self, name: str) -> Any:
        if name == "term":  # while it is unpickled
            raise AttributeError(name)
        if name not in STATED:
            return getattr(self.term, name)
        own = getattr(self.term, name, None)
        return STATED[name] if own is None else own

    def __repr__(self) -> str:
        return repr(self.term)


# One `UserTerm` per object, so that a term that is given twice is known to be the same.
_MADE: WeakValueDictionary[int, UserTerm] = WeakValueDictionary()


def as_term(term: AnyTerm) -> Any:
    """A term as the library knows it: one of its own, or a `UserTerm` of an object of the user."""
    if isinstance(term, (KnownTerm, UserTerm)):
        return term
    made = _MADE.get(id(term))
    if made is None:
        made = _MADE[id(term)] = UserTerm(term)
    return made


class MissingOracle(TypeError, AttributeError):
    """A method needs an answer that a term does not give.

    It is an AttributeError, too, so that ``hasattr(oracle, "prox")`` works as expected.
    """


def answers(term: AnyTerm) -> frozenset[str]:
    """Names of the questions that `term` answers itself.

    What it takes from another of its answers, for the convenience of the user, is not among them.
    """
    found = ((name, getattr(term, name, None)) for name in QUESTIONS)
    return frozenset(name for name, fn in found if callable(fn) and not hasattr(fn, "taken_from"))


def can(term: AnyTerm, question: str) -> bool:
    """Whether `question` can be answered exactly, by the term or from its other answers.

    For example, a value can be taken from a fused call, and a gradient can be computed from all
    summands or all partial derivatives. The ledger counts the calls that are really made.
    """
    known = answers(term)
    return question in known or _way(question, known) is not None


def require(method: str, role: str, term: AnyTerm, *questions: str) -> None:
    """Raise `MissingOracle`, naming method and term, unless `term` can answer all."""
    for question in questions:
        if not can(term, question):
            raise MissingOracle(
                f"{method} asks {role} for {QUESTIONS[question].words} ({question!r}), but "
                f"{role} = {term!r} answers only: {_given(term)}. Give the term a "
                f"{question!r}, or choose a method that does not need it."
            )


def _given(term: AnyTerm) -> str:
    return ", ".join(sorted(answers(term))) or "nothing"


def _way(
    question: str, known: frozenset[str], estimates: bool = False, asked_for: tuple[str, ...] = ()
) -> Way | None:
    """The first way to derive `question`; those in `asked_for` cannot be used for it."""
    asked_for = (*asked_for, question)
    for way in QUESTIONS[question].ways:
        if (way.exact or estimates) and all(
            need in known
            or (need not in asked_for and _way(need, known, estimates, asked_for) is not None)
            for need in way.needs
        ):
            return way
    return None


def calls_user_code(term: AnyTerm) -> bool:
    """Whether an answer of `term` may come from a function of the user.

    Such functions get their arguments read-only, and the arrays that they return are copied. The
    terms of the library do not change their arguments and return a new array every time; those that
    call functions of the user have the attribute ``calls_user_code``.
    """
    own = type(term).__module__.partition(".")[0] == "geartrain"
    return not own or bool(getattr(term, "calls_user_code", False))


def read_only(argument: Any) -> Any:
    """A view of an array that cannot be written to; any other argument itself."""
    if not isinstance(argument, np.ndarray):
        return argument
    view = argument.view()
    view.setflags(write=False)
    return view


def _writable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn`; on copies if Numba has compiled it, because it may refuse read-only arrays then."""
    if not type(fn).__module__.startswith("numba."):
        return fn
    return lambda *args: fn(*(a.copy() if isinstance(a, np.ndarray) else a for a in args))


class ReadOnlyArgument(ValueError):
    """A function of the user tried to write to its argument."""


def explain(error: ValueError, asked: str) -> NoReturn:
    """Raise `error` again, with an explanation if it is about a read-only array."""
    if "read-only" not in str(error):
        raise error
    raise ReadOnlyArgument(
        f"{asked} failed: {error}. A term gets its arguments read-only; a function that changes "
        "them, or that needs arrays which it could change, must work on a copy, x = x.copy()"
    ) from error


def is_nonsmooth(term: AnyTerm) -> bool:
    """Whether `term` has proximal steps or linear minimisations and no gradients, as a set has."""
    known = answers(term)
    return any(QUESTIONS[name].nonsmooth for name in known) and not can(term, "grad")


def extended_valued(term: AnyTerm) -> bool:
    """Whether the value of `term` may be plus infinity, as for the indicator of a set.

    This is so for terms without gradients (see `is_nonsmooth`), unless they have an attribute of
    this name that states otherwise.
    """
    own = getattr(term, "extended_valued", None)
    return is_nonsmooth(term) if own is None else bool(own)


class Asked:
    """The questions that a term can answer, as methods that are not counted.

    A question that the term does not answer itself is derived from its other answers if the table
    of questions has a way. Functions of the user get their arguments read-only.
    """

    estimates = False  # whether ways that are not exact are used

    def __init__(self, term: AnyTerm) -> None:
        term = self.term = as_term(term)
        known = answers(term)
        for question in QUESTIONS.values():
            if question.name in known:
                answer = self._own(question, _writable(getattr(term, question.name)))
            elif way := _way(question.name, known, self.estimates):
                answer = self._derived(question, way)
            else:
                continue
            setattr(self, question.name, answer)

    def _own(self, question: Question, fn: Callable[..., Any]) -> Callable[..., Any]:
        if not calls_user_code(self.term):
            return fn

        def ask(*args: Any) -> Any:
            try:
                return fn(*map(read_only, args))
            except ValueError as error:
                explain(error, question.name)

        return ask

    def _derived(self, question: Question, way: Way) -> Callable[..., Any]:
        return partial(way.answer, self)

    def __getattr__(self, question: str) -> Callable[..., Any]:
        if question in QUESTIONS:
            raise MissingOracle(
                f"{self._named()} has no {question!r}; it answers only: {_given(self.term)}"
            )
        raise AttributeError(question)

    def _named(self) -> str:
        return repr(self.term)
