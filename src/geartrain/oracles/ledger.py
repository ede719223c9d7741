"""The ledger: how often, and for how long, each oracle was asked.

Methods never see a term itself, they see an `Oracle` around it. Every answer passes through
it and is counted, timed and checked there, so no method counts by hand; whoever monitors a
run holds the bare term and stays out of the counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from geartrain.oracles.protocols import MissingOracle, Vector, answers

KINDS = ("grad", "value", "component", "coord", "prox")


class NonFiniteAnswer(ArithmeticError):
    """An oracle answered with NaN or infinity."""


class Ledger:
    """Calls and seconds by key such as ``"h.grad"``."""

    def __init__(self, names: tuple[str, ...] = ("h", "g")) -> None:
        keys = [f"{name}.{kind}" for name in names for kind in KINDS]
        self.calls: dict[str, int] = dict.fromkeys(keys, 0)
        self.seconds: dict[str, float] = dict.fromkeys(keys, 0.0)

    def add(self, key: str, calls: int, seconds: float) -> None:
        """Enter `calls` answers that took `seconds` together."""
        self.calls[key] += calls
        self.seconds[key] += seconds


class Oracle:
    """A term as the methods see it: counted, timed, checked.

    The attributes `value`, `grad`, `value_and_grad`, `component`, `coord` and `prox` are
    callables. A question that the term does not answer itself is put together from those it
    does (see `geartrain.oracles.protocols.can`) and counted as what was really asked.
    """

    value: Callable[[Vector], float]
    grad: Callable[[Vector], Vector]
    value_and_grad: Callable[[Vector], tuple[float, Vector]]
    component: Callable[[Vector, int], Vector]
    coord: Callable[[Vector, int], float]
    prox: Callable[[Vector, float], Vector]

    def __init__(self, term: Any, name: str, ledger: Ledger, n: int) -> None:
        self.term = term
        self.name = name
        self.n = n
        self.ledger = ledger
        known = answers(term)
        if "value" in known:
            self.value = self._scalar("value", term.value)
        if "grad" in known:
            self.grad = self._vector("grad", term.grad)
        if "value_and_grad" in known:
            self.value_and_grad = self._fused(term.value_and_grad)
        if "component" in known:
            self.component = self._vector("component", term.component)
        if "coord" in known:
            self.coord = self._scalar("coord", term.coord)
        if "prox" in known:
            self.prox = self._vector("prox", term.prox)
        self._fill_gaps(known)

    def bulk(self, kind: str, kernel: Callable[..., Any], *args: Any) -> Any:
        """Run a compiled `kernel` that asks this term many times.

        The kernel gets an int64 array of length one as its first argument and increments it
        at the line where it evaluates the oracle.
        """
        tally = np.zeros(1, dtype=np.int64)
        start = perf_counter()
        out = kernel(tally, *args)
        self.ledger.add(f"{self.name}.{kind}", int(tally[0]), perf_counter() - start)
        return out

    def _fill_gaps(self, known: frozenset[str]) -> None:
        if "value" not in known and "value_and_grad" in known:
            self.value = lambda x: self.value_and_grad(x)[0]
        if "grad" not in known:
            if "value_and_grad" in known:
                self.grad = lambda x: self.value_and_grad(x)[1]
            elif "component" in known:
                self.grad = self._mean_of_components
            elif "coord" in known:
                self.grad = self._all_partials
        if "value_and_grad" not in known and {"value", "grad"} <= vars(self).keys():
            self.value_and_grad = lambda x: (self.value(x), self.grad(x))

    def _mean_of_components(self, x: Vector) -> Vector:
        m = int(self.term.n_components)
        total = np.zeros(self.n)
        for k in range(m):
            total += self.component(x, k)
        return total / m

    def _all_partials(self, x: Vector) -> Vector:
        return np.array([self.coord(x, i) for i in range(self.n)])

    def _vector(self, kind: str, fn: Callable[..., Any]) -> Callable[..., Vector]:
        calls, seconds = self.ledger.calls, self.ledger.seconds
        key, shape, ndarray = f"{self.name}.{kind}", (self.n,), np.ndarray

        def ask(*args: Any) -> Vector:
            start = perf_counter()
            out = fn(*args)
            seconds[key] += perf_counter() - start
            calls[key] += 1
            if type(out) is not ndarray or out.shape != shape or out.dtype != np.float64:
                out = self._as_vector(kind, out)
            # One BLAS dot product: NaN and infinity survive it.
            if not math.isfinite(out.dot(out)) and not np.isfinite(out).all():
                raise NonFiniteAnswer(f"{key} answered with NaN or infinity")
            return out

        return ask

    def _scalar(self, kind: str, fn: Callable[..., Any]) -> Callable[..., float]:
        calls, seconds = self.ledger.calls, self.ledger.seconds
        key = f"{self.name}.{kind}"

        def ask(*args: Any) -> float:
            start = perf_counter()
            out = float(fn(*args))
            seconds[key] += perf_counter() - start
            calls[key] += 1
            if not math.isfinite(out):
                raise NonFiniteAnswer(f"{key} answered with {out}")
            return out

        return ask

    def _fused(self, fn: Callable[[Vector], Any]) -> Callable[[Vector], tuple[float, Vector]]:
        values: list[float] = []

        def gradient(x: Vector) -> Vector:
            value, grad = fn(x)
            values.append(float(value))
            return grad

        ask = self._vector("grad", gradient)

        def ask_both(x: Vector) -> tuple[float, Vector]:
            values.clear()
            grad = ask(x)
            if not math.isfinite(values[0]):
                raise NonFiniteAnswer(f"{self.name}.grad answered with the value {values[0]}")
            return values[0], grad

        return ask_both

    def _as_vector(self, kind: str, out: Any) -> Vector:
        try:
            vector = np.asarray(out, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"{self.name}.{kind} must answer with an array of {self.n} real numbers, "
                f"got {type(out).__name__}"
            ) from error
        if vector.shape != (self.n,):
            raise ValueError(
                f"{self.name}.{kind} answered with shape {vector.shape}, expected ({self.n},)"
            )
        return vector

    def __getattr__(self, question: str) -> Any:
        if question in ("value", "grad", "value_and_grad", "component", "coord", "prox"):
            given = ", ".join(sorted(answers(self.__dict__.get("term")))) or "nothing"
            raise MissingOracle(f"{self.name} has no {question!r}; it answers only: {given}")
        raise AttributeError(question)

    def __repr__(self) -> str:
        return f"Oracle({self.name}: {self.term!r})"
