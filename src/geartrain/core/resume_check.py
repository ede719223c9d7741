"""Answers of the user's functions, by which a resumed run recognises them.

The data of geartrain's own terms is compared directly (`geartrain.core.fingerprint`). Functions,
operators and objects of other classes have no data that can be compared. One of their answers is
stored in the checkpoint instead, and the same question is asked again, uncounted, before the run is
resumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from geartrain.core.fingerprint import is_opaque
from geartrain.oracles.ledger import Observer, Oracle
from geartrain.oracles.protocols import AnyTerm, answers, as_term
from geartrain.oracles.questions import NUMBER, QUESTIONS, Question

# Relative difference that two answers to one question may have: sums may be in single precision, or
# in another order.
TOLERANCE = 1e-4


def listen(
    oracles: Iterable[Oracle], terms: Iterable[Any], geometry: Any, before: Mapping[str, Any]
) -> dict[str, Any]:
    """Answers of terms without data, by the name of the term: ``(question, args, answer)``.

    The newest of the answers 1, 2, 4, 8, ... is stored, so that the cost is negligible in a long
    run. `terms` are the terms of the user, and `before` are the answers that an earlier part of the
    run has stored.
    """
    heard = dict(before)
    for oracle, term in zip(oracles, terms, strict=True):
        if is_opaque(term) or is_opaque(geometry):
            oracle.observe(answers(oracle.term), _hearing(heard, oracle.name))
    return heard


def _hearing(heard: dict[str, Any], name: str) -> Observer:
    asked = dict.fromkeys(QUESTIONS, 0)

    def hear(question: Question, args: tuple[Any, ...], answer: Any) -> None:
        asked[question.name] += 1
        if asked[question.name].bit_count() == 1:
            heard[name] = (question.name, _copies(args), _copies(answer))

    return hear


def _copies(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_copies, value))
    return value.copy() if isinstance(value, np.ndarray) else value


def changed(term: AnyTerm, heard: Any) -> str:
    """How the answer of `term` differs from the stored one, in words; empty if it does not."""
    question, args, old = heard
    if question not in answers(term):  # a file may name questions only, never other methods
        return f"it is not asked for {question!r}"
    new = getattr(term, question)(*args)
    kinds = QUESTIONS[question].answer
    if len(kinds) == 1:
        old, new = (old,), (new,)
    for kind, before, after in zip(kinds, old, new, strict=True):
        if kind == NUMBER and len(kinds) > 1:
            continue  # the gradient beside it says more
        size, gap = np.linalg.norm(before), np.linalg.norm(np.subtract(after, before))
        noise = 2.0 * float(as_term(term).noise) if kind == NUMBER else 0.0
        if not gap <= TOLERANCE * size + noise:
            return (
                f"its answer to {question!r} at a point of the run differs by {gap:.2g} "
                f"from {size:.2g}"
            )
    return ""
