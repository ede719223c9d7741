r"""SpaRSA: proximal gradient steps of spectral length, what `auto` turns to with cheap terms.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
alpha      ``alpha``       curvature that stands for that of h + g in the next step
s, y       --              the last step, and the change of the gradient of h + g along it
w          ``grad_psi``    element of the subdifferential of psi that the last step proves
=========  ==============  ==================================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from geartrain.methods.point_state import PointState, Stagnation
from geartrain.oracles.ledger import NonFiniteAnswer
from geartrain.oracles.protocols import Vector
from geartrain.oracles.vectors import dot, norm
from geartrain.problem import EPS, Sum

# A step must bring this part of alpha/2 |s|^2 below the highest of the last values [1].
_LOWER = 1e-4
# The growth of alpha after a step that does not, and the number of steps tried.
_STEEPER, _TRIALS = 4.0, 40
# The first step, over |x_0|; over 1 from the origin.
_FIRST = 1e-3
# The part of alpha that is left after a step along which h + g does not bend up.
_FLATTER = 0.1
# Values that differ by no more than this many units of rounding may be equal.
_UNITS = 10.0
# Steps without a lower value or a smaller gradient, after which the method stalls.
_IDLE = 50
# A subgradient that a step proves is known where its rounding error is below this part of |grad f|.
_KNOWN = 0.1


@dataclass(frozen=True, kw_only=True)
class SpaRSAState(PointState):
    """State of `SpaRSA`; its subgradient is the one that the last step proves."""

    alpha: float
    k: int = 0
    recent: tuple[float, ...]  # the last values of f


@dataclass(frozen=True)
class SpaRSA:
    r"""Proximal gradient steps with the lengths of Barzilai and Borwein, for f = h + g + psi.

    Algorithm, from x:

    1. v = prox(x - grad (h + g)(x)/alpha, alpha), a step s = v - x
    2. where f(v) > max of the last `memory` values - 1e-4 alpha/2 \|s\|^2, alpha grows by 4 and
       line 1 is repeated
    3. x_+ = v, and alpha = <s, y>/<s, s> and <y, y>/<s, y> by turns [2]_

    Guarantee: every limit point is a stationary point ([1]_, Theorem 1); no useful rate; quick in
    practice where f is not badly conditioned. An evaluation is one fused call of h, one of g and
    one proximal step, mostly one per iteration.

    Parameters
    ----------
    memory : int
        Number of values that a new one is compared with; 1 for a descent method.

    References
    ----------
    .. [1] S. Wright, R. Nowak, M. Figueiredo, Sparse reconstruction by separable approximation,
       IEEE Trans. Signal Process. 57 (2009).
    .. [2] J. Barzilai, J. Borwein, Two-point step size gradient methods, IMA J. Numer. Anal. 8
       (1988).
    """

    memory: int = 5

    needs: ClassVar[tuple[str, ...]] = ("value_and_grad",)
    takes_psi: ClassVar[bool] = True
    many_terms: ClassVar[bool] = True

    def init(self, problem: Sum, x0: Vector) -> SpaRSAState:
        """Value and gradient at x0, and a first step that is short."""
        if problem.psi is not None and not problem.psi.has_value:
            raise TypeError(
                f"SpaRSA compares values of f, and {problem.psi!r} has none; choose method='pqn'"
            )
        value, grad = _smooth(problem, x0)
        value += _psi(problem, x0)
        grad_psi = problem.grad_psi(x0, grad)
        slope = norm(grad if grad_psi is None else grad + grad_psi)
        return SpaRSAState(
            x=x0,
            value=value,
            grad_f=grad,
            grad_psi=grad_psi,
            alpha=slope / (_FIRST * (norm(x0) or 1.0)) or 1.0,
            recent=(value,),
            progress=Stagnation(value, slope),
        )

    def step(self, problem: Sum, state: SpaRSAState) -> SpaRSAState:
        """One step; the method stalls where none is short enough."""
        x, grad, alpha = state.x, state.grad_f, state.alpha
        top = max(state.recent)
        top += _UNITS * EPS * abs(top)
        for _ in range(_TRIALS):
            v = x - grad / alpha
            if problem.psi is not None:
                v = problem.psi.prox(v, alpha)
            s = v - x
            ss = dot(s, s)
            if not ss > 0.0:
                break
            value, grad_v = _psi(problem, v), grad
            if value < math.inf:  # h is not asked where a proximal operator has left its set
                try:
                    smooth, grad_v = _smooth(problem, v)
                    value += smooth
                except NonFiniteAnswer:
                    value = math.inf
            if value <= top - 0.5 * _LOWER * alpha * ss:
                return self._at(problem, state, v, value, grad_v, alpha, s)
            alpha *= _STEEPER
        return replace(state, stalled=True)

    def _at(
        self,
        problem: Sum,
        state: SpaRSAState,
        v: Vector,
        value: float,
        grad: Vector,
        alpha: float,
        s: Vector,
    ) -> SpaRSAState:
        y, w = grad - state.grad_f, None
        if problem.psi is not None:
            w = -alpha * s - state.grad_f
            rounding = alpha * EPS * (norm(v) + norm(state.x))
            if rounding > _KNOWN * norm(grad + w):
                w = problem.grad_psi(v, grad, w)
        progress = state.progress.after(value, norm(grad if w is None else grad + w))
        return SpaRSAState(
            x=v,
            value=value,
            grad_f=grad,
            grad_psi=w,
            alpha=_spectral(dot(s, s), dot(s, y), dot(y, y), alpha, state.k),
            k=state.k + 1,
            recent=(*state.recent, value)[-self.memory :],
            progress=progress,
            stalled=progress.idle >= _IDLE,
        )


def _spectral(ss: float, sy: float, yy: float, alpha: float, k: int) -> float:
    """The next alpha, by the last step and its turn."""
    found = (sy / ss if k % 2 == 0 else yy / sy) if sy > 0.0 else _FLATTER * alpha
    return found if 0.0 < found < math.inf else alpha


def _smooth(problem: Sum, x: Vector) -> tuple[float, Vector]:
    """Value and gradient of h + g."""
    whole: Any = problem.whole
    answer: tuple[float, Vector] = whole.value_and_grad(x)
    return answer


def _psi(problem: Sum, x: Vector) -> float:
    return 0.0 if problem.psi is None else problem.psi.value(x)
