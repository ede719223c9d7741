"""The methods of Section 2 side by side, and Tables 1 and 2: operations in both experiments."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from geartrain.oracles.validation import as_positive
from geartrain.theory.arguments import Calls, Constants

# Calls of h and of g over the rows of `compare` with delta = 1/e: geometric means over quadratics,
# as benchmarks/predicted_winner.py --constants measures them for the library's methods with their
# default parameters (R-SAE for SAE).
MEASURED: dict[str, tuple[float, float]] = {
    "FGM": (0.55, 0.55),
    "AGS": (1.4, 1.6),
    "SAE": (1.6, 3.4),
    "ACD": (0.73, 0.73),
    "SAE coordinate": (1.6, 8.5),
    "Katyusha": (0.65, 1.3),
    "SAE finite-sum": (1.6, 6.7),
}


# Paper: Section 2
def compare(
    *,
    L_g_bar: float | None = None,
    L_h_bar: float | None = None,
    L_g_hat: float | None = None,
    L_g_mean: float | None = None,
    factors: Mapping[str, tuple[float, float]] | None = None,
    **constants: Any,
) -> dict[str, Calls]:
    r"""FGM, AGS, accelerated coordinate descent, Katyusha and SAE side by side (Section 2).

    Calls are in basic calls of each method's own oracles: ACD asks h and g for partial derivatives,
    Katyusha asks h for gradients and g for gradients of summands, and so on.

    - FGM: sqrt((L_h + L_g) ..) of both.
    - AGS: sqrt(L_h ..) of h, sqrt(L_g ..) of g.
    - ACD: n sqrt((L_h-bar + L_g-bar) ..) partial derivatives of both.
    - Katyusha on (1/m) sum (h + g_k): sqrt(m (L_h + L_g-hat) ..) gradients of h and of summands.
    - SAE: Corollaries 1 to 3. Where kappa_g sqrt(L_h) exceeds tau_g, so that the assumption of the
      corollary does not hold, the term T kappa_g of Theorem 1 takes the place of the other.

    Rows of randomised methods are for probability 1 - delta and have the factor ln(1/delta): by
    Theorem 1 for SAE, and for ACD and Katyusha because the best of so many independent runs has it.

    Parameters
    ----------
    L_g_bar, L_h_bar : float, optional
        (mean_i sqrt(beta_i))^2 of the coordinate constants of g and of h. They are at most L_g and
        L_h, which are taken where they are not given.
    L_g_hat : float, optional
        The largest smoothness of a summand of g. It is at least L_g, which is taken where it is
        not given.
    L_g_mean : float, optional
        The mean smoothness of a summand. Where it is given it replaces L_g_hat, as it does for
        methods that draw summands with probabilities proportional to their constants.
    factors : dict, optional
        Constants of each row, for h and for g, in place of 1, such as
        ``geartrain.theory.MEASURED``, which goes with ``delta=1/e``: the library tests every inner
        run and needs no factor ln(1/delta).
    **constants
        L_h, L_g, eps, mu=0, R=1, delta=0.05, n=None, m=None: see `geartrain.theory.Constants`; L_g
        is the smoothness of g. The rows of coordinate methods need n, those of finite sums m.

    Examples
    --------
    The orders favour separation at once; the measured constants say from which price on it pays.

    >>> import math, geartrain as gt
    >>> problem = {"L_h": 1, "L_g": 100, "mu": 1e-2, "eps": 1e-6, "delta": 1 / math.e}
    >>> for factors in (None, gt.theory.MEASURED):
    ...     rows = gt.theory.compare(**problem, factors=factors)
    ...     bills = {name: 1.0 * calls["h"] + calls["g"] for name, calls in rows.items()}
    ...     print(min(bills, key=bills.get))
    AGS
    FGM
    """
    c = Constants(**constants)
    given = {"L_g_bar": L_g_bar, "L_h_bar": L_h_bar, "L_g_hat": L_g_hat, "L_g_mean": L_g_mean}
    for name, value in given.items():
        if value is not None:
            as_positive(value, name)
    L_h, L_g, n, m, factor, sure = c.L_h, c.L_g, c.n, c.m, c.factor, c.sure

    def sae(kappa_g: float, tau_g: float) -> Calls:
        g = max(kappa_g * math.sqrt(L_h), tau_g)
        return {"h": math.sqrt(L_h) * factor, "g": g * factor}

    both = math.sqrt(L_h + L_g) * factor
    out: dict[str, Calls] = {
        "FGM": {"h": both, "g": both},
        "AGS": sae(1.0, math.sqrt(L_g)),
        "SAE": sae(1.0, math.sqrt(L_g)),
    }
    if n is not None:
        bar_h = L_h if L_h_bar is None else L_h_bar
        bar_g = L_g if L_g_bar is None else L_g_bar
        whole = n * math.sqrt(bar_h + bar_g) * factor * sure
        out["ACD"] = {"h": whole, "g": whole}
        out["SAE coordinate"] = sae(n, n * math.sqrt(bar_g) * sure)
    if m is not None:
        hat = L_g if L_g_hat is None else L_g_hat
        hat = hat if L_g_mean is None else L_g_mean
        whole = math.sqrt(m * (L_h + hat)) * factor * sure
        out["Katyusha"] = {"h": whole, "g": whole}
        out["SAE finite-sum"] = sae(m, math.sqrt(m * hat) * sure)
    if factors is not None:
        out = {
            name: {"h": factors[name][0] * row["h"], "g": factors[name][1] * row["g"]}
            for name, row in out.items()
        }
    return out


# Paper: Table 1
def table_1(
    *, m: int, n: int, s: float, lambda_max: float, eps: float, R: float = 1.0
) -> dict[str, float]:
    r"""Table 1: arithmetic operations for the kernel SVM of Section 5.1.

    FGM (R/eps) sqrt(s) (m s + n^2); AGS (R/eps) sqrt(s) m s + sqrt(lambda_max R^2/eps) n^2;
    SAE (R/eps) sqrt(s m) s + sqrt(lambda_max R^2/eps) n^2. s is the number of nonzeros in a row
    of A, lambda_max the largest eigenvalue of C = lambda K.
    """
    kernel = math.sqrt(lambda_max * R**2 / eps) * n**2
    return {
        "FGM": R / eps * math.sqrt(s) * (m * s + n**2),
        "AGS": R / eps * math.sqrt(s) * m * s + kernel,
        "SAE": R / eps * math.sqrt(s * m) * s + kernel,
    }


# Paper: Table 2
def table_2(*, n: int, p: int, s: float, eps: float, R: float = 1.0) -> dict[str, float]:
    r"""Table 2: arithmetic operations for the log-density problem of Section 5.2.

    FGM sqrt(n R^2/eps)(p s + n^2); FCD n sqrt(R^2/eps)(p + n); SAE sqrt(n R^2/eps) p s +
    n sqrt(R^2/eps) n. p is the number of rows of A, s the number of nonzeros in one of them.
    """
    root = math.sqrt(R**2 / eps)
    return {
        "FGM": math.sqrt(n) * root * (p * s + n**2),
        "FCD": n * root * (p + n),
        "SAE": math.sqrt(n) * root * p * s + n * root * n,
    }
