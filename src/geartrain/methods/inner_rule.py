"""When an inner run ends: by its residual, or after the number of calls that the paper states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from geartrain import theory
from geartrain.oracles.questions import asked_of_inner
from geartrain.oracles.validation import as_positive
from geartrain.problem import Sum

RULES = ("residual", "paper")


# Paper: equation (6)
@dataclass(frozen=True)
class PaperRule:
    r"""End every inner run after N_M calls of the basic oracle of g, equation (6) of [1]_.

    A gradient of g counts as kappa_g calls: n where the inner method asks for partial derivatives,
    m where it asks for summands. The run ends at the first point at which the inner method knows
    the gradient of g and N_M calls have been made, so it makes at most one chunk or epoch more.

    Parameters
    ----------
    eps : float
        Accuracy in f that the whole run is to reach.
    R : float
        Bound on \|x^0 - x*\|.
    delta : float
        Probability with which the run may fail.
    calls : int, optional
        N_M itself, in place of equation (6).
    mu : float, optional
        Strong convexity of f; if not given, that of `geartrain.methods.RSAE` or of the problem.

    Notes
    -----
    The constants C_0, C and tau_g are those of `geartrain.theory.assumption_4` for the oracle that
    the inner method asks, N_M is `geartrain.theory.inner_calls`. ``rule="paper"`` is this rule with
    its default parameters.

    References
    ----------
    .. [1] A. Ivanova et al., Oracle complexity separation in convex optimization, J. Optim. Theory
       Appl. 193 (2022).
    """

    eps: float = 1e-6
    R: float = 1.0
    delta: float = 0.05
    calls: int | None = None
    mu: float | None = None

    def __post_init__(self) -> None:
        for name in ("eps", "R", "delta"):
            as_positive(getattr(self, name), name)
        if self.mu is not None:
            as_positive(self.mu, "mu")
        if self.calls is not None and self.calls < 1:
            raise ValueError(f"calls must be at least 1, got {self.calls}")

    def basic_calls(self, f: Sum, inner: Any, L: float, L_h: float) -> int:
        """N_M for inner runs on an envelope with parameter L."""
        if self.calls is not None:
            return self.calls
        if L == 0.0:
            raise ValueError(
                "the paper's rule is for GMCO inside SAE and R-SAE, where L > 0; "
                "use rule='residual'"
            )
        setting = asked_of_inner(inner.needs).setting
        size, constant, smooth = _constants(f, setting)
        assumed = theory.assumption_4(setting, alpha=L + L_h, L_g=constant, size=size)
        return theory.inner_calls(
            assumed.tau_g,
            L=L,
            L_h=L_h,
            L_g=smooth,
            mu=self.mu or f.mu.value or 0.0,
            eps=self.eps,
            R=self.R,
            delta=self.delta,
            C=assumed.C,
            C_0=assumed.C_0,
        )


def _constants(f: Sum, setting: str) -> tuple[int, float, float]:
    """n or m, L_g of that setting, and the smoothness of g or a bound on it."""
    term = f.g.term
    if setting == "finite-sum" and (L_k := term.L_components) is not None:
        return int(term.n_components), float(np.max(L_k)), f.L_g.value or float(np.mean(L_k))
    if setting == "coordinate" and (L_i := term.L_coord) is not None:
        mean_root = float(np.mean(np.sqrt(L_i)) ** 2)
        return f.n, mean_root, f.L_g.value or float(np.sum(L_i))
    L_g = f.L_g.need("L_g", "the paper's rule for inner runs")
    size = {"full": 1, "finite-sum": term.n_components or 1}.get(setting, f.n)
    return int(size), L_g, L_g


def as_rule(rule: str | PaperRule) -> PaperRule | None:
    """The paper's rule, or None for the residual rule."""
    if isinstance(rule, PaperRule):
        return rule
    if rule not in RULES:
        raise ValueError(f"rule must be 'residual', 'paper' or a PaperRule, got {rule!r}")
    return PaperRule() if rule == "paper" else None
