"""f = h + g + psi: a sum of terms is split into its smooth part and its non-smooth part psi.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
g          ``smooth``      what is left without psi; `Zero` where nothing is left
psi        ``psi``         the one part with a proximal operator and without a gradient; or a set
                           with linear minimisations alone
w          ``weight``      its factor: w psi has prox(u, alpha/w) and w residual(v, d/w)
=========  ==============  ==================================================================
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from geartrain.oracles.algebra import Algebra, Combination
from geartrain.oracles.ledger import Ledger, NonFiniteAnswer, Oracle
from geartrain.oracles.protocols import (
    AnyTerm,
    Asked,
    Vector,
    answers,
    as_term,
    extended_valued,
    is_nonsmooth,
    read_only,
)
from geartrain.oracles.validation import as_nonnegative
from geartrain.oracles.vectors import norm

# The first step of the proximal operator that stands for a residual, over the size of x; the factor
# of the next ones, and the last one; the relative change from which on they agree.
_SHORT, _SHORTER, _SHORTEST, _ALIKE = 1e-6, 1e-3, 1e-60, 1e-4
# Steps below this part of x are rounding errors; proximal steps are right to so many units of x in
# the last place.
_ROUNDED, _ULPS, _EPS = 1e-12, 8.0, float(np.finfo(float).eps)
# A proximal operator has this inverse length of a step where it should do nothing; a residual of
# which errors of it are this part tells nothing.
_NO_STEP, _NOISY = 1e100, 0.5


@dataclass(frozen=True)
class Zero(Algebra):
    """The term 0, the smooth part of a g that has none."""

    n: int | None = None

    L = 0.0
    mu = 0.0
    convex = True
    lower_bound = 0.0
    spherical = (0.0, 0.0)
    L_coord = 0.0

    def value(self, x: Vector) -> float:
        return 0.0

    def grad(self, x: Vector) -> Vector:
        return np.zeros(x.size)

    def value_and_grad(self, x: Vector) -> tuple[float, Vector]:
        return 0.0, np.zeros(x.size)

    def prox(self, u: Vector, alpha: float) -> Vector:
        return u.copy()


def split(term: AnyTerm) -> tuple[Any, tuple[float, Any] | None]:
    """The smooth part of `term`, and its non-smooth part with its factor, or None."""
    parts = term.parts if isinstance(term, Combination) else [(1.0, term)]
    smooth = [(w, t) for w, t in parts if not is_nonsmooth(t)]
    others = [(w, t) for w, t in parts if is_nonsmooth(t)]
    if not others:
        return term, None
    weight, psi = sum(w for w, _ in others), others[0][1]
    if weight < 0.0:
        raise ValueError(
            f"the non-smooth term {psi!r} has the factor {weight:g}: it is subtracted, so the sum "
            "is not convex and has no proximal operator; give it a positive factor"
        )
    n = getattr(term, "n", None)
    if not smooth:
        left: Any = Zero(n)
    elif len(smooth) == 1 and smooth[0][0] == 1.0:
        left = smooth[0][1]
    else:
        left = Combination(smooth)
    return left, None if weight == 0.0 else (weight, psi)


class Psi:
    """psi as the methods see it: what it is asked is counted, timed and checked.

    Values and residuals are arithmetic on a vector beside it, and are not counted. A set that has
    linear minimisations and no proximal operator is never left by the methods that take it: its
    value is 0 at their points.

    A term whose answers are cheaper after others has ``for_run``, which gives an object that
    answers in its place in one run, and keeps what it needs as ``memory``.
    """

    def __init__(self, term: AnyTerm, weight: float, name: str, ledger: Ledger, n: int) -> None:
        own = getattr(term, "n", None)
        if own is not None and own != n:
            raise ValueError(f"{term!r} has dimension {own}, but x has {n}")
        self.term: Any = term
        self.weight, self.name, self.n = weight, name, n
        # By its class: an object round a term, which counts or changes answers, is asked itself.
        for_run = getattr(type(term), "for_run", None)
        self._answering: Any = term if for_run is None else for_run(term)
        self._oracle = Oracle(self._answering, name, ledger, n)
        self._asked = Asked(term)
        self.has_prox = "prox" in answers(term)  # or linear minimisations alone

    def weighted(self, weight: float) -> Psi:
        other = copy.copy(self)
        other.weight = weight
        return other

    @property
    def memory(self) -> Any:
        """What the answers to come depend on besides their questions; None for most terms.

        A run that goes on from here has to be given it. Asking for it makes the term forget all
        else that it has kept.
        """
        return getattr(self._answering, "memory", None)

    @memory.setter
    def memory(self, kept: Any) -> None:
        if kept is not None:
            self._answering.memory = kept

    @property
    def has_value(self) -> bool:
        return not self.has_prox or "value" in answers(self.term)

    @property
    def has_residual(self) -> bool:
        """Whether the term gives least-norm subgradients."""
        return callable(getattr(self.term, "residual", None))

    @property
    def is_finite(self) -> bool:
        return not extended_valued(self.term)

    @property
    def has_derivative(self) -> bool:
        return callable(getattr(self.term, "derivative", None))

    @property
    def separable(self) -> bool:
        return bool(getattr(self.term, "separable", False))

    def prox(self, u: Vector, alpha: float | Vector) -> Vector:
        """The minimiser of psi(v) + alpha/2 |v - u|^2; one counted call.

        An l1 norm and a box take one alpha per coordinate, too. A step of infinite length, which
        alpha = 0 stands for, led a method too far.
        """
        scaled = alpha / self.weight
        if not (scaled > 0.0 if isinstance(scaled, float) else np.all(scaled > 0.0)):
            raise NonFiniteAnswer("a step of the method led too far for numbers")
        return self._oracle.prox(u, scaled)

    def lmo(self, d: Vector) -> Vector:
        """The minimiser of <d, v> over the set; one counted call."""
        return self._oracle.lmo(d)

    @property
    def diameter(self) -> float | None:
        """Of the set, where it is stated: no two points are further apart."""
        stated = as_term(self.term).diameter
        return None if stated is None else as_nonnegative(stated, f"the diameter of {self!r}")

    def holds(self, x: Vector) -> bool:
        """Whether the term says that its value at x is finite."""
        return "value" in answers(self.term) and float(self._asked.value(x)) < math.inf

    def derivative(self, u: Vector, alpha: float | Vector) -> Any:
        """Of the proximal step at u: a function of the columns of a matrix. It is not counted."""
        return self._answering.derivative(read_only(u), alpha / self.weight)

    def value(self, x: Vector) -> float:
        """psi(x), which may be infinite."""
        if not self.has_prox:
            return 0.0
        value = float(self._asked.value(x))
        if math.isnan(value) or value == -math.inf:
            raise NonFiniteAnswer(f"the value of {self.term!r} is {value}")
        return self.weight * value

    def residual(self, v: Vector, d: Vector, w: Vector | None = None) -> Vector:
        """The element of d + dpsi(v) of least norm, by the term; otherwise d + w with a known w.

        Where the term has no residual and no w in dpsi(v) is known, it is the limit of
        alpha (v - prox(v - d/alpha, alpha)) for large alpha, whose norm grows with alpha and is
        never too large. Steps that are long in the units of psi may agree with each other, too: so
        the answer is the first of the last ones that agree, before rounding is all that is left, or
        the error of a proximal operator that is an iteration.
        """
        if self.has_residual:
            least = self._answering.residual(read_only(v), read_only(d / self.weight))
            least = self.weight * np.asarray(least, dtype=np.float64)
            if least.shape != d.shape:
                raise ValueError(
                    f"residual of {self.term!r} answered with shape {least.shape}, expected "
                    f"{d.shape}"
                )
            return least
        if w is not None:
            return d + w
        slope, size = norm(d) or 1.0, norm(v)
        step, agreed, alike = _SHORT * max(size, 1.0), None, False
        before = self._along(v, d, slope / step)
        while (step := step * _SHORTER) > max(_ROUNDED * size, _SHORTEST):
            now, still = self._along(v, d, slope / step), alike
            rounding = _ALIKE * norm(now) + _ULPS * _EPS * (slope / step) * size
            if norm(now) < norm(before) - rounding:
                break
            alike = norm(now - before) <= rounding
            if not alike and self._error(v - step / slope * now) > _NOISY * step / slope * norm(
                now
            ):
                break
            if alike and not still:
                agreed = before
            before = now
        return before if agreed is None else agreed

    def _error(self, p: Vector) -> float:
        """Of the proximal operator: how far it moves p, one of its points, by no step at all."""
        return norm(p - self.prox(p, _NO_STEP))

    def _along(self, v: Vector, d: Vector, alpha: float) -> Vector:
        return alpha * (v - self.prox(v - d / alpha, alpha))

    def gap(self, v: Vector, u: Vector) -> float:
        """The largest <u, v - s> over all s with finite psi(s); infinite where it is not known."""
        gap = getattr(self.term, "gap", None)
        return math.inf if gap is None else float(gap(v, u))

    def multipliers(self, x: Vector, w: Vector) -> dict[str, Vector] | None:
        """Of the constraints, where the element w of dpsi(x) is made of them; else None."""
        multipliers = getattr(self._answering, "multipliers", None)
        return None if multipliers is None else multipliers(x, w)

    def violation(self, x: Vector) -> float | None:
        """How far a constraint is from being met, over its scale; None where none is told."""
        violation = getattr(self.term, "violation", None)
        return None if violation is None else float(violation(x))

    def polar(self, u: Vector) -> float:
        """The largest <u, s> over all s with psi(s) <= 1; infinite where it is not known."""
        polar = getattr(self.term, "polar", None)
        return math.inf if polar is None else float(polar(u)) / self.weight

    def __repr__(self) -> str:
        return repr(self.term) if self.weight == 1.0 else f"{self.weight:g}*{self.term!r}"
