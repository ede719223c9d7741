r"""Katyusha, loopless Katyusha and Varag on models with a non-smooth psi.

======  ============  ======================================================================
symbol  name          meaning
======  ============  ======================================================================
xt      ``xt``        snapshot, at which the gradient of g is known
y, z    ``y``, ``z``  the two sequences of Katyusha
G       ``G``         unbiased estimate of grad g(x) + beta from one component
v       ``v``         proximal gradient step from the snapshot, the output
======  ============  ======================================================================

The quadratic <beta, v> + alpha/2 \|v\|^2 and psi are the composite term of the method, so that
line 2 is z_+ = prox((z/a - G)/(1/a + alpha), 1/a + alpha). The snapshot is a mean of points and
comes with no subgradient of psi. The output is therefore one proximal gradient step from it, whose
gradient of g is asked for where the rule is likely to be met, as in
`geartrain.methods.inner.composite_agm`. The epochs are not compiled: they call the proximal
operator of psi at every component step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from geartrain.methods.inner import composite_agm
from geartrain.methods.inner.finite_sum import FiniteSum, Sampling, Snapshot, finite_sum
from geartrain.methods.inner.recursion import Steps
from geartrain.oracles.protocols import Vector
from geartrain.problem import Model


@dataclass(frozen=True)
class CompositeKatyushaState:
    """State of Katyusha, loopless Katyusha and Varag on a model with psi, after s epochs."""

    step: composite_agm.CompositeAGMState  # the proximal gradient step from the snapshot
    memory: Any  # of the components at the snapshot
    y: Vector
    z: Vector
    s: int

    v = property(lambda self: self.step.v)
    grad_g = property(lambda self: self.step.grad_g)
    grad_psi = property(lambda self: self.step.grad_psi)
    guessed = property(lambda self: self.step.guessed)

    @property
    def xt(self) -> Vector:
        """The snapshot."""
        return self.step.y

    @property
    def grad_xt(self) -> Vector:
        """The gradient of g at the snapshot."""
        return self.step.grad_y


def components(phi: Model, sampling: str) -> tuple[FiniteSum, Sampling]:
    """The components and how they are drawn; with psi, a ridge belongs to them."""
    terms = finite_sum(phi.g)
    return terms, terms.sampling(sampling, max(terms.ridges))


def settled(phi: Model, state: CompositeKatyushaState, L: float) -> CompositeKatyushaState:
    """The state with the gradient of g at v in place of its guess."""
    return replace(state, step=composite_agm.settle(phi, state.step, phi.L_g or L))


def start(
    phi: Model, terms: FiniteSum, L: float, v0: Vector, grad_g0: Vector | None
) -> CompositeKatyushaState:
    """Xt = y = z = v0."""
    grad_g, memory = terms.start(v0, grad_g0)
    step = composite_agm.start(phi, v0, grad_g, phi.L_g or L)
    return CompositeKatyushaState(step, memory, v0, v0, 0)


def epoch(
    phi: Model, terms: FiniteSum, draw: Sampling, numbers: Steps, l: int, L: float, state: Any
) -> CompositeKatyushaState:
    """l component steps, and the gradient at the new snapshot."""
    order = draw.order(np.random.default_rng((*phi.key, state.s)), l)
    mean, y, z = steps_of_epoch(phi, terms, draw, numbers, order, state)
    return new_snapshot(phi, terms, L, mean, y, z, state.s + 1)


def steps_of_epoch(
    phi: Model,
    terms: FiniteSum,
    draw: Sampling,
    numbers: Steps,
    order: Any,
    state: CompositeKatyushaState,
) -> tuple[Vector, Vector, Vector]:
    """The component steps of `order`: sum_j rho^{l-j} y_j, normalised, and the last y and z."""
    y, z = state.y, state.z
    total, count = np.zeros_like(y), 0.0
    for y, z in component_steps(phi, terms, draw, numbers, order, state):  # noqa: B007
        total, count = numbers.rho * total + y, numbers.rho * count + 1.0
    return total / count, y, z


def component_steps(
    phi: Model,
    terms: FiniteSum,
    draw: Sampling,
    numbers: Steps,
    order: Any,
    state: CompositeKatyushaState,
) -> Iterator[tuple[Vector, Vector]]:
    """y and z after each component step of `order`; lines 1 to 3 of all three methods."""
    assert phi.psi is not None
    tau_1, tau_2, a = numbers.tau_1, numbers.tau_2, numbers.a
    weight = 1.0 / a + phi.alpha
    xt, y, z = state.xt, state.y, state.z
    estimate = terms.estimator(Snapshot(xt, state.grad_xt, state.memory), draw.scale)
    for k in order:
        # 1.
        x = tau_1 * z + tau_2 * xt + (1.0 - tau_1 - tau_2) * y
        G = estimate(x, int(k)) + phi.beta
        # 2.
        z_next = phi.psi.prox((z / a - G) / weight, weight)
        # 3.
        y, z = x + tau_1 * (z_next - z), z_next
        yield y, z


def new_snapshot(
    phi: Model, terms: FiniteSum, L: float, xt: Vector, y: Vector, z: Vector, s: int
) -> CompositeKatyushaState:
    """The state with the gradient at the snapshot xt, and the proximal gradient step from there."""
    grad_g, memory = terms.snapshot(xt)
    step = composite_agm.start(phi, xt, grad_g, phi.L_g or L)
    return CompositeKatyushaState(step, memory, y, z, s)
