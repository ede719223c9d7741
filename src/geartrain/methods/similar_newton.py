r"""Newton steps with the Hessian of g, put right where h differs from it.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
p          ``x``           the point; the gradients of h and g are known there
M          ``hessian``     Hessian of g at p, plus alpha I
alpha      ``alpha``       at least a millionth of the mean curvature of g
D          ``D``           directions sent along with p, orthonormal columns
H_h D      ``HD_h``        the Hessian of h at p times D: part of the same answer
W          ``W``           basis of D and of what is kept, orthonormal for M
V          ``V``           the same span, orthonormal for M + H_h
=========  ==============  ==================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from geartrain.methods.base import State, solve_model
from geartrain.methods.inner.lbfgs import LBFGS
from geartrain.oracles.ledger import Oracle
from geartrain.oracles.protocols import Vector
from geartrain.oracles.spectrum import eigh
from geartrain.problem import EPS, Model, Sum, norm

# alpha over the mean curvature of g.
_SHIFT = 1e-6
# The first point minimises g + alpha/2 |. - x_0|^2 to this part of the first gradient.
_FIRST = 1e-3
_INNER = LBFGS(max_steps=1000)
# A direction is left out where less than this part of it is new.
_NEW = 0.1
# What is left of a direction is rounding below this part of it.
_NOTHING = 1e-6
# The curvature of f over that of g is at least this along known directions.
_LEAST = 0.1
# Conjugate gradients: relative residual, and steps for a step and for directions.
_RESIDUAL, _CG_STEPS, _ROUGH = 1e-2, 250, 15
# Bounds of the length of a step, and of the part of a failed step that is tried next.
_LONGEST, _PART = 1.3, (0.1, 0.5)
_TRIALS = 30
_ARMIJO, _ROUNDING = 1e-4, 1e-10
# A gradient of f below this part of those of h and g is rounding error.
_SMALLEST = 1e3 * EPS


@dataclass(frozen=True, kw_only=True)
class SimilarNewtonState(State):
    """State of `SimilarNewton` after k steps."""

    k: int
    x: Vector
    alpha: float
    alpha_0: float  # the least
    f: float  # f(x); not `value`, by which the best point would be chosen to rounding
    grad_h: Vector
    grad_g: Vector
    D: Vector  # (n, columns)
    HD_h: Vector  # Hessian of h at x times D
    kept: Vector  # (n, j) directions of before
    H_kept: Vector  # Hessian of h times these, where they were asked
    step: Vector  # from the last point, divided by its length
    change_h: Vector  # of the gradient of h along it, divided by the same
    trials: int = 0  # points asked in the last step
    stalled: bool = False

    @property
    def rounding(self) -> bool:  # type: ignore[override]
        """Whether the gradient of f is near its rounding error."""
        return norm(self.grad) <= _SMALLEST * (norm(self.grad_h) + norm(self.grad_g))

    @property
    def point(self) -> Vector:
        return self.x

    @property
    def grad(self) -> Vector:
        return self.grad_h + self.grad_g


@dataclass(frozen=True)
class SimilarNewton:
    r"""Newton's method for a term g that is like f, with a few Hessian products of h per round.

    f = h + g convex with Hessians; h may be non-convex, as f - f_1 is. An answer of h is its
    value, its gradient and its Hessian times `columns` vectors: where a call is a round of a
    cluster, they travel together.

    Algorithm, from p = argmin g if x_0 = 0 (h is not asked for it), else p = x_0, and
    D = M^{-1} (random):

    1. h at p: value, gradient and H_h D
    2. W = D, the last step and the last D, made orthonormal for M; the products of h follow, and
       V = W (W'(M + H_h)W)^{-1/2}
    3. s = -(V V' + (I - V V'H) M^{-1} (I - H V V')) grad f(p), H V = (M + H_h) V: the block
       BFGS inverse Hessian [1]_ over M; M^{-1} by conjugate gradients
    4. t with <grad g(p + t s) - grad g(p), s> = <s, M s>: for f as for g, the change of the slope
       that the quadratic model promised
    5. D_+ = M^{-1} H_h W, less its part in the span of W, made orthonormal: one step of subspace
       iteration towards the directions in which g misjudges f most
    6. p_+ = p + t s if f falls enough there. If not, t becomes the zero of the slope between both.

    Guarantee: s is a descent direction, so f(p) falls; with columns = n a step is Newton's, locally
    quadratic. One gradient and `columns` products of h per trial point; usually one trial point per
    step. Each step also needs a few gradients of g, up to 15 Hessian products per column for D_+,
    and up to 250 for the Newton direction s; if n is smaller than that, n products in all.

    Parameters
    ----------
    columns : int
        Directions per round. What is sent each way grows from n to (1 + columns) n numbers.

    Notes
    -----
    Products of h with the last step and the last D are from where they were asked, not from p.
    alpha grows where a step fails, by what M lacks along it, and falls by a factor of ten per step.
    h is asked for its gradient at x_0 once, and only by a tolerance relative to \|grad f(x_0)\|.

    It takes few rounds where g knows most directions of f. Where it does not, as for text with more
    words than rows in a shard, "pqn" is the better choice.

    References
    ----------
    .. [1] R. Gower, D. Goldfarb, P. Richtarik, Stochastic block BFGS: squeezing more curvature out
       of data, ICML (2016).
    .. [2] O. Shamir, N. Srebro, T. Zhang, Communication-efficient distributed optimization using an
       approximate Newton-type method, ICML (2014).
    .. [3] W. Hager, H. Zhang, A new conjugate gradient method with guaranteed descent and an
       efficient line search, SIAM J. Optim. 16 (2005).
    """

    columns: int = 16

    needs: ClassVar[tuple[str, ...]] = ("second_order",)

    def __post_init__(self) -> None:
        if self.columns < 1:
            raise ValueError(f"columns must be at least 1, got {self.columns}")

    def products_per_step(self, n: int) -> tuple[int, int]:
        """Hessian products of h, and those of g at most, in n variables."""
        columns = min(self.columns, n)
        return columns, min(n, _CG_STEPS + _ROUGH * columns)

    def init(self, problem: Sum, x0: Vector) -> SimilarNewtonState:
        """The first point and the first round."""
        rng = np.random.default_rng((problem.seed, 0))
        random = rng.standard_normal((problem.n, min(self.columns, problem.n)))
        mean = float((random * problem.g.products(x0, random)).sum() / (random**2).sum())
        alpha = _SHIFT * mean if mean > 0.0 else 1.0
        x = x0 if x0.any() else self._lowest_of_g(problem, x0, alpha)
        hessian = _hessian(problem.g, x, alpha, self.columns)
        D = np.linalg.qr(_solve(hessian, random, _ROUGH))[0]
        none = np.zeros((problem.n, 0))
        return SimilarNewtonState(
            **_asked(problem, x, D)._asdict(),
            k=0,
            alpha=alpha,
            alpha_0=alpha,
            D=D,
            kept=none,
            H_kept=none,
            step=np.zeros(problem.n),
            change_h=np.zeros(problem.n),
        )

    @staticmethod
    def _lowest_of_g(problem: Sum, x0: Vector, alpha: float) -> Vector:
        grad_g = problem.g.grad(x0)
        enough = _FIRST * norm(grad_g)
        phi = Model(problem.g, -alpha * x0, alpha, problem.L_g.value)
        return solve_model(_INNER, phi, x0, lambda v, _, r: norm(r) <= enough, grad_g0=grad_g).v

    def step(self, problem: Sum, state: SimilarNewtonState) -> SimilarNewtonState:
        """Lines 2 to 6, and the round at the new point."""
        hessian = _hessian(problem.g, state.x, state.alpha, self.columns)
        W, MW, HW_h = _basis(  # 2.
            np.column_stack([state.D, state.step, state.kept]),
            np.column_stack([state.HD_h, state.change_h, state.H_kept]),
            hessian,
        )
        s = _direction(W, MW - state.alpha * W + HW_h, hessian, state.grad)  # 3.
        promised = float(s @ hessian(s[:, None])[:, 0])
        t = _length(problem.g, state.x, s, state.grad_g, promised)  # 4.
        D = _off(W, MW, _solve(hessian, HW_h[:, : state.D.shape[1]], _ROUGH))  # 5.
        new, trials, alpha = _search(problem, state, s, t, D)  # 6.
        if new is None:
            return replace(state, k=state.k + 1, trials=trials, stalled=True)
        length = max(norm(new.x - state.x), np.finfo(float).tiny)
        return SimilarNewtonState(
            **new._asdict(),
            k=state.k + 1,
            alpha=alpha,
            alpha_0=state.alpha_0,
            D=D,
            kept=state.D,
            H_kept=state.HD_h,
            step=(new.x - state.x) / length,
            change_h=(new.grad_h - state.grad_h) / length,
            trials=trials,
            stalled=_is_rounding(state.grad, new.grad_h, new.grad_g),
        )


class _Answer(NamedTuple):
    """Both terms at x, with the products of h."""

    x: Vector
    f: float
    grad_h: Vector
    grad_g: Vector
    HD_h: Vector


def _asked(problem: Sum, x: Vector, D: Vector) -> _Answer:
    h, grad_h, HD_h = problem.h.second_order(x, D)
    g, grad_g = problem.g.value_and_grad(x)
    return _Answer(x, h + g, grad_h, grad_g, HD_h)


def _direction(W: Vector, HW: Vector, hessian: Callable[[Vector], Vector], grad: Vector) -> Vector:
    """Lines 2 and 3: V from W, then the block BFGS step s."""
    small = W.T @ HW
    w, U = eigh(0.5 * (small + small.T))
    scaled = U / np.sqrt(np.maximum(w, _LEAST))
    V, HV = W @ scaled, HW @ scaled
    a = V.T @ grad
    u = -_solve(hessian, (grad - HV @ a)[:, None], _CG_STEPS)[:, 0]
    return u - V @ (HV.T @ u + a)


def _search(
    problem: Sum, state: SimilarNewtonState, s: Vector, t: float, D: Vector
) -> tuple[_Answer | None, int, float]:
    """Line 6: the first point x + t s that is lower, for smaller and smaller t; None if none is.

    With it the number of points that were tried, and alpha for the next step.
    """
    slope = float(state.grad @ s)
    alpha = max(state.alpha / 10.0, state.alpha_0)
    smallest = 10.0 * EPS * norm(state.x)
    for trials in range(1, _TRIALS + 1):
        new = _asked(problem, state.x + t * s, D)
        slope_v = float((new.grad_h + new.grad_g) @ s)
        if _lower(state.f, new.f, t * slope, t * slope_v):
            return new, trials, alpha
        if t * norm(s) <= smallest:
            break
        if trials == 1:  # what M lacks along s
            alpha = max(state.alpha, 0.1 * ((slope_v - slope) / t + slope) / float(s @ s))
        part = slope / (slope - slope_v) if slope_v > slope else _PART[1]
        t *= min(max(part, _PART[0]), _PART[1])
    return None, trials, alpha


def _hessian(g: Oracle, x: Vector, alpha: float, columns: int) -> Callable[[Vector], Vector]:
    """M; all of it at once where that takes fewer products than the lines that use it."""
    if x.size <= _ROUGH * columns:
        M = g.products(x, np.eye(x.size)) + alpha * np.eye(x.size)
        return lambda D: M @ D
    return lambda D: g.products(x, D) + alpha * D


def _basis(
    S: Vector, HS_h: Vector, hessian: Callable[[Vector], Vector]
) -> tuple[Vector, Vector, Vector]:
    """W, M W and H_h W: Gram-Schmidt for M over the columns of S, the first ones whole."""
    n = len(S)
    rows = np.zeros((0, 3 * n))
    for row in np.vstack([S, hessian(S), HS_h]).T:
        size = float(row[:n] @ row[n : 2 * n])
        for _ in range(2):  # twice is enough
            row = row - (rows[:, n : 2 * n] @ row[:n]) @ rows
        new = float(row[:n] @ row[n : 2 * n])
        if new > _NEW**2 * size:
            rows = np.vstack([rows, row / math.sqrt(new)])
    W, MW, HW_h = np.split(rows.T, 3)
    return W, MW, HW_h


def _solve(hessian: Callable[[Vector], Vector], B: Vector, steps: int) -> Vector:
    """M^{-1} B by conjugate gradients, each column on its own."""
    X, R = np.zeros_like(B), B.copy()
    P, rr = R.copy(), (B * B).sum(axis=0)
    enough = _RESIDUAL**2 * rr
    for _ in range(steps):
        if (rr <= enough).all():
            break
        MP = hessian(P)
        bent = (P * MP).sum(axis=0)
        length = np.divide(rr, bent, out=np.zeros_like(rr), where=bent > 0.0)
        X += length * P
        R -= length * MP
        before, rr = rr, (R * R).sum(axis=0)
        P = R + np.divide(rr, before, out=np.zeros_like(rr), where=before > 0.0) * P
    return X


def _off(W: Vector, MW: Vector, D: Vector) -> Vector:
    """Line 5: orthonormal columns off the span of W; of a D that lies in it, D itself."""
    rest = D - W @ (MW.T @ D)
    before, after = np.linalg.norm(D, axis=0), np.linalg.norm(rest, axis=0)
    kept = after > _NOTHING * before
    lengths = np.maximum(np.where(kept, after, before), np.finfo(float).tiny)
    return np.linalg.qr(np.where(kept, rest, D) / lengths)[0]


def _length(g: Oracle, x: Vector, s: Vector, grad_g: Vector, promised: float) -> float:
    """Line 4, to a tenth; at most _LONGEST."""

    def missing(t: float) -> float:
        return float((g.grad(x + t * s) - grad_g) @ s) - promised

    low, high, t = 0.0, _LONGEST, 1.0
    at_low = -promised
    for _ in range(12):
        at_t = missing(t)
        if abs(at_t) <= 0.1 * promised or t == _LONGEST:
            break
        if at_t < 0.0:
            low, at_low = t, at_t
            t = _LONGEST if high == _LONGEST else low + 0.5 * (high - low)
        else:
            high = t
            t = low + max(at_low / (at_low - at_t), 0.1) * (high - low)
    return t


def _lower(f: float, f_v: float, slope: float, slope_v: float) -> bool:
    """Armijo's rule; its form for slopes [3]_ where the values differ by rounding only."""
    if abs(f_v - f) > _ROUNDING * abs(f):
        return f_v <= f + _ARMIJO * slope
    return slope_v <= (2.0 * _ARMIJO - 1.0) * slope


def _is_rounding(before: Vector, grad_h: Vector, grad_g: Vector) -> bool:
    """Whether the gradient of f is near its rounding error, and has not become smaller."""
    size = norm(grad_h + grad_g)
    return norm(before) <= size <= _SMALLEST * (norm(grad_h) + norm(grad_g))
