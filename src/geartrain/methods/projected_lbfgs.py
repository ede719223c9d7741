r"""L-BFGS on f with bounds: what `auto` turns to where terms take microseconds.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
s, y       ``pairs``       steps, and the changes of the gradient of h + g along them
F          ``free``        variables that are not held at a bound
p          ``p``           the direction, which ends inside the bounds
=========  ==============  ==================================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from geartrain.methods.point_state import PointState, Stagnation
from geartrain.methods.pqn.memory import RowBlock
from geartrain.methods.pqn.rows import two_loops
from geartrain.methods.pqn.scaling import diagonal_scale
from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.oracles.nonsmooth import Box
from geartrain.oracles.protocols import Vector
from geartrain.oracles.vectors import dot, norm
from geartrain.problem import EPS, Sum

# Wolfe's conditions on value and slope, by the numbers of [2].
_LOWER, _FLATTER = 1e-4, 0.9
# Where values differ by no more than this many units of rounding, slopes decide [3].
_UNITS, _NOT_UP = 100.0, 0.8
# Evaluations of one line search, and steps without a lower value or a smaller gradient, after which
# the method stalls.
_TRIALS, _IDLE = 20, 10
# A pair counts where <s, y> > CURVED |s| |y|. It tells about the free variables where they have
# made this part of |s|^2: without that, problems with many bounds take 1.3 times the calls with 30
# pairs; with 0.99, SVM duals take twice as many.
_CURVED, _OWN = 1e-12, 0.9


@dataclass(frozen=True, eq=False)
class SecantPairs:
    """Pairs in scaled variables, oldest first."""

    rows: Vector  # s_1, y_1, s_2, y_2, ...
    products: Vector = field(default_factory=lambda: np.zeros(0))  # <s, y>
    block: RowBlock | None = field(default=None, metadata={"saved": False})  # of the rows

    def __len__(self) -> int:
        return len(self.products)

    def forgotten(self) -> SecantPairs:
        """None of them."""
        return SecantPairs(self.rows[:0])

    def add(self, s: Vector, y: Vector, most: int) -> SecantPairs:
        """With one more, if f bends up along it, and at most so many."""
        sy = dot(s, y)
        if not sy > _CURVED * norm(s) * norm(y):
            return self
        less = max(len(self) + 1 - most, 0)
        block, kept = self.block, self.rows[2 * less :]
        if block is None or not block.ends_with(kept):
            block = RowBlock(4 * most, kept)
        products = np.append(self.products[less:], sy)
        return SecantPairs(block.extended(kept, (s, y)), products, block)


@dataclass(frozen=True, kw_only=True)
class ProjectedLBFGSState(PointState):
    """State of `ProjectedLBFGS`."""

    pairs: SecantPairs


class LinePoint(NamedTuple):
    """A point of a line search."""

    t: float
    x: Vector
    value: float
    grad: Vector
    slope: float


@dataclass(frozen=True)
class ProjectedLBFGS:
    r"""Limited-memory BFGS on f, smooth or with bounds.

    Algorithm, from x:

    1. F are the variables that are inside their bounds, or that the gradient moves inside
    2. d = -H_F grad on F by the two loops of [1]_ over the newest pairs, restricted to F; -grad
       over the first curvature y'y/s'y elsewhere
    3. p = P(x + d) - x with the projection P on the bounds. Where p does not descend, variables
       that P has stopped and that the gradient moves there leave F, and d is computed again [4]_
    4. a step x + t p by Wolfe's conditions, t = 1 first; where f changes by rounding only, by
       slopes alone [3]_. Where no step is found with the pairs, they are forgotten, and where none
       is found without them, the method stalls

    Guarantee: linear convergence for strongly convex f, no useful rate; quick in practice. An
    evaluation is one fused call of h and one of g, mostly one per iteration.

    Parameters
    ----------
    memory : int
        Number of pairs.
    scaled : bool
        Whether variables are scaled by the root of the terms' curvature along coordinates, where
        the terms tell it.

    References
    ----------
    .. [1] J. Nocedal, S. Wright, Numerical Optimization, 2nd ed. (2006), Algorithm 7.4.
    .. [2] C. Zhu, R. Byrd, P. Lu, J. Nocedal, Algorithm 778: L-BFGS-B, ACM Trans. Math. Softw. 23
       (1997).
    .. [3] W. Hager, H. Zhang, A new conjugate gradient method with guaranteed descent and an
       efficient line search, SIAM J. Optim. 16 (2005).
    .. [4] D. Bertsekas, Projected Newton methods for optimization problems with simple constraints,
       SIAM J. Control Optim. 20 (1982).
    """

    memory: int = 10
    scaled: bool = False

    needs: ClassVar[tuple[str, ...]] = ("value_and_grad",)
    takes_psi: ClassVar[bool] = True
    many_terms: ClassVar[bool] = True

    def init(self, problem: Sum, x0: Vector) -> ProjectedLBFGSState:
        """Value and gradient at x0."""
        if not (problem.psi is None or isinstance(problem.psi.term, Box)):
            raise TypeError(
                f"ProjectedLBFGS has bounds only, but the non-smooth term is {problem.psi!r}; "
                "choose method='pqn'"
            )
        whole: Any = problem.whole
        value, grad = whole.value_and_grad(x0)
        return _state(problem, x0, value, grad, SecantPairs(np.zeros((0, len(x0)))))

    def step(self, problem: Sum, state: ProjectedLBFGSState) -> ProjectedLBFGSState:
        """One line search; without the pairs, where it finds nothing with them."""
        scale = _scale(problem) if self.scaled else None
        for pairs in (state.pairs, state.pairs.forgotten()):
            p, longest = _direction(problem, state, pairs, scale)
            slope = dot(state.grad_f, p)
            if slope < 0.0:
                first = 1.0 if len(pairs) else 1.0 / norm(p if scale is None else scale * p)
                found = _search(problem, state, p, slope, min(first, longest), longest)
                if found is not None:
                    s, y = found.x - state.x, found.grad - state.grad_f
                    if scale is not None:
                        s, y = s * scale, y / scale
                    added = pairs.add(s, y, self.memory)
                    return _state(problem, found.x, found.value, found.grad, added, state)
            if not len(pairs):
                break
        return replace(state, stalled=True)


def _state(
    problem: Sum,
    x: Vector,
    value: float,
    grad_f: Vector,
    pairs: SecantPairs,
    before: ProjectedLBFGSState | None = None,
) -> ProjectedLBFGSState:
    """The state at x, which says whether anything has become lower of late."""
    grad_psi = problem.grad_psi(x, grad_f)
    slope = norm(grad_f if grad_psi is None else grad_f + grad_psi)
    progress = (Stagnation() if before is None else before.progress).after(value, slope)
    return ProjectedLBFGSState(
        x=x,
        value=value,
        grad_f=grad_f,
        grad_psi=grad_psi,
        pairs=pairs,
        progress=progress,
        stalled=progress.idle >= _IDLE,
    )


def _scale(problem: Sum) -> Vector | None:
    kept = problem.h.kept
    if "diagonal_scale" not in kept:
        kept["diagonal_scale"] = diagonal_scale(problem)
    return kept["diagonal_scale"]


def _direction(
    problem: Sum, state: ProjectedLBFGSState, pairs: SecantPairs, scale: Vector | None
) -> tuple[Vector, float]:
    """p, and the largest t for which x + t p is inside the bounds."""
    x, grad = state.x, state.grad_f
    g = grad if scale is None else grad / scale
    if problem.psi is None:
        d = _two_loops(pairs, g)
        return d if scale is None else d / scale, math.inf
    box: Box = problem.psi.term
    held = ((x <= box.lower) & (grad > 0.0)) | ((x >= box.upper) & (grad < 0.0))
    while True:
        d = _on_free(pairs, g, ~held)
        if scale is not None:
            d /= scale
        end = x + d
        beyond = (end < box.lower) | (end > box.upper)
        p = np.where(beyond, np.clip(end, box.lower, box.upper) - x, d)
        stopped = beyond & (grad * d < 0.0) & ~held
        if dot(grad, p) < 0.0 or not stopped.any():
            break
        held |= stopped
    ends = np.where(p > 0.0, box.upper, box.lower)
    moved = p != 0.0
    room = (ends[moved] - x[moved]) / p[moved]
    return p, max(1.0, float(room.min(initial=math.inf)))


def _on_free(pairs: SecantPairs, grad: Vector, free: Any) -> Vector:
    """-H_F grad on the free variables F, and -grad over the first curvature elsewhere."""
    if free.all() or not len(pairs):
        return _two_loops(pairs, grad)
    rows = pairs.rows[:, free]
    S, Y, whole = rows[::2], rows[1::2], pairs.rows[::2]
    ss, sy, yy = (np.einsum("ij,ij->i", a, b) for a, b in ((S, S), (S, Y), (Y, Y)))
    own = ss >= _OWN * np.einsum("ij,ij->i", whole, whole)
    used = np.flatnonzero(own & (sy > _CURVED * np.sqrt(ss * yy)))
    d = -grad
    if len(used):
        d *= sy[used[-1]] / yy[used[-1]]
        rows = rows.reshape(len(sy), 2, -1)[used].reshape(2 * len(used), -1)
        d[free] = _two_loops(SecantPairs(rows, sy[used]), grad[free])
    return d


def _two_loops(pairs: SecantPairs, grad: Vector) -> Vector:
    """-H grad by the pairs [1]; -grad if there are none."""
    return two_loops(pairs.rows, pairs.products, -grad)


def _search(
    problem: Sum, state: ProjectedLBFGSState, p: Vector, slope_0: float, t: float, longest: float
) -> LinePoint | None:
    """A step by Wolfe's conditions."""
    whole: Any = problem.whole
    f_0, x = state.value, state.x
    box = None if problem.psi is None else problem.psi.term
    level = f_0 + _UNITS * EPS * abs(f_0)
    low, high = LinePoint(0.0, x, f_0, state.grad_f, slope_0), None
    for _ in range(_TRIALS):
        end = x + t * p
        if box is not None:
            end = np.clip(end, box.lower, box.upper)
        try:
            value, grad = whole.value_and_grad(end)
            new = LinePoint(t, end, value, grad, dot(grad, p))
        except NonFiniteAnswer:
            new = LinePoint(t, end, math.inf, state.grad_f, math.inf)
        lower = new.value <= f_0 + _LOWER * t * slope_0
        lower = lower or (new.value <= level and new.slope <= -_NOT_UP * slope_0)
        if lower and (new.slope >= _FLATTER * slope_0 or t >= longest):
            return new
        if lower and new.slope < 0.0:
            low = new
        else:
            high = new
        t = min(_next(low, high, slope_0), longest)
        if high is not None and high.t - low.t <= 4.0 * EPS * high.t:
            break
    return low if low.t > 0.0 else None


def _next(low: LinePoint, high: LinePoint | None, slope_0: float) -> float:
    """Where the line search goes on: beyond `low`, or between both."""
    if high is None:
        rise = (low.slope - slope_0) / low.t
        ahead = 1.0 - low.slope / rise / low.t if rise > 0.0 else 10.0
        return low.t * min(10.0, max(2.0, ahead))
    width = high.t - low.t
    if not math.isfinite(high.value):
        return low.t + 0.1 * width
    mean = 3.0 * (low.value - high.value) / width + low.slope + high.slope
    root = math.sqrt(max(mean * mean - low.slope * high.slope, 0.0))
    bottom = high.slope - low.slope + 2.0 * root
    part = 1.0 - (high.slope + root - mean) / bottom if bottom > 0.0 else 0.5
    return low.t + width * min(0.9, max(0.1, part))
