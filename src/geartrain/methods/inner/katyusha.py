r"""Katyusha for phi with g = (1/m) sum_k g_k, the quadratic treated exactly.

======  ============  ================================================================
symbol  name          meaning
======  ============  ================================================================
xt      ``point``     snapshot; the gradient of g and the components are known here
y, z    ``y``, ``z``  main and mirror sequence, kept over epochs
l       ``l``         component steps of an epoch
s       ``s``         epochs so far
======  ============  ================================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from geartrain.methods.base import ceiling
from geartrain.methods.inner.agm import OutputState
from geartrain.methods.inner.finite_sum import EpochStart, FiniteSum, Snapshot, SumWithPsi, sum_of
from geartrain.methods.inner.recursion import Steps, separated
from geartrain.oracles.protocols import Vector
from geartrain.problem import Model, norm


@dataclass(frozen=True, kw_only=True)
class KatyushaState(OutputState):
    """State of `Katyusha` after s epochs; its point is the snapshot xt, a mean of points."""

    memory: Vector  # the components at xt, where known
    y: Vector
    z: Vector
    s: int = 0
    plain: bool = False  # prox-SVRG steps are allowed where no momentum is needed

    @property
    def snapshot(self) -> Snapshot:
        """xt, and what is known there, in an array that an epoch may fill."""
        return Snapshot(self.point, self.grad_point, self.memory.copy())


class EpochMethod:
    """What `Katyusha`, `geartrain.inner.LKatyusha` and `geartrain.inner.Varag` share."""

    sampling: str

    needs: ClassVar[tuple[str, ...]] = ("component",)
    takes_psi: ClassVar[bool] = True

    def init(
        self, phi: Model, v0: Vector, grad_g0: Vector | None, warm: KatyushaState | None = None
    ) -> KatyushaState:
        """Both sequences and the snapshot start at v0."""
        grad_g, memory = sum_of(phi).start(v0, grad_g0)
        return self.at(phi, v0, grad_g, memory=memory, y=v0, z=v0, plain=phi.psi is None)

    def settle(self, phi: Model, state: KatyushaState) -> KatyushaState:
        return state.settled(phi, self._smoothness(phi))

    def at(self, phi: Model, xt: Vector, grad_xt: Vector, **fields: Any) -> KatyushaState:
        """The state with the snapshot xt."""
        return KatyushaState.at(phi, xt, grad_xt, self._smoothness(phi), **fields)

    def _smoothness(self, phi: Model) -> float:
        """L_g, or that of the components, which is never less; only models with psi need it."""
        if phi.psi is None:
            return 0.0
        return phi.L_g or sum_of(phi).sampling(self.sampling).L


# Paper: Katyusha
@dataclass(frozen=True)
class Katyusha(EpochMethod):
    r"""Katyusha on phi(v) = <beta, v> + alpha/2 \|v\|^2 + (1/m) sum_k g_k(v).

    Algorithm, one step = one epoch of l component steps from the snapshot xt, with
    tau_2 = 1/2, tau_1 = min(sqrt(l alpha/(3 L)), 1/2), a = 1/(3 tau_1 L)::

        1. for j = 1 .. l: draw k with probability p_k,
           x = tau_1 z + tau_2 xt + (1 - tau_1 - tau_2) y,
           G~ = grad g(xt) + beta + (grad g_k(x) - grad g_k(xt))/(m p_k)
        2. z_+ = (z - a G~)/(1 + a alpha)
        3. y_+ = x + tau_1 (z_+ - z)
        4. xt_+ = sum_j (1 + a alpha)^j y_j, normalised; the gradient of g there

    For alpha = 0, tau_1 = 2/(s + 4) in epoch s and xt_+ is the plain mean (Katyusha^ns).

    Guarantee: phi(xt_s) - phi* falls by the factor 1/(1 + a alpha) per component step, so
    tau_g = sqrt(m L) in Assumption 4 (Theorem 2.1 of [1]_); for alpha = 0 as O(1/s^2)
    (Theorem 4.1). An epoch asks for l components and one gradient of g, which is the stop
    test and the next snapshot.

    Parameters
    ----------
    epoch : int, optional
        l; if not given m, and 9 L/alpha where that is smaller.
    sampling : {"importance", "uniform"}
        p_k = L_k/sum L and L = mean L_k, or p_k = 1/m and L = max L_k; the latter also where
        all L_k are within 5 % of their mean.
    quadratic : {"composite", "whole"}
        The quadratic as composite term, or Katyusha on the whole of phi: then L_k + alpha
        takes the place of L_k. The quadratic is known exactly and never sampled in either.

    Notes
    -----
    With a non-smooth psi in phi, line 2 is a proximal step and the output is one proximal gradient
    step from the snapshot. Such epochs have l = m and no prox-SVRG, and are not compiled.

    Implements Algorithms 1 and 2 of [1]_ with option II. A ridge of a `geartrain.LinearModel`
    counts as part of the quadratic. Where the gradient of g at the start is handed in and the
    components there are not known, each is asked for when it is first needed.

    Deviation: where 3 L <= l alpha, the method takes tau_1 = 1, tau_2 = 0, a = 1/(3 L), which is
    prox-SVRG. There the components determine the step and momentum gains nothing, but tau_2 = 1/2
    lets an epoch go only half the way from xt to the minimiser; an epoch of prox-SVRG contracts by
    about exp(-l alpha/(3 L)). One that does not reduce \|grad phi\| is dropped, and the run goes on
    from the snapshot before it with the parameters above.

    An epoch of a user's Python
    ``component`` is slower than a compiled one, see `geartrain.methods.inner.finite_sum`.

    References
    ----------
    .. [1] Z. Allen-Zhu, Katyusha: the first direct acceleration of stochastic gradient methods,
       JMLR 18 (2018).
    """

    epoch: int | None = None
    sampling: str = "importance"
    quadratic: str = "composite"

    def __post_init__(self) -> None:
        check_options(self.epoch, self.sampling)
        if self.quadratic not in ("composite", "whole"):
            raise ValueError(f"quadratic must be one of composite, whole, got {self.quadratic!r}")

    def step(self, phi: Model, state: KatyushaState) -> KatyushaState:
        """One epoch and the gradient at the new snapshot."""
        terms = sum_of(phi)
        draw = terms.sampling(self.sampling, self._shift(phi))
        l = self._length(phi, terms, draw.L)
        alpha = phi.alpha + terms.strong
        # Deviation: prox-SVRG in the well-conditioned case, see the Notes.
        plain = state.plain and l * alpha >= 3.0 * draw.L
        steps = separated(
            draw.L,
            tuple(phi.alpha + ridge for ridge in terms.ridges),
            lambda L: svrg_steps(alpha, L) if plain else self.steps(alpha, L, l, state.s),
        )
        order = draw.order(np.random.default_rng((*phi.key, state.s)), l)
        start = EpochStart(order, draw.scale, state.snapshot, state.y, state.z)
        end = terms.epoch(steps, phi, start)
        grad_g, memory = terms.snapshot(end.mean)
        s, before = state.s + 1, norm(phi.grad(state.point, state.grad_point))
        if plain and norm(phi.grad(end.mean, grad_g)) > before:
            return replace(state, y=state.point, z=state.point, s=s, plain=False)
        fields = {"memory": memory, "y": end.y, "z": end.z, "s": s, "plain": state.plain}
        return self.at(phi, end.mean, grad_g, **fields)

    def limit(self, phi: Model) -> int:
        """Epoch limit: 100 times the theoretical number."""
        terms = sum_of(phi)
        L = terms.sampling(self.sampling, self._shift(phi)).L
        l = self._length(phi, terms, L)
        return 200 + ceiling(100.0 * math.sqrt(1.0 + 3.0 * L / (l * phi.alpha)))

    def _shift(self, phi: Model) -> float:
        return phi.alpha if self.quadratic == "whole" else 0.0

    def _length(self, phi: Model, terms: FiniteSum | SumWithPsi, L: float) -> int:
        if self.epoch is not None:
            return self.epoch
        if phi.psi is not None:
            return terms.m
        return epoch_length(terms.m, L, phi.alpha + terms.strong)

    def steps(self, alpha: float, L: float, l: int, s: int) -> Steps:
        """The numbers of epoch s."""
        if alpha > 0.0:
            tau_1 = min(math.sqrt(l * alpha / (3.0 * L)), 0.5)
        else:
            tau_1 = 2.0 / (s + 4.0)
        a = 1.0 / (3.0 * tau_1 * L)
        return Steps(tau_1, 0.5, a, 1.0 / (1.0 + a * alpha))


def svrg_steps(alpha: float, L: float) -> Steps:
    """Prox-SVRG as a case of the recursion: x = z."""
    a = 1.0 / (3.0 * L)
    return Steps(1.0, 0.0, a, 1.0 / (1.0 + a * alpha))


def epoch_length(m: int, L: float, alpha: float) -> int:
    """m, or 9 L/alpha where that is smaller: prox-SVRG then contracts by exp(-3)."""
    return m if alpha * m <= 9.0 * L else ceiling(9.0 * L / alpha)


def check_options(epoch: int | None, sampling: str) -> None:
    """Raise for an epoch below 1 or an unknown sampling."""
    if epoch is not None and epoch < 1:
        raise ValueError(f"epoch must be at least 1, got {epoch}")
    if sampling not in ("importance", "uniform"):
        raise ValueError(f"sampling must be 'importance' or 'uniform', got {sampling!r}")
