"""What a term can be asked, and how a method says what it needs.

A *term* is any object with some of the methods below; nothing has to be inherited.

==================  ==========================================  ==================================
question            call                                        constants beside it
==================  ==========================================  ==================================
``value``           ``term.value(x) -> float``
``grad``            ``term.grad(x) -> ndarray (n,)``            ``L``, ``mu``
``value_and_grad``  ``term.value_and_grad(x) -> (float, g)``    ``L``, ``mu``
``component``       ``term.component(x, k) -> ndarray (n,)``    ``n_components``, ``L_components``
``coord``           ``term.coord(x, i) -> float``               ``L_coord``
``prox``            ``term.prox(u, alpha) -> ndarray (n,)``
``products``        ``term.products(x, D) -> ndarray (n, k)``
``second_order``    ``term.second_order(x, D) -> (float, g, P)``
==================  ==========================================  ==================================

``prox(u, alpha)`` is the minimiser of ``term(v) + alpha/2 |v - u|^2``. ``component(x, k)``
is the gradient of the k-th summand of ``term(x) = (1/m) sum_k term_k(x)``. ``products(x, D)`` is
the Hessian at x times the k columns of D; ``second_order`` gives it with value and gradient.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

QUESTIONS = (
    "value",
    "grad",
    "value_and_grad",
    "component",
    "coord",
    "prox",
    "products",
    "second_order",
)

# A gradient can be had from each of these, in order of preference.
_GRADIENT_SOURCES = ("grad", "value_and_grad", "component", "coord")

_IN_WORDS = {
    "value": "its value",
    "grad": "its gradient",
    "value_and_grad": "its value and gradient",
    "component": "the gradient of one summand",
    "coord": "one partial derivative",
    "prox": "a proximal step",
    "products": "its Hessian times vectors",
    "second_order": "its value, gradient and Hessian times vectors",
}


@runtime_checkable
class HasValue(Protocol):
    """Answers with its value."""

    def value(self, x: Vector) -> float: ...


@runtime_checkable
class HasGrad(Protocol):
    """Answers with its full gradient."""

    def grad(self, x: Vector) -> Vector: ...


@runtime_checkable
class HasValueAndGrad(Protocol):
    """Answers with value and gradient in one call."""

    def value_and_grad(self, x: Vector) -> tuple[float, Vector]: ...


@runtime_checkable
class HasComponent(Protocol):
    """A mean of ``n_components`` summands that answers with one summand's gradient."""

    n_components: int

    def component(self, x: Vector, k: int) -> Vector: ...


@runtime_checkable
class HasCoord(Protocol):
    """Answers with one partial derivative."""

    def coord(self, x: Vector, i: int) -> float: ...


@runtime_checkable
class HasProx(Protocol):
    """Answers with ``argmin_v term(v) + alpha/2 |v - u|^2``."""

    def prox(self, u: Vector, alpha: float) -> Vector: ...


class MissingOracle(TypeError, AttributeError):
    """A method asked a term for something that it does not answer.

    An AttributeError, too, so that ``hasattr(oracle, "prox")`` asks whether it does.
    """


def answers(term: Any) -> frozenset[str]:
    """Names of the questions that `term` answers."""
    return frozenset(q for q in QUESTIONS if callable(getattr(term, q, None)))


def can(term: Any, question: str) -> bool:
    """Whether `question` can be answered, also by way of other answers.

    A value can be taken from a fused call; a gradient can be put together from the
    summands or from the partial derivatives (and is then counted as such).
    """
    known = answers(term)
    if question == "grad":
        return not known.isdisjoint(_GRADIENT_SOURCES)
    if question == "value":
        return not known.isdisjoint(("value", "value_and_grad"))
    if question == "value_and_grad":
        return can(term, "grad") and can(term, "value")
    if question == "second_order":
        return question in known or (can(term, "value_and_grad") and "products" in known)
    return question in known


def require(method: str, role: str, term: Any, *questions: str) -> None:
    """Raise `MissingOracle`, naming method and term, unless `term` can answer all."""
    for question in questions:
        if not can(term, question):
            given = ", ".join(sorted(answers(term))) or "nothing"
            raise MissingOracle(
                f"{method} asks {role} for {_IN_WORDS[question]} ({question!r}), but "
                f"{role} = {term!r} answers only: {given}. Give the term a "
                f"{question!r}, or choose a method that does not need it."
            )
