r"""What the accelerated coordinate methods share: constants, sampling, walks.

A walk is the recursion of `geartrain.compiled.coordinate`: main sequence x, second sequence z,
u = x - z. A method says where to ask (`Weights`), how far to go (`Steps`), and how often a
coordinate is drawn; the walk does the rest, compiled where the term is one of the library's or its
``coord`` is jitted, and otherwise call by call.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from geartrain.oracles.ledger import Oracle
from geartrain.oracles.linear_model import LinearModel
from geartrain.oracles.log_sum_exp import LogSumExp
from geartrain.oracles.losses import LOSSES
from geartrain.oracles.protocols import Vector
from geartrain.oracles.quadratic import Quadratic
from geartrain.problem import MissingConstant, Model

if TYPE_CHECKING:
    from geartrain.compiled.coordinate import Columns

Index = NDArray[np.int64]

# A run that has not met its rule after so many chunks never will: 40 reach 1e-16.
MAX_CHUNKS = 150


class Weights(NamedTuple):
    """kappa_t, beta_t and a_t of `geartrain.compiled.coordinate`, one of each a step."""

    k: Vector
    be: Vector
    a: Vector


class Steps(NamedTuple):
    """Step lengths by coordinate, and whether the quadratic is a composite term."""

    x: Vector  # 1/L_i
    z: Vector  # of z, before the weight a_t
    composite: bool = False


@dataclass(frozen=True)
class Walk:
    """Where a coordinate method is."""

    z: Vector  # second sequence
    u: Vector  # x - z
    products: tuple[tuple[Vector, Vector], ...]  # (A z, A u) of every compiled term, or empty

    @property
    def x(self) -> Vector:
        """Main sequence."""
        return self.z + self.u

    def restarted(self) -> Walk:
        """Start the second sequence again at x."""
        products = tuple((Az + Au, np.zeros_like(Au)) for Az, Au in self.products)
        return Walk(self.x, np.zeros_like(self.u), products)

    def copy(self) -> Walk:
        """With arrays of its own."""
        products = tuple((Az.copy(), Au.copy()) for Az, Au in self.products)
        return Walk(self.z.copy(), self.u.copy(), products)


def start_walk(terms: tuple[Any, ...], x0: Vector) -> Walk:
    """Both sequences at x0. A term whose products are carried computes A x0 once."""
    products = []
    if all(by_columns(t) is not None for t in terms):
        for term in terms:
            Az = _product(term, x0)
            products.append((Az, np.zeros_like(Az)))
    return Walk(x0, np.zeros_like(x0), tuple(products))


def walk_model(phi: Model, walk: Walk, index: Index, weights: Weights, steps: Steps) -> Walk:
    """Go through `index` on phi; every entry asks g for one partial derivative."""
    from geartrain.compiled import coordinate as kernels  # imports Numba

    new = walk.copy()
    tail = (new.z, new.u, index, *weights, steps.x, steps.z, phi.beta, phi.alpha, steps.composite)
    if walk.products:
        term = by_columns(phi.g.term)
        phi.g.bulk("coord", kernels.advance, term, *new.products[0], *tail)
    elif _is_jitted(phi.g.term.coord):
        phi.g.bulk("coord", kernels.advance_user, phi.g.term.coord, *tail)
    else:
        walk_slowly(phi.g.coord, *tail)
    return new


def walk_sum(
    h: Oracle, g: Oracle, walk: Walk, index: Index, weights: Weights, steps: Steps
) -> Walk:
    """Go through `index` on h + g; every entry asks both for one partial derivative."""
    new = walk.copy()
    tail = (new.z, new.u, index, *weights, steps.x, steps.z)
    if not walk.products:
        zero = np.zeros(h.n)
        walk_slowly(lambda x, i: h.coord(x, i) + g.coord(x, i), *tail, zero, 0.0, False)
        return new
    from geartrain.compiled import coordinate as kernels  # imports Numba

    H, G = by_columns(h.term), by_columns(g.term)
    (Hz, Hu), (Gz, Gu) = new.products
    asked = np.zeros(1, dtype=np.int64)
    # One loop asks both terms and cannot tell their seconds apart: they are booked under h.
    h.bulk("coord", kernels.advance_sum, asked, H, Hz, Hu, G, Gz, Gu, *tail)
    g.ledger.add(f"{g.name}.coord", int(asked[0]), 0.0)
    return new


def walk_slowly(
    coord: Callable[[Vector, int], float],
    z: Vector,
    u: Vector,
    index: Index,
    k: Vector,
    be: Vector,
    a: Vector,
    step_x: Vector,
    step_z: Vector,
    beta: Vector,
    alpha: float,
    composite: bool,
) -> None:
    """`geartrain.compiled.coordinate.advance_user` for any callable, in place."""
    from geartrain.compiled.coordinate import FOLD

    s, r = 0.0, 1.0
    path = zip(index.tolist(), k.tolist(), be.tolist(), a.tolist(), strict=True)
    for i, k_t, be_t, a_t in path:
        c = s + k_t * r
        q = z + c * u
        z_i, q_i, L_i = float(z[i] + s * u[i]), float(q[i]), 1.0 / step_x[i]
        d = coord(q, i) + beta[i]
        if composite:
            dz = -(d + alpha * z_i) / (a_t * L_i + alpha)
            dx = a_t * dz
        else:
            d += alpha * q_i
            dx = -d / L_i
            dz = -a_t * step_z[i] * d
        s += be_t * k_t * r
        r *= (1.0 - be_t) * k_t
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
    """Draws coordinates with given probabilities, up to a factor."""

    def __init__(self, weights: Vector) -> None:
        total = np.cumsum(weights)
        self.p = weights / total[-1]
        self._cumulative = total / total[-1]
        # A power of two, so that x -> floor(x size) and j/size are exact.
        size = 1 << max(weights.size - 1, 1).bit_length()
        self._guide = np.searchsorted(self._cumulative, np.arange(size) / size, side="right")

    def draw(self, key: tuple[int, ...], steps: int) -> Index:
        """`steps` coordinates; the same for the same key."""
        from geartrain.compiled.sequences import draw

        return draw(self._cumulative, self._guide, np.random.default_rng(key).random(steps))


def coordinate_constants(
    term: Any, L: float | None, method: str, name: str = "g"
) -> Vector | float:
    """Lipschitz constants of the partial derivatives: the term's own, else L for all."""
    own = getattr(term, "L_coord", None)
    if own is not None:
        return np.asarray(own, dtype=np.float64)
    if L is None:
        raise MissingConstant(
            f"{method} needs the constants of {name}'s partial derivatives; give the term its "
            f"L_coord or its L, or pass L_{name}=..."
        )
    return L


def model_constants(phi: Model, method: str) -> Vector:
    """L_i of phi: those of g plus alpha."""
    return np.zeros(phi.n) + coordinate_constants(phi.g.term, phi.L_g, method) + phi.alpha


def check_period(period: int | None) -> None:
    """Refuse a period of restarts that is not a positive whole number."""
    if period is not None and (period < 1 or period != int(period)):
        raise ValueError(f"restart must be a positive whole number of steps, got {period}")


def chunk_length(K: float, n: int) -> int:
    """Steps between two tests, which cost n derivatives each; K is the natural number of steps."""
    return max(n, math.ceil(K))


def _is_jitted(fn: Any) -> bool:
    """Whether `fn` is compiled by Numba (which need not be imported to know it)."""
    return type(fn).__module__.startswith("numba.") and hasattr(fn, "py_func")


def by_columns(term: Any) -> Columns | None:
    """The term as the kernels read it, made once and kept on the term; None for other terms."""
    if type(term) not in (Quadratic, LinearModel, LogSumExp):
        return None
    if isinstance(term, Quadratic) and not callable(term.coord):  # Q is a LinearOperator
        return None
    if isinstance(term, LinearModel) and type(term.loss) not in LOSSES.values():  # the user's loss
        return None
    known = term.__dict__.get("_by_columns")
    if known is None:
        known = term.__dict__["_by_columns"] = _make_columns(term)
    return known


def _make_columns(term: Any) -> Columns:
    from geartrain.compiled import coordinate as kernels

    dense: Any
    compressed: Any
    rest: tuple[Any, ...]
    if isinstance(term, Quadratic):
        dense, compressed = kernels.Dense, kernels.Sparse
        columns, rest = term.Q, (term.b,)  # symmetric: rows are columns
    elif isinstance(term, LinearModel):
        dense, compressed = kernels.DenseModel, kernels.SparseModel
        param = float(getattr(term.loss, "mu", getattr(term.loss, "delta", 0.0)))
        ridge = term.ridge(np.ones(term.n))
        columns, rest = (
            term.with_ones.T,
            (term.y, ridge, kernels.LOSSES.index(term.loss.name), param),
        )
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
    """A without the rows whose score is always 0."""
    if not sparse.issparse(term.A):
        return term.A
    return term.A[np.diff(term.A.indptr) > 0]


def _product(term: Any, x: Vector) -> Vector:
    """A x as the kernel carries it; nothing for a quadratic."""
    if isinstance(term, LinearModel):
        return term.predict(x)
    if isinstance(term, LogSumExp):
        return _rows_with_entries(term) @ x
    return np.zeros(0)
