"""Points in the form of x0: any shape, single or double precision.

The methods work on vectors in double precision. Functions of the user get x in the shape of x0, and
so do callbacks and ``res.x``. The terms of the library get vectors.

If x0 is in single precision and all terms are made of functions of the user, these get x in single
precision, too, and the points that the user sees are exactly those at which the functions were
asked. Terms of the library compute in double precision; with one of them x is not rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from geartrain.oracles.algebra import Combination
from geartrain.oracles.protocols import AnyTerm, UserTerm, Vector, answers, as_term, calls_user_code
from geartrain.oracles.questions import QUESTIONS, VECTOR


@dataclass(frozen=True)
class Form:
    """How points look outside of the methods."""

    shape: tuple[int, ...]
    dtype: str = "float64"

    @staticmethod
    def of(x0: Any, *terms: Any) -> Form | None:
        """The form of a starting point, or None for a vector in double precision.

        `terms` are those of the sum.
        """
        try:
            array = np.asarray(x0)
        except ValueError:  # lists of different lengths, which are refused as a vector
            return None
        single = array.dtype == np.float32 and all(map(_is_of_the_user, terms))
        if array.ndim < 2 and not single:
            return None
        return Form(array.shape, "float32" if single else "float64")

    def outside(self, v: Vector) -> Any:
        return np.array(v, dtype=self.dtype).reshape(self.shape)

    def term(self, term: AnyTerm) -> Any:
        if isinstance(term, Combination):
            return Combination([(w, self.term(t)) for w, t in term.parts])
        if sum(size > 1 for size in self.shape) > 1 and as_term(term).is_of_signals:
            raise ValueError(
                f"{term!r} is made for signals, but x0 has the shape {self.shape}: it would take "
                f"the rows one after the other. For an image use gt.HuberTV({self.shape}, lam, "
                "eps); if this is meant, give x0 as a vector"
            )
        return Formed(term, self) if _takes_forms(term) else term


def _is_of_the_user(term: AnyTerm) -> bool:
    parts = [t for _, t in term.parts] if isinstance(term, Combination) else [term]
    return all(map(_takes_forms, parts))


def _takes_forms(term: AnyTerm) -> bool:
    """Whether its functions get x in the form of x0."""
    return calls_user_code(term) and not as_term(term).takes_vectors


class Formed(UserTerm):
    """A term whose functions take and give points of a form, as a function of vectors.

    Indices, as in ``coord(x, i)``, and columns, as in ``products(x, D)``, belong to vectors.
    """

    def __init__(self, term: AnyTerm, form: Form) -> None:
        super().__init__(term)
        self.form = form
        for name in answers(term):
            setattr(self, name, self._asking(name, getattr(term, name)))
        if callable(residual := getattr(term, "residual", None)):  # of a non-smooth term
            self.residual = lambda v, d: _flat(residual(form.outside(v), form.outside(d)))

    def _asking(self, name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
        question, outside = QUESTIONS[name], self.form.outside

        def ask(x: Vector, *more: Any) -> Any:
            answer = fn(outside(x), *more)
            count = len(question.answer)
            if count > 1 and not (isinstance(answer, (tuple, list)) and len(answer) == count):
                return answer  # which the oracle refuses
            return question.mapped(answer, lambda kind, v: _flat(v) if kind == VECTOR else v)

        return ask


def _flat(answer: Any) -> Any:
    """An array as a vector; anything else as it is, for the oracle to refuse."""
    return answer.ravel() if isinstance(answer, np.ndarray) else answer
