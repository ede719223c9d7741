"""What a user's functions answered, so that a resumed run knows them again.

The data of geartrain's own terms is compared (`geartrain.core.fingerprint`). Functions, operators
and foreign objects have none that can be seen: an answer of theirs is kept with the checkpoint,
and the same question is asked once more, uncounted, before the run goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from geartrain.core.fingerprint import is_opaque
from geartrain.oracles.ledger import Oracle
from geartrain.oracles.protocols import answers
from geartrain.oracles.questions import NUMBER, QUESTIONS

# Two answers to one question may differ by this part of their size: sums in single precision, or
# in another order.
TOLERANCE = 1e-4


def listen(
    oracles: tuple[Oracle, Oracle], terms: tuple[Any, Any], geometry: Any, before: Mapping[str, Any]
) -> dict[str, Any]:
    """Answers of terms that cannot be known otherwise, by name: ``(question, args, answer)``.

    The 1st, 2nd, 4th, 8th, ... answer is kept, which costs nothing in the long run; `terms` are
    the user's, and `before` is what an earlier part of the run has kept.
    """
    heard = dict(before)
    for oracle, term in zip(oracles, terms, strict=True):
        if is_opaque(term) or is_opaque(geometry):
            for question in answers(oracle.term):
                setattr(oracle, question, _heard(heard, oracle, question))
    return heard


def _heard(heard: dict[str, Any], oracle: Oracle, question: str) -> Callable[..., Any]:
    fn, asked = getattr(oracle, question), 0

    def ask(*args: Any) -> Any:
        nonlocal asked
        answer = fn(*args)
        asked += 1
        if asked & (asked - 1) == 0:
            heard[oracle.name] = (question, _copies(args), _copies(answer))
        return answer

    return ask


def _copies(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_copies, value))
    return value.copy() if isinstance(value, np.ndarray) else value


def changed(term: Any, heard: Any) -> str:
    """How the answer of `term` differs from the one that was heard, in words; empty if not."""
    question, args, old = heard
    if question not in answers(term):  # a file names questions only, never another method
        return f"it is not asked for {question!r}"
    new = getattr(term, question)(*args)
    kinds = QUESTIONS[question].answer
    if len(kinds) == 1:
        old, new = (old,), (new,)
    for kind, before, after in zip(kinds, old, new, strict=True):
        if kind == NUMBER and len(kinds) > 1:
            continue  # the gradient beside it says more
        size, gap = np.linalg.norm(before), np.linalg.norm(np.subtract(after, before))
        noise = 2.0 * float(getattr(term, "noise", 0.0) or 0.0) if kind == NUMBER else 0.0
        if not gap <= TOLERANCE * size + noise:
            return (
                f"its answer to {question!r} at a point of the run differs by {gap:.2g} "
                f"from {size:.2g}"
            )
    return ""
