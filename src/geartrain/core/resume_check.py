"""Answers of the user's functions, by which a resumed run recognises them.

The data of geartrain's own terms is compared directly (`fingerprint`, below). Functions,
operators and objects of other classes have no data that can be compared. One of their answers is
stored in the checkpoint instead, and the same question is asked again, uncounted, before the run is
resumed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

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


# What tells one problem from another without asking an oracle.

# A larger array of a term is known by a part of its entries.
_HASHED_ENTRIES = 2**25


def fingerprint(terms: Mapping[str, Any], geometry: Any) -> dict[str, str]:
    """Of a sum of terms, given by name, in an inner product."""
    known = {name: of_term(term) for name, term in terms.items()}
    return {**known, "geometry": f"{geometry!r} (data {_Digest(geometry).hexdigest()[:16]})"}


def differences(old: dict[str, str], new: dict[str, str]) -> str:
    """In which parts two fingerprints differ, in words; empty if they do not."""
    parts = [f"{key} was {old.get(key)}, is {new[key]}" for key in new if old.get(key) != new[key]]
    parts += [f"{key} was {old[key]}, is missing" for key in old if key not in new]
    return "; ".join(parts)


def of_term(term: AnyTerm) -> str:
    """Class, dimension, questions, and a hash of the data that geartrain's own terms hold.

    Of a user's functions and objects nothing more can be said, see `changed`.
    """
    digest = _Digest(term)
    kind, n = type(term).__name__, as_term(term).n
    return f"{kind}(n={n}; {', '.join(sorted(answers(term)))}; data {digest.hexdigest()[:16]})"


def is_opaque(value: Any) -> bool:
    """Whether a part of `value` is a function, an operator or an object of somebody else's."""
    return _Digest(value, arrays=False).opaque


class _Digest:
    """Of all data inside a value; `opaque` where there is something without data."""

    def __init__(self, value: Any, arrays: bool = True) -> None:
        self._sha, self._arrays, self.opaque = hashlib.sha256(), arrays, False
        self.hexdigest = self._sha.hexdigest
        self._add(value)

    def _add(self, value: Any) -> None:
        self._sha.update(type(value).__name__.encode())
        if isinstance(value, np.ndarray):
            self._sha.update(f"{value.dtype.str}{value.shape}".encode())
            if self._arrays and value.dtype.kind in "biuf":
                stride = 1 + value.size // _HASHED_ENTRIES
                self._sha.update(np.ascontiguousarray(value.reshape(-1)[::stride]).tobytes())
        elif value is None or isinstance(value, (bool, int, float, str, np.generic)):
            self._sha.update(repr(value).encode())
        elif isinstance(value, (tuple, list)):
            for v in value:
                self._add(v)
        elif sparse.issparse(value):
            self._add((value.shape, value.data, value.indices, value.indptr))
        elif type(value).__module__.startswith("geartrain."):
            for name, v in sorted(vars(value).items()):
                # What is computed on demand may be there or not; methods are no data.
                if name.startswith("_") or isinstance(
                    getattr(type(value), name, None), cached_property
                ):
                    continue
                if getattr(v, "__self__", None) is not value:
                    self._sha.update(name.encode())
                    self._add(v)
        else:
            self.opaque = True
