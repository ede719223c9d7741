r"""The problem f = h + g + psi, and the two functions that the loops make out of it.

=============================  =====================================================
`Sum`                          f(x) = h(x) + g(x), problem (1) of the paper; plus psi(x) where g has
                               a non-smooth part
`Inclusion`                    0 in P(z) + Q(z), monotone operators in the place of gradients
`Envelope`                     F_{L,x}(y) = f(y) + L/2 \|y - x\|^2, what the middle loop minimises
`Model`                        phi(v) = <beta, v> + alpha/2 \|v\|^2 + g(v), problem (2), what the
                               inner methods minimise; plus psi(v)
=============================  =====================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from geartrain.geometry import EUCLIDEAN, Geometry
from geartrain.geometry import norm as norm
from geartrain.oracles.algebra import lower_bound_of
from geartrain.oracles.ledger import Ledger, Oracle
from geartrain.oracles.protocols import Asked, Vector, answers, can
from geartrain.oracles.splitting import Psi
from geartrain.oracles.sum_oracle import Together, leaves

EPS = float(np.finfo(np.float64).eps)
_EPS_SINGLE = float(np.finfo(np.float32).eps)


class MissingConstant(ValueError):
    """A method needs a constant that nobody gave."""


@dataclass(frozen=True)
class Constant:
    """A constant and where it is from: "given", "term", "estimated" or "unknown"."""

    value: float | None
    source: str

    @property
    def origin(self) -> str:
        """Where it is from, for a sentence that begins with "mu is"."""
        return self.source.replace("term", "stated by the terms")

    def need(self, name: str, method: str) -> float:
        """The value; an error that names `method` if it is not known."""
        if self.value is None:
            raise MissingConstant(
                f"{method} needs {name}, which neither the term nor the call gives; pass "
                f"{name}=..., give the term its L, or choose a method that needs no constants"
            )
        return self.value


def total(constants: Iterable[Constant]) -> Constant:
    """The smoothness of a sum: the sum of the constants, if all are known."""
    listed = list(constants)
    values = [L.value for L in listed if L.value is not None]
    if len(values) < len(listed):
        return Constant(None, "unknown")
    return Constant(float(sum(values)), " and ".join(dict.fromkeys(L.source for L in listed)))


class Summand(NamedTuple):
    """A term of f, counted, and its smoothness."""

    oracle: Any  # an Oracle, or several of them together
    L: Constant

    @staticmethod
    def of(summands: Sequence[Summand]) -> Summand:
        """Several terms as one, which is asked together and counted apart; one term is itself."""
        if len(summands) == 1:
            return summands[0]
        return Summand(Together(tuple(s.oracle for s in summands)), total(s.L for s in summands))


# Paper: equation (1)
@dataclass(frozen=True)
class Sum:
    """f = h + g, or h + g + psi, with counted oracles and the constants in use.

    `h`, `g` and `psi` are counted; `monitor` looks at f without being counted. Where f has more
    than two terms, h is the sum of all but the last, and `expensive` are its summands.
    """

    h: Any  # an Oracle, or several of them together
    g: Any
    L_h: Constant
    L_g: Constant
    mu: Constant  # strong convexity of the sum
    seed: int = 0
    geometry: Geometry = EUCLIDEAN  # of inner products, norms and gradients
    expensive: tuple[Summand, ...] = ()  # the summands of h, where it has more than one
    psi: Psi | None = None  # the non-smooth part of g, which `g` is without

    of_functions: ClassVar[bool] = True  # False for operators, see `Inclusion`

    @property
    def n(self) -> int:
        return self.h.n

    @property
    def oracles(self) -> tuple[Oracle, ...]:
        return (*leaves(self.h), *leaves(self.g))

    @property
    def summands(self) -> tuple[Summand, ...]:
        """The terms with their constants; g is the last."""
        return (*(self.expensive or (Summand(self.h, self.L_h),)), Summand(self.g, self.L_g))

    @property
    def constants(self) -> dict[str, Constant]:
        """By name: the smoothness of every term, and mu."""
        return {**{f"L_{s.oracle.name}": s.L for s in self.summands}, "mu": self.mu}

    @property
    def ledger(self) -> Ledger:
        return self.h.ledger

    @property
    def unit(self) -> float:
        """The rounding unit of the answers so far: that of single precision, if one came in it."""
        return _EPS_SINGLE if any(oracle.is_single for oracle in self.oracles) else EPS

    @property
    def mu_h(self) -> float:
        return float(self.h.term.mu)

    @property
    def mu_g(self) -> float:
        return float(self.g.term.mu)

    @property
    def h_is_convex(self) -> bool:
        return bool(self.h.term.convex)

    @cached_property
    def lower_bound(self) -> float | None:
        """A number that no value of h + g is below, where the terms know one."""
        return lower_bound_of([(1.0, oracle.term) for oracle in self.oracles])

    def grad(self, x: Vector) -> Vector:
        """Gradient of h + g: one call of each term."""
        return self.h.grad(x) + self.g.grad(x)

    def grad_psi(self, x: Vector, grad: Vector, w: Vector | None = None) -> Vector | None:
        """The element of dpsi(x) for which its sum with `grad` is shortest; None without psi.

        `w` is a known element of dpsi(x), which is the answer for a psi without residuals.
        """
        return None if self.psi is None else self.psi.residual(x, grad, w) - grad

    def subgradient(self, x: Vector, grad: Vector, w: Vector | None = None) -> Vector:
        """The shortest known subgradient of f at x, where the gradient of h + g is `grad`."""
        return grad if self.psi is None else self.psi.residual(x, grad, w)

    @cached_property
    def fuses_h(self) -> bool:
        """Whether values of h come with its gradients; on its own, a value is a call of h."""
        return "value_and_grad" in answers(self.h.term)

    @cached_property
    def fuses_g(self) -> bool:
        return "value_and_grad" in answers(self.g.term)

    @cached_property
    def tells_g(self) -> bool:
        return can(self.g.term, "value")

    @cached_property
    def whole(self) -> Whole:
        return Whole(self)

    @cached_property
    def monitor(self) -> Callable[[Vector], float] | None:
        """f as a plain function, uncounted; None if a term gives no values."""
        h, g = Asked(self.h.term), Asked(self.g.term)
        if not (hasattr(h, "value") and hasattr(g, "value")):
            return None
        psi = self.psi
        if psi is None:
            return lambda x: float(h.value(x)) + float(g.value(x))
        if not psi.has_value:
            return None
        return lambda x: float(h.value(x)) + float(g.value(x)) + psi.value(x)


class Inclusion(Sum):
    """0 in P(z) + Q(z) + dpsi(z), with h = P and g = Q two counted operators.

    What stands for the gradient of f is R = P + Q. There is no f, and no bound on it.
    """

    of_functions = False

    def grad(self, x: Vector) -> Vector:
        """R(x): one call of each operator."""
        return self.h.operator(x) + self.g.operator(x)

    @property
    def lower_bound(self) -> None:
        """There is none."""

    @property
    def monitor(self) -> None:
        """There is no f."""


class Whole(Together):
    """f = h + g as one oracle, for inner methods that minimise f itself.

    A question is asked of both terms and counted for both.
    """

    def __init__(self, problem: Sum) -> None:
        super().__init__((problem.h, problem.g))
        self.problem, self.name = problem, "f"


# Paper: equation (5)
@dataclass(frozen=True)
class Envelope:
    """F_{L,x}(y) = f(y) + L/2 |y - x|^2."""

    f: Sum
    L: float
    x: Vector
    key: tuple[int, ...] = ()  # tells the inner runs of one problem apart

    def grad(self, y: Vector, grad_f: Vector) -> Vector:
        """Its gradient at y, where that of f is known."""
        return grad_f + self.L * (y - self.x)


# Paper: equation (2)
@dataclass(frozen=True)
class Model:
    """phi(v) = <beta, v> + alpha/2 |v|^2 + g(v), or with psi(v) added; alpha > 0."""

    g: Any  # an Oracle, or what answers like one
    beta: Vector
    alpha: float
    L_g: float | None = None
    mu_g: float = 0.0
    key: tuple[int, ...] = (0,)  # seeds the randomised inner methods
    geometry: Geometry = EUCLIDEAN
    accept: Any = None  # the rule that ends the run, for inner methods with a loop of their own
    psi: Psi | None = None

    @property
    def n(self) -> int:
        return self.beta.size

    def grad(self, v: Vector, grad_g: Vector) -> Vector:
        return self.beta + self.alpha * v + grad_g

    def subgradient(self, v: Vector, grad_g: Vector, w: Vector | None) -> Vector:
        """The shortest known subgradient of phi at v; `w` is a known element of dpsi(v)."""
        grad = self.grad(v, grad_g)
        return grad if self.psi is None else self.psi.residual(v, grad, w)

    def quadratic(self, steps: Sequence[Vector]) -> list[Vector]:
        """The Hessian of the quadratic part times each of the steps."""
        return [self.alpha * s for s in steps]

    def changes(self, steps: Sequence[Vector], of_g: Sequence[Vector]) -> list[Vector]:
        """Changes of the gradient of phi along steps, where those of g are known."""
        return [y + bent for y, bent in zip(of_g, self.quadratic(steps), strict=True)]

    def floor(self, v: Vector, grad_g: Vector) -> float:
        """Size of the rounding error in the gradient: no test below it can be met."""
        norm = self.geometry.norm
        size = norm(v)
        spread = (self.alpha + (self.L_g or 0.0)) * size
        return 10.0 * EPS * (norm(self.beta) + norm(grad_g) + spread)
