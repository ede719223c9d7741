r"""R-SAE: SAE restarted for strongly convex f (Algorithm 2)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar

from geartrain.methods.base import InnerMethod, ceiling
from geartrain.methods.inner.agm import AGM
from geartrain.methods.inner_rule import PaperRule, as_rule
from geartrain.methods.restart import FixedPeriod, GradientTest, Restarted, RestartRule
from geartrain.methods.sae import SAE, SAEState
from geartrain.oracles.protocols import Vector
from geartrain.oracles.validation import as_positive
from geartrain.problem import Sum


# Paper: Algorithm 2
@dataclass(frozen=True)
class RSAE:
    r"""Restarted splitting accelerated envelope.

    Minimises f = h + g where the sum is mu-strongly convex.

    Algorithm, from eta_0: eta_t = SAE(eta_{t-1}, L, N_0) with N_0 = ceil(sqrt(8 L/mu)).

    Guarantee: a stage halves \|eta - x*\|^2, so f(eta_t) - f* <= mu R^2/2^{t+1} and
    log2(mu R^2/eps) stages suffice. A restart costs no call of an oracle.

    Parameters
    ----------
    mu : float, optional
        Strong convexity of f; the problem's if not given.
    L, sigma, inner, accuracy, rule
        As in `SAE`.
    restart : rule, optional
        By default the period N_0 where mu is known, and where it is not the `GradientTest`.

    Notes
    -----
    Implements Algorithm 2 of [1]_. Deviation: [1]_ prints
    \|y^N - x*\| <= \|x^0 - x*\|^2/2 and ln(mu R^2/eps) stages; what its proof gives is
    \|y^N - x*\|^2 <= \|x^0 - x*\|^2/2, hence log2.

    References
    ----------
    .. [1] A. Ivanova et al., Oracle complexity separation in convex optimization, J. Optim. Theory
       Appl. 193 (2022).
    """

    mu: float | None = None
    L: float | None = None
    sigma: float = 0.5
    inner: InnerMethod = field(default_factory=AGM)
    accuracy: float = 0.2
    rule: str | PaperRule = "residual"
    restart: RestartRule | None = None

    needs: ClassVar[tuple[str, ...]] = ("grad",)
    any_geometry: ClassVar[bool] = True
    takes_psi: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.mu is not None:
            as_positive(self.mu, "mu")
        self._sae()

    def _sae(self) -> SAE:
        rule = as_rule(self.rule)
        if rule is not None and rule.mu is None:
            rule = replace(rule, mu=self.mu)
        return SAE(self.L, self.sigma, self.inner, self.accuracy, rule or "residual")

    def init(self, problem: Sum, x0: Vector) -> SAEState:
        return self._sae().init(problem, x0)

    def step(self, problem: Sum, state: SAEState) -> SAEState:
        """One iteration of SAE, after a restart if one is due."""
        rule = self.restart
        if rule is None:
            mu = problem.mu.value if self.mu is None else self.mu
            rule = FixedPeriod(period(state.L, mu)) if mu else GradientTest()
        return Restarted(self._sae(), rule).step(problem, state)


def period(L: float, mu: float) -> int:
    r"""N_0 = ceil(sqrt(8 L/mu)): after so many iterations \|y - x*\|^2 has halved."""
    return ceiling(math.sqrt(8.0 * L / mu))
