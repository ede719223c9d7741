"""The ledger: how often, and for how long, each oracle was asked.

Methods never see a term itself, they see an `Oracle` around it. Every answer passes through
it and is counted, timed and checked there, so no method counts by hand; whoever monitors a
run holds the bare term and stays out of the counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from geartrain.oracles.differences import central_gradient, difference_steps
from geartrain.oracles.protocols import QUESTIONS, MissingOracle, Vector, answers

_FLOAT64 = np.dtype(np.float64)
# NumPy's codes of real numbers: floats, integers, booleans.
_REAL = "fiub"

KINDS = ("grad", "value", "component", "coord", "prox", "product")


def _blas_dot() -> Callable[[Vector, Vector], float]:
    """BLAS without NumPy around it: a third of the time for short vectors."""
    from scipy.linalg.blas import ddot  # here, because importing it takes a while

    return ddot


def in_gradients(calls: Any, name: str, n: int, m: int = 1) -> Any:
    """What the calls of the term `name` are worth in gradients of it.

    n partial derivatives are one gradient, m summands are, and so is a product with the Hessian.
    `calls` is by key such as ``"h.grad"``: a dict, or a table with such columns. Values and
    proximal steps have no such worth and are not included.
    """
    whole = calls[f"{name}.grad"] + calls[f"{name}.product"]
    return whole + calls[f"{name}.coord"] / n + calls[f"{name}.component"] / m


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


# Paper: Assumption 2
class Oracle:
    """A term as the methods see it: counted, timed, checked.

    The attributes `value`, `grad`, `value_and_grad`, `component`, `coord`, `prox`, `products` and
    `second_order` are callables. A question that the term does not answer itself is put
    together from those it does (see `geartrain.oracles.protocols.can`) and counted as what was
    really asked.
    """

    value: Callable[[Vector], float]
    grad: Callable[[Vector], Vector]
    value_and_grad: Callable[[Vector], tuple[float, Vector]]
    component: Callable[[Vector, int], Vector]
    coord: Callable[[Vector, int], float]
    prox: Callable[[Vector, float], Vector]
    products: Callable[[Vector, Vector], Vector]
    second_order: Callable[[Vector, Vector], tuple[float, Vector, Vector]]

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
        if "products" in known:
            self.products = partial(self._columns, term.products)
        if "second_order" in known:
            self.second_order = self._fused_columns
        self._fill_gaps(known)

    def bulk(self, kind: str, kernel: Callable[..., Any], *args: Any) -> Any:
        """Run a compiled `kernel` that asks this term many times.

        The kernel gets an int64 array of length one as its first argument and increments it
        at the line where it evaluates the oracle.
        """
        tally = np.zeros(1, dtype=np.int64)
        start = perf_counter()
        try:
            return kernel(tally, *args)
        finally:  # what was asked before an error was asked
            self.ledger.add(f"{self.name}.{kind}", int(tally[0]), perf_counter() - start)

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
            elif "value" in known:
                self.grad = self._by_differences
        if "value_and_grad" not in known and {"value", "grad"} <= vars(self).keys():
            self.value_and_grad = lambda x: (self.value(x), self.grad(x))
        if "second_order" not in known and {"value_and_grad", "products"} <= vars(self).keys():
            self.second_order = lambda x, D: (*self.value_and_grad(x), self.products(x, D))

    def _mean_of_components(self, x: Vector) -> Vector:
        m = int(self.term.n_components)
        total = np.zeros(self.n)
        for k in range(m):
            total += self.component(x, k)
        return total / m

    def _all_partials(self, x: Vector) -> Vector:
        return np.array([self.coord(x, i) for i in range(self.n)])

    def _by_differences(self, x: Vector) -> Vector:
        """An estimate: this term gives values only."""
        L = getattr(self.term, "L_coord", None)
        L = getattr(self.term, "L", None) if L is None else L
        steps = difference_steps(self.term, self.value, x, 1.0 if L is None else L)
        return central_gradient(self.value, x, steps)

    # The three wrappers below are on the way of every call: names are local, and the check of an
    # answer is one dot product, which NaN and infinity survive.
    def _vector(self, kind: str, fn: Callable[..., Any]) -> Callable[..., Vector]:
        calls, seconds = self.ledger.calls, self.ledger.seconds
        key, shape = f"{self.name}.{kind}", (self.n,)
        clock, isfinite, ndarray, float64 = perf_counter, math.isfinite, np.ndarray, _FLOAT64
        dot = _blas_dot()

        def ask(*args: Any) -> Vector:
            start = clock()
            out = fn(*args)
            seconds[key] += clock() - start
            calls[key] += 1
            if type(out) is not ndarray or out.dtype is not float64 or out.shape != shape:
                out = self._as_vector(kind, out)
            if not isfinite(dot(out, out)):
                self._refuse(key, out)
            return out

        return ask

    def _scalar(self, kind: str, fn: Callable[..., Any]) -> Callable[..., float]:
        calls, seconds = self.ledger.calls, self.ledger.seconds
        key, clock, isfinite = f"{self.name}.{kind}", perf_counter, math.isfinite

        def ask(*args: Any) -> float:
            start = clock()
            out = fn(*args)
            seconds[key] += clock() - start
            calls[key] += 1
            if type(out) is not float:
                out = self._as_number(kind, out)
            if not isfinite(out):
                raise NonFiniteAnswer(f"{key} answered with {out}")
            return out

        return ask

    def _fused(self, fn: Callable[[Vector], Any]) -> Callable[[Vector], tuple[float, Vector]]:
        calls, seconds = self.ledger.calls, self.ledger.seconds
        key, shape = f"{self.name}.grad", (self.n,)
        clock, isfinite, ndarray, float64 = perf_counter, math.isfinite, np.ndarray, _FLOAT64
        dot = _blas_dot()

        def ask(x: Vector) -> tuple[float, Vector]:
            start = clock()
            both = fn(x)
            seconds[key] += clock() - start
            calls[key] += 1
            value, out = both if type(both) is tuple and len(both) == 2 else self._as_pair(both)
            if type(value) is not float:
                value = self._as_number("value_and_grad", value)
            if type(out) is not ndarray or out.dtype is not float64 or out.shape != shape:
                out = self._as_vector("grad", out)
            if not isfinite(value):
                raise NonFiniteAnswer(f"{key} answered with the value {value}")
            if not isfinite(dot(out, out)):
                self._refuse(key, out)
            return value, out

        return ask

    def _columns(self, fn: Callable[[Vector, Vector], Any], x: Vector, D: Vector) -> Vector:
        """The Hessian times D: every column is counted."""
        start = perf_counter()
        out = np.asarray(fn(x, D), dtype=np.float64)
        self.ledger.add(f"{self.name}.product", D.shape[1], perf_counter() - start)
        if out.shape != D.shape:
            raise ValueError(
                f"{self.name}.products answered with shape {out.shape}, expected {D.shape}"
            )
        self._refuse(f"{self.name}.product", out)
        return out

    def _fused_columns(self, x: Vector, D: Vector) -> tuple[float, Vector, Vector]:
        """One gradient and the columns; the time is the gradient's."""
        columns: Any = None

        def ask(x: Vector) -> Any:
            nonlocal columns
            value, gradient, columns = self.term.second_order(x, D)
            return value, gradient

        value, gradient = self._fused(ask)(x)
        return value, gradient, self._columns(lambda x, D: columns, x, D)

    @staticmethod
    def _refuse(key: str, out: Vector) -> None:
        """Raise, unless only the square of a large number overflowed."""
        if not np.isfinite(out).all():
            raise NonFiniteAnswer(f"{key} answered with NaN or infinity")

    def _as_pair(self, out: Any) -> tuple[Any, Any]:
        if not isinstance(out, (tuple, list)) or len(out) != 2:
            raise TypeError(
                f"{self.name}.value_and_grad must answer with a pair (value, gradient), got "
                f"{type(out).__name__}"
            )
        return out[0], out[1]

    def _as_number(self, kind: str, out: Any) -> float:
        array = np.asarray(out)
        if array.ndim or array.dtype.kind not in _REAL:
            what = f"shape {array.shape}" if array.ndim else type(out).__name__
            raise TypeError(f"{self.name}.{kind} must answer with one real number, got {what}")
        return float(array)

    def _as_vector(self, kind: str, out: Any) -> Vector:
        try:
            array = np.asarray(out)
        except ValueError:  # lists of different lengths
            array = np.asarray(None)
        if array.dtype.kind not in _REAL:
            raise TypeError(
                f"{self.name}.{kind} must answer with an array of {self.n} real numbers, "
                f"got {type(out).__name__} of {array.dtype}"
            )
        vector = array.astype(np.float64)
        if vector.shape != (self.n,):
            raise ValueError(
                f"{self.name}.{kind} answered with shape {vector.shape}, expected ({self.n},)"
            )
        return vector

    def __getattr__(self, question: str) -> Any:
        if question in QUESTIONS:
            given = ", ".join(sorted(answers(self.__dict__.get("term")))) or "nothing"
            raise MissingOracle(f"{self.name} has no {question!r}; it answers only: {given}")
        raise AttributeError(question)

    def __repr__(self) -> str:
        return f"Oracle({self.name}: {self.term!r})"
