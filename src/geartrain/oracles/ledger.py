"""The ledger: how often, and for how long, each oracle was asked.

Methods never see a term itself; they see an `Oracle` around it. Every answer passes through the
oracle, which counts, times and checks it, so that no method counts by hand. Monitoring uses the
term itself and is not counted.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from geartrain.oracles.protocols import (
    AnyTerm,
    Asked,
    Vector,
    calls_user_code,
    explain,
    extended_valued,
    read_only,
)
from geartrain.oracles.questions import COLUMNS, NUMBER, QUESTIONS, VECTOR, Question, Way, kinds
from geartrain.oracles.vectors import blas_dot
from geartrain.oracles.work_clock import perf_counter

_FLOAT64 = np.dtype(np.float64)
_SHORT = (np.dtype(np.float32), np.dtype(np.float16))
# NumPy's codes of real numbers: floats, integers, booleans.
_REAL = "fiub"
# Stands for a second argument that is not there: packing and unpacking *args takes longer.
_NOTHING: Any = object()
# Parts of an answer as an error names them.
_ENTRIES = {NUMBER: "value", VECTOR: "gradient", COLUMNS: "columns"}
_TUPLES = {2: "pair", 3: "triple"}
# A result is one of the last points that were asked for, or its value is asked for again.
_RECENT = 4

# ``observer(question, args, answer)`` is called after every answer.
Observer = Callable[[Question, tuple[Any, ...], Any], None]


def given_price(key: str, prices: Mapping[str, float]) -> float:
    """The price of one call by its key, where prices are given; nan for a call without one.

    A gradient whose price is not given costs 1, and a proximal step or a linear minimisation as
    much as a gradient of its term.
    """
    name, kind = key.rsplit(".", 1)
    of_psi = any(kind in question.keys for question in QUESTIONS.values() if question.nonsmooth)
    if of_psi and key not in prices:
        key = f"{name}.grad"
    return prices.get(key, 1.0 if key.endswith(".grad") else math.nan)


def in_gradients(calls: Any, name: str, n: int, m: int = 1) -> Any:
    """The number of gradients of the term `name` to which its calls are equivalent.

    A gradient is equivalent to n partial derivatives, to the gradients of m summands and to one
    product with the Hessian. `calls` is a dict with keys such as ``"h.grad"``, or a table with such
    columns. Values and proximal steps have no equivalent and are not included.
    """
    total: Any = 0.0
    for key, question in {k: q for q in QUESTIONS.values() for k in q.keys}.items():
        if question.per_gradient is not None:
            total = total + calls[f"{name}.{key}"] / question.per_gradient(n, m)
    return total


def _tell(observers: list[Observer], question: Question, args: Any, answer: Any) -> None:
    for observer in observers:
        observer(question, args, answer)


class NonFiniteAnswer(ArithmeticError):
    """An oracle answered with NaN or infinity."""


class Ledger:
    """Numbers of calls and seconds by key, such as ``"h.grad"``.

    Attributes
    ----------
    calls, seconds : dict
        How often each oracle was asked, and how long its answers took.
    guard : callable, optional
        ``guard(key)`` is called before every counted question; an exception that it raises ends
        the run.
    """

    def __init__(self, names: tuple[str, ...] = ("h", "g"), more: tuple[str, ...] = ()) -> None:
        keys = [*(f"{name}.{kind}" for name in names for kind in kinds()), *more]
        self.calls: dict[str, int] = dict.fromkeys(keys, 0)
        self.seconds: dict[str, float] = dict.fromkeys(keys, 0.0)
        self.guard: Callable[[str], None] | None = None
        self.room: Callable[[str], float] | None = None  # calls that may still be made, by key

    def add(self, key: str, calls: int, seconds: float) -> None:
        """Enter `calls` answers that took `seconds` together."""
        self.calls[key] += calls
        self.seconds[key] += seconds


# Paper: Assumption 2
class Oracle(Asked):
    """A term as the methods see it: guarded, counted, timed and checked.

    Its methods are the questions of `geartrain.oracles.questions.QUESTIONS`. A question that the
    term does not answer itself is derived from its other answers, and these are counted. The
    gradient of a term with values only is estimated by differences.

    Functions of the user get their arguments read-only, and the arrays that they return are copied,
    because they may be buffers that are used again.

    Attributes
    ----------
    kept : dict
        Data that methods compute once for this oracle, by name.
    recent : deque
        The last points at which the term gave its value together with a gradient, and the values.
    is_single : bool
        Whether a gradient came in single precision.
    """

    estimates = True

    def __init__(self, term: AnyTerm, name: str, ledger: Ledger, n: int) -> None:
        if n < 1:
            raise ValueError(f"{name} has dimension {n}: there is nothing to minimise")
        self.name = name
        self.n = n
        self.ledger = ledger
        self.kept: dict[str, Any] = {}
        self.recent: deque[tuple[Vector, float]] = deque(maxlen=_RECENT)
        self.is_single = False
        self._observers: dict[str, list[Observer]] = {name: [] for name in QUESTIONS}
        self._foreign = calls_user_code(term)
        super().__init__(term)

    def observe(self, questions: Iterable[str], observer: Observer) -> Callable[[], None]:
        """Call `observer` after every answer to one of `questions`, given or derived.

        The function that is returned ends this.
        """
        joined = [self._observers[name] for name in questions]
        for observers in joined:
            observers.append(observer)

        def leave() -> None:
            for observers in joined:
                observers.remove(observer)

        return leave

    def _own(self, question: Question, fn: Callable[..., Any]) -> Callable[..., Any]:
        """The counted form of an answer of the term."""
        if question.answer == (NUMBER,):
            return self._scalar(question, fn)
        if question.answer == (VECTOR,):
            return self._vector(question, fn)
        if question.answer == (NUMBER, VECTOR):
            return self._fused(question, fn)
        return self._with_more(question, fn)

    def _derived(self, question: Question, way: Way) -> Callable[..., Any]:
        answer, observers = super()._derived(question, way), self._observers[question.name]

        def ask(*args: Any) -> Any:
            out = answer(*args)
            _tell(observers, question, args, out)
            return out

        return ask

    def bulk(self, kind: str, kernel: Callable[..., Any], *args: Any) -> Any:
        """Run a compiled `kernel` that evaluates this term many times.

        The kernel gets an int64 array of length one as its first argument and increments it
        whenever it evaluates the term.
        """
        key = f"{self.name}.{kind}"
        if self.ledger.guard is not None:
            self.ledger.guard(key)
        tally = np.zeros(1, dtype=np.int64)
        start = perf_counter()
        try:
            return kernel(tally, *args)
        finally:  # calls before an error count, too
            self.ledger.add(key, int(tally[0]), perf_counter() - start)

    # Most calls pass through one of the three wrappers below, so their names are local. An answer
    # is checked by one dot product, which is not finite if an entry is NaN or infinite.
    def _vector(self, question: Question, fn: Callable[..., Any]) -> Callable[..., Vector]:
        ledger, foreign, kind = self.ledger, self._foreign, question.key
        calls, seconds, observers = ledger.calls, ledger.seconds, self._observers[question.name]
        key, shape = f"{self.name}.{kind}", (self.n,)
        clock, infinity, ndarray, float64 = perf_counter, math.inf, np.ndarray, _FLOAT64
        dot = blas_dot(self.n)

        def ask(x: Vector, more: Any = _NOTHING) -> Vector:
            if (guard := ledger.guard) is not None:
                guard(key)
            if foreign:
                x = x.view()
                x.setflags(False)  # type: ignore[call-arg]  # half the time of write=False
            start = clock()
            try:
                out = fn(x) if more is _NOTHING else fn(x, more)
            except ValueError as error:
                explain(error, key)
            seconds[key] += clock() - start
            calls[key] += 1
            if type(out) is not ndarray or out.dtype is not float64 or out.shape != shape:
                out = self._as_vector(kind, out)
            elif foreign:
                out = out.copy()
            if not dot(out, out) < infinity:
                self._refuse(key, out)
            if observers:
                args = (x,) if more is _NOTHING else (x, more)
                _tell(observers, question, args, out)
            return out

        return ask

    def _scalar(self, question: Question, fn: Callable[..., Any]) -> Callable[..., float]:
        ledger, foreign, kind = self.ledger, self._foreign, question.key
        calls, seconds, observers = ledger.calls, ledger.seconds, self._observers[question.name]
        key, clock, isfinite = f"{self.name}.{kind}", perf_counter, math.isfinite
        highest = math.inf if kind == "value" and extended_valued(self.term) else math.nan

        def ask(x: Vector, more: Any = _NOTHING) -> float:
            if (guard := ledger.guard) is not None:
                guard(key)
            if foreign:
                x = x.view()
                x.setflags(False)  # type: ignore[call-arg]  # half the time of write=False
            start = clock()
            try:
                out = fn(x) if more is _NOTHING else fn(x, more)
            except ValueError as error:
                explain(error, key)
            seconds[key] += clock() - start
            calls[key] += 1
            if type(out) is not float:
                out = self._as_number(kind, out)
            if not isfinite(out) and out != highest:
                raise NonFiniteAnswer(f"{key} answered with {out}")
            if observers:
                args = (x,) if more is _NOTHING else (x, more)
                _tell(observers, question, args, out)
            return out

        return ask

    def _fused(
        self, question: Question, fn: Callable[..., Any]
    ) -> Callable[..., tuple[float, Vector]]:
        ledger, foreign = self.ledger, self._foreign
        calls, seconds, observers = ledger.calls, ledger.seconds, self._observers[question.name]
        key, shape, remember = f"{self.name}.{question.key}", (self.n,), self.recent.append
        clock, isfinite, ndarray, float64 = perf_counter, math.isfinite, np.ndarray, _FLOAT64
        dot, infinity = blas_dot(self.n), math.inf

        def ask(x: Vector, more: Any = _NOTHING) -> tuple[float, Vector]:
            if (guard := ledger.guard) is not None:
                guard(key)
            if foreign:
                x = x.view()
                x.setflags(False)  # type: ignore[call-arg]  # half the time of write=False
            start = clock()
            try:
                both = fn(x) if more is _NOTHING else fn(x, more)
            except ValueError as error:
                explain(error, key)
            seconds[key] += clock() - start
            calls[key] += 1
            if type(both) is not tuple or len(both) != 2:
                both = self._as_entries(question, both)
            value, out = both
            if type(value) is not float:
                value = self._as_number(question.name, value)
            if type(out) is not ndarray or out.dtype is not float64 or out.shape != shape:
                out = self._as_vector(question.key, out)
            elif foreign:
                out = out.copy()
            if not isfinite(value):
                raise NonFiniteAnswer(f"{key} answered with the value {value}")
            if not dot(out, out) < infinity:
                self._refuse(key, out)
            remember((x.copy(), value))
            if observers:
                args = (x,) if more is _NOTHING else (x, more)
                _tell(observers, question, args, (value, out))
            return value, out

        return ask

    def _with_more(self, question: Question, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Any other answer; every column is counted, and the time is that of the first key."""
        keys = [f"{self.name}.{key}" for key in question.keys]
        observers = self._observers[question.name]

        def ask(x: Vector, *more: Any) -> Any:
            if self.ledger.guard is not None:
                for key in keys:
                    self.ledger.guard(key)
            start = perf_counter()
            try:
                answer = fn(*map(read_only, (x, *more)))
            except ValueError as error:
                explain(error, keys[0])
            self.ledger.seconds[keys[0]] += perf_counter() - start
            if question.key:
                self.ledger.calls[keys[0]] += 1
            if question.column_key:
                self.ledger.calls[keys[-1]] += more[0].shape[1]
            entries = self._as_entries(question, answer)
            checked = [
                self._checked(question, kind, entry, np.shape(more[0]) if more else ())
                for kind, entry in zip(question.answer, entries, strict=True)
            ]
            if "value" in question.tells:
                self.recent.append((x.copy(), question.part(checked, "value")))
            out = tuple(checked) if len(checked) > 1 else checked[0]
            _tell(observers, question, (x, *more), out)
            return out

        return ask

    def _checked(self, question: Question, kind: str, entry: Any, shape: tuple[int, ...]) -> Any:
        """One part of an answer, converted and checked; columns have the given shape."""
        if kind == NUMBER:
            number = self._as_number(question.name, entry)
            if not math.isfinite(number):
                raise NonFiniteAnswer(f"{self.name}.{question.key} answered with {number}")
            return number
        if kind == VECTOR:
            vector = self._as_vector(question.key, entry)
            self._refuse(f"{self.name}.{question.key}", vector)
            return vector
        columns = np.array(entry, dtype=np.float64)
        if columns.shape != shape:
            raise ValueError(
                f"{self.name}.{question.name} answered with shape {columns.shape}, expected {shape}"
            )
        self._refuse(f"{self.name}.{question.column_key}", columns)
        return columns

    @staticmethod
    def _refuse(key: str, out: Vector) -> None:
        """Raise an error, unless only the square of a large entry has overflowed."""
        if not np.isfinite(out).all():
            raise NonFiniteAnswer(f"{key} answered with NaN or infinity")

    def _as_entries(self, question: Question, out: Any) -> tuple[Any, ...]:
        count = len(question.answer)
        if count == 1:
            return (out,)
        if not isinstance(out, (tuple, list)) or len(out) != count:
            what = ", ".join(_ENTRIES[kind] for kind in question.answer)
            raise TypeError(
                f"{self.name}.{question.name} must answer with a {_TUPLES[count]} ({what}), got "
                f"{type(out).__name__}"
            )
        return tuple(out)

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
        self.is_single = self.is_single or array.dtype in _SHORT
        vector = array.astype(np.float64)
        if vector.shape != (self.n,):
            raise ValueError(
                f"{self.name}.{kind} answered with shape {vector.shape}, expected ({self.n},)"
            )
        return vector

    def _named(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Oracle({self.name}: {self.term!r})"
