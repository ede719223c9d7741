"""A finite sum g = (1/m) sum_k g_k as the variance-reduced methods use it.

`LinearSum` runs the compiled kernels on a `geartrain.LinearModel`. `ComponentSum` uses the
``component`` of any other term, in a compiled loop if it is a Numba function and in plain Python
otherwise.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from geartrain.methods.chunking import pieces
from geartrain.methods.inner.recursion import Steps, epoch_by_components, pass_over_components
from geartrain.oracles.ledger import NonFiniteAnswer, Oracle
from geartrain.oracles.linear_model import LinearModel
from geartrain.oracles.losses import COMPILED
from geartrain.oracles.protocols import Vector
from geartrain.problem import MissingConstant, Model

if TYPE_CHECKING:
    from geartrain.compiled.finite_sum import SparseRows

Indices = NDArray[np.int64]

# Component gradients of the snapshot are kept up to this many numbers (512 MB).
MEMORY_LIMIT = 2**26


@dataclass(frozen=True)
class Epoch:
    """The end of an epoch."""

    y: Vector
    z: Vector
    mean: Vector  # sum_j rho^{l-j} y_j, normalised


class Snapshot(NamedTuple):
    """A point at which the gradient of g is known."""

    point: Vector
    grad_g: Vector
    memory: Vector  # what is known of the components there, NaN where nothing is


class EpochStart(NamedTuple):
    """What an epoch begins with."""

    order: Indices  # the components of its steps
    scale: Vector  # 1/(m p_k)
    snapshot: Snapshot
    y: Vector
    z: Vector


class FiniteSum(ABC):
    """The interface between the methods and a finite sum.

    Attributes
    ----------
    m : int
    strong : float
        Strong convexity of the ridge of g, which is treated exactly together with the quadratic
        of phi.
    ridges : tuple
        Weights of the ridge, one for each group of coordinates.
    """

    strong: float = 0.0
    ridges: tuple[float, ...] = (0.0,)

    def __init__(self, oracle: Oracle, m: int) -> None:
        self.oracle = oracle
        self.m = m
        self._samplings: dict[tuple[str, float], Sampling] = {}

    @property
    @abstractmethod
    def L_k(self) -> Vector:
        """Smoothness of the sampled components."""

    @abstractmethod
    def snapshot(self, v: Vector) -> tuple[Vector, Vector]:
        """Gradient of g at v, and the memory of the components for an epoch that starts there."""

    @abstractmethod
    def forgotten(self) -> Vector:
        """The memory if only the gradient at the snapshot is known."""

    @abstractmethod
    def epoch(self, steps: Steps, phi: Model, start: EpochStart) -> Epoch:
        """Make the component steps on phi."""

    @abstractmethod
    def estimator(self, snapshot: Snapshot, scale: Vector) -> Callable[[Vector, int], Vector]:
        """The function (x, k) -> unbiased estimate of the gradient of g at x from component k.

        It keeps what it asks at the snapshot in the snapshot's memory.
        """

    def sampling(self, kind: str, shift: float = 0.0) -> Sampling:
        """Sampling for components of smoothness L_k + shift; the last one made is kept."""
        key = (kind, shift)
        if key not in self._samplings:
            self._samplings = {key: Sampling(self.L_k + shift, kind, self._pick())}
        return self._samplings[key]

    def _pick(self) -> Pick | None:
        """A compiled function that draws, or None."""
        return None

    def start(self, v0: Vector, grad_g0: Vector | None) -> tuple[Vector, Vector]:
        """Gradient and memory at v0; a gradient that is known is not evaluated again."""
        return self.snapshot(v0) if grad_g0 is None else (grad_g0, self.forgotten())


Pick = Callable[[Vector, Vector, Indices], Indices]


class Sampling:
    """Draws components with probabilities p_k by Walker's alias method: O(1) per draw."""

    def __init__(self, L_k: Vector, kind: str, pick: Pick | None = None) -> None:
        m = L_k.size
        self._pick = _pick_by_alias if pick is None else pick
        self.m = m
        # If all L_k are within 5 % of their mean, uniform draws are faster and lose almost nothing.
        even = kind == "uniform" or L_k.max() <= 1.05 * L_k.mean()
        self.L = max(float(L_k.max() if even else L_k.mean()), 1e-100)
        self.p = np.full(m, 1.0 / m) if even else L_k / L_k.sum()
        # A component with p_k = 0 is constant and is never drawn.
        self.scale = 1.0 / np.where(self.p > 0.0, m * self.p, 1.0)
        self._alias = None if even else _alias_table(m * self.p)

    def order(self, rng: np.random.Generator, size: int) -> Indices:
        """Indices of `size` components."""
        if self._alias is None:
            return rng.integers(self.m, size=size)
        u = rng.random(size)
        u *= self.m
        return self._pick(u, *self._alias)


def _pick_by_alias(u: Vector, keep: Vector, other: Indices) -> Indices:
    """Take k = floor(u) with probability keep[k], else other[k], for u uniform on [0, m)."""
    k = u.astype(np.int64)
    return np.where(u - k < keep[k], k, other[k])


def _alias_table(share: Vector) -> tuple[Vector, Indices]:
    """The table for shares of mean 1: keep k with probability keep[k], else take other[k]."""
    keep, other = share.copy(), np.arange(share.size)
    small = list(np.flatnonzero(share < 1.0))
    large = list(np.flatnonzero(share >= 1.0))
    while small and large:
        k, big = small.pop(), large[-1]
        other[k] = big
        keep[big] -= 1.0 - keep[k]
        if keep[big] < 1.0:
            small.append(large.pop())
    # The remaining shares differ from 1 only by rounding.
    keep[small + large] = 1.0
    return keep, other


class LinearSum(FiniteSum):
    """A `LinearModel`: one slope per component, compiled epochs, exact treatment of the ridge."""

    def __init__(self, oracle: Oracle) -> None:
        self.term: LinearModel = oracle.term
        super().__init__(oracle, self.term.m)
        self.strong = self.term.mu
        l2 = self.term.l2
        self.ridges = (l2, 0.0) if self.term.intercept else (l2,)
        A = self.term.A
        if sparse.issparse(A) and not A.has_canonical_format:
            A = A.copy()
            A.sum_duplicates()  # the lazy updates need each coordinate at most once per row
        self._A = A
        if sparse.issparse(A):
            # One type for all data: half the traffic, no sign to check, one compiled kernel.
            self._columns = A.indices.astype(np.uint32)
            self._components: NDArray[Any] | None = None  # made when the kernels are imported

    @property
    def L_k(self) -> Vector:
        """Smoothness of the components without the ridge."""
        return self.term.L_components - self.term.l2

    def _pick(self) -> Pick:
        from geartrain.compiled.finite_sum import pick_by_alias

        return pick_by_alias

    def snapshot(self, v: Vector) -> tuple[Vector, Vector]:
        """Gradient and slopes from one pass over the data."""
        term = self.term

        def one_pass(tally: Indices) -> tuple[Vector, Vector]:
            tally[0] += 1
            slopes = term.loss.derivative(term.y, term.predict(v))
            return term.pull_back(slopes / self.m) + term.ridge(v), slopes

        grad, slopes = self.oracle.bulk("grad", one_pass)
        _check_finite(grad, self.oracle, "grad")
        return grad, slopes

    def forgotten(self) -> Vector:
        return np.full(self.m, np.nan)

    def epoch(self, steps: Steps, phi: Model, start: EpochStart) -> Epoch:
        """Run the dense or the CSR kernel."""
        order, scale, snapshot, y, z = start
        from geartrain.compiled import finite_sum as kernels
        from geartrain.compiled.losses import encode

        term, xt = self.term, snapshot.point
        b = snapshot.grad_g - term.ridge(xt) + phi.beta
        parts = [steps.diagonal(phi.alpha + extra) for extra in self.ridges]
        features = parts[0]
        k = np.full(xt.size, features.k)
        f = features.shift(xt, b)
        X0 = features.t3 * f + steps.tau_2 * xt
        if term.intercept:
            bias = parts[1]
            k[-1], f[-1] = bias.k, bias.shift(xt[-1:], b[-1:])[0]
            X0[-1] = bias.t3 * f[-1] + steps.tau_2 * xt[-1]
        z, w, total = z.copy(), y - k * z - f, np.zeros(xt.size)
        kernel: tuple[Any, ...]
        if sparse.issparse(self._A):
            kernel = kernels.epoch_csr, self._sparse_rows(scale, snapshot.memory), term.n_features
        else:
            rows = kernels.DenseRows(self._A, term.y, scale, snapshot.memory.copy())
            kernel = kernels.epoch_dense, rows
        for part in pieces(self.oracle, "component", order.size, calls=2):
            acc = np.zeros(xt.size)
            data = kernels.EpochData(
                loss=encode(term.loss),
                order=order[part],
                xt=xt,
                G=steps.a * b,
                X0=X0,
                z=z,
                w=w,
                acc=acc,
                features=kernels.Recursion(*parts[0].numbers),
                intercept=kernels.Recursion(*parts[-1].numbers),
                rho=steps.rho,
            )
            self.oracle.bulk("component", *kernel, data)
            total = steps.rho ** (part.stop - part.start) * total + acc
        mean = total / max(steps.weight(order.size), 1.0) + f
        _check_finite(z, self.oracle, "component")
        return Epoch(k * z + w + f, z, mean)

    def _sparse_rows(self, scale: Vector, slopes: Vector) -> SparseRows:
        """The data for the CSR kernel, with these scales and slopes of the components."""
        from geartrain.compiled import finite_sum as kernels

        if self._components is None:
            self._components = np.zeros(self.m + 1, dtype=kernels.COMPONENT)
            self._components["y"][:-1] = self.term.y
            self._components["start"] = self._A.indptr
        self._components["scale"][:-1] = scale
        self._components["slope"][:-1] = slopes
        return kernels.SparseRows(self._A.data, self._columns, self._components)

    def estimator(self, snapshot: Snapshot, scale: Vector) -> Callable[[Vector, int], Vector]:
        """The estimate from one row; the ridge is exact."""
        term, xt, memory = self.term, snapshot.point, snapshot.memory
        fixed = snapshot.grad_g - term.ridge(xt)

        def ask(tally: Indices, x: Vector, k: int) -> float:
            tally[0] += 1
            where, entries = term.row(k)
            z = entries @ x[where] + (x[-1] if term.intercept else 0.0)
            return float(term.loss.derivative(term.y[k : k + 1], np.array([z]))[0])

        def estimate(x: Vector, k: int) -> Vector:
            if np.isnan(memory[k]):  # evaluated when it is first needed
                memory[k] = self.oracle.bulk("component", ask, xt, k)
            change = (self.oracle.bulk("component", ask, x, k) - memory[k]) * scale[k]
            out = fixed + term.ridge(x)
            where, entries = term.row(k)
            out[where] += change * entries
            if term.intercept:
                out[-1] += change
            return out

        return estimate


class ComponentSum(FiniteSum):
    """Any term with ``component(x, k)``.

    A Numba function runs in a compiled loop. A Python function takes about 20 microseconds per
    step in small dimensions: about 25 times as long as a Numba function and 100 times as long as
    the kernels of a `LinearModel`.
    """

    def __init__(self, oracle: Oracle) -> None:
        super().__init__(oracle, int(oracle.term.n_components))
        self._rows = self.m if self.m * oracle.n <= MEMORY_LIMIT else 0
        fn = oracle.term.component
        self._compiled = False
        if "numba" in sys.modules:
            from geartrain.compiled.finite_sum import is_compiled

            self._compiled = is_compiled(fn)

    def run(self, loop: Callable[..., Any], *args: Any) -> Any:
        """Run a loop over components: compiled as a whole, or one counted call after the other."""
        if not self._compiled:
            return loop(np.zeros(1, dtype=np.int64), self.oracle.component, *args)
        from geartrain.compiled.finite_sum import compiled

        return self.oracle.bulk("component", compiled(loop), self.oracle.term.component, *args)

    @property
    def L_k(self) -> Vector:
        L_k = self.oracle.term.L_components
        if L_k is None:
            raise MissingConstant(
                "a variance-reduced method needs the smoothness of every component; give the "
                "term its L_components, or choose inner='lbfgs', which needs no constants"
            )
        return np.asarray(L_k, dtype=np.float64)

    def snapshot(self, v: Vector) -> tuple[Vector, Vector]:
        """The gradient of the term, or the mean of all components, which are then kept."""
        memory = self.forgotten()
        if hasattr(self.oracle.term, "grad") or hasattr(self.oracle.term, "value_and_grad"):
            return self.oracle.grad(v), memory
        grad = self.run(pass_over_components, self.m, v, memory)
        _check_finite(grad, self.oracle, "component")
        return grad, memory

    def forgotten(self) -> Vector:
        return np.full((self._rows, self.oracle.n), np.nan)

    def epoch(self, steps: Steps, phi: Model, start: EpochStart) -> Epoch:
        """Run the recursion component by component."""
        order, scale, snapshot, y, z = start
        numbers = (steps.tau_1, steps.tau_2, steps.a, phi.alpha, steps.rho)
        xt, b = snapshot.point, snapshot.grad_g + phi.beta
        memory, total = snapshot.memory.copy(), np.zeros_like(y)
        for part in pieces(self.oracle, "component", order.size, calls=2):
            given = (order[part], scale, memory, xt, b, y, z, *numbers)
            y, z, acc = self.run(epoch_by_components, *given)
            total = steps.rho ** (part.stop - part.start) * total + acc
        _check_finite(z, self.oracle, "component")
        return Epoch(y, z, total / max(steps.weight(order.size), 1.0))

    def estimator(self, snapshot: Snapshot, scale: Vector) -> Callable[[Vector, int], Vector]:
        """The estimate from one component."""
        ask, (xt, grad_g, memory) = self.oracle.component, snapshot

        def estimate(x: Vector, k: int) -> Vector:
            if memory.shape[0] == 0:
                old = ask(xt, k)
            else:
                if np.isnan(memory[k, 0]):
                    memory[k] = ask(xt, k)
                old = memory[k]
            return grad_g + (ask(x, k) - old) * scale[k]

        return estimate


class SumWithPsi:
    """A finite sum in a model with a non-smooth psi, with the interface of `FiniteSum`.

    The quadratic of phi and psi are the composite term of the method, so that the mirror sequence
    makes a proximal step per component: epochs are not compiled, and a ridge of g belongs to the
    components.
    """

    strong, ridges = 0.0, (0.0,)

    def __init__(self, terms: FiniteSum) -> None:
        self.m, self.start, self.snapshot, self._terms = terms.m, terms.start, terms.snapshot, terms

    def sampling(self, kind: str, shift: float = 0.0) -> Sampling:
        return self._terms.sampling(kind, shift + max(self._terms.ridges))

    def epoch(self, steps: Steps, phi: Model, start: EpochStart) -> Epoch:
        """The recursion with z_+ = prox((z/a - G~)/(1/a + alpha), 1/a + alpha)."""
        assert phi.psi is not None
        order, scale, snapshot, y, z = start
        tau_1, tau_2, a = steps.tau_1, steps.tau_2, steps.a
        weight, xt = 1.0 / a + phi.alpha, snapshot.point
        total, count = np.zeros_like(y), 0.0
        estimate = self._terms.estimator(snapshot, scale)
        for k in order:
            x = tau_1 * z + tau_2 * xt + (1.0 - tau_1 - tau_2) * y
            G = estimate(x, int(k)) + phi.beta
            z_next = phi.psi.prox((z / a - G) / weight, weight)
            y, z = x + tau_1 * (z_next - z), z_next
            total, count = steps.rho * total + y, steps.rho * count + 1.0
        return Epoch(y, z, total / max(count, 1.0))


def _check_finite(v: Vector, oracle: Oracle, kind: str) -> None:
    if not np.isfinite(v).all():
        raise NonFiniteAnswer(f"{oracle.name}.{kind} answered with NaN or infinity")


def sum_of(phi: Model) -> FiniteSum | SumWithPsi:
    """The finite sum of a model, as the epochs of Katyusha, LKatyusha and Varag use it."""
    terms = finite_sum(phi.g)
    return terms if phi.psi is None else SumWithPsi(terms)


def finite_sum(oracle: Oracle) -> FiniteSum:
    """The finite sum of an oracle, made once per oracle and kept beside it."""
    made = oracle.kept.get("finite sum")
    if made is None:
        term = oracle.term
        compiled = type(term) is LinearModel and type(term.loss) in COMPILED
        made = LinearSum(oracle) if compiled else ComponentSum(oracle)
        oracle.kept["finite sum"] = made
    return made
