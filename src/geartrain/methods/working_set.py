r"""Proximal Newton steps on working sets, for linear models with a separable non-smooth term.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
x, r       ``x``           the iterate, and the shortest subgradient of f there
z          ``z``           A x, carried along; it only enters second derivatives
omega      --              second derivatives of the losses at z over m
W          --              the working set: coordinates that a step may change
v          --              ~ argmin <grad (h + g)(x), v - x> + 1/2 \|A (v - x)\|^2_omega + psi(v)
=========  ==============  ==================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from geartrain.compiled.records import Separable
from geartrain.geometry import EUCLIDEAN
from geartrain.methods.base import State
from geartrain.methods.chunking import pieces
from geartrain.methods.coordinate import by_columns
from geartrain.methods.separable import by_numbers
from geartrain.oracles.ledger import Oracle
from geartrain.oracles.linear_model import LinearModel
from geartrain.oracles.protocols import MissingOracle, Vector
from geartrain.oracles.splitting import Psi
from geartrain.oracles.vectors import dot, norm
from geartrain.problem import EPS, Sum

if TYPE_CHECKING:
    from geartrain.compiled.coordinate import DenseModel, SparseModel

_ARMIJO = 1e-4
# Halvings of a step after which only rounding is left.
_HALVINGS = 30
# Second derivatives below this part of the largest one that the loss has are raised to it: where
# losses are flat, steps would be too long by far. Where a loss is straight but not level, such as
# that of Huber for outliers, to a larger part, since many such rows bend after a step: sparse
# robust regression takes 12 calls instead of 43.
_FLAT, _STRAIGHT = 1e-4, 0.1
# Entries of A and coordinates of x from which less arithmetic outweighs the half second or so that
# it takes to load Numba.
_LARGE = 50_000
# Passes with the Hessian in W over passes by columns: they cost less.
_CHEAP = 10
# A difference of values may be rounding error below this part of them.
_ROUNDING = 1e-14


@dataclass(frozen=True)
class WorkingSetTuning:
    """Numbers of `WorkingSet`."""

    # Size of W: at least so many coordinates, or this multiple of those that are not 0. As in
    # Massias et al., Celer (2018), where W doubles, with a larger start.
    smallest: int = 100
    growth: float = 2.0
    # The model is minimised to this part of |r|. On 28 generated and real problems 0.03, 0.1 and
    # 0.3 take about the same time.
    eta: float = 0.1
    # Passes over W per step: the model need not be minimised where its columns are nearly parallel.
    passes: int = 100


@dataclass(frozen=True, kw_only=True)
class WorkingSetState(State):
    """State of `WorkingSet` after k iterations."""

    k: int
    x: Vector
    z: Vector  # A x
    value: float  # f(x)
    psi: float  # psi(x)
    smooth: Vector  # gradient of h + g at x
    grad_psi: Vector  # in dpsi(x)
    stalled: bool = False
    rounding: bool = False

    @property
    def point(self) -> Vector:
        return self.x

    @property
    def grad(self) -> Vector:
        return self.smooth + self.grad_psi


@dataclass(frozen=True)
class WorkingSet:
    r"""Proximal Newton method with working sets for f = h + g + psi in one process.

    h is a `geartrain.LinearModel` with one of the library's losses and its data in memory, g has no
    smooth part or is c/2 \|v\|^2 - <b, v>, and psi is `geartrain.L1` or `geartrain.Box`. No
    constants are needed.

    Algorithm, from x = x_0:

    1. r = the shortest subgradient at x; W = the coordinates in which psi is smooth at x, and those
       with the largest \|r_i\| of the others, twice as many as the first in all, but at least 100
    2. v ~ argmin <grad (h + g)(x), v - x> + 1/2 <v - x, H (v - x)> + psi(v) over all v that differ
       from x in W only, by cyclic coordinate descent, to a tenth of \|r\|; H is the Hessian at x
    3. ask h at v; x_+ = v if f has fallen enough, otherwise half the step is tried, and so on

    Guarantee: f falls in every iteration; convergence for convex f, superlinear up to the accuracy
    of line 2 once W and the signs do not change [1]_. No rate. One gradient of h per trial point.
    In line 2, one ``h.coord`` for each time that a column of A is passed over, which is the cost of
    a partial derivative; or, where the Hessian in W has fewer entries than the columns W, one
    ``h.product`` per column for this Hessian.

    Parameters
    ----------
    tuning : WorkingSetTuning
        Numbers of lines 1 and 2.

    Notes
    -----
    Where most coordinates are 0 at the solution, the arithmetic of line 2 concerns few columns, and
    what is left is one pass over the data per iteration [2]_. The method is for data in memory: it
    does not save calls of h.

    References
    ----------
    .. [1] J. D. Lee, Y. Sun, M. A. Saunders, Proximal Newton-type methods for minimizing composite
       functions, SIAM J. Optim. 24 (2014).
    .. [2] M. Massias, A. Gramfort, J. Salmon, Celer: a fast solver for the lasso with dual
       extrapolation, ICML (2018).
    """

    tuning: WorkingSetTuning = WorkingSetTuning()

    needs: ClassVar[tuple[str, ...]] = ("value_and_grad",)
    takes_psi: ClassVar[bool] = True

    def init(self, problem: Sum, x0: Vector) -> WorkingSetState:
        _parts(problem)
        return self._at(problem, x0, problem.h.term.predict(x0), k=0)

    def step(self, problem: Sum, state: WorkingSetState) -> WorkingSetState:
        parts = _parts(problem)
        r = state.grad
        if norm(r) <= 10.0 * EPS * norm(state.smooth):
            return replace(state, k=state.k + 1, stalled=True, rounding=True)
        # 1.
        W = self._working_set(state.x, r, parts.psi)
        # 2.
        v, Aq = self._minimiser(problem, parts, state, W, norm(r))
        s = v - state.x
        # 3.
        slope = dot(state.smooth, s) + _psi(problem).value(v) - state.psi
        part = 1.0
        for _ in range(_HALVINGS):
            x = v if part == 1.0 else state.x + part * s
            new = self._at(problem, x, state.z + part * Aq, state.k + 1)
            change = new.value - state.value
            close = abs(change) <= _ROUNDING * abs(state.value)
            if change <= _ARMIJO * part * slope < 0.0 or (close and norm(new.grad) < norm(r)):
                return new
            part *= 0.5
        return replace(state, k=state.k + 1, stalled=True)

    def _at(self, problem: Sum, x: Vector, z: Vector, k: int) -> WorkingSetState:
        """The state at x: one gradient of h."""
        psi = _psi(problem)
        h, grad_h = problem.h.value_and_grad(x)
        g, grad_g = problem.g.value_and_grad(x)
        at_psi, grad = psi.value(x), grad_h + grad_g
        return WorkingSetState(
            k=k,
            x=x,
            z=z,
            value=h + g + at_psi,
            psi=at_psi,
            smooth=grad,
            grad_psi=psi.residual(x, grad) - grad,
        )

    def _working_set(self, x: Vector, r: Vector, psi: Separable) -> NDArray[np.int64]:
        """Line 1."""
        t = self.tuning
        free = (x > psi.lower) & (x < psi.upper) & ((x != 0.0) | (psi.lam == 0.0))
        others = np.flatnonzero(~free & (r != 0.0))
        inside = np.flatnonzero(free)
        room = max(t.smallest, int(t.growth * inside.size)) - inside.size
        if others.size > room:
            others = others[np.argpartition(-np.abs(r[others]), room)[:room]]
        return np.sort(np.concatenate([inside, others]))

    def _minimiser(
        self,
        problem: Sum,
        parts: _Parts,
        state: WorkingSetState,
        W: NDArray[np.int64],
        size: float,
    ) -> tuple[Vector, Vector]:
        """Line 2: v, and A (v - x)."""
        t, term = self.tuning, problem.h.term
        omega = _curvatures(term, state.z) / term.m
        of = _QuadraticModel(problem.h, parts, W, omega, state.smooth[W], state.x[W])
        solve = of.by_hessian if W.size**2 <= parts.entries(W) else of.by_columns
        v_W, Aq, steps = solve(t.eta * size, t.passes)
        # Proximal steps of single coordinates, within the seconds of the loop.
        problem.ledger.add(f"{_psi(problem).name}.prox", steps, 0.0)
        v = state.x.copy()
        v[W] = v_W
        return v, Aq


def _curvatures(term: LinearModel, z: Vector) -> Vector:
    """Second derivatives of the losses at z, raised where they are too small for a step."""
    second, slopes = term.loss.second(term.y, z), term.loss.derivative(term.y, z)
    least = np.where((second == 0.0) & (slopes != 0.0), _STRAIGHT, _FLAT)
    return np.maximum(second, least * term.loss.curvature)


@dataclass(frozen=True)
class _QuadraticModel:
    """The model of line 2 in the coordinates of the working set."""

    h: Oracle
    parts: _Parts
    W: NDArray[np.int64]
    omega: Vector
    d: Vector  # gradient of h + g at x, in W
    x: Vector  # in W

    def by_columns(self, enough: float, passes: int) -> tuple[Vector, Vector, int]:
        """The minimiser by passes over columns of A; A times the step; proximal steps."""
        from geartrain.compiled import newton  # imports Numba

        h, parts, W, omega = self.h, self.parts, self.W, self.omega
        a = h.bulk("coord", newton.bends, parts.columns, W, omega, parts.shift)
        a = np.maximum(a, _FLAT * a.max())
        v, wq = self.x.copy(), np.zeros(omega.size)
        before = h.ledger.calls[f"{h.name}.coord"]
        model = (parts.columns, W, omega, a, parts.shift, self.d, self.x, parts.psi)
        for some in pieces(h, "coord", passes, W.size):
            count = some.stop - some.start
            moved = h.bulk("coord", newton.descend, *model, v, wq, enough, count)
            if moved <= enough:
                break
        return v, wq / omega, h.ledger.calls[f"{h.name}.coord"] - before

    def by_hessian(self, enough: float, passes: int) -> tuple[Vector, Vector, int]:
        """The same by the Hessian in W, where that has fewer entries than the columns."""
        from geartrain.compiled import newton

        h, parts, W = self.h, self.parts, self.W
        H = h.bulk("product", parts.gram, self.omega, W)
        diagonal = parts.columns.ridge[W] + parts.shift
        H[np.diag_indices_from(H)] += diagonal
        H[np.diag_indices_from(H)] = np.maximum(np.diag(H), _FLAT * np.diag(H).max())
        v = self.x.copy()
        steps = newton.descend_gram(H, W, self.d.copy(), parts.psi, v, enough, _CHEAP * passes)
        return v, h.bulk("coord", newton.image, parts.columns, W, v - self.x), steps


@dataclass(frozen=True)
class _Parts:
    """The problem as the compiled loops read it."""

    columns: SparseModel | DenseModel
    psi: Separable
    shift: float  # c of a g that is c/2 |v|^2 - <b, v>
    rows: Any  # A, with a column of ones if there is an intercept

    def entries(self, W: NDArray[np.int64]) -> int:
        """The number of entries in the columns W."""
        if not sparse.issparse(self.rows):
            return W.size * self.rows.shape[0]
        ends = cast("SparseModel", self.columns).indptr
        return int(np.sum(ends[W + 1] - ends[W]))

    def gram(self, tally: NDArray[np.int64], omega: Vector, W: NDArray[np.int64]) -> Vector:
        """A_W' diag(omega) A_W: a product with the Hessian per column."""
        from geartrain.compiled import newton

        if sparse.issparse(self.rows):
            A = self.rows
            return newton.gram_of_rows(tally, A.indptr, A.indices, A.data, omega, W, A.shape[1])
        tally[0] += W.size
        A = cast("DenseModel", self.columns).rows[W] * np.sqrt(omega)
        return A @ A.T  # half of the work of a product of two matrices


def _psi(problem: Sum) -> Psi:
    assert problem.psi is not None
    return problem.psi


def fits(problem: Sum) -> bool:
    """Whether `WorkingSet` can minimise the problem."""
    term, psi = problem.h.term, problem.psi
    return (
        psi is not None
        and not problem.expensive
        and problem.geometry is EUCLIDEAN
        and isinstance(term, LinearModel)
        and not term.calls_user_code
        and by_columns(term) is not None
        and problem.g.term.spherical is not None
        and by_numbers(psi, problem.n) is not None
    )


def is_large(problem: Sum) -> bool:
    """Whether the arithmetic of other methods takes longer than loading Numba."""
    A = problem.h.term.A
    entries = A.nnz if sparse.issparse(A) else A.size
    return bool(entries + problem.n >= _LARGE)


def _parts(problem: Sum) -> _Parts:
    """Made once per problem."""
    kept: dict[str, Any] = problem.h.kept
    if "working set" not in kept:
        if not fits(problem):
            raise MissingOracle(
                "WorkingSet needs a gt.LinearModel in memory as h, gt.L1 or gt.Box as non-smooth "
                "term, and no further smooth term than a ridge; choose method='pqn'"
            )
        psi = by_numbers(problem.psi, problem.n)
        columns: Any = by_columns(problem.h.term)
        assert psi is not None
        kept["working set"] = _Parts(
            columns, psi, float(problem.g.term.spherical[0]), problem.h.term.with_ones
        )
    return kept["working set"]
