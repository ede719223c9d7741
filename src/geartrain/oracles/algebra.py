"""Sums, differences and multiples of terms are terms again."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from geartrain.oracles.protocols import Vector, answers, can
from geartrain.oracles.spectrum import symmetric_spectrum
from geartrain.oracles.validation import as_number


class Algebra:
    """Gives a term ``+``, ``-`` and multiplication by a number."""

    __array_ufunc__ = None  # numpy.float64(2) * term asks the term, not NumPy

    def __add__(self, other: Any) -> Combination:
        return Combination([*_parts(self), *_parts(other)])

    def __sub__(self, other: Any) -> Combination:
        return Combination([*_parts(self), *((-w, t) for w, t in _parts(other))])

    def __mul__(self, weight: float) -> Combination:
        weight = as_number(weight, "the factor of a term")
        return Combination([(weight * w, t) for w, t in _parts(self)])

    __rmul__ = __mul__

    def __neg__(self) -> Combination:
        return self * -1.0


def _parts(term: Any) -> list[tuple[float, Any]]:
    if not answers(term):
        raise TypeError(f"a term can be added to a term only, got {type(term).__name__}")
    return term.parts if isinstance(term, Combination) else [(1.0, term)]


class Combination(Algebra):
    """``sum_j w_j term_j``, which answers what all of its parts answer.

    A proximal step is answered by a positive multiple of one term only.

    Parameters
    ----------
    parts : list of (float, term)
        The pairs ``(w_j, term_j)``.

    Attributes
    ----------
    L, mu
        The ends of the spectrum where the Hessians are constant (quadratics, least squares).
        Otherwise from the parts: the Hessian lies between ``sum_j min(w_j mu_j, w_j L_j)``
        and ``sum_j max(w_j mu_j, w_j L_j)``. `L` is None where a part does not know its own.
    L_coord, L_components
        Weighted sums of those of the parts, or None.
    convex
        False if a part is subtracted and its curvature is not made up for by the others.
    """

    value: Callable[[Vector], float]
    grad: Callable[[Vector], Vector]
    value_and_grad: Callable[[Vector], tuple[float, Vector]]
    component: Callable[[Vector, int], Vector]
    coord: Callable[[Vector, int], float]
    prox: Callable[[Vector, float], Vector]
    hessian_product: Callable[[Vector], Vector]

    def __init__(self, parts: list[tuple[float, Any]]) -> None:
        self.parts = parts
        sizes = {t.n for _, t in parts if getattr(t, "n", None) is not None}
        if len(sizes) > 1:
            raise ValueError(f"terms of different dimensions cannot be added: {sorted(sizes)}")
        self.n = sizes.pop() if sizes else None
        if all(can(t, "value") for _, t in parts):
            self.value = self._value
        if all(can(t, "grad") for _, t in parts):
            self.grad = self._grad
            if hasattr(self, "value"):
                self.value_and_grad = self._value_and_grad
        if all(can(t, "coord") for _, t in parts):
            self.coord = self._coord
        counts = {getattr(t, "n_components", None) for _, t in parts if can(t, "component")}
        self.n_components: int | None = None
        if all(can(t, "component") for _, t in parts) and len(counts) == 1:
            self.n_components = counts.pop()
            self.component = self._component
        if len(parts) == 1 and parts[0][0] > 0.0 and can(parts[0][1], "prox"):
            self.prox = self._prox
        if all(callable(getattr(t, "hessian_product", None)) for _, t in parts):
            self.hessian_product = self._hessian_product

    def _value(self, x: Vector) -> float:
        return float(sum(w * t.value(x) for w, t in self.parts))

    def _grad(self, x: Vector) -> Vector:
        total: Vector = np.zeros(np.shape(x))
        for w, t in self.parts:
            total += w * np.asarray(t.grad(x) if hasattr(t, "grad") else t.value_and_grad(x)[1])
        return total

    def _value_and_grad(self, x: Vector) -> tuple[float, Vector]:
        total, gradient = 0.0, np.zeros(np.shape(x))
        for w, t in self.parts:
            if hasattr(t, "value_and_grad"):
                value, grad = t.value_and_grad(x)
            else:
                value, grad = t.value(x), t.grad(x)
            total += w * value
            gradient += w * np.asarray(grad)
        return float(total), gradient

    def _coord(self, x: Vector, i: int) -> float:
        return float(sum(w * t.coord(x, i) for w, t in self.parts))

    def _component(self, x: Vector, k: int) -> Vector:
        total: Vector = np.zeros(np.shape(x))
        for w, t in self.parts:
            total += w * np.asarray(t.component(x, k))
        return total

    def _prox(self, u: Vector, alpha: float) -> Vector:
        weight, term = self.parts[0]
        return term.prox(u, alpha / weight)

    def _hessian_product(self, v: Vector) -> Vector:
        total: Vector = np.zeros(np.shape(v))
        for w, t in self.parts:
            total += w * np.asarray(t.hessian_product(v))
        return total

    @cached_property
    def _curvature(self) -> tuple[float, float] | None:
        """Bounds of the Hessian's eigenvalues, or None where a part has no L."""
        if hasattr(self, "hessian_product") and self.n is not None and len(self.parts) > 1:
            return symmetric_spectrum(self.hessian_product, self.n)
        low = high = 0.0
        for w, t in self.parts:
            L = getattr(t, "L", None)
            if L is None:
                return None
            mu = getattr(t, "mu", 0.0) if getattr(t, "convex", True) else -L
            low += min(w * mu, w * L)
            high += max(w * mu, w * L)
        return low, high

    @property
    def L(self) -> float | None:
        bounds = self._curvature
        return None if bounds is None else max(abs(bounds[0]), abs(bounds[1]))

    @property
    def mu(self) -> float:
        if all(w >= 0 and getattr(t, "convex", True) for w, t in self.parts):
            return float(sum(w * getattr(t, "mu", 0.0) for w, t in self.parts))
        bounds = self._curvature
        return 0.0 if bounds is None else max(bounds[0], 0.0)

    @property
    def convex(self) -> bool:
        if all(w >= 0 and getattr(t, "convex", True) for w, t in self.parts):
            return True
        bounds = self._curvature
        return bounds is not None and bounds[0] >= 0.0

    @property
    def L_coord(self) -> Vector | None:
        return self._summed("L_coord")

    @property
    def L_components(self) -> Vector | None:
        return self._summed("L_components") if self.n_components is not None else None

    def _summed(self, name: str) -> Vector | None:
        weighted = []
        for w, t in self.parts:
            own = getattr(t, name, None)
            if own is None:
                return None
            weighted.append(abs(w) * own)
        return np.sum(weighted, axis=0)

    def __repr__(self) -> str:
        body = " + ".join(f"{t!r}" if w == 1 else f"{w:g}*{t!r}" for w, t in self.parts)
        body = body.replace("+ -1*", "- ").replace("+ -", "- ")
        return body if self.convex else f"{body} (may be non-convex)"
