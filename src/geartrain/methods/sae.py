r"""SAE: the splitting accelerated envelope (Algorithm 1).

==========  ============  =========================================================
symbol      name          meaning
==========  ============  =========================================================
A_k, a_k    ``A``, ``a``  weights of the estimating sequence, L a^2 = A + a
x^{k+1}     ``x``         centre of the envelope F_{L,x}
y^{k+1}     ``y``         passes the Monteiro-Svaiter test; the output
z^{k+1}     ``z``         accumulated gradients
==========  ============  =========================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar

from geartrain.methods.base import InnerMethod
from geartrain.methods.gmco import GMCO, EnvelopeState, MonteiroSvaiter
from geartrain.methods.inner.agm import AGM
from geartrain.methods.inner_rule import PaperRule, as_rule
from geartrain.oracles.protocols import Vector
from geartrain.oracles.validation import as_positive
from geartrain.problem import Envelope, Sum


@dataclass(frozen=True, kw_only=True)
class SAEState(EnvelopeState):
    """State of `SAE` after k outer iterations."""

    y: Vector
    x: Vector  # centre of the last envelope

    @property
    def point(self) -> Vector:
        return self.y


# Paper: Algorithm 1
# Paper: equation (24)
@dataclass(frozen=True)
class SAE:
    r"""Splitting accelerated envelope, SAE(x^0, L, N).

    Minimises f = h + g, h and g convex and smooth, or f = h + g + psi with a non-smooth psi; then
    grad f(y^{k+1}) in lines 4 and 5 is a subgradient of f, of which the proof uses nothing more.

    Algorithm, from x^0 = y^0 = z^0 and A_0 = 0, for k = 0, 1, ...::

        3. a = (1/L + sqrt(1/L^2 + 4 A_k/L))/2, A_{k+1} = A_k + a,
           x^{k+1} = (A_k y^k + a z^k)/A_{k+1}
        4. y^{k+1} = GMCO(x^{k+1}, F_{L,x^{k+1}}), that is
           |grad F(y^{k+1})| <= sigma L |y^{k+1} - x^{k+1}|
        5. z^{k+1} = z^k - a grad f(y^{k+1})

    Guarantee: f(y^N) - f* <= R^2/(2 A_N) with A_N >= (N + 1)^2/(4 L), for every sigma in
    [0, 1] (eq. (24) of [1]_; [2]_). K middle steps cost K + 1 gradients of h, K where the
    gradients at x^{k+1} are known (the first iteration, and after a restart).

    Parameters
    ----------
    L : float, optional
        Parameter of the envelope; L_h if not given.
    sigma : float
        Of the Monteiro-Svaiter test; the paper has 1/2.
    inner : inner method
    accuracy : float
        Inner runs end at \|grad phi(v)\| <= accuracy sigma L \|v - x\|.
    rule : {"residual", "paper"} or `geartrain.methods.PaperRule`
        When inner runs end: by the rule above, or, as in the paper, after N_M calls of the basic
        oracle of g.

    Notes
    -----
    Implements Algorithm 1 of [1]_. The gradient of h that the test computes is the
    linearisation of the next middle step and, on success, part of grad f(y^{k+1}) in line 5;
    nothing is asked for twice.

    Deviation: inner runs end by their residual, unless ``rule="paper"``, which ends them after N_M
    calls. L may be larger than L_h, as in the experiments of the paper; its theorem has L <= L_h.
    The middle loop ends after 100 + 20 L_h/L steps at the latest; where its test does not hold by
    then, the run ends as stalled.

    References
    ----------
    .. [1] A. Ivanova et al., Oracle complexity separation in convex optimization, JOTA (2022).
    .. [2] R. Monteiro, B. Svaiter, An accelerated hybrid proximal extragradient method for
       convex optimization, SIAM J. Optim. 23 (2013).
    """

    L: float | None = None
    sigma: float = 0.5
    inner: InnerMethod = field(default_factory=AGM)
    accuracy: float = 0.2
    rule: str | PaperRule = "residual"

    needs: ClassVar[tuple[str, ...]] = ("grad",)
    any_geometry: ClassVar[bool] = True
    takes_psi: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.L is not None:
            as_positive(self.L, "L")
        if not 0.0 < self.sigma <= 1.0:
            raise ValueError(f"sigma must be in (0, 1], got {self.sigma:g}")
        as_rule(self.rule)

    def init(self, problem: Sum, x0: Vector) -> SAEState:
        """x^0 = y^0 = z^0, both gradients there."""
        L_h = problem.L_h.need("L_h", "SAE")
        L = L_h if self.L is None else self.L
        grad_h, grad_g = problem.h.grad(x0), problem.g.grad(x0)
        return SAEState(
            k=0,
            A=0.0,
            y=x0,
            z=x0,
            x=x0,
            grad_h=grad_h,
            grad_g=grad_g,
            L=L,
            L_h=L_h,
            grad_psi=problem.grad_psi(x0, grad_h + grad_g),
        )

    def restart(self, state: SAEState) -> SAEState:
        """Start again from y, whose gradients are known."""
        return replace(state, A=0.0, since=0, z=state.y, x=state.y)

    def step(self, problem: Sum, state: SAEState) -> SAEState:
        """One outer iteration."""
        L, A, y, z = state.L, state.A, state.y, state.z
        # line 3
        a = (1.0 + math.sqrt(1.0 + 4.0 * A * L)) / (2.0 * L)
        A_next = A + a
        x = y if A == 0.0 else (A * y + a * z) / A_next
        # line 4
        F = Envelope(problem, L, x, key=(state.k,))
        gmco = GMCO(self.inner, 1.0, self.accuracy * self.sigma, self.rule)
        y_next, grad_f, fields = state.run(gmco, F, MonteiroSvaiter(self.sigma))
        # line 5
        return SAEState(A=A_next, y=y_next, z=z - a * grad_f, x=x, **fields)
