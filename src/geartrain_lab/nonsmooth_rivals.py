r"""Gradient methods for f = h + g + psi that take h + g as one smooth term.

==========  ============  ===================================================================
symbol      name          meaning
==========  ============  ===================================================================
s           --            h + g; an evaluation asks both for value and gradient, fused
r           ``slope``     element of least norm of grad s(x) + dpsi(x)
gamma       ``gamma``     step length of a proximal gradient step
T(x)        ``forward``   prox(x - gamma grad s(x), 1/gamma)
==========  ============  ===================================================================

`FISTA` with restart is `geartrain.methods.FGM`, the proximal quasi-Newton method on the sum is
`geartrain.methods.ProximalQuasiNewton` with rho = 1, and L-BFGS-B is `geartrain.ScipyLBFGS`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from geartrain.methods.base import State
from geartrain.oracles.nonsmooth import L1
from geartrain.oracles.protocols import Vector
from geartrain.oracles.splitting import Psi
from geartrain.problem import Sum, norm

Pairs = deque[tuple[Vector, Vector]]
Report = Callable[[State], bool]


@dataclass(frozen=True, kw_only=True)
class Evaluated(State):
    """A point with value and gradient of the smooth part."""

    x: Vector
    smooth: float
    grad_s: Vector
    value: float  # of f

    @property
    def point(self) -> Vector:
        return self.x


Ask = Callable[[Vector], Evaluated]


def evaluation(problem: Sum) -> tuple[Psi, Ask]:
    """psi, and the function that asks both terms once."""
    psi = problem.psi
    assert psi is not None

    def ask(x: Vector) -> Evaluated:
        value_h, grad_h = problem.h.value_and_grad(x)
        value_g, grad_g = problem.g.value_and_grad(x)
        smooth = value_h + value_g
        return Evaluated(x=x, smooth=smooth, grad_s=grad_h + grad_g, value=smooth + psi.value(x))

    return psi, ask


def two_loops(pairs: Pairs, q: Vector, free: Vector | None = None) -> Vector | None:
    """The inverse of the limited-memory BFGS matrix times q; None without a curved pair.

    Pairs and q are restricted to the coordinates that are `free`.
    """
    mask = np.ones(q.size) if free is None else free.astype(float)
    q, used = q * mask, []
    for s, y in reversed([(s * mask, y * mask) for s, y in pairs]):
        sy = float(s @ y)
        if sy <= 1e-10 * norm(s) * norm(y):
            continue
        weight = float(s @ q) / sy
        q -= weight * y
        used.append((s, y, sy, weight))
    if not used:
        return None
    _, y, sy, _ = used[0]
    q *= sy / float(y @ y)
    for s, y, sy, weight in reversed(used):
        q += (weight - float(y @ q) / sy) * s
    return q


@dataclass(frozen=True)
class OWLQN:
    """Orthant-wise limited-memory quasi-Newton for an l1 norm [1]_.

    The quasi-Newton matrix is restricted to the coordinates that are not held at 0, and only those
    that leave 0 are made to follow the subgradient: this needs far fewer calls than the rule of
    [1]_, which makes all coordinates do so.

    References
    ----------
    .. [1] G. Andrew, J. Gao, Scalable training of L1-regularized log-linear models, ICML (2007).
    """

    memory: int = 20

    needs: ClassVar[tuple[str, ...]] = ("value_and_grad",)
    takes_psi: ClassVar[bool] = True

    def solve(self, problem: Sum, x0: Vector, report: Report) -> None:
        psi, ask = evaluation(problem)
        if not isinstance(psi.term, L1):
            raise TypeError("OWLQN is for an l1 norm")
        orthant_wise(ask, psi, x0, report, self.memory)


def orthant_wise(ask: Ask, psi: Any, x0: Vector, report: Report, memory: int) -> None:
    """The loop of `OWLQN`; without a step it begins again without pairs, and then ends."""
    pairs: Pairs = deque(maxlen=memory)
    at = ask(x0)
    while not report(at):
        slope = psi.residual(at.x, at.grad_s)
        d = two_loops(pairs, slope, (at.x != 0.0) | (slope != 0.0))
        if d is None or float(d @ slope) <= 0.0:
            d = slope / max(norm(slope), 1.0)
            pairs.clear()
        d = np.where((at.x == 0.0) & (d * slope <= 0.0), 0.0, -d)
        orthant = np.where(at.x != 0.0, np.sign(at.x), -np.sign(slope))
        t = 1.0
        for _ in range(40):
            x = at.x + t * d
            x = np.where(np.sign(x) == orthant, x, 0.0)
            new = ask(x)
            if new.value <= at.value + 1e-4 * float(slope @ (x - at.x)):
                pairs.append((new.x - at.x, new.grad_s - at.grad_s))
                at = new
                break
            t *= 0.5
        else:
            if not pairs:
                return
            pairs.clear()


@dataclass(frozen=True)
class PANOC:
    """L-BFGS on the residual of proximal gradient steps, with a line search on the envelope [1]_.

    References
    ----------
    .. [1] L. Stella, A. Themelis, P. Sopasakis, P. Patrinos, A simple and efficient algorithm for
       nonlinear model predictive control, CDC (2017).
    """

    memory: int = 20

    needs: ClassVar[tuple[str, ...]] = ("value_and_grad",)
    takes_psi: ClassVar[bool] = True

    def solve(self, problem: Sum, x0: Vector, report: Report) -> None:
        """Run until `report` says stop; its points are the proximal gradient steps."""
        psi, ask = evaluation(problem)
        pairs: Pairs = deque(maxlen=self.memory)
        at = ask(x0)
        if report(at):
            return
        length = 1e-3 * max(norm(x0), 1.0)
        near = ask(x0 - (length / max(norm(at.grad_s), 1e-300)) * at.grad_s)
        L = max(norm(near.grad_s - at.grad_s) / length, 1e-12)
        while True:
            gamma = 0.95 / L
            forward = psi.prox(at.x - gamma * at.grad_s, 1.0 / gamma)
            step = forward - at.x
            end = ask(forward)
            while end.smooth > at.smooth + float(at.grad_s @ step) + 0.5 * L * float(step @ step):
                if float((end.grad_s - at.grad_s) @ step) <= 1.0001 * L * float(step @ step):
                    break  # the values differ by rounding
                L *= 2.0
                gamma = 0.95 / L
                forward = psi.prox(at.x - gamma * at.grad_s, 1.0 / gamma)
                step = forward - at.x
                end = ask(forward)
                pairs.clear()
            if report(end):
                return

            def envelope(p: Evaluated, gamma: float = gamma) -> tuple[float, Vector]:
                v = psi.prox(p.x - gamma * p.grad_s, 1.0 / gamma)
                s = v - p.x
                value = p.smooth + float(p.grad_s @ s) + float(s @ s) / (2.0 * gamma)
                return value + psi.value(v), s

            level = envelope(at)[0] - 0.01 / gamma * float(step @ step)
            q = two_loops(pairs, -step / gamma)
            new, after = end, envelope(end)[1]
            t = 1.0 if q is not None else 0.0
            while q is not None and t > 1e-3:
                trial = ask(at.x + (1.0 - t) * step - t * q)
                value, after_trial = envelope(trial)
                if value <= level:
                    new, after = trial, after_trial
                    break
                t *= 0.5
            pairs.append((new.x - at.x, (step - after) / gamma))
            if norm(new.x - at.x) == 0.0:
                return
            at = new
