r"""Proximal quasi-Newton method on models with a non-smooth psi; it needs no constants.

=========  ==============  ==================================================================
symbol     name            meaning
=========  ==============  ==================================================================
s          --              phi without psi: <beta, v> + alpha/2 \|v\|^2 + g(v)
v, d       ``v``           the iterate, and grad s(v)
pairs      ``pairs``       steps and the changes of the gradient of *g* along them
C          --              limited-memory BFGS of s
mu         ``mu``          added to C after a step that was too long
=========  ==============  ==================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, cast

import numpy as np

from geartrain.methods.pqn.evaluation import NO_PSI
from geartrain.methods.pqn.low_rank import LowRank, RowBasis
from geartrain.methods.pqn.prox_step import ProxStep, minimised
from geartrain.methods.pqn.secants import compact
from geartrain.oracles.protocols import Vector
from geartrain.oracles.splitting import Psi
from geartrain.problem import EPS, Model, norm

Pairs = tuple[tuple[Vector, Vector], ...]

# Part of the predicted change of phi that a step must bring.
_ARMIJO = 1e-4
# A pair shows curvature where <s, y> exceeds this part of |s| |y|.
_CURVED = 1e-10
# A difference of values may be rounding error below this part of them; errors of values of psi that
# contradict its subgradients by less than that part are noise.
_ROUNDING, _NOISE = 1e-12, 1e-6
# Rejected steps in a row after which only rounding is left.
_TRIES = 30


@dataclass(frozen=True)
class ProxQNState:
    """State of `ProxQN`."""

    v: Vector
    grad_g: Vector  # gradient of g at v
    grad_psi: Vector  # in dpsi(v)
    pairs: Pairs  # of g, newest last
    mu: float = 0.0
    tries: int = 0  # rejected steps since the last accepted one
    guessed: bool = False


@dataclass(frozen=True)
class ProxQN:
    r"""Proximal quasi-Newton method on phi(v) = <beta, v> + alpha/2 \|v\|^2 + g(v) + psi(v).

    Algorithm, with s = phi - psi:

    1. w ~ argmin <grad s(v), w - v> + 1/2 <w - v, (C + mu) (w - v)> + psi(w), to `accuracy` of the
       residual at v, by accelerated proximal gradient steps that ask neither h nor g
    2. the pair (w - v, change of grad s) is learned
    3. if phi has fallen, v_+ = w; otherwise mu grows, and 1 is repeated with the new pair

    Whether phi has fallen is told by the slopes at both ends, so g is not asked for values; for a
    quadratic g this is exact. Every iterate is a proximal step, so its zeros are exact.

    Guarantee: convergence for convex g, no useful rate [1]_; quick in practice. One gradient of g
    per step.

    Parameters
    ----------
    memory : int
        Number of pairs kept.
    accuracy : float
        Of line 1.
    prox_steps : int
        Most proximal steps in line 1.
    max_steps : int
        Give up after so many steps.

    References
    ----------
    .. [1] J. D. Lee, Y. Sun, M. A. Saunders, Proximal Newton-type methods for minimizing composite
       functions, SIAM J. Optim. 24 (2014).
    """

    memory: int = 30
    accuracy: float = 0.1
    prox_steps: int = 300
    max_steps: int = 2_000

    needs: ClassVar[tuple[str, ...]] = ("grad",)
    takes_psi: ClassVar[bool] = True

    def init(
        self, phi: Model, v0: Vector, grad_g0: Vector | None, warm: ProxQNState | None = None
    ) -> ProxQNState:
        """Start at v0 where an element of dpsi(v0) is known, otherwise at a proximal step.

        A new v0 was extrapolated: rounding may have led it out of a set.
        """
        psi = _psi(phi)
        pairs = () if warm is None else warm.pairs
        M = phi.alpha + (phi.L_g or phi.alpha)
        doubtful = not (psi.has_residual and psi.is_finite)
        if (grad_g0 is None and doubtful) or (psi.has_value and psi.value(v0) > 1e300):
            v = psi.prox(v0, M)
            return ProxQNState(v, phi.g.grad(v), M * (v0 - v), pairs)
        grad_g = phi.g.grad(v0) if grad_g0 is None else grad_g0
        d = phi.grad(v0, grad_g)
        if psi.has_residual:
            return ProxQNState(v0, grad_g, psi.residual(v0, d) - d, pairs)
        if warm is not None and warm.v is v0:
            return ProxQNState(v0, grad_g, warm.grad_psi, pairs)
        v = psi.prox(v0 - d / M, M)
        return ProxQNState(v, phi.g.grad(v), M * (v0 - v) - d, pairs)

    def step(self, phi: Model, state: ProxQNState) -> ProxQNState:
        psi, v = _psi(phi), state.v
        d = phi.grad(v, state.grad_g)
        r = psi.residual(v, d, state.grad_psi)
        size = norm(r)
        if phi.L_g is None:  # a short step teaches the curvature
            first = phi.alpha + size / (1e-3 * max(norm(v), 1.0))
        else:
            first = phi.alpha + phi.L_g
        # 1.
        steps = [s for s, _ in state.pairs]
        changes = phi.changes(steps, [y for _, y in state.pairs])
        S, Y = (np.array(rows).reshape(-1, v.size) for rows in (steps, changes))
        C = _curvature(S, Y, first)
        enough = self.accuracy * size
        to = minimised(C, state.mu, d, r, psi, v, enough, most=self.prox_steps)
        step = to.w - v
        length, rise_psi = norm(step), _change(psi, v, d, to)
        slope = float(d @ step) + rise_psi
        if length <= EPS * norm(v) or state.tries >= _TRIES:
            # A shorter subgradient at v, where the term tells none by itself.
            u = to.grad_psi
            if psi.has_residual or u is None or norm(d + u) > 0.5 * size:
                return state
            return replace(state, grad_psi=u)
        if not slope < 0.0:  # the model is too rough, or rounding is all that is left
            if not state.pairs:
                return state
            return replace(state, pairs=(), mu=0.0, tries=state.tries + 1)
        # 2.
        grad_g = phi.g.grad(to.w)
        d_w = phi.grad(to.w, grad_g)
        pairs = (*state.pairs, (step, grad_g - state.grad_g))[-self.memory :]
        # 3.
        change = 0.5 * float((d + d_w) @ step) + rise_psi
        r_w = psi.residual(to.w, d_w, to.grad_psi)
        after = norm(r_w)
        rounding = abs(change) <= 10.0 * EPS * (norm(d) + norm(d_w)) * norm(v)
        if change <= _ARMIJO * slope or (rounding and after < size):
            mu = 0.1 * state.mu if state.mu > EPS * first else 0.0
            return ProxQNState(to.w, grad_g, r_w - d_w, pairs, mu)
        missed = norm(d_w - d - C(step)) / length
        mu = max(4.0 * state.mu, missed, 0.1 * C.lam)
        return replace(state, pairs=pairs, mu=mu, tries=state.tries + 1)

    def limit(self, phi: Model) -> int:
        return self.max_steps


def _curvature(S: Vector, Y: Vector, lam: float) -> LowRank:
    """Limited-memory BFGS from steps S and changes Y, oldest first; lam I if no pair is curved.

    It starts from <y, y>/<s, y> of the newest pair.
    """
    sizes = np.linalg.norm(S, axis=1)
    rise = np.einsum("ij,ij->i", S, Y)
    curved = rise > _CURVED * sizes * np.linalg.norm(Y, axis=1)
    k = int(np.count_nonzero(curved))
    if k == 0:
        return LowRank(lam)
    V = np.concatenate([S[curved], Y[curved]]) / np.tile(sizes[curved], 2)[:, None]
    G = V @ V.T
    lam = float(G[-1, -1] / G[k - 1, -1])
    basis = RowBasis.of(V, G, np.arange(2 * k))
    s, y = basis.X[:k], basis.X[k:]
    return LowRank(lam, basis, compact(s, y, s @ y.T, lam * s))


def _change(psi: Psi, v: Vector, d: Vector, step: ProxStep) -> float:
    """psi(w) - psi(v), or its upper bound <u, w - v> where values do not tell the difference."""
    s = step.w - v
    bound = 0.0 if step.grad_psi is None else float(step.grad_psi @ s)
    if not psi.has_value:
        return bound
    old, new = psi.value(v), psi.value(step.w)
    near = _ROUNDING * (abs(old) + norm(d) * norm(v))
    if not np.isfinite(new - old) or abs(float(d @ s) + bound) <= near:
        return bound
    noisy = 0.0 < new - old - bound <= _NOISE * (abs(old) + abs(new))
    return bound if noisy else new - old


def _psi(phi: Model) -> Psi:
    return cast(Psi, NO_PSI) if phi.psi is None else phi.psi
