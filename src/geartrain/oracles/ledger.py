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
        # Every call passes through here, so the names are local.
        ledger, foreign, observers = self.ledger, self._foreign, self._observers[question.name]
        calls, seconds, clock, remember = ledger.calls, ledger.seconds, perf_counter, None
        keys = tuple(f"{self.name}.{key}" for key in question.keys)
        first, once, by_column = keys[0], bool(question.key), bool(question.column_key)
        check = self._checking(question)
        if len(question.answer) > 1 and question.tells[0] == "value":
            remember = self.recent.append

        def ask(x: Vector, more: Any = _NOTHING) -> Any:
            if (guard := ledger.guard) is not None:
                for key in keys:
                    guard(key)
            if foreign:
                x = x.view()
                x.setflags(False)  # type: ignore[call-arg]  # half the time of write=False
                more = read_only(more) if by_column else more
            start = clock()
            try:
                out = fn(x) if more is _NOTHING else fn(x, more)
            except ValueError as error:
                explain(error, first)
            seconds[first] += clock() - start
            if once:
                calls[first] += 1
            if by_column:
                calls[keys[-1]] += more.shape[1]
            out = check(out, more)
            if remember is not None:
                remember((x.copy(), out[0]))
            if observers:
                _tell(observers, question, (x,) if more is _NOTHING else (x, more), out)
            return out

        return ask

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

    def _checking(self, question: Question) -> Callable[[Any, Any], Any]:
        """``check(answer, more)``: the answer to ``(x, more)`` converted, or an error."""
        of_kind = {NUMBER: self._number, VECTOR: self._vector, COLUMNS: self._columns}
        checks = [of_kind[kind](question) for kind in question.answer]
        count = len(checks)
        if count == 1:
            return checks[0]

        def check(answer: Any, more: Any) -> tuple[Any, ...]:
            if not isinstance(answer, (tuple, list)) or len(answer) != count:
                what = ", ".join(_ENTRIES[kind] for kind in question.answer)
                raise TypeError(
                    f"{self.name}.{question.name} must answer with a {_TUPLES[count]} ({what}), "
                    f"got {type(answer).__name__}"
                )
            if count == 2:  # half the time
                return checks[0](answer[0], more), checks[1](answer[1], more)
            return tuple(one(part, more) for one, part in zip(checks, answer, strict=True))

        return check

    def _number(self, question: Question) -> Callable[[Any, Any], float]:
        alone, isfinite, highest = len(question.answer) == 1, math.isfinite, math.nan
        key, what = f"{self.name}.{question.key}", "" if alone else "the value "
        if alone and question.key == "value" and extended_valued(self.term):
            highest = math.inf

        def check(out: Any, more: Any) -> float:
            if type(out) is not float:
                out = self._as_number(question.name, out)
            if not isfinite(out) and out != highest:
                raise NonFiniteAnswer(f"{key} answered with {what}{out}")
            return out

        return check

    def _vector(self, question: Question) -> Callable[[Any, Any], Vector]:
        kind, foreign, shape = question.key, self._foreign, (self.n,)
        key, infinity, ndarray, float64 = f"{self.name}.{kind}", math.inf, np.ndarray, _FLOAT64
        dot = blas_dot(self.n)

        def check(out: Any, more: Any) -> Vector:
            if type(out) is not ndarray or out.dtype is not float64 or out.shape != shape:
                out = self._as_vector(kind, out)
            elif foreign:
                out = out.copy()
            # One product, which is not finite if an entry is NaN or infinite.
            if not dot(out, out) < infinity:
                self._refuse(key, out)
            return out

        return check

    def _columns(self, question: Question) -> Callable[[Any, Any], Vector]:
        def check(out: Any, more: Any) -> Vector:
            columns = np.array(out, dtype=np.float64)
            if columns.shape != more.shape:
                raise ValueError(
                    f"{self.name}.{question.name} answered with shape {columns.shape}, expected "
                    f"{more.shape}"
                )
            self._refuse(f"{self.name}.{question.column_key}", columns)
            return columns

        return check

    @staticmethod
    def _refuse(key: str, out: Vector) -> None:
        """Raise an error, unless only the square of a large entry has overflowed."""
        if not np.isfinite(out).all():
            raise NonFiniteAnswer(f"{key} answered with NaN or infinity")

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
