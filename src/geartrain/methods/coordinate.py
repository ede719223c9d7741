r"""Parts shared by the accelerated coordinate methods: constants, sampling, walks.

A walk is the recursion of `geartrain.compiled.coordinate`: main sequence x, second sequence z,
u = x - z. A method chooses where the derivatives are taken (`Schedule`), the step lengths
(`StepLengths`) and the probabilities of the coordinates. The walk does the rest: in a compiled loop
if the term is one of the library's or its ``coord`` is jitted, and otherwise call by call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from geartrain.compiled.records import Schedule, Sequences, StepLengths
from geartrain.methods.base import ceiling
from geartrain.methods.chunking import pieces
from geartrain.methods.separable import by_numbers
from geartrain.oracles.ledger import Oracle
from geartrain.oracles.linear_model import LinearModel
from geartrain.oracles.log_sum_exp import LogSumExp
from geartrain.oracles.losses import COMPILED
from geartrain.oracles.protocols import AnyTerm, Vector, as_term
from geartrain.oracles.quadratic import Quadratic
from geartrain.oracles.splitting import Psi
from geartrain.problem import MissingConstant, Model

if TYPE_CHECKING:
    from geartrain.compiled.coordinate import Columns

Index = NDArray[np.int64]

# A run that has not met its stopping rule after this many chunks never will: 40 reach 1e-16.
MAX_CHUNKS = 150


@dataclass(frozen=True)
class Walk:
    """The sequences of a coordinate method."""

    z: Vector  # second sequence
    u: Vector  # x - z
    products: tuple[tuple[Vector, Vector], ...]  # (A z, A u) per compiled term, or empty

    @property
    def x(self) -> Vector:
        return self.z + self.u

    def restarted(self) -> Walk:
        """Start the second sequence again at x."""
        products = tuple((Az + Au, np.zeros_like(Au)) for Az, Au in self.products)
        return Walk(self.x, np.zeros_like(self.u), products)

    def copy(self) -> Walk:
        products = tuple((Az.copy(), Au.copy()) for Az, Au in self.products)
        return Walk(self.z.copy(), self.u.copy(), products)


def start_walk(terms: tuple[Any, ...], x0: Vector) -> Walk:
    """Both sequences at x0; A x0 is computed once for every term whose products are carried."""
    products = []
    if all(by_columns(t) is not None for t in terms):
        for term in terms:
            Az = _product(term, x0)
            products.append((Az, np.zeros_like(Az)))
    return Walk(x0, np.zeros_like(x0), tuple(products))


def walk_model(
    phi: Model, walk: Walk, index: Index, schedule: Schedule, steps: StepLengths
) -> Walk:
    """Make the steps of `index` on phi; each takes one partial derivative of g."""
    new, term = walk.copy(), phi.g.term
    kernel: Any
    what: Any
    v = Sequences(new.z, new.u)
    numbers = by_numbers(phi.psi, phi.n)
    if numbers is None or (not walk.products and not _is_jitted(term.coord)):
        walk_slowly(phi.g.coord, v, index, schedule, steps, phi.beta, phi.alpha, phi.psi)
        return new
    from geartrain.compiled import coordinate as kernels  # imports Numba

    if walk.products:
        kernel, what = kernels.advance, (by_columns(term), Sequences(*new.products[0]), v)
    else:
        user = kernels.JittedTerm(term.coord, np.zeros(phi.n))
        kernel, what = kernels.advance_user, (user, Sequences(np.zeros(0), np.zeros(0)), v)
    rest = (steps._replace(psi=numbers), phi.beta, phi.alpha)
    for count in _in_pieces(phi.g, kernel, what, index, schedule, rest):
        if phi.psi is not None:  # one coordinate each, within the seconds of the loop
            phi.g.ledger.add(f"{phi.psi.name}.prox", count, 0.0)
    return new


def walk_sum(
    h: Oracle, g: Oracle, walk: Walk, index: Index, schedule: Schedule, steps: StepLengths
) -> Walk:
    """Make the steps of `index` on h + g; each takes one partial derivative of both."""
    new, zero = walk.copy(), np.zeros(h.n)
    v = Sequences(new.z, new.u)
    if not walk.products:

        def both(x: Vector, i: int) -> float:
            return h.coord(x, i) + g.coord(x, i)

        walk_slowly(both, v, index, schedule, steps, zero, 0.0)
        return new
    from geartrain.compiled import coordinate as kernels  # imports Numba

    T = kernels.Pair(by_columns(h.term), by_columns(g.term))
    P = kernels.Pair(*(Sequences(*products) for products in new.products))
    for count in _in_pieces(h, kernels.advance, (T, P, v), index, schedule, (steps, zero, 0.0)):
        # One loop evaluates both terms and cannot tell their seconds apart: they are booked under h
        g.ledger.add(f"{g.name}.coord", count, 0.0)
    return new


def _in_pieces(
    oracle: Oracle, kernel: Any, what: Any, index: Index, schedule: Schedule, rest: Any
) -> Iterator[int]:
    """Run a kernel on the steps of `index`; how many were made, after every piece of them."""
    for part in pieces(oracle, "coord", index.size):
        numbers = Schedule(*(column[part] for column in schedule))
        oracle.bulk("coord", kernel, *what, index[part], numbers, *rest)
        yield part.stop - part.start


def walk_slowly(
    coord: Callable[[Vector, int], float],
    v: Sequences,
    index: Index,
    schedule: Schedule,
    steps: StepLengths,
    beta: Vector,
    alpha: float,
    psi: Psi | None = None,
) -> None:
    """`geartrain.compiled.coordinate.advance` for any callable, in place.

    A separable psi is asked for the proximal step of the whole vector, of which one coordinate is
    used.
    """
    from geartrain.compiled.coordinate import FOLD, moves

    z, u = v
    s, r = 0.0, 1.0
    path = zip(index.tolist(), *(numbers.tolist() for numbers in schedule), strict=True)
    for i, kappa, be, a in path:
        c = s + kappa * r
        q = z + c * u
        z_i, q_i = float(z[i] + s * u[i]), float(q[i])
        d = coord(q, i) + beta[i]
        dx, dz = moves.py_func(d, z_i, q_i, a, steps, i, alpha)
        if psi is not None:
            whole = z.copy()
            whole[i] = z_i + dz
            dz = float(psi.prox(whole, a / steps.x[i] + alpha)[i]) - z_i
            dx = a * dz
        s += be * kappa * r
        r *= (1.0 - be) * kappa
        if r < FOLD:
            z += s * u
            u *= r
            s, r = 0.0, 1.0
        du = (dx - dz) / r
        z[i] += dz - s * du
        u[i] += du
    z += s * u
    u *= r


class Sampler:
    """Draws coordinates with probabilities proportional to the weights."""

    def __init__(self, weights: Vector) -> None:
        total = np.cumsum(weights)
        self.p = weights / total[-1]
        self._cumulative = total / total[-1]
        # A power of two, so that x -> floor(x size) and j/size are exact.
        size = 1 << max(weights.size - 1, 1).bit_length()
        self._guide = np.searchsorted(self._cumulative, np.arange(size) / size, side="right")

    def draw(self, key: tuple[int, ...], steps: int) -> Index:
        """Draw `steps` coordinates; equal keys give equal draws."""
        from geartrain.compiled.coordinate import draw

        return draw(self._cumulative, self._guide, np.random.default_rng(key).random(steps))


def coordinate_constants(
    term: AnyTerm, L: float | None, method: str, name: str = "g"
) -> Vector | float:
    """Lipschitz constants of the partial derivatives: those of the term, or L for all of them."""
    own = as_term(term).L_coord
    if own is not None:
        return np.asarray(own, dtype=np.float64)
    if L is None:
        raise MissingConstant(
            f"{method} needs the constants of {name}'s partial derivatives; give the term its "
            f"L_coord or its L, or pass L_{name}=..."
        )
    return L


def model_constants(phi: Model, method: str) -> Vector:
    """The constants L_i of phi: those of g plus alpha."""
    return np.zeros(phi.n) + coordinate_constants(phi.g.term, phi.L_g, method) + phi.alpha


def check_period(period: int | None) -> None:
    """Raise unless the period of restarts is None or a positive whole number."""
    if period is not None and (period < 1 or period != int(period)):
        raise ValueError(f"restart must be a positive whole number of steps, got {period}")


def chunk_length(K: float, n: int) -> int:
    """Steps between two tests, each of which costs n derivatives; K steps are natural."""
    return max(n, ceiling(K))


def _is_jitted(fn: Any) -> bool:
    """Whether `fn` is compiled by Numba (which need not be imported to know it)."""
    return type(fn).__module__.startswith("numba.") and hasattr(fn, "py_func")


# The kinds of terms that the kernels can read.
_READ = (Quadratic, LinearModel, LogSumExp)
# The terms that were read by columns, as long as they live.
_COLUMNS: WeakKeyDictionary[Any, Columns] = WeakKeyDictionary()


def by_columns(term: AnyTerm) -> Columns | None:
    """The term as the kernels read it, made once per term; None for terms that they cannot read."""
    # A subclass may answer otherwise.
    if not isinstance(term, _READ) or type(term) not in _READ:
        return None
    if isinstance(term, Quadratic) and not callable(term.coord):  # Q is a LinearOperator
        return None
    if isinstance(term, LinearModel) and type(term.loss) not in COMPILED:  # the user's loss
        return None
    if term not in _COLUMNS:
        _COLUMNS[term] = _make_columns(term)
    return _COLUMNS[term]


def _make_columns(term: Quadratic | LinearModel | LogSumExp) -> Columns:
    from geartrain.compiled import coordinate as kernels
    from geartrain.compiled.losses import encode

    dense: Any
    compressed: Any
    rest: tuple[Any, ...]
    if isinstance(term, Quadratic):
        dense, compressed = kernels.Dense, kernels.Sparse
        columns, rest = term.Q, (term.b,)  # symmetric: rows are columns
    elif isinstance(term, LinearModel):
        dense, compressed = kernels.DenseModel, kernels.SparseModel
        columns = term.with_ones.T
        rest = (term.y, term.ridge(np.ones(term.n)), encode(term.loss))
    else:
        dense, compressed = kernels.DenseSoftmax, kernels.SparseSoftmax
        A = _rows_with_entries(term)
        columns, rest = A.T, (term.c,)
        if sparse.issparse(A):
            rest = (term.c, float(term.p - A.shape[0]))
    if not sparse.issparse(columns):
        return dense(np.ascontiguousarray(columns), *rest)
    rows = sparse.csr_array(columns)
    indptr, indices = rows.indptr.astype(np.int64), rows.indices.astype(np.int32)
    return compressed(indptr, indices, rows.data, *rest)


def _rows_with_entries(term: LogSumExp) -> Any:
    """A without its empty rows, whose score is always 0."""
    if not sparse.issparse(term.A):
        return term.A
    return term.A[np.diff(term.A.indptr) > 0]


def _product(term: AnyTerm, x: Vector) -> Vector:
    """The product A x that the kernel carries; empty for a quadratic."""
    if isinstance(term, LinearModel):
        return term.predict(x)
    if isinstance(term, LogSumExp):
        return _rows_with_entries(term) @ x
    return np.zeros(0)
