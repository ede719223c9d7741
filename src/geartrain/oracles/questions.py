"""The table of all questions that a term can answer.

Every `Question` is one entry of `QUESTIONS`. Everything that deals with questions loops over this
table: the ledger and its oracles, `geartrain.oracles.protocols.can` and ``require``, `Term`, sums
and differences, the pair terms of the geometries, the checker, the check of resumed runs and the
table in the documentation. To add a question, add an entry; nothing else has to be changed.

A term is any object that has some of these methods; it does not have to inherit from a class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from geartrain.oracles import question_checks as checks
from geartrain.oracles.differences import central_gradient, difference_steps
from geartrain.oracles.vectors import Vector

# The parts of an answer.
NUMBER, VECTOR, COLUMNS = "number", "vector", "columns"
_TYPES = {NUMBER: "float", VECTOR: "array (n,)", COLUMNS: "array (n, k)"}


@dataclass(frozen=True)
class Way:
    """How an answer is derived from other answers.

    The first argument of ``answer(asked, *args)`` is an object that has the questions in `needs` as
    methods and the term as its attribute ``term``.
    """

    needs: tuple[str, ...]
    answer: Callable[..., Any]
    exact: bool = True  # False for an estimate, which only an `Oracle` uses


class Part(NamedTuple):
    """One part of a sum of terms."""

    weight: float
    term: Any
    asked: Any  # a `geartrain.oracles.protocols.Asked` of the term


def linear(question: Question, parts: Sequence[Part]) -> Callable[..., Any] | None:
    """The answer of a sum is the weighted sum of the answers, if every part has one."""
    if not all(hasattr(part.asked, question.name) for part in parts):
        return None
    there = [part for part in parts if part.weight != 0.0] or parts  # 0 times infinity is 0
    answers = [(part.weight, getattr(part.asked, question.name)) for part in there]
    kinds = question.answer

    def add(*args: Any) -> Any:
        totals: list[Any] = []
        for weight, ask in answers:
            answer = ask(*args)
            entries = answer if len(kinds) > 1 else (answer,)
            scaled = [
                weight * (float(entry) if kind == NUMBER else np.asanyarray(entry))
                for kind, entry in zip(kinds, entries, strict=True)
            ]
            totals = [t + s for t, s in zip(totals, scaled, strict=True)] if totals else scaled
        return tuple(totals) if len(kinds) > 1 else totals[0]

    return add


def if_counts_agree(question: Question, parts: Sequence[Part]) -> Callable[..., Any] | None:
    """Summand k of a sum is the sum of the summands k, if all parts have equally many."""
    counts = {part.term.n_components for part in parts}
    return linear(question, parts) if len(counts) == 1 else None


def beside_spheres(question: Question, parts: Sequence[Part]) -> Callable[..., Any] | None:
    """The proximal step of ``w t + c/2 |x|^2 - <b, x>`` with w > 0 and c >= 0.

    By completing the square, it is the minimiser v of
    t(v) + (alpha + c)/(2 w) |v - (alpha u + b)/(alpha + c)|^2. Parts that are quadratics of this
    form, including zero and linear ones, have the pair (c, b) as their attribute ``spherical``.
    """
    w = c = 0.0
    b: Any = 0.0
    others: dict[int, Part] = {}
    for part in parts:
        own = part.term.spherical
        if own is not None:
            c, b = c + part.weight * own[0], b + part.weight * own[1]
        elif part.weight != 0.0:
            others[id(part.term)] = part
            w += part.weight
    if c < 0.0 or len(others) > 1 or (others and w <= 0.0):
        return None
    if not others:
        return lambda u, alpha: (alpha * u + b) / (alpha + c)
    asked = next(iter(others.values())).asked
    if not hasattr(asked, question.name):
        return None
    prox = getattr(asked, question.name)

    def step(u: Vector, alpha: float) -> Vector:
        moved = (alpha * u + b) / (alpha + c)
        return np.array(prox(moved, (alpha + c) / w), dtype=np.float64)

    return step


def of_no_sum(question: Question, parts: Sequence[Part]) -> None:
    """The answer of a sum does not follow from those of its parts."""


@dataclass(frozen=True)
class Question:
    """A question that a term can answer."""

    name: str  # of the method of the term
    arguments: str  # the one or two arguments of that method, as they are written in a call
    answer: tuple[str, ...]  # its parts: NUMBER, VECTOR (n,) and COLUMNS (n, k)
    words: str  # completes the sentence "the method asks h for ..."
    meaning: str  # the answer in the words of the documentation
    key: str = ""  # the kind under which the ledger counts one call
    column_key: str = ""  # the kind under which it counts every column of the answer
    # The questions that the parts of the answer answer; the question itself where it is not said.
    tells: tuple[str, ...] = ()
    counted: str = ""  # what the ledger counts, in the plural, for axes and bills; once for a key
    setting: str = ""  # of `geartrain.theory`, in which inner methods ask this question of g
    constants: tuple[str, ...] = ()  # attributes of the term that belong to the question
    ways: tuple[Way, ...] = ()  # to derive the answer from others, in order of preference
    # ``combine(question, parts)``: the function by which a sum answers, or None if the parts do not
    # allow it.
    combine: Callable[[Question, Sequence[Part]], Callable[..., Any] | None] = linear
    lifts: bool = False  # whether one solve turns the answer into a pair of a geometry
    # Whether a term that answers it and has no gradient is a non-smooth term psi. Where no price is
    # given, a call costs as much as a gradient.
    nonsmooth: bool = False
    # ``per_gradient(n, m)``: the number of calls that are equivalent to one gradient of a term with
    # n variables and m summands. None if there is no such number.
    per_gradient: Callable[[int, int], int] | None = None
    check: Callable[[Any], None] | None = None  # of the answers, by a Checker of `check_term`

    def __post_init__(self) -> None:
        if not self.tells:
            object.__setattr__(self, "tells", (self.name,))
        if len(self.tells) != len(self.answer):
            raise ValueError(f"question {self.name!r}: one entry of tells per part of the answer")
        if not self.keys:
            raise ValueError(f"question {self.name!r} needs a key or a column_key for the ledger")
        if self.arguments.count(",") > 1:
            raise ValueError(f"question {self.name!r} has more than two arguments")
        if unknown := set(self.answer) - set(_TYPES):
            raise ValueError(f"question {self.name!r}: an answer has no parts {sorted(unknown)}")

    @property
    def keys(self) -> tuple[str, ...]:
        """The kinds under which the ledger counts a call."""
        return tuple(key for key in (self.key, self.column_key) if key)

    @property
    def is_additive(self) -> bool:
        """Whether the answer of a sum is the sum of the answers."""
        return self.combine in (linear, if_counts_agree)

    def part(self, answer: Any, question: str) -> Any:
        """The part of an answer that answers `question`, one of `tells`."""
        return answer if len(self.answer) == 1 else answer[self.tells.index(question)]

    def mapped(self, answer: Any, change: Callable[[str, Any], Any]) -> Any:
        """The answer with ``change(kind, part)`` in the place of every part."""
        if len(self.answer) == 1:
            return change(self.answer[0], answer)
        return tuple(map(change, self.answer, answer))

    @property
    def signature(self) -> str:
        """The call and the type of its answer."""
        types = ", ".join(_TYPES[kind] for kind in self.answer)
        return f"{self.name}({self.arguments}) -> {f'({types})' if len(self.answer) > 1 else types}"


def _mean_of_components(asked: Any, x: Vector) -> Vector:
    m = int(asked.term.n_components)
    total = np.zeros(x.size)
    for k in range(m):
        total += asked.component(x, k)
    return total / m


def _all_partials(asked: Any, x: Vector) -> Vector:
    return np.array([asked.coord(x, i) for i in range(x.size)])


def _by_differences(asked: Any, x: Vector) -> Vector:
    term = asked.term
    L = term.L if term.L_coord is None else term.L_coord
    steps = difference_steps(term, asked.value, x, 1.0 if L is None else L)
    return central_gradient(asked.value, x, steps)


def _one(n: int, m: int) -> int:
    return 1


# The columns of calls, histories and checkpoints have this order.
QUESTIONS: dict[str, Question] = {
    question.name: question
    for question in (
        Question(
            "grad",
            "x",
            (VECTOR,),
            words="its gradient",
            check=checks.check_grad,
            meaning="gradient",
            key="grad",
            counted="gradients",
            setting="full",
            constants=("L", "mu"),
            ways=(
                Way(("value_and_grad",), lambda asked, x: asked.value_and_grad(x)[1]),
                Way(("component",), _mean_of_components),
                Way(("coord",), _all_partials),
                Way(("value",), _by_differences, exact=False),
            ),
            lifts=True,
            per_gradient=_one,
        ),
        Question(
            "value",
            "x",
            (NUMBER,),
            words="its value",
            check=checks.check_value,
            meaning="value",
            key="value",
            counted="values",
            setting="values",
            constants=("noise", "M3"),
            ways=(Way(("value_and_grad",), lambda asked, x: asked.value_and_grad(x)[0]),),
            lifts=True,
        ),
        Question(
            "value_and_grad",
            "x",
            (NUMBER, VECTOR),
            words="its value and gradient",
            check=checks.check_value_and_grad,
            meaning="value and gradient in one call",
            key="grad",
            tells=("value", "grad"),
            constants=("L", "mu"),
            ways=(Way(("value", "grad"), lambda asked, x: (asked.value(x), asked.grad(x))),),
            lifts=True,
            per_gradient=_one,
        ),
        Question(
            "component",
            "x, k",
            (VECTOR,),
            words="the gradient of one summand",
            check=checks.check_component,
            meaning="gradient of the k-th summand of a mean of m",
            key="component",
            counted="gradients of summands",
            setting="finite-sum",
            constants=("n_components", "L_components"),
            combine=if_counts_agree,
            lifts=True,
            per_gradient=lambda n, m: m,
        ),
        Question(
            "coord",
            "x, i",
            (NUMBER,),
            words="one partial derivative",
            check=checks.check_coord,
            meaning="i-th partial derivative",
            key="coord",
            counted="partial derivatives",
            setting="coordinate",
            constants=("L_coord",),
            per_gradient=lambda n, m: n,
        ),
        Question(
            "prox",
            "u, alpha",
            (VECTOR,),
            words="a proximal step",
            check=checks.check_prox,
            meaning="proximal step: the minimiser of term(v) + alpha/2 |v - u|^2",
            key="prox",
            counted="proximal steps",
            combine=beside_spheres,
            nonsmooth=True,
        ),
        Question(
            "products",
            "x, D",
            (COLUMNS,),
            words="its Hessian times vectors",
            meaning="Hessian at x times the k columns of D",
            column_key="product",
            counted="Hessian products",
            lifts=True,
            per_gradient=_one,
        ),
        Question(
            "second_order",
            "x, D",
            (NUMBER, VECTOR, COLUMNS),
            words="its value, gradient and Hessian times vectors",
            meaning="value, gradient and the Hessian times D in one call",
            key="grad",
            column_key="product",
            tells=("value", "grad", "products"),
            ways=(
                Way(
                    ("value_and_grad", "products"),
                    lambda asked, x, D: (*asked.value_and_grad(x), asked.products(x, D)),
                ),
            ),
            lifts=True,
            per_gradient=_one,
        ),
        Question(
            "lmo",
            "d",
            (VECTOR,),
            words="a linear minimisation",
            check=checks.check_lmo,
            meaning="of a set: the minimiser of <d, v> over all v in it",
            key="lmo",
            counted="linear minimisations",
            constants=("diameter",),
            combine=of_no_sum,
            nonsmooth=True,
        ),
        Question(
            "operator",
            "x",
            (VECTOR,),
            words="the value of an operator",
            check=checks.check_operator,
            meaning="value of a monotone operator; of a function, its gradient",
            key="operator",
            tells=("grad",),
            counted="values of operators",
            constants=("L", "mu"),
            ways=(Way(("grad",), lambda asked, x: asked.grad(x)),),
        ),
    )
}


def kinds() -> tuple[str, ...]:
    """The kinds of calls that the ledger counts, without repetition."""
    return tuple(dict.fromkeys(key for q in QUESTIONS.values() for key in q.keys))


def counted_in_words(kind: str) -> str:
    """The calls of a kind that the ledger counts, such as "gradients"; the kind if it has no words.

    A kind that is not counted is an empty string.
    """
    words = [q.counted for q in QUESTIONS.values() if kind in q.keys]
    return next(filter(None, words), kind) if words else ""


def asked_of_inner(needs: Iterable[str]) -> Question:
    """The question of the basic oracle of g, of all that an inner method needs."""
    asked = (QUESTIONS[name] for name in needs)
    return next((question for question in asked if question.setting), QUESTIONS["grad"])


def markdown_table() -> str:
    rows = ["| call | what is answered | counted as | constants |", "| --- | --- | --- | --- |"]
    for q in QUESTIONS.values():
        counted = [f"`{q.key}`"] if q.key else []
        counted += [f"`{q.column_key}` per column"] if q.column_key else []
        constants = ", ".join(f"`{c}`" for c in q.constants)
        meaning = q.meaning.replace("|", "\\|")
        rows.append(f"| `{q.signature}` | {meaning} | {' and '.join(counted)} | {constants} |")
    return "\n".join(line.replace("  ", " ") for line in rows)
