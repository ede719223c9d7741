"""Small hostile problems, each with its reference; the same number gives the same problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

import geartrain as gt
from hostile import planted
from hostile import reference as ref
from hostile.planted import Piece
from hostile.reference import LD, ld, size

QUESTIONS = {
    "value": "value",
    "grad": "grad",
    "value_and_grad": "grad",
    "component": "component",
    "coord": "coord",
    "prox": "prox",
    "products": "product",
}
CONSTANTS = ("n", "L", "mu", "convex", "L_coord", "L_components", "n_components", "noise")


class RanAway(BaseException):
    """A run asked so often that it would never have ended."""


class AskedPsi:
    """A non-smooth term behind a counter of its proximal steps; the rest is arithmetic."""

    def __init__(self, term: Any, most: int = 20_000) -> None:
        self.term, self.most, self.asked = term, most, 0

    def prox(self, u: Any, alpha: Any) -> Any:
        self.asked += 1
        if self.asked > self.most:
            raise RanAway
        return self.term.prox(u, alpha)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "term":
            raise AttributeError(name)
        return getattr(self.term, name)


class Asked:
    """A term behind a counter of its own, which answers what the term answers."""

    def __init__(self, term: Any, most: int = 20_000) -> None:
        self.term, self.most = term, most
        self.calls = dict.fromkeys([*QUESTIONS.values(), "product"], 0)
        for name in CONSTANTS:
            if hasattr(term, name):
                setattr(self, name, getattr(term, name))
        for question, kind in QUESTIONS.items():
            if callable(getattr(term, question, None)):
                setattr(self, question, self._counted(getattr(term, question), kind))

    def _counted(self, answer: Callable[..., Any], kind: str) -> Callable[..., Any]:
        def ask(x: Any, *more: Any) -> Any:
            self.calls[kind] += more[0].shape[1] if kind == "product" else 1
            if self.calls[kind] > self.most:
                raise RanAway
            return answer(x, *more)

        return ask


@dataclass
class Case:
    """A problem, how to call the library on it, and what is true of it."""

    name: str
    h: Callable[[], Any]  # makes the term that the library is given
    g: Callable[[], Any]
    ref_h: ref.Function
    ref_g: ref.Function
    x0: Any
    start: np.ndarray  # x0 as the library should understand it
    convex: bool = True  # f is convex, finite everywhere, and its gradients are its own
    unbounded: bool = False  # f has no minimum
    options: dict[str, Any] = field(default_factory=dict)  # of minimize
    wrong_mu: bool = False  # a constant of strong convexity that was given is too large
    wrong_L: bool = False  # a constant of smoothness is wrong
    refused: bool = False  # the input is to be refused
    raised: type[BaseException] | None = None  # what an oracle raises
    twin: Callable[[], tuple[Any, Any]] | None = None  # terms that must give the same run
    planted: planted.Planted | None = None  # psi, a list of h, and the solution

    @property
    def f(self) -> ref.Function:
        return self.ref_h + self.ref_g

    @property
    def psi(self) -> planted.NonSmooth:
        return planted.Nothing() if self.planted is None else self.planted.psi

    def value(self, x: Any) -> Any:
        """f(x), psi included."""
        return self.f.value(x) + self.psi.value(x)

    def slope(self, x: Any) -> Any:
        """The length of the shortest subgradient of f at x."""
        return size(self.psi.least(x, self.f.grad(x)))

    @property
    def first(self) -> Any:
        """x0 in the domain of psi."""
        return self.psi.project(ld(self.start))

    def noise(self, x: Any) -> tuple[Any, Any]:
        """Rounding error of f and of |grad f| as the library can know them at x."""
        h, g = self.ref_h, self.ref_g
        value = h.noise_value(x) + g.noise_value(x)
        value += ref.SAFETY * ref.EPS * (abs(h.value(x)) + abs(g.value(x)))
        grad = h.noise_grad(x) + g.noise_grad(x)
        grad = grad + ref.SAFETY * ref.EPS * (np.abs(h.grad(x)) + np.abs(g.grad(x)))
        slope = self.f.grad(x)
        value += self.psi.noise(x) + size(slope) * self.psi.shift(x)
        return value, size(grad) + self.psi.blur(x, slope)

    @cached_property
    def minimiser(self) -> Any:
        """The solution, or the best point found; None where there is no minimum to speak of."""
        if self.planted is not None:
            return self.planted.solution
        if not self.convex or self.unbounded:
            return None
        with np.errstate(all="ignore"):
            return ref.minimise(self.f, ld(self.start))


class Dice:
    """Draws for one case."""

    def __init__(self, k: int) -> None:
        self.rng = np.random.default_rng((1404, k))
        self.n = int(self.rng.integers(1, 6))

    def power(self, low: float, high: float) -> float:
        return 10.0 ** float(self.rng.uniform(low, high))

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def normal(self, *shape: int) -> np.ndarray:
        return self.rng.standard_normal(shape or (self.n,))

    def spectrum(self, condition: float, scale: float = 1.0) -> np.ndarray:
        """A symmetric matrix with eigenvalues from scale/condition to scale."""
        values = scale * np.logspace(-np.log10(condition), 0.0, self.n)
        if self.n == 1 or self.rng.random() < 0.3:
            return np.diag(self.rng.permutation(values))
        U = np.linalg.qr(self.normal(self.n, self.n))[0]
        Q = (U * values) @ U.T
        return 0.5 * (Q + Q.T)

    def quadratic(self, condition: float, scale: float = 1.0, b: Any = None) -> Any:
        Q = self.spectrum(condition, scale)
        return quadratic(Q, scale * self.normal() if b is None else b)

    def logistic(self, m: int, l2: float, separable: bool = False, scale: float = 1.0) -> Any:
        A = scale * self.normal(m, self.n)
        truth = A @ self.normal()
        y = np.where((truth if separable else truth + self.normal(m)) > 0.0, 1.0, -1.0)
        return Piece(lambda: gt.LinearModel(A, y, loss="logistic", l2=l2), ref.Logistic(A, y, l2))

    def log_sum_exp(self, rows: int, scale: float) -> Any:
        A = scale * self.normal(rows, self.n)
        c = self.pick(np.zeros(self.n), A.mean(axis=0))
        return Piece(lambda: gt.LogSumExp(A, c), ref.LogSumExp(A, c))


def quadratic(Q: np.ndarray, b: np.ndarray) -> Piece:
    return Piece(lambda: gt.Quadratic(Q, b), ref.Quadratic(Q, b))


def plain(function: ref.Function, **constants: Any) -> Piece:
    """A user's own term: the reference rounded to float64, value and gradient in one call."""
    return Piece(lambda: gt.Term(ref.rounded(function), **constants), function)


def pair(h: Piece, g: Piece, **more: Any) -> dict[str, Any]:
    """A case with these terms, and what else is true of it."""
    return {"h": h.make, "g": g.make, "ref_h": h.ref, "ref_g": g.ref, **more}


def exchange(d: Dice, h: Piece, g: Piece, **more: Any) -> dict[str, Any]:
    """The same, or with the roles of the terms exchanged."""
    return pair(g, h, **more) if d.rng.random() < 0.5 else pair(h, g, **more)


# Kinds ------------------------------------------------------------------------------------


def conditioned(d: Dice) -> dict[str, Any]:
    return pair(*(d.quadratic(d.power(6, 14), d.power(-3, 3)) for _ in range(2)))


def separable(d: Dice) -> dict[str, Any]:
    h = d.logistic(12, 0.0, separable=True, scale=d.power(-1, 2))
    return exchange(d, h, quadratic(d.power(-10, -1) * np.eye(d.n), np.zeros(d.n)))


def cold(d: Dice) -> dict[str, Any]:
    h = d.log_sum_exp(3, d.pick(1.0, 3.0, d.power(0, 4)))
    parts = exchange(d, h, d.quadratic(d.pick(2e4, 1e8), 1.0))
    return {**parts, "start": 3.0 * d.normal()}


def scales(d: Dice) -> dict[str, Any]:
    """f of size 10^+-150, or x, or both; the two terms alike or far apart."""
    f, unit = d.power(-150, 150), d.pick(1.0, d.power(-60, 60))
    other = d.pick(f, f, f * d.power(-8, 8))
    Q_h, Q_g = (d.spectrum(d.power(0, 4), s / unit**2) for s in (f, other))
    parts = pair(quadratic(Q_h, f / unit * d.normal()), quadratic(Q_g, other / unit * d.normal()))
    return {**parts, "start": unit * d.pick(5.0 * np.ones(d.n), d.normal(), np.zeros(d.n))}


def _usual(d: Dice) -> Piece:
    return d.pick(d.quadratic(d.power(0, 6)), d.logistic(8, 1e-2))


def _linear(slope: np.ndarray) -> Piece:
    return quadratic(np.zeros((slope.size, slope.size)), slope)


def zero(d: Dice) -> dict[str, Any]:
    none = _linear(np.zeros(d.n))
    return exchange(d, none, d.pick(none, d.quadratic(d.power(0, 6)), d.logistic(8, 1e-2)))


def constant(d: Dice) -> dict[str, Any]:
    function = ref.Constant(d.pick(0.0, -3.0, 1e12))
    none = plain(function, n=d.n, L=d.pick(None, 1e-3, 1.0))
    return exchange(d, none, _usual(d))


def linear(d: Dice) -> dict[str, Any]:
    slope = _linear(d.power(-3, 3) * d.normal())
    if d.rng.random() < 0.25:
        return exchange(d, slope, _linear(d.normal()), unbounded=True)
    return exchange(d, slope, _usual(d))


def deficient(d: Dice) -> dict[str, Any]:
    """Quadratics that are flat in a common direction; b has a part along it in some."""
    n = d.n = max(d.n, 2)
    # Exact zeros: whole rows and columns, and a difference of coordinates.
    B = np.round(8.0 * d.normal(n - 1, n - 1)) / 8.0
    Q_h, Q_g = np.zeros((n, n)), np.zeros((n, n))
    Q_h[:-1, :-1] = B @ B.T
    Q_g[:-1, :-1] = np.diag(np.arange(n - 1.0))
    b_h, b_g = np.append(Q_h[:-1, :-1] @ d.normal(n - 1), 0.0), np.zeros(n)
    unbounded = bool(d.rng.random() < 0.3)
    if unbounded:
        b_g[-1] = d.pick(1.0, -1e-3)
    return exchange(d, quadratic(Q_h, b_h), quadratic(Q_g, b_g), unbounded=unbounded)


def infinite(d: Dice) -> dict[str, Any]:
    """A logarithmic barrier, which answers with infinity or NaN outside its domain."""
    edge = d.power(-2, 1)
    function = ref.Barrier(d.power(-3, 0), edge)
    inside = plain(function, n=d.n, L=d.pick(None, None, 1e4 / edge**2))
    parts = exchange(d, inside, d.quadratic(d.power(0, 4)), convex=False)
    return {**parts, "start": np.abs(d.normal()) * d.pick(1.0, 1e-2)}


def jumping(d: Dice) -> dict[str, Any]:
    """A gradient that jumps, though the term says that it is smooth."""
    function = ref.Absolute(d.power(-2, 1), d.pick(np.zeros(d.n), d.normal()))
    jump = plain(function, n=d.n, L=d.pick(None, 1.0, 100.0))
    return exchange(d, jump, d.quadratic(d.power(0, 4)), wrong_L=True)


def wrong_gradient(d: Dice) -> dict[str, Any]:
    honest = d.pick(d.quadratic(d.power(0, 3)), d.logistic(8, 1e-2)).ref
    factor = d.pick(-np.ones(d.n), 2.0 * np.ones(d.n), np.append(np.ones(d.n - 1), 0.0))
    function = ref.Lying(honest, factor, d.pick(np.zeros(d.n), 0.1 * d.normal()))
    liar = plain(function, n=d.n, L=d.pick(None, 10.0))
    return exchange(d, liar, d.quadratic(d.power(0, 3)), convex=False)


def non_convex(d: Dice) -> dict[str, Any]:
    function = ref.Wave(d.power(-1, 1))
    bent = plain(function, n=d.n, L=2.0 * function.weight, convex=d.pick(True, False))
    parts = exchange(d, bent, d.quadratic(d.power(0, 3)), convex=False)
    return {**parts, "start": 3.0 * d.normal()}


def shards(d: Dice) -> dict[str, Any]:
    """h = f - f_1, which is not convex, though f is; said or not said."""
    m, first, l2 = 40, d.pick(3, 5, 10), d.power(-5, -1)
    A = d.normal(m, d.n)
    y = np.where(A @ d.normal() + d.normal(m) > 0.0, 1.0, -1.0)
    ref_h = ref.Logistic(A, y, l2) + (-1.0) * ref.Logistic(A[:first], y[:first])
    ref_g = ref.Logistic(A[:first], y[:first])

    def h() -> Any:
        whole = gt.LinearModel(A, y, loss="logistic", l2=l2)
        return whole - gt.LinearModel(A[:first], y[:first], loss="logistic")

    def unsaid() -> Any:
        term = h()
        return gt.Term(term.value_and_grad, n=d.n, L=d.pick(None, term.L))

    parts = {"h": d.pick(h, unsaid), "ref_h": ref_h, "ref_g": ref_g}
    parts["g"] = lambda: gt.LinearModel(A[:first], y[:first], loss="logistic")
    return {**parts, "start": 3.0 * d.normal()}


def wrong_constants(d: Dice) -> dict[str, Any]:
    d.n = max(d.n, 2)
    h = d.pick(d.quadratic(d.power(0, 4)), d.logistic(8, 1e-2))
    g = d.quadratic(d.power(0, 4), d.power(-2, 2))
    which = d.pick("L_h", "L_g", "mu")
    if which == "mu":
        smallest = float(np.linalg.eigvalsh(g.ref.Q)[0])
        return pair(h, g, options={"mu": 30.0 * smallest}, wrong_mu=True)
    L = (h if which == "L_h" else g).make().L
    return pair(h, g, options={which: L * d.pick(1e-3, 0.1, 0.5, 1e3)}, wrong_L=True)


def one_variable(d: Dice) -> dict[str, Any]:
    d.n = 1
    h = d.pick(d.quadratic(1.0, d.power(-6, 6)), d.log_sum_exp(2, d.power(-1, 2)))
    return pair(h, d.pick(d.quadratic(1.0, d.power(-6, 6)), d.logistic(4, 1e-3)))


ODD_STARTS: dict[str, Callable[[np.ndarray], Any]] = {
    "list": lambda x: [float(v) for v in x],
    "tuple": lambda x: tuple(float(v) for v in x),
    "float32": lambda x: x.astype(np.float32),
    "float16": lambda x: x.astype(np.float16),
    "long double": lambda x: x.astype(LD),
    "big-endian": lambda x: x.astype(">f8"),
    "reversed view": lambda x: x[::-1].copy()[::-1],
    "strided view": lambda x: np.repeat(x, 3)[::3],
    "read-only": lambda x: _frozen(x),
    "integers": lambda x: np.round(x).astype(np.int64),
    "booleans": lambda x: x > 0.0,
}
REFUSED_STARTS: dict[str, Callable[[np.ndarray], Any]] = {
    "masked": lambda x: np.ma.masked_array(x, mask=x > 0.0),
    "dates": lambda x: np.full(x.size, np.datetime64("2020-01-01")),
    "strings": lambda x: np.full(x.size, "1.0"),
    "complex": lambda x: x + 0j,
    "objects": lambda x: np.array([None] * x.size),
    "matrix": lambda x: np.vstack([x, x]),
    "nan": lambda x: np.full(x.size, np.nan),
    "too long": lambda x: np.append(x, 1.0),
    "empty": lambda x: np.empty(0),
}


def _frozen(x: np.ndarray) -> np.ndarray:
    out = x.copy()
    out.flags.writeable = False
    return out


def odd_start(d: Dice) -> dict[str, Any]:
    out = pair(d.quadratic(d.power(0, 4)), d.logistic(8, 1e-2))
    refused = bool(d.rng.random() < 0.4)
    kinds = REFUSED_STARTS if refused else ODD_STARTS
    name = d.pick(*kinds)
    x0 = kinds[name](3.0 * d.normal())
    start = np.zeros(d.n) if refused else np.array(x0, dtype=np.float64)
    return {**out, "x0": x0, "start": start, "refused": refused, "detail": name}


class Single(ref.Lying):
    """The honest function, answered in single precision."""

    convex = True

    def __init__(self, honest: ref.Function, n: int) -> None:
        super().__init__(honest, np.ones(n), np.zeros(n))

    def hessian(self, x: Any) -> Any:
        return self.honest.hessian(x)

    def noise_grad(self, x: Any) -> Any:
        return self.honest.noise_grad(x) + LD(2.0**-23) * np.abs(self.honest.grad(x))


def _reused() -> Callable[[Any], Any]:
    buffer: list[Any] = []

    def same_array(grad: np.ndarray) -> np.ndarray:
        if not buffer:
            buffer.append(np.empty_like(grad))
        buffer[0][:] = grad
        return buffer[0]

    return same_array


ODD_ANSWERS: dict[str, Callable[[], Callable[[Any], Any]]] = {
    "reused buffer": _reused,
    "list": lambda: lambda grad: [float(v) for v in grad],
    "read-only": lambda: _frozen,
    "strided view": lambda: lambda grad: np.repeat(grad, 2)[::2],
    "big-endian": lambda: lambda grad: grad.astype(">f8"),
    "float32": lambda: lambda grad: grad.astype(np.float32),
    "row": lambda: lambda grad: grad[None, :],
    "too short": lambda: lambda grad: grad[:-1],
    "complex": lambda: lambda grad: grad + 1j,
    "None": lambda: lambda grad: None,
    "writes into x": lambda: lambda grad: grad,
}
REFUSED_ANSWERS = {"row", "too short", "complex", "None", "writes into x"}


def odd_answer(d: Dice) -> dict[str, Any]:
    """A term of the user's whose gradient is an odd array, or that writes where it must not."""
    honest, g = (d.quadratic(d.power(0, 3)) for _ in range(2))
    name = d.pick(*ODD_ANSWERS)

    def make(twisted: bool) -> Any:
        term, twist = honest.make(), ODD_ANSWERS[name]() if twisted else np.array

        def value_and_grad(x: Any) -> Any:
            value, grad = term.value_and_grad(x)
            if twisted and name == "writes into x":
                x *= 0.5
            return value, twist(grad)

        return gt.Term(value_and_grad, n=d.n, L=term.L, mu=term.mu)

    out = pair(Piece(lambda: make(True), honest.ref), g, detail=name)
    if name in REFUSED_ANSWERS:
        return {**out, "refused": True}
    if name == "float32":
        return {**out, "ref_h": Single(honest.ref, d.n), "convex": False}
    return {**out, "twin": lambda: (make(False), g.make())}


def failing(d: Dice) -> dict[str, Any]:
    """An oracle that raises an error, or is interrupted, at a random call."""
    h, g = (d.quadratic(d.power(1, 5)) for _ in range(2))
    raised = d.pick(KeyboardInterrupt, OSError)
    left = [int(d.rng.integers(1, 12))]

    def make(honest: Piece) -> Any:
        term = honest.make()

        def value_and_grad(x: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                raise raised("the simulator is down")
            return term.value_and_grad(x)

        return gt.Term(value_and_grad, n=d.n, L=term.L, mu=term.mu)

    which = "h" if d.rng.random() < 0.5 else "g"
    return {**pair(h, g, raised=raised), which: lambda: make(h if which == "h" else g)}


FOUND: dict[str, Callable[[Dice], dict[str, Any]]] = {
    "conditioned": conditioned,
    "separable": separable,
    "cold": cold,
    "scales": scales,
    "zero": zero,
    "constant": constant,
    "linear": linear,
    "deficient": deficient,
    "infinite": infinite,
    "jumping": jumping,
    "wrong gradient": wrong_gradient,
    "non-convex": non_convex,
    "shards": shards,
    "wrong constants": wrong_constants,
    "one variable": one_variable,
    "odd start": odd_start,
    "odd answer": odd_answer,
    "failing": failing,
}
# The solution is found by the reference, or was there first.
KINDS = {**FOUND, **planted.KINDS}


def case(kind: str, k: int) -> Case:
    """Case k of a kind."""
    d = Dice(1000 * list(KINDS).index(kind) + k)
    parts = KINDS[kind](d)
    detail = parts.pop("detail", "")
    start = parts.pop("start", None)
    if start is None:
        start = d.pick(np.zeros(d.n), 3.0 * d.normal(), d.normal())
    x0 = parts.pop("x0", start)
    name = f"{kind} {k}" + (f" ({detail})" if detail else "")
    return Case(name, x0=x0, start=np.asarray(start, dtype=np.float64), **parts)
