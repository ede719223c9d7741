r"""ACD on f as a whole: accelerated coordinate descent that asks h and g equally often.

========  ============  ==========================================================
symbol    name          meaning
========  ============  ==========================================================
x         ``x``         main sequence, the output
v         ``walk.z``    second sequence
L_i       ``L_coord``   constant of the i-th partial derivative of h + g
S         ``S``         sum_i sqrt(L_i)
A, B      ``A``, ``B``  weights of the estimating sequence
========  ============  ==========================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from geartrain.methods.base import State
from geartrain.methods.coordinate import (
    Sampler,
    StepLengths,
    Walk,
    chunk_length,
    coordinate_constants,
    start_walk,
    walk_sum,
)
from geartrain.methods.inner.nesterov_stich import nesterov_stich_weights
from geartrain.oracles.protocols import Vector
from geartrain.oracles.validation import as_nonnegative
from geartrain.problem import Sum

# Longest chunk in passes of n steps: the gradient at its end is then a tenth of the work.
_PASSES = 10


@dataclass(frozen=True, kw_only=True)
class ACDWholeState(State):
    """State of `ACDWhole` after k chunks."""

    k: int
    A: float
    B: float
    x: Vector  # main sequence, the output
    walk: Walk
    grad_x: Vector  # gradient of f at x
    L_coord: Vector  # of f
    since: int = 0  # chunks since the last restart
    uphill: float = -math.inf  # <grad f(x_k), x_k - x_{k-1}>

    @property
    def point(self) -> Vector:
        return self.x

    @property
    def grad(self) -> Vector:
        return self.grad_x


# Paper: coordinate descent
@dataclass(frozen=True)
class ACDWhole:
    r"""Nesterov and Stich's accelerated coordinate descent on f = h + g (FCD, ARCD).

    Algorithm: lines 1 to 4 of `geartrain.inner.NesterovStich` with beta = 1/2 and sigma_w = mu, the
    partial derivative being that of h plus that of g.

    Guarantee: E f(x) - f* <= 2 S^2 R^2/k^2 after k steps, and the natural number of steps is
    K = S/sqrt(mu) ([1]_). An iteration is a chunk of K steps, at most 10 n, each with one
    partial derivative of h and one of g, and one gradient of both at its end.

    Parameters
    ----------
    mu : float, optional
        Strong convexity of f; the problem's if not given. Where it is not known,
        ``Restarted(ACDWhole(), GradientTest())``, which ``method="acd"`` chooses then, restarts
        the momentum when a chunk ended uphill.

    Notes
    -----
    Any two of `geartrain.Quadratic`, `geartrain.LinearModel` and `geartrain.LogSumExp` run
    compiled, the products A x carried along; a step then costs one row of Q, one column of A, or,
    for LogSumExp, one exponential for every row of A that has entries. The seconds of the compiled
    loop are booked under h. Other terms with ``coord`` are asked call by call, at O(n) and some 5
    microseconds per step on top of their own time.

    References
    ----------
    .. [1] Yu. Nesterov, S. Stich, Efficiency of the accelerated coordinate descent method on
       structured optimization problems, SIAM J. Optim. 27 (2017).
    """

    mu: float | None = None

    needs: ClassVar[tuple[str, ...]] = ("coord",)

    def __post_init__(self) -> None:
        if self.mu is not None:
            as_nonnegative(self.mu, "mu")

    def init(self, problem: Sum, x0: Vector) -> ACDWholeState:
        L = np.zeros(problem.n)
        L += coordinate_constants(problem.h.term, problem.L_h.value, "ACDWhole", "h")
        L += coordinate_constants(problem.g.term, problem.L_g.value, "ACDWhole", "g")
        if not L.any():  # f is linear: every positive number is a constant of its derivatives
            L += 1.0
        walk = start_walk((problem.h.term, problem.g.term), x0)
        grad = problem.grad(x0)
        return ACDWholeState(k=0, A=0.0, B=1.0, x=x0, walk=walk, grad_x=grad, L_coord=L)

    def restart(self, state: ACDWholeState) -> ACDWholeState:
        return replace(state, A=0.0, B=1.0, since=0, walk=state.walk.restarted())

    def step(self, problem: Sum, state: ACDWholeState) -> ACDWholeState:
        n, root = problem.n, np.sqrt(state.L_coord)
        mu = (problem.mu.value or 0.0) if self.mu is None else self.mu
        S = float(root.sum())
        longest = _PASSES * n
        size = min(longest, chunk_length(S / math.sqrt(mu), n)) if mu > 0.0 else longest
        sampler = Sampler(root)
        index = sampler.draw((problem.seed, state.k), size)
        with np.errstate(divide="ignore"):  # a coordinate that f does not depend on is not drawn
            steps = StepLengths(x=1.0 / state.L_coord, z=1.0 / sampler.p)
        weights, A, B = nesterov_stich_weights(state.A, state.B, S, mu, size)
        walk = walk_sum(problem.h, problem.g, state.walk, index, weights, steps)
        x = walk.x
        grad = problem.grad(x)
        return ACDWholeState(
            k=state.k + 1,
            A=A,
            B=B,
            x=x,
            walk=walk,
            grad_x=grad,
            L_coord=state.L_coord,
            since=state.since + 1,
            uphill=float(grad @ (x - state.x)),
        )
