"""The terms of a call of ``minimize``: one h, or a list or a dict of them, and g.

A list names its terms h1, h2, ...; a dict has names of its own. They appear in the calls, the
history, the prices, the constants and the plan. The operators of ``equilibrium`` are P and Q.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np

from geartrain.geometry import EUCLIDEAN, Geometry
from geartrain.oracles.algebra import Combination
from geartrain.oracles.ledger import Ledger, Oracle
from geartrain.oracles.protocols import MissingOracle, answers, as_term, can
from geartrain.oracles.splitting import Psi, Zero, split
from geartrain.oracles.validation import are_bounds, as_nonnegative, as_positive
from geartrain.problem import Constant, Inclusion, Sum, Summand

# One smoothness constant, or one per term as a list or by name.
Smoothness: TypeAlias = Any

# Names with a meaning of their own: the last term and the sum.
_RESERVED = ("g", "f")
# They separate names from each other in keys and plans.
_SIGNS = set(".,+>")
# The smoothness constant in use for a linear term, over that of the other terms.
_LINEAR = 1e-3
_UNKNOWN = Constant(None, "unknown")


@dataclass(frozen=True)
class Terms:
    """The terms by name, in the order in which they were given; g is the last."""

    named: dict[str, Any]
    listed: bool = False  # h was given as a list or a dict

    of_problem: ClassVar[type[Sum]] = Sum
    advice: ClassVar[str] = "g, as in minimize(h, g + gt.L1(0.1))"

    @staticmethod
    def of(h: Any, g: Any) -> Terms:
        """The terms of ``minimize(h, g)``, if all of them answer something."""
        listed = isinstance(h, (list, tuple, Mapping)) and not answers(h)
        named = {**(_by_name(h) if listed else {"h": h}), "g": g}
        for name, term in named.items():
            if not answers(split(term)[0]):
                hint = " (wrap functions as gt.Term(value_and_grad=...))" if callable(term) else ""
                hint = " (write gt.Box(bounds))" if are_bounds(term) else hint
                raise TypeError(
                    f"{name} must be a term that answers value, grad, ...; got "
                    f"{type(term).__name__}{hint}"
                )
            if "operator" in answers(term) and not can(term, "grad"):
                raise MissingOracle(
                    f"{name} = {term!r} is an operator, not a function that can be minimised; "
                    "gt.equilibrium(P, Q) finds where P + Q is zero"
                )
        return Terms(named, listed)

    def smooth(self, name: str) -> Any:
        return split(self.named[name])[0]

    @property
    def expensive(self) -> tuple[str, ...]:
        return tuple(self.named)[:-1]

    @property
    def cheap(self) -> Any:
        return list(self.named.values())[-1]

    @property
    def n(self) -> int | None:
        """The dimension, if a term knows it."""
        sizes = {k: n for k, t in self.named.items() if (n := as_term(t).n) is not None}
        for (first, n), (other, m) in pairwise(sizes.items()):
            if n != m:
                raise ValueError(f"{first} has dimension {n} but {other} has {m}")
        return next(iter(sizes.values()), None)

    def problem(
        self, space: Geometry, n: int, L_h: Smoothness, L_g: float | None, mu: float | None
    ) -> Sum:
        """f in its geometry, with counted oracles and the constants that are known."""
        smooth, part = self._split(space)
        terms = {name: as_term(space.term(term, name)) for name, term in smooth.items()}
        ledger, cheap = Ledger(tuple(terms)), tuple(terms)[-1]
        given = {**self._given(L_h), cheap: L_g}
        known = [_constant(f"L_{name}", given[name], term) for name, term in terms.items()]
        summands = [
            Summand(Oracle(term, name, _booked(term, name, ledger), n), _positive(k, known))
            for k, (name, term) in enumerate(terms.items())
        ]
        *expensive, last = summands
        h = Summand.of(expensive)
        problem = self.of_problem(
            h.oracle,
            last.oracle,
            h.L,
            last.L,
            _strong_convexity(mu, terms.values()),
            geometry=space,
            expensive=tuple(expensive) if len(expensive) > 1 else (),
            psi=None if part is None else Psi(part[1], part[0], cheap, ledger, n),
        )
        _check_constants(problem)
        return problem

    def _split(self, space: Geometry) -> tuple[dict[str, Any], tuple[float, Any] | None]:
        """The smooth parts by name, and the non-smooth part of g with its factor."""
        for name in self.expensive:
            if (part := split(self.named[name])[1]) is not None:
                raise ValueError(
                    f"{name} has the non-smooth term {part[1]!r}, which has no gradient; add it to "
                    f"{self.advice}, which is the same sum"
                )
        part = split(self.cheap)[1]
        if part is not None and space is not EUCLIDEAN:
            raise ValueError(
                f"the proximal operator of {part[1]!r} is Euclidean, so it cannot be used in "
                f"{space!r}; leave out geometry="
            )
        return {name: self.smooth(name) for name in self.named}, part

    def _given(self, L_h: Smoothness) -> dict[str, float | None]:
        names = self.expensive
        if L_h is None:
            return dict.fromkeys(names)
        if isinstance(L_h, Mapping):
            for name in L_h:
                if name not in names:
                    raise ValueError(
                        f"L_h has the unknown key {name!r}; the terms are {', '.join(names)}"
                    )
            return {name: L_h.get(name) for name in names}
        if isinstance(L_h, (list, tuple, np.ndarray)) and np.ndim(L_h) > 0:
            if not self.listed:
                raise TypeError(f"L_h must be a number, because h is one term; got {L_h!r:.60}")
            if len(L_h) != len(names):
                raise ValueError(
                    f"L_h has {len(L_h)} entries, but there are {len(names)} terms "
                    f"({', '.join(names)}); give one number or None per term"
                )
            return dict(zip(names, L_h, strict=True))
        if len(names) > 1:
            raise TypeError(
                f"L_h must be a list of {len(names)} numbers, one per term ({', '.join(names)}), "
                f"or a dict by name; got {L_h!r:.60}"
            )
        return {names[0]: L_h}


class Operators(Terms):
    """The operators P and Q of ``equilibrium``; a set is a part of Q."""

    of_problem = Inclusion
    advice = "Q, as in equilibrium(P, Q + gt.Box(0, 1))"

    @staticmethod
    def of(P: Any, Q: Any) -> Operators:
        """The operators, if they are some; Q = None is 0."""
        named = {"P": P, "Q": Zero(as_term(P).n) if Q is None else Q}
        for name, given in named.items():
            smooth = split(given)[0]
            if not can(smooth, "operator"):
                what = (
                    f"answers only {known}" if (known := ", ".join(answers(smooth))) else "is none"
                )
                hint = "; wrap functions as gt.Operator(fn)" if callable(given) else ""
                hint = "; write gt.Box(bounds)" if are_bounds(given) else hint
                raise MissingOracle(
                    f"{name} must be an operator, a term with gradients, or a set in Q; "
                    f"{type(given).__name__} {what}{hint}"
                )
        return Operators(named)

    def smooth(self, name: str) -> Any:
        """An operator without the set; a gradient becomes one, so that it is counted as one."""
        part = super().smooth(name)
        own = "operator" in answers(part) or isinstance(part, Zero)
        return part if own else Combination([(1.0, part)])


AnyTerms = TypeVar("AnyTerms", bound=Terms)


def _by_name(h: Any) -> dict[str, Any]:
    """The terms of a list or a dict by name; one term of a list is called h."""
    if not h:
        raise ValueError("h is empty: give at least one term besides g")
    if not isinstance(h, Mapping):
        return {"h": h[0]} if len(h) == 1 else {f"h{i + 1}": term for i, term in enumerate(h)}
    named: dict[str, Any] = {}
    for name, term in h.items():
        _check_name(name, named)
        named[name] = term
    return named


def _check_name(name: Any, before: Mapping[str, Any]) -> None:
    if not isinstance(name, str):
        raise TypeError(f"the name of a term must be a string, got {name!r:.60}")
    if name in _RESERVED:
        raise ValueError(
            f"a term must not be called {name!r}: the last term is g, and f is the sum of all"
        )
    if name in before:
        raise ValueError(f"two terms are called {name!r}; every term needs a name of its own")
    if not name or name != name.strip() or _SIGNS & set(name):
        raise ValueError(
            f"the name of a term must be a word without the signs . , + and >, got {name!r:.60}"
        )


def _booked(term: Any, name: str, ledger: Ledger) -> Ledger:
    """Where the calls of `term` are counted; a term that is zero is not asked."""
    return Ledger((name,)) if isinstance(term, Zero) else ledger


def _constant(name: str, given: float | None, term: Any) -> Constant:
    if given is not None:
        return Constant(as_positive(given, name), "given")
    return _UNKNOWN if term.L is None else Constant(float(term.L), "term")


def _positive(k: int, known: list[Constant]) -> Constant:
    """For a linear term, whose L is 0, a number that the methods can divide by.

    Every positive number is a smoothness constant of it; one far below those of the other terms
    asks for few of its gradients.
    """
    if known[k].value != 0.0:
        return known[k]
    largest = max((L.value or 0.0 for j, L in enumerate(known) if j != k), default=0.0)
    return Constant(_LINEAR * (largest or 1.0 / _LINEAR), known[k].source)


def _strong_convexity(given: float | None, terms: Any) -> Constant:
    if given is not None:
        return Constant(as_nonnegative(given, "mu"), "given")
    if not all(t.convex for t in terms):
        return Constant(0.0, "unknown")
    mu = sum(float(t.mu) for t in terms)
    return Constant(mu, "term" if mu > 0.0 else "unknown")


def _check_constants(problem: Sum) -> None:
    values, mu = [s.L.value for s in problem.summands], problem.mu.value
    if not mu or any(value is None for value in values):
        return
    most = sum(value for value in values if value is not None)
    if mu > most * (1 + 1e-9):
        names = " + ".join(f"L_{s.oracle.name}" for s in problem.summands)
        raise ValueError(
            f"mu = {mu:g} exceeds {names} = {most:g}: no function has that; check the constants"
        )


def plain(value: Any) -> Any:
    """A constant that was given, as the numbers that a checkpoint can hold."""
    if isinstance(value, Mapping):
        return {name: plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)) and np.ndim(value) > 0:
        return [plain(entry) for entry in value]
    return None if value is None else float(value)


def check_same_terms(calls: Mapping[str, int], problem: Sum) -> None:
    """Raise unless the state of a run with these calls belongs to a problem with these terms."""
    then = dict.fromkeys(key.rpartition(".")[0] for key in calls)
    now = dict.fromkeys(oracle.name for oracle in problem.oracles)
    if then.keys() != now.keys():
        raise ValueError(
            f"state is that of a run on the terms {', '.join(then)}, but the terms are "
            f"{', '.join(now)}; give the same terms by the same names"
        )
