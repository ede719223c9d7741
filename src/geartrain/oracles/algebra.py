"""Sums, differences and multiples of terms are terms again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from geartrain.oracles.protocols import (
    AnyTerm,
    Asked,
    KnownTerm,
    Vector,
    answers,
    as_term,
    extended_valued,
    is_nonsmooth,
)
from geartrain.oracles.questions import QUESTIONS, Part
from geartrain.oracles.spectrum import symmetric_spectrum
from geartrain.oracles.validation import are_bounds, as_number


class Algebra(KnownTerm):
    """Base class of terms that can be added, subtracted and multiplied by a number."""

    __array_ufunc__ = None  # numpy.float64(2) * term is left to the term, not to NumPy

    def __add__(self, other: AnyTerm) -> Combination:
        return Combination([*_parts(self), *_parts(other)])

    def __sub__(self, other: AnyTerm) -> Combination:
        return Combination([*_parts(self), *((-w, t) for w, t in _parts(other))])

    # An object of the user's on the left; ``sum`` of a list of terms begins with 0.
    def __radd__(self, other: AnyTerm) -> Combination:
        nothing = isinstance(other, int) and other == 0
        return Combination([*([] if nothing else _parts(other)), *_parts(self)])

    def __rsub__(self, other: AnyTerm) -> Combination:
        return Combination([*_parts(other), *((-w, t) for w, t in _parts(self))])

    def __mul__(self, weight: float) -> Combination:
        weight = as_number(weight, "the factor of a term")
        return Combination([(weight * w, t) for w, t in _parts(self)])

    __rmul__ = __mul__

    def __neg__(self) -> Combination:
        return self * -1.0


def _with_one_kink(parts: list[tuple[float, Any]]) -> list[tuple[float, Any]]:
    """The parts with their non-smooth terms as one, where a set can take in the others.

    A set has ``joined(other) -> term | None``: the term `other` on the set. The factor of the set
    does not matter, and that of the other term is the factor of both.
    """
    kinked: dict[int, tuple[float, Any]] = {}
    for w, t in parts:
        if w != 0.0 and is_nonsmooth(t):
            kinked[id(t)] = kinked.get(id(t), (0.0, t))[0] + w, t
    if len(kinked) < 2:
        return parts
    first, *others = kinked.values()
    for other in others:
        first = _joined(first, other)
    return [(w, t) for w, t in parts if not is_nonsmooth(t)] + [first]


def _joined(first: tuple[float, Any], other: tuple[float, Any]) -> tuple[float, Any]:
    """Two non-smooth terms with their factors as one."""
    for (weight, taken), (w, t) in ((first, other), (other, first)):
        joined = getattr(t, "joined", None)
        both = None if joined is None or min(w, weight) < 0.0 else joined(taken)
        if both is not None:
            return weight, as_term(both)
    raise ValueError(
        f"a sum can have one non-smooth term, got {first[1]!r} and {other[1]!r}: the proximal "
        "operator of their sum does not follow from those of the two, unless one is gt.Box, or "
        "gt.Linear with bounds, and the other is separable, as gt.L1 is, or gt.Linear; write one "
        "object with the prox of the sum, or replace one of them by a smooth term"
    )


def _parts(term: AnyTerm) -> list[tuple[float, Any]]:
    if isinstance(term, Combination):
        return term.parts
    if not answers(term):
        hint = "; bounds become a term by gt.Box(bounds)" if are_bounds(term) else ""
        raise TypeError(f"a term can be added to a term only, got {type(term).__name__}{hint}")
    return [(1.0, term)]


class Combination(Algebra):
    """``sum_j w_j term_j``, which answers all that follows from the answers of its parts.

    How an answer is put together is the field `combine` of the table of questions.

    Attributes
    ----------
    L, mu
        The ends of the spectrum if the Hessians are constant (quadratics, least squares).
        Otherwise they follow from those of the parts: the Hessian lies between
        ``sum_j min(w_j mu_j, w_j L_j)`` and ``sum_j max(w_j mu_j, w_j L_j)``. `L` is None if a
        part does not know its own.
    L_coord, L_components
        Weighted sums of the constants of the parts, or None if a part has none.
    convex
        False if a part is subtracted and the others do not outweigh its curvature.
    """

    def __init__(self, parts: list[tuple[float, Any]]) -> None:
        self.parts = parts = _with_one_kink([(weight, as_term(term)) for weight, term in parts])
        sizes = {t.n for _, t in parts if t.n is not None}
        if len(sizes) > 1:
            raise ValueError(f"terms of different dimensions cannot be added: {sorted(sizes)}")
        self.n = sizes.pop() if sizes else None
        counts = {t.n_components for _, t in parts}
        self.n_components: int | None = counts.pop() if len(counts) == 1 else None

    @cached_property
    def _answering(self) -> dict[str, Callable[..., Any]]:
        """The functions that answer, by question."""
        parts = [Part(w, t, Asked(t)) for w, t in self.parts]
        made = {name: q.combine(q, parts) for name, q in QUESTIONS.items()}
        return {name: answer for name, answer in made.items() if answer is not None}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name in QUESTIONS and name in self._answering:
            return self._answering[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __getstate__(self) -> dict[str, Any]:
        """Without the functions, which are made again where they are needed."""
        return {key: value for key, value in vars(self).items() if key != "_answering"}

    @property
    def extended_valued(self) -> bool:
        """Whether the value may be plus infinity, because that of a part may."""
        return any(w != 0.0 and extended_valued(t) for w, t in self.parts)

    @property
    def hessian_product(self) -> Callable[[Vector], Vector]:
        """``v -> H v`` for a sum of terms whose Hessian H is constant."""
        if not all(callable(getattr(t, "hessian_product", None)) for _, t in self.parts):
            raise AttributeError("hessian_product")
        return self._hessian_product

    def _hessian_product(self, v: Vector) -> Vector:
        total: Vector = np.zeros(np.shape(v))
        for w, t in self.parts:
            total += w * np.asarray(t.hessian_product(v))
        return total

    @cached_property
    def _curvature(self) -> tuple[float, float] | None:
        """Bounds of the eigenvalues of the Hessian, or None if a part has no L."""
        if hasattr(self, "hessian_product") and self.n is not None and len(self.parts) > 1:
            return symmetric_spectrum(self.hessian_product, self.n)
        low = high = 0.0
        for w, t in self.parts:
            if t.L is None:
                return None
            mu = t.mu if t.convex else -t.L
            low += min(w * mu, w * t.L)
            high += max(w * mu, w * t.L)
        return low, high

    @property
    def L(self) -> float | None:
        bounds = self._curvature
        return None if bounds is None else max(abs(bounds[0]), abs(bounds[1]))

    @property
    def mu(self) -> float:
        if all(w >= 0 and t.convex for w, t in self.parts):
            return float(sum(w * t.mu for w, t in self.parts))
        bounds = self._curvature
        return 0.0 if bounds is None else max(bounds[0], 0.0)

    @property
    def convex(self) -> bool:
        if all(w >= 0 and t.convex for w, t in self.parts):
            return True
        bounds = self._curvature
        return bounds is not None and bounds[0] >= 0.0

    @property
    def lower_bound(self) -> float | None:
        """The weighted sum of those of the parts; None if one is not known or is subtracted."""
        return lower_bound_of(self.parts)

    @property
    def L_coord(self) -> Vector | None:
        return self._summed("L_coord")

    @property
    def L_occurring(self) -> Vector | None:
        return self._summed("L_occurring", "L_coord")

    @property
    def L_components(self) -> Vector | None:
        return self._summed("L_components") if self.n_components is not None else None

    def _summed(self, name: str, otherwise: str = "") -> Vector | None:
        weighted = []
        for w, t in self.parts:
            own = getattr(t, name)
            if own is None and otherwise:
                own = getattr(t, otherwise)
            if own is None:
                return None
            weighted.append(abs(w) * own)
        return np.sum(weighted, axis=0)

    def __repr__(self) -> str:
        body = " + ".join(f"{t!r}" if w == 1 else f"{w:g}*{t!r}" for w, t in self.parts)
        body = body.replace("+ -1*", "- ").replace("+ -", "- ")
        return body if self.convex else f"{body} (may be non-convex)"


def lower_bound_of(parts: Iterable[tuple[float, Any]]) -> float | None:
    """A number that no value of the weighted sum is below; None where the terms do not know one.

    What is subtracted is taken from the parts that contain it: f - f_1 has no bound of its own, and
    (f - f_1) + f_1 has that of f.
    """
    flat = [[weight, term] for weight, term in _flattened(parts)]
    kept = [part for part in flat if part[0] >= 0.0]
    for weight, term in (part for part in flat if part[0] < 0.0):
        left = -weight
        for part in kept:
            if _contains(part[1], term):
                taken = min(left, part[0])
                part[0] -= taken
                left -= taken
        if left > 0.0:
            return None
    total = 0.0
    for weight, term in kept:
        bound = term.lower_bound
        if weight > 0.0 and bound is None:
            return None
        total += weight * bound if weight > 0.0 else 0.0
    return total


class _Bounded(KnownTerm):
    """What is left of a difference when the term that it subtracts is put back."""

    def __init__(self, lower_bound: float | None) -> None:
        self.lower_bound = lower_bound


def _flattened(parts: Iterable[tuple[float, Any]]) -> Iterator[tuple[float, Any]]:
    for weight, term in parts:
        if isinstance(term, Combination):
            yield from _flattened((weight * w, t) for w, t in term.parts)
        elif term.subtracted is not None:
            yield weight, _Bounded(term.lower_bound_without)
            yield from _flattened([(-weight, term.subtracted)])
        else:
            yield weight, term


def _contains(term: Any, part: Any) -> bool:
    """Whether term - part is known to be nowhere negative."""
    contains = getattr(term, "contains", None)
    return term is part or (callable(contains) and bool(contains(part)))
