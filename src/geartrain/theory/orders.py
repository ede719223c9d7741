r"""Theorem 1 and its corollaries: orders of the numbers of calls, hidden constants set to 1."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from geartrain.oracles.validation import as_positive
from geartrain.theory.arguments import Calls, Constants, by_name, log_at_least_1


# Paper: Theorem 1
def theorem_1(
    *,
    L_h: float,
    tau_g: float,
    kappa_g: float,
    eps: float,
    R: float = 1.0,
    mu: float = 0.0,
    delta: float = 0.05,
    L: float | None = None,
) -> Calls:
    r"""Theorem 1: calls of O_h and of the basic oracle O_g, with L = L_h unless it is given.

    h: T (1 + K); g: T (kappa_g + K tau_g/sqrt(L + L_h) ln(.)) with K = max(1, L_h/L). Here T is
    sqrt(L R^2/eps) and the logarithm ln(R/(delta sqrt eps)) for mu = 0; T is
    sqrt(L/mu) ln(mu R^2/eps) and the logarithm ln(1/delta) for mu > 0.

    # Deviation: the theorem has L <= L_h and K = L_h/L. The middle loop takes at least one step,
    # so for larger L, as in Section 5.2 of the paper, K is 1.
    """
    L = L_h if L is None else L
    if mu > 0.0:
        T = math.sqrt(L / mu) * log_at_least_1(mu * R**2 / eps)
        log = log_at_least_1(1.0 / delta)
    else:
        T = math.sqrt(L * R**2 / eps)
        log = log_at_least_1(R / (delta * math.sqrt(eps)))
    K = max(1.0, L_h / L)
    return {
        "h": T * (1.0 + K),
        "g": T * (kappa_g + K * tau_g / math.sqrt(L + L_h) * log),
    }


# Paper: Corollary 1
def corollary_1(c: Constants) -> Calls:
    """Corollary 1 for constants c, gradients of g: sqrt(L_h ..) calls of h, sqrt(L_g ..) of g."""
    return {"h": math.sqrt(c.L_h) * c.factor, "g": math.sqrt(c.L_g) * c.factor}


# Paper: Corollary 2
def corollary_2(c: Constants) -> Calls:
    """Corollary 2 for constants c, partial derivatives of g: n sqrt(L_g-bar ..) ln(1/delta)."""
    return {"h": math.sqrt(c.L_h) * c.factor, "g": c.size * math.sqrt(c.L_g) * c.factor * c.sure}


# Paper: Corollary 3
def corollary_3(c: Constants) -> Calls:
    """Corollary 3 for constants c, gradients of summands: sqrt(m L_g-hat ..).

    For mu > 0 there is the factor ln(1/delta).
    """
    log = c.sure if c.mu > 0.0 else 1.0
    return {"h": math.sqrt(c.L_h) * c.factor, "g": math.sqrt(c.size * c.L_g) * c.factor * log}


# Paper: lower bounds
def lower_bounds(c: Constants) -> Calls:
    """Orders below which no method gets for all f with constants c, as Section 2 cites them.

    For h = 0 or g = 0, and mu > 0: sqrt(L_h/mu) gradients of h, sqrt(L_g/mu) gradients of g, or
    sqrt(m L_g-hat/mu) ln(mu R^2/eps) gradients of summands. Corollaries 1 and 3 differ from them by
    logarithms only. The paper cites none for partial derivatives or values.
    """
    if c.mu == 0.0 or c.setting not in ("full", "finite-sum"):
        raise ValueError("lower_bounds needs mu > 0, and the setting 'full' or 'finite-sum'")
    h, g = math.sqrt(c.L_h / c.mu), math.sqrt(c.L_g / c.mu)
    if c.setting == "finite-sum":
        g = math.sqrt(c.size * c.L_g) * c.factor
    return {"h": h, "g": g}


def corollary_1_many(c: Constants, L_h: Mapping[str, float]) -> Calls:
    r"""Corollary 1 for constants c, levels h_1 > ... > h_k > g: sqrt(S_i ..) calls of h_i.

    S_i = L_1 + ... + L_i. Hidden are a constant per level and logarithms of the ratios L_{i+1}/L_i.
    The proof is on the page about the theory in the documentation.
    """
    S, found = 0.0, {}
    for name, L in {**L_h, "g": c.L_g}.items():
        S += L
        found[name] = math.sqrt(S) * c.factor
    return found


def calls(
    setting: str,
    *,
    L_h: float | Sequence[float] | Mapping[str, float],
    L: float | None = None,
    **constants: Any,
) -> Calls:
    r"""Orders of the calls of h and of g's basic oracle that SAE (mu = 0) or R-SAE needs.

    By Corollaries 1 to 3, or by Theorem 1 where the parameter L of the envelope is given. The
    numbers are orders, with hidden constants set to 1; `geartrain.theory.bound` has the constants.

    Parameters
    ----------
    setting : {"full", "coordinate", "finite-sum", "values"}
        What g is asked for. With values Corollary 2 holds with L_g in place of L_g-bar, as the
        paper notes after it, and two values make one derivative.
    L_h : float, sequence or dict
        Smoothness of h. It may be a list of constants, one per term h1, h2, ..., or a dict by name:
        the levels of AFB, outermost first, in the setting "full".
    L : float, optional
        Parameter of the envelope.
    **constants
        L_g, eps, mu=0, R=1, delta=0.05, n=None, m=None: see `geartrain.theory.Constants`.

    Examples
    --------
    >>> import geartrain as gt
    >>> few = gt.theory.calls("full", L_h=1, L_g=1e4, mu=1e-2, eps=1e-6)
    >>> round(few["g"] / few["h"])
    100
    >>> few = gt.theory.calls("full", L_h=[1, 100], L_g=1e4, mu=1e-2, eps=1e-6)
    >>> [round(few[name] / few["h1"]) for name in ("h1", "h2", "g")]
    [1, 10, 101]
    """
    if isinstance(L_h, np.ndarray):
        L_h = L_h.tolist()
    if isinstance(L_h, (Mapping, Sequence)):
        named = by_name(L_h)
        if len(named) > 1:
            if setting != "full" or L is not None:
                raise ValueError(
                    "several terms are treated in the setting 'full' only, and without L="
                )
            return corollary_1_many(Constants(L_h=sum(named.values()), **constants), named)
        ((name, only),) = named.items()
        alone = calls(setting, L_h=only, L=L, **constants)
        return {name: alone["h"], "g": alone["g"]}
    c = Constants(setting=setting, L_h=L_h, **constants)
    if L is not None:
        kappa, tau = basic_oracle(setting, c.L_g, c.size)
        shared = {"eps": c.eps, "R": c.R, "mu": c.mu, "delta": c.delta}
        return theorem_1(L_h=L_h, tau_g=tau, kappa_g=kappa, L=as_positive(L, "L"), **shared)
    if setting == "full":
        return corollary_1(c)
    if setting == "finite-sum":
        return corollary_3(c)
    found = corollary_2(c)
    return {"h": found["h"], "g": 2.0 * found["g"]} if setting == "values" else found


# Paper: Assumption 4
def basic_oracle(setting: str, L_g: float, size: int) -> tuple[float, float]:
    """Assumptions 3 and 4: kappa_g and tau_g in each setting.

    (1, sqrt(L_g)), (n, n sqrt(L_g-bar)), (m, sqrt(m L_g-hat)), and (2 n, 2 n sqrt(L_g)) for values.
    """
    root = math.sqrt(L_g)
    if setting == "finite-sum":
        return float(size), math.sqrt(size) * root
    per_gradient = 2.0 * size if setting == "values" else float(size)
    return per_gradient, per_gradient * root
